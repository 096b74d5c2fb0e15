"""Records that are not in the page cache: the unfinished fetches and their waiters.

A read that waits for a busy disk takes 100 ms and more, in which the event loop would do nothing
else. So a reader that can wait reads the cached records, starts a fetch of the others, and reads
again after it.

`DepartingMessages` reads messages that were removed before a snapshot got to them and that are only
on the disk. It reads them one after the other, each after a thread has fetched it, so that a
removal does not wait for the disk. Their files stay open until then, even if the segments are
deleted.

`ReadBuffers` keeps the buffers of all streams of a directory within one budget.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from midge.jetstream.store.disk import Disk, DiskFile
from midge.jetstream.store.numbers import BytesLike

if TYPE_CHECKING:
    from midge.jetstream.store.file.group import Segment
    from midge.jetstream.store.interface import Waiter

_AHEAD = 1024 * 1024
"""Fetched at once where the next message is that near, and read in one turn: some 1 ms."""

Departed = tuple[DiskFile, int, int, Callable[[BytesLike], object]]
"""The file of a record, its position, its length, and the callback for its bytes."""


class DepartingMessages:
    """The removed messages of a store directory that are to be read, in order."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._queue: deque[Departed] = deque()
        self._used: Counter[DiskFile] = Counter()
        self._released: dict[DiskFile, Callable[[], object]] = {}

    def add(
        self, file: DiskFile, offset: int, size: int, take: Callable[[BytesLike], object]
    ) -> None:
        """Read `size` bytes and call `take` with them, with b"" if they cannot be read."""
        self._queue.append((file, offset, size, take))
        self._used[file] += 1
        if len(self._queue) == 1:
            self._fetch()

    def release(self, file: DiskFile, done: Callable[[], object]) -> None:
        """Close a removed file once no record of it is needed; see `Disk.release`."""
        if file in self._used:
            self._released[file] = done
        else:
            self._disk.release(file, done)

    def close(self) -> None:
        """Drop the pending reads, and close the files that waited for them."""
        self._queue.clear()
        self._used.clear()
        for file in self._released:
            file.close()
        self._released.clear()

    def _fetch(self) -> None:
        file, offset, size, _ = self._queue[0]
        if len(self._queue) > 1:
            after, start, _, _ = self._queue[1]
            if after is file and 0 < start - offset < _AHEAD:
                size = max(size, _AHEAD)
        self._disk.fetch(file, offset, size, self._fetched)

    def _fetched(self) -> None:
        """Read the first record in any case, and the next ones that are now in memory."""
        if not self._queue:
            return  # it has been closed
        room = _AHEAD
        data: BytesLike | None = None
        with contextlib.suppress(OSError):
            file, offset, size, _ = self._queue[0]
            data = file.read(offset, size)
        self._take(data or b"")
        while self._queue and room > 0:
            file, offset, size, _ = self._queue[0]
            data = None
            with contextlib.suppress(OSError):
                data = file.read_cached(offset, size)
            if data is None or len(data) < size:
                break
            room -= size
            self._take(data)
        if self._queue:
            self._fetch()

    def _take(self, data: BytesLike) -> None:
        """Hand over what the first one is, and let go of its file."""
        file, _, _, take = self._queue.popleft()
        take(data)
        self._used[file] -= 1
        if not self._used[file]:
            del self._used[file]
            if file in self._released:
                self._disk.release(file, self._released.pop(file))


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
    another place first, or nothing at once (`forget`), no longer needs the fetched one; a later
    read fetches it again.
    """

    def __init__(self, disk: Disk) -> None:
        self.departing = DepartingMessages(disk)
        self._disk = disk
        self._waiting: dict[Place, dict[Waiter, None]] = {}
        self._waiters = 0
        self._fetched: dict[int, Place] = {}
        """The last fetched place, by the id of a waiter that has not read since."""

    def read(
        self, segment: Segment, offset: int, size: int, least: int, ahead: int, waiter: Waiter
    ) -> BytesLike | None:
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
        data = segment.file.read_cached(offset, size)
        if data is not None and len(data) >= least:
            return data
        if was_fetched or self._waiters >= _WAITERS_MAX:
            return segment.file.read(offset, size)
        self._waiting[place] = {waiter: None}
        self._waiters += 1
        self._disk.fetch(segment.file, offset, ahead, partial(self._has_come, place))
        return None

    def forget(self, waiter: Waiter) -> None:
        """Forget that a place was fetched for `waiter`, which has not read it at once."""
        self._fetched.pop(id(waiter), None)

    def _has_come(self, place: Place) -> None:
        if len(self._fetched) >= _FETCHED_MAX:
            self._fetched.clear()
        waiting = self._waiting.pop(place)
        self._waiters -= len(waiting)
        for waiter in waiting:
            self._fetched[id(waiter)] = place
            waiter.fetched()


BUDGET_BYTES = 64 << 20
"""Most bytes in the buffers of all streams: enough for a thousand consumers that catch up with 64
KiB each. A buffer has at least the size of one record."""


class BufferOwner(Protocol):
    """Has a buffer."""

    def drop_ahead(self) -> None:
        """Drop the buffer; later reads fill it again."""


class ReadBuffers:
    """Drops the buffers that were filled longest ago as soon as all together are too large."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self.total_bytes = 0
        self._budget_bytes = budget_bytes
        self._sizes: dict[BufferOwner, int] = {}

    def filled(self, owner: BufferOwner, size: int) -> None:
        """Count a buffer filled with `size` bytes, and drop older ones above the budget."""
        self.emptied(owner)
        self._sizes[owner] = size
        self.total_bytes += size
        while self.total_bytes > self._budget_bytes and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self.emptied(oldest)
            oldest.drop_ahead()

    def emptied(self, owner: BufferOwner) -> None:
        """Note that a buffer was freed."""
        self.total_bytes -= self._sizes.pop(owner, 0)
