"""Random programs of store operations, and the comparison of a store with the oracle."""

from __future__ import annotations

from random import Random

from midge.jetstream.store import lookups
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.store import Store
from tests.support.published_lines import store_lines
from tests.support.store_oracle import Oracle

TOKENS = [b"a", b"b", b"cc", b"*x", b"long-token-that-goes-on-and-on"]
PATTERNS = [b">", b"a.>", b"*", b"*.b", b"a.*.cc", b"a", b"b.cc", b"none.*", b"cc.>", b"*.*"]


def random_subject(random: Random, spread: int) -> bytes:
    tokens = [random.choice(TOKENS) for _ in range(random.randint(1, 3))]
    if spread:
        tokens.append(b"%d" % random.randrange(spread))
    return b".".join(tokens)


def random_step(random: Random, store: Store, oracle: Oracle, spread: int) -> None:
    """Do the same random thing to both."""
    dice = random.random()
    last = oracle.last_seq
    if dice < 0.68:
        time = oracle.last_time + random.randrange(-5, 20)
        seq = last + random.choice([1, 7, 3000]) if random.random() < 0.02 else 0
        headers = b"NATS/1.0\r\nA: b\r\n\r\n" if random.random() < 0.2 else b""
        parts = (random_subject(random, spread), headers, random.randbytes(random.randrange(40)))
        assert store.append(*parts, time, seq) == oracle.append(*parts, time, seq)
    elif dice < 0.73:
        random_lines(random, store, oracle, spread)
    elif dice < 0.86:
        seq = random.randint(0, last + 2)
        assert store.remove(seq) == oracle.remove(seq)
    elif dice < 0.90:
        subject = random_subject(random, spread)
        keep = random.randrange(3)
        assert store.trim_subject(subject, keep) == oracle.trim(subject, keep)
    elif dice < 0.93:
        limit = len(oracle.kept) - random.randrange(-2, 5)
        gone = sorted(oracle.kept)[: max(0, len(oracle.kept) - max(limit, 0))]
        for seq in gone:
            oracle.remove(seq)
        assert store.enforce(max(limit, 0), -1) == len(gone)
    elif dice < 0.96:
        before = random.randint(0, oracle.last_time + 5)
        limit = random.randint(0, 20)
        assert store.expire(before, limit) == oracle.expire(before, limit)
    elif dice < 0.97:
        random_purge(random, store, oracle)
    elif dice < 0.975:
        seq = last + random.randint(0, 5)
        store.skip_to(seq)
        oracle.last_seq = max(last, seq)
    elif dice < 0.98:  # as in a queue in which old messages are left
        for seq in sorted(oracle.kept)[-random.choice([1, 30, 300]) :]:
            assert store.remove(seq)
            oracle.remove(seq)


def random_lines(random: Random, store: Store, oracle: Oracle, spread: int) -> None:
    """Store many messages at once, up to the first of a subject that has none."""
    time = oracle.last_time + random.randrange(-5, 20)
    held = {message[1] for message in oracle.kept.values()}
    messages = []
    for _ in range(random.choice([1, 3, 60])):
        is_held = held and random.random() < 0.97
        subject = random.choice(sorted(held)) if is_held else random_subject(random, spread)
        messages.append((subject, random.randbytes(random.randrange(40))))
    taken = store_lines(store, messages, time)
    known = [subject in held for subject, _ in messages]
    assert taken <= (known.index(False) if False in known else len(messages))
    for subject, payload in messages[:taken]:
        oracle.append(subject, b"", payload, time)
    if isinstance(store, MemoryStore):  # where there is always room
        assert taken == (known.index(False) if False in known else len(messages))


def random_purge(random: Random, store: Store, oracle: Oracle) -> None:
    subject = random.choice([None, *PATTERNS])
    upto = random.randint(1, oracle.last_seq + 1) if random.random() < 0.6 else 0
    keep = random.randrange(4) if not upto else 0
    assert store.purge(subject, upto, keep) == oracle.purge(subject, upto, keep)


def compare(store: Store, oracle: Oracle) -> None:
    """Compare all views of the stored messages."""
    assert store.last_seq == oracle.last_seq
    assert store.first_seq == oracle.first_seq()
    assert store.messages == len(oracle.kept)
    assert store.subject_count == len({message[1] for message in oracle.kept.values()})
    for seq in {*range(max(1, oracle.first_seq() - 2), oracle.first_seq() + 50), *oracle.kept}:
        compare_message(store, oracle, seq)
    states = {(s.subject, s.count, s.first_seq, s.last_seq) for s in lookups.subjects(store, b">")}
    expected: dict[bytes, list[int]] = {}
    for seq, message in sorted(oracle.kept.items()):
        expected.setdefault(message[1], []).append(seq)
    assert states == {(s, len(seqs), seqs[0], seqs[-1]) for s, seqs in expected.items()}
    live = set(oracle.kept)
    gaps = [s for s in range(max(store.first_seq, 1), store.last_seq + 1) if s not in live]
    assert list(lookups.deleted(store)) == gaps
    assert lookups.deleted_count(store) == len(gaps)
    first = min(oracle.kept) if oracle.kept else 0
    assert store.first_time_ns() == (oracle.kept[first][0] if first else 0)


def compare_message(store: Store, oracle: Oracle, seq: int) -> None:
    message = store.load(seq)
    found = (
        (message.time_ns, message.subject, message.headers, message.payload) if message else None
    )
    assert found == oracle.kept.get(seq)


def ask(random: Random, store: Store, oracle: Oracle) -> None:
    """Compare the answers to random questions."""
    count = random.choice([0, 1, 1, 2])
    filters = tuple(random.choice(PATTERNS) for _ in range(count))
    if random.random() < 0.3 and oracle.kept:
        filters = (random.choice(list(oracle.kept.values()))[1],)
    start = random.randint(0, oracle.last_seq + 1)
    end = random.choice([0, random.randint(1, oracle.last_seq + 1)])
    last = min(end, oracle.last_seq) if end else oracle.last_seq
    found = oracle.matching(filters, start, last)
    assert store.next_seq(filters, start, end) == (found[0] if found else 0)
    assert store.count_pending(filters, start, False, end) == len(found)
    lasts = oracle.lasts(filters, start, last)
    assert store.count_pending(filters, start, True, end) == len(lasts)
    assert store.next_last_seq(filters, start, end) == (lasts[0] if lasts else 0)
    pattern = filters[0] if filters else b">"
    matching = oracle.matching((pattern,), 1, last)
    assert store.last_matching(pattern, end) == (matching[-1] if matching else 0)
    subjects = {oracle.kept[seq][1] for seq in oracle.matching((pattern,), 1, oracle.last_seq)}
    assert {state.subject for state in lookups.subjects(store, pattern)} == subjects
    subject = random.choice(list(oracle.kept.values()))[1] if oracle.kept else b"a"
    seqs = [seq for seq, message in sorted(oracle.kept.items()) if message[1] == subject]
    assert store.count_for_subject(subject) == len(seqs)
    assert store.first_for_subject(subject) == (seqs[0] if seqs else 0)
    assert store.last_for_subject(subject) == (seqs[-1] if seqs else 0)
    time = random.randint(0, oracle.last_time + 3)
    assert store.seq_at_time(time) == oracle.at_time(time)
