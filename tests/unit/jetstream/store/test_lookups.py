"""Questions about many messages are answered as questions about few."""

from __future__ import annotations

import pytest

from midge.jetstream.store.memory import MemoryStore

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
