"""Records that are not in the page cache: the unfinished fetches and their waiters.

A read that waits for a busy disk takes 100 ms and more, in which the event loop would do nothing
else. So a reader that can wait reads the cached records, starts a fetch of the others, and reads
again after it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file.departing import Departing
from midge.jetstream.store.numbers import Octets

if TYPE_CHECKING:
    from midge.jetstream.store.file.group import Segment
    from midge.jetstream.store.interface import Waiter

_WAITERS_MAX = 16 * 1024
"""Waiters above which reads block on the disk again, to slow the readers down: some 16 MB.

10,000 consumers stay below it.
"""

_FETCHED_MAX = 2 * _WAITERS_MAX
"""Fetched places that were not read again, above which most of their waiters have gone."""

Place = tuple[int, int, int]
"""The number of a segment, a position in it, and the number of bytes to fetch."""


class Fetches:
    """The fetches of a store directory.

    A waiter that reads a place just after its fetch gets it even if that blocks: where memory is
    so short that the page has been evicted again, waiting would never end. A waiter that reads
    another place first no longer needs the fetched one; a later read fetches it again.
    """

    def __init__(self, disk: Disk) -> None:
        self.departing = Departing(disk)
        self._disk = disk
        self._waiting: dict[Place, dict[Waiter, None]] = {}
        self._waiters = 0
        self._fetched: dict[int, Place] = {}
        """The last fetched place, by the id of a waiter that has not read since."""

    def read(
        self, segment: Segment, offset: int, size: int, least: int, ahead: int, waiter: Waiter
    ) -> Octets | None:
        """Return up to `size` bytes of a segment, `least` at the least, without waiting for a disk.

        None while they are fetched for `waiter`, `ahead` bytes at once.
        """
        place = (segment.number, offset, ahead)
        was_fetched = self._fetched.pop(id(waiter), None) == place
        waiting = self._waiting.get(place)
        if waiting is not None:
            self._waiters += waiter not in waiting
            waiting[waiter] = None
            return None
        data = segment.file.read_at_hand(offset, size)
        if data is not None and len(data) >= least:
            return data
        if was_fetched or self._waiters >= _WAITERS_MAX:
            return segment.file.read(offset, size)
        self._waiting[place] = {waiter: None}
        self._waiters += 1
        self._disk.fetch(segment.file, offset, ahead, partial(self._has_come, place))
        return None

    def _has_come(self, place: Place) -> None:
        if len(self._fetched) >= _FETCHED_MAX:
            self._fetched.clear()
        waiting = self._waiting.pop(place)
        self._waiters -= len(waiting)
        for waiter in waiting:
            self._fetched[id(waiter)] = place
            waiter.fetched()
