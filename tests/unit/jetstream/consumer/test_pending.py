"""What a large number of messages that await their acks leaves behind when all go at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midge.jetstream.consumer.pending import UNLINKED_AT_ONCE, Pending, unlink


class Later:
    """Collects the functions to be called later."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], Any]] = []

    def __call__(self, delay_s: float, call: Callable[[], Any]) -> None:
        assert delay_s == 0
        self.calls.append(call)


def test_a_cleared_one_is_empty_at_once_and_freed_in_pieces() -> None:
    pending = filled(3 * UNLINKED_AT_ONCE)
    entries = pending.entries
    later = Later()
    pending.clear(later)
    assert (len(pending), pending.first, pending.last, pending.queued) == (0, None, None, 0)
    assert pending.next_due_ns() == 0
    left = [len(entries)]
    while later.calls:
        later.calls.pop()()
        left.append(len(entries))
    assert left == [2 * UNLINKED_AT_ONCE, UNLINKED_AT_ONCE, 0]


def test_it_takes_new_ones_while_the_old_are_freed() -> None:
    pending = filled(2 * UNLINKED_AT_ONCE)
    later = Later()
    pending.clear(later)
    pending.enqueue(pending.add(7, 1))
    later.calls.pop()()
    assert pending.next_queued() == 7
    assert [entry.seq for entry in pending.entries.values()] == [7]


def test_without_later_turns_all_are_freed_now() -> None:
    pending = filled(UNLINKED_AT_ONCE + 1)
    entries = pending.entries
    pending.clear()
    assert not entries
    unlink({}, None)


def filled(count: int) -> Pending:
    """Return one with `count` entries, of which every third is in the queue."""
    pending = Pending([1_000])
    for seq in range(1, count + 1):
        entry = pending.add(seq, seq)
        if seq % 3:
            pending.wait(entry, seq, 0)
        else:
            pending.enqueue(entry)
    return pending
