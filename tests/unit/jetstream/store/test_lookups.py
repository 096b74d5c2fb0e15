"""Questions about many messages are answered as questions about few."""

from __future__ import annotations

import pytest

from midge.jetstream.store.memory_store import MemoryStore
from midge.sublist.subjects import matches

ROWS = 10_000  # more than are looked through one after the other


@pytest.mark.parametrize("start", [1, ROWS, ROWS + 1, ROWS + 7])
@pytest.mark.parametrize("filters", [(), (b"k.*",), (b"k.5", b"k.3"), (b"none.*",)])
def test_the_first_last_message_behind_many_that_are_superseded(
    filters: tuple[bytes, ...], start: int
) -> None:
    store = MemoryStore()
    subjects = [b"k.%d" % (number % 10) for number in range(ROWS)] + [b"k.%d" % n for n in range(9)]
    for number, subject in enumerate(subjects):
        store.append(subject, b"", b"", number + 1)
    wanted = {b"k.%d" % n for n in range(10)} if filters != (b"k.5", b"k.3") else set(filters)
    for upto in (ROWS, len(subjects)):
        lasts = {subject: seq for seq, subject in enumerate(subjects[:upto], 1)}
        found = [seq for name, seq in lasts.items() if name in wanted and seq >= start]
        expected = min(found, default=0) if filters != (b"none.*",) else 0
        assert store.next_last_seq(filters, start, upto) == expected


def test_a_filter_that_all_subjects_match_until_another_one_comes() -> None:
    store = MemoryStore()
    below, wider = (b"kv.b.>",), (b"kv.>",)
    for number in range(6):
        store.append(b"kv.b.%d" % (number % 3), b"", b"", number + 1)
    assert store.count_pending(below, 1, True) == 3
    assert store.count_pending(below, 2) == 5
    assert store.next_last_seq(below, 1) == 4
    store.append(b"kv.c.1", b"", b"", 7)
    assert store.count_pending(below, 1, True) == store.count_pending(wider, 1, True) - 1 == 3
    assert store.next_seq(below, 7) == 0
    assert store.next_seq(wider, 7) == store.last_matching(b"kv.>") == 7
    assert store.last_matching(b"kv.b.>") == 6
    store.append(b"other", b"", b"", 8)
    assert store.next_seq(wider, 8) == 0
    assert store.count_pending(wider, 1) == 7
    store.purge()
    store.append(b"other", b"", b"", 9)
    assert store.count_pending(wider, 1) == 0


@pytest.mark.parametrize("first", [b"a", b"a.b", b"ab.c", b"a.b.c.d"])
@pytest.mark.parametrize("second", [b"a.b.c", b"ab", b"b.a", b"a.bc"])
@pytest.mark.parametrize("pattern", [b"a.>", b"a.b.>", b">", b"a.*.>", b"ab.>"])
def test_a_filter_of_all_below_a_subject(first: bytes, second: bytes, pattern: bytes) -> None:
    store = MemoryStore()
    for count, subject in enumerate((first, second), 1):
        store.append(subject, b"", b"", count)
        stored = (first, second)[:count]
        assert store.count_pending((pattern,), 1, True) == sum(
            matches(one, pattern) for one in stored
        )
