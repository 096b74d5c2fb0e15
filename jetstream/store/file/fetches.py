"""Records that are not in the page cache: which are being fetched, and who waits for them.

A read that waits for a busy disk takes 100 ms and more, in which the event loop would do nothing
else. So who can wait asks for what is at hand, has the rest fetched, and asks again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from midge.jetstream.store.disk import Disk

if TYPE_CHECKING:
    from midge.jetstream.store.file.group import Segment
    from midge.jetstream.store.interface import Waiter

_MET_MAX = 1024

Place = tuple[int, int]
"""The number of a segment, and where in it a record begins."""


class Fetches:
    """The fetches of a store directory.

    Who asks again for what has just been fetched gets it in any case: where memory is so short
    that it is gone again, nobody would ever get on by waiting.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._waiting: dict[Place, list[Waiter]] = {}
        self._fetched: set[Place] = set()

    def is_waiting(self, segment: int, offset: int, waiter: Waiter) -> bool:
        """Tell whether a record is being fetched; `waiter` then waits for it, too."""
        waiting = self._waiting.get((segment, offset))
        if waiting is None:
            return False
        if waiter not in waiting:
            waiting.append(waiter)
        return True

    def begin(self, segment: Segment, offset: int, size: int, waiter: Waiter) -> None:
        """Have `size` bytes from a record on fetched for `waiter`."""
        place = (segment.number, offset)
        self._waiting[place] = [waiter]
        self._disk.fetch(segment.file, offset, size, partial(self._has_come, place))

    def is_met(self, segment: int, offset: int) -> bool:
        """Tell, once, whether a record has been fetched for who asks for it now."""
        place = (segment, offset)
        if place not in self._fetched:
            return False
        self._fetched.discard(place)
        return True

    def _has_come(self, place: Place) -> None:
        if len(self._fetched) >= _MET_MAX:  # of consumers that have gone
            self._fetched.clear()
        self._fetched.add(place)
        for waiter in self._waiting.pop(place):
            waiter.fetched()
