"""Searches by patterns, and batches: done in pieces, with what they would find at once."""

from __future__ import annotations

import functools
import json
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

import pytest

from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.stream import direct_get, removal, searching
from midge.jetstream.stream.pieces import Pieces
from midge.sublist.subjects import matches
from tests.support.jetstream_account import REPLY, AccountRig, Sent

Result = TypeVar("Result")

MESSAGES = 8_000
PIECE = 700
PATTERNS = (b"a.*.1", b"a.1.>", b"b.*", b"*.*.z", b"a.1.7", b">", b"c.*.rare")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIECE_SUBJECTS", "PIECE_ROWS", "PIECE_FOUND", "NEAR"):
        monkeypatch.setattr(searching, name, PIECE)
    monkeypatch.setattr(direct_get, "PIECE_BYTES", 100 * 600)


@functools.cache
def filled() -> tuple[MemoryStore, dict[int, bytes]]:
    """Return a store with many subjects and gaps, and what it holds; no test changes it."""
    random = Random(11)
    store = MemoryStore()
    for seq in range(1, MESSAGES + 1):
        store.append(b"a.%d.%d" % (random.randrange(3), random.randrange(4000)), b"", b"", seq)
    store.append(b"c.1.rare", b"", b"", MESSAGES + 1)
    for _ in range(5000):
        store.append(b"b.%d" % random.randrange(2000), b"", b"", MESSAGES + 2)
    for seq in random.sample(range(1, MESSAGES), 3000):
        store.remove(seq)
    kept = {seq: store.subject_of(seq) for seq in range(1, store.last_seq + 1)}
    return store, {seq: subject for seq, subject in kept.items() if subject is not None}


def run(pieces: Pieces[Result]) -> tuple[Result, int]:
    """Return the result, and in how many pieces it was found."""
    count = 1
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: Result = end.value
            return result, count
        count += 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_next_message_is_the_one_found_at_once(pattern: bytes) -> None:
    store, kept = filled()
    for start, end in ((1, store.last_seq), (5000, store.last_seq), (7000, 9000), (40, 41)):
        expected = next(
            (seq for seq, one in kept.items() if start <= seq <= end and matches(one, pattern)), 0
        )
        assert run(searching.next_matching(store, pattern, start, end))[0] == expected


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_last_message_is_the_one_found_at_once(pattern: bytes) -> None:
    store, kept = filled()
    for upto in (store.last_seq, 7000, 3):
        found = [seq for seq, one in kept.items() if seq <= upto and matches(one, pattern)]
        assert run(searching.last_matching(store, pattern, upto))[0] == max(found, default=0)


@pytest.mark.parametrize("patterns", [PATTERNS[:2], PATTERNS[2:3], PATTERNS[3:], (b"b.1", b"b.2")])
@pytest.mark.parametrize("upto", [13_001, 12_900, 7000, 3])
def test_the_newest_messages_are_those_of_all_subjects(
    patterns: tuple[bytes, ...], upto: int
) -> None:
    store, kept = filled()
    last: dict[bytes, int] = {}
    for seq, subject in kept.items():
        if seq <= upto and any(matches(subject, pattern) for pattern in patterns):
            last[subject] = seq
    found, _ = run(searching.newest(store, patterns, upto, 100_000))
    assert found == sorted(last.values())
    few, _ = run(searching.newest(store, patterns, upto, 5))
    assert (len(few) > 5) == (len(last) > 5)


def test_what_finds_nothing_takes_a_piece_for_each_part() -> None:
    store, _ = filled()
    subjects = store.subject_numbers() // PIECE
    _, count = run(searching.next_matching(store, b"*.*.z", 1, store.last_seq))
    assert count >= subjects + store.messages // (PIECE + 1024)
    _, count = run(searching.last_matching(store, b"*.*.z", store.last_seq))
    assert count >= subjects
    _, count = run(searching.newest(store, (b"*.*.z",), store.last_seq, 10))
    assert count >= subjects
    _, count = run(searching.newest(store, (b"*.*.z",), store.last_seq - PIECE - 1, 10))
    assert count >= subjects + store.messages // (PIECE + 1024)


# Requests.


class Rig(AccountRig):
    """An account whose requests may take several turns; `most` is the most sent in one of them."""

    def ask(self, subject: str, **body: Any) -> list[Sent]:
        """Send a request; return all answers."""
        sent = self.exchange("$JS.API." + subject, json.dumps(body).encode())
        sizes = [0, len(sent)]
        self.clock.advance(0.001, lambda: sizes.append(len(sent)))
        self.turns = len(sizes) - 1
        self.most = max(end - start for start, end in pairwise(sizes))
        return [one for one in sent if one[0] == REPLY]


def test_a_large_batch_goes_in_turns() -> None:
    rig = Rig()
    rig.create(allow_direct=True)
    for number in range(1000):
        rig.publish(f"a.{number % 10}", b"x")
    found = rig.ask("DIRECT.GET.A", seq=1, batch=900)
    assert len(found) == 901
    assert [b"Nats-Sequence: %d\r\n" % seq in found[seq - 1][1] for seq in range(1, 901)] == [
        True
    ] * 900
    assert b"Nats-Num-Pending: 100\r\nNats-Last-Sequence: 900" in found[-1][1]
    assert rig.turns >= 8
    assert rig.most < 150


def test_a_stream_that_goes_meanwhile_ends_a_batch() -> None:
    rig = Rig()
    rig.create(allow_direct=True)
    for number in range(300):
        rig.publish(f"a.{number % 10}", b"x")
    rig.exchange("$JS.API.DIRECT.GET.A", b'{"seq":1,"batch":300}')
    sent = rig.outbox.sent
    assert len(sent) < 150
    rig.account.streams["A"].is_closed = True
    rig.clock.advance(0.001)
    assert len(sent) < 200
    assert sent[-1][1].startswith(b"NATS/1.0 404")


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("STREAM.MSG.GET.A", {"last_by_subj": "a.*.none"}),
        ("STREAM.MSG.GET.A", {"next_by_subj": "a.*.none", "seq": 1}),
        ("DIRECT.GET.A", {"last_by_subj": "a.*.none"}),
        ("DIRECT.GET.A", {"next_by_subj": "a.*.none"}),
        ("DIRECT.GET.A", {"multi_last": ["a.*.none"]}),
        ("DIRECT.GET.A", {"next_by_subj": "a.*.none", "batch": 5}),
        ("DIRECT.GET.A.a.*.none", {}),
    ],
)
def test_a_pattern_that_nothing_matches_is_looked_for_in_turns(
    subject: str, body: dict[str, Any]
) -> None:
    rig = AccountRig()
    stream = rig.create(allow_direct=True)
    for number in range(6000):
        stream.publish(b"a.%d.x" % number, b"", b"", b"")
    sent = rig.exchange("$JS.API." + subject, json.dumps(body).encode() if body else b"")
    assert sent == []
    turns: list[int] = []
    rig.clock.advance(0.001, lambda: turns.append(len(sent)))
    assert len(turns) >= 6000 // PIECE
    assert len(sent) == 1
    assert b"404" in sent[0][1] + sent[0][2]


# Messages that never expire.


def test_messages_that_never_expire_are_read_once_and_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removal, "PIECE_BYTES", 100 * 600)
    rig = AccountRig()
    rig.create(allow_msg_ttl=True, max_age=60 * 10**9, duplicate_window=10**9)
    for number in range(1000):
        rig.publish(f"a.{number}", b"x", {"Nats-TTL": "never"})
    for number in range(50):
        rig.publish(f"a.{number}.mortal", b"x")
    read: list[int] = []
    is_immortal = removal._is_immortal

    def counted(block: bytes) -> bool:
        read.append(len(block))
        return is_immortal(block)

    monkeypatch.setattr(removal, "_is_immortal", counted)
    most = 0

    def after() -> None:
        nonlocal most
        most = max(most, len(read))
        read.clear()

    for _ in range(30):
        rig.clock.advance(5, after)
    assert rig.account.streams["A"].store.messages == 1000
    assert most <= 300
    rig.publish("a.last", b"x")
    read.clear()
    rig.clock.advance(70)
    assert rig.account.streams["A"].store.messages == 1000
    assert len(read) < 20
