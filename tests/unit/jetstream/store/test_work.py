"""What a search or a removal looks at is counted, and is no more than it must be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midge.jetstream.store import lookups
from midge.jetstream.store.memory_store import MemoryStore
from midge.sublist.subjects import matches

KEYS = 20_000
FEW = 200


def filled(subject: Callable[[int], bytes] = lambda i: b"k.%d" % i) -> MemoryStore:
    store = MemoryStore()
    for number in range(KEYS):
        store.append(subject(number), b"", b"x", number + 1)
    return store


def work_of(store: MemoryStore, action: Callable[[], object]) -> int:
    before = store.work
    action()
    return store.work - before


@pytest.mark.parametrize("subject", [b"k.0", b"k.19999", b"new"])
def test_a_roll_up_looks_at_the_messages_of_its_subject(subject: bytes) -> None:
    store = filled()
    store.append(subject, b"", b"x", KEYS + 1)
    assert work_of(store, lambda: store.purge(subject, 0, 1)) < FEW
    assert store.count_for_subject(subject) == 1
    assert store.last_for_subject(subject) == KEYS + 1


@pytest.mark.parametrize("keep", [1, 3, 19_990, 19_999, 20_000])
@pytest.mark.parametrize("upto", [0, 5, 25_000])
def test_the_newest_of_a_subject_stay(keep: int, upto: int) -> None:
    store = filled(lambda _: b"a")
    for number in range(1_000):
        store.append(b"b.%d" % number, b"", b"x", KEYS + number + 1)
    gone = min(KEYS - keep, (upto or KEYS + 1) - 1)
    assert store.purge(b"a", upto, keep) == gone
    assert store.count_for_subject(b"a") == KEYS - gone
    assert store.first_for_subject(b"a") == gone + 1


def test_the_last_match_of_a_pattern_is_remembered() -> None:
    store = filled(lambda i: b"k.%d.x" % i)
    pattern = b"k.*.y"
    assert store.last_matching(pattern) == 0
    assert work_of(store, lambda: store.last_matching(pattern)) < FEW
    seq = store.append(b"k.1.y", b"", b"", KEYS + 1)
    for number in range(10):
        store.append(b"k.%d.x" % number, b"", b"", KEYS + 2 + number)
    assert store.last_matching(pattern) == seq
    assert work_of(store, lambda: store.last_matching(pattern)) < FEW
    later = store.append(b"k.2.y", b"", b"", KEYS + 20)
    assert store.last_matching(pattern) == later
    store.remove(later)
    assert store.last_matching(pattern) == seq
    store.remove(seq)
    assert store.last_matching(pattern) == 0
    assert store.last_matching(pattern, KEYS) == 0
    store.purge()
    assert store.last_matching(pattern) == 0


def test_no_more_of_the_newest_are_listed_than_are_asked_for() -> None:
    store = filled()
    assert (
        work_of(store, lambda: lookups.newest(store, (b"k.>",), 0, KEYS, store.last_seq, 10)) < FEW
    )
    found, number = lookups.newest(store, (b"k.>",), 0, KEYS, store.last_seq, 10)
    assert (len(found), number) == (10, 10)
    assert lookups.newest_between(store, (b"k.>",), 1, KEYS, KEYS, 10) == list(range(1, 11))


def test_many_patterns_cost_no_more_than_some() -> None:
    store = filled(lambda i: b"k.%d.%d" % (i, i % 7))
    patterns = tuple(b"k.*.%d" % (i + 5) for i in range(1_000))
    assert work_of(store, lambda: store.count_pending(patterns, 1)) < 60 * KEYS
    wanted = [any(matches(b"k.%d.%d" % (i, i % 7), one) for one in patterns) for i in range(99)]
    found = [store.next_seq(patterns, i + 1, i + 1) > 0 for i in range(99)]
    assert found == wanted
