"""The index of subjects: look-ups while its table grows, and reused numbers."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.store import lookups
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.subject_index import Pattern, SubjectIndex
from tests.support.each import each


@each("seed", range(4))
def test_subjects_are_found_while_the_table_grows(seed: int) -> None:
    random = Random(seed)
    index = SubjectIndex(seed)
    numbers: dict[bytes, int] = {}
    for step in range(6_000):
        name = b"s.%d" % random.randrange(4_000)
        if random.random() < (0.2 if step < 4_000 else 0.7):
            if numbers:
                name = random.choice(list(numbers)) if step % 50 == 0 else next(iter(numbers))
                index.release(numbers.pop(name))
        else:
            number = index.ensure(name, 0, len(name))
            assert numbers.setdefault(name, number) == number
            index.set_count(number, 1)
        if step % 200 == 0:
            assert {one: index.find(one, 0, len(one)) for one in numbers} == numbers
            assert index.find(b"none", 0, 4) == -1
    assert len(set(numbers.values())) == len(numbers) == index.subject_count


def test_what_is_noted_of_a_subject_is_forgotten_with_its_number() -> None:
    store = MemoryStore()
    random = Random(2)
    kept: dict[int, bytes] = {}
    for step in range(3_000):
        subject = b"%c.%d" % (random.choice(b"ab"), random.randrange(10**6))
        kept[store.append(subject, b"", b"", step)] = subject
        if len(kept) > 40:
            seq = random.choice(list(kept))
            store.remove(seq)
            del kept[seq]
        if step % 10 == 0:
            for first in (1, random.choice(list(kept))):
                for filters in ((b"a.*",), (b"b.*", b"a.1*")):
                    wanted = [s for s, one in kept.items() if s >= first]
                    wanted = [s for s in wanted if kept[s][:1] == filters[0][:1]]
                    assert store.count_pending(filters, first) == len(wanted)
                    assert store.next_seq(filters, first) == min(wanted, default=0)
    store.purge()
    seq = store.append(b"b.1", b"", b"", 1)
    assert store.next_seq((b"a.*",), 1) == 0
    assert store.next_seq((b"b.*",), 1) == seq


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (b"a.*.c", [b"a.b.c", b"a.cc.c"], [b"a.c", b"a.b.cc", b"a.b.b.c", b"a.b.", b"a.b.c.c"]),
        (b"*.c", [b"b.c"], [b"c", b"a.b.c", b"b.cc"]),
        (b"*", [b"a"], [b"a.b"]),
        (b"a.>", [b"a.b", b"a.b.c"], [b"a", b"ab"]),
        (b"*.b.>", [b"a.b.c.d"], [b"a.b", b"b.a.c"]),
        (b"a.b", [b"a.b"], [b"a", b"a.bb", b"a.c"]),
    ],
)
def test_patterns(pattern: bytes, matching: list[bytes], others: list[bytes]) -> None:
    compared = Pattern(pattern)
    for subject in matching + others:
        data = bytearray(b"x." + subject + b".c")
        assert compared.is_match(data, 2, 2 + len(subject)) is (subject in matching)


def test_the_sequences_that_are_gone_are_found_block_by_block() -> None:
    store = MemoryStore()
    random = Random(4)
    gone: set[int] = set()
    for seq in range(1, 9_000):
        if seq == 4_000:
            gone.update(range(store.last_seq + 1, 7_001))
            store.skip_to(7_000)
        store.append(b"a", b"", b"", seq)
    for seq in [*random.sample(range(1_500, 2_000), 450), 3_072, 3_073, *range(7_100, 7_900)]:
        assert store.remove(seq)
        gone.add(seq)
    assert list(lookups.deleted(store)) == sorted(gone)
    assert lookups.deleted_count(store) == len(gone)
    store.purge(None, 1_700)
    assert list(lookups.deleted(store)) == sorted(seq for seq in gone if seq >= store.first_seq)
