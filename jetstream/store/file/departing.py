"""Messages that have been removed before a snapshot has got to them, and are on the disk alone.

They are read one after the other, each once a thread has fetched it, so that their removal does not
wait for the disk. Their files stay open until then, also when the segments go or are rewritten.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable

from midge.jetstream.store.disk import Disk, DiskFile
from midge.jetstream.store.numbers import Octets

_AHEAD = 1024 * 1024
"""Fetched at once where the next message is that near, and read in one turn: some 1 ms."""

Departed = tuple[DiskFile, int, int, Callable[[Octets], object]]
"""The file of a record, its position, its length, and the callback for its bytes."""


class Departing:
    """Those of a store directory, in the order of their removal."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._queue: deque[Departed] = deque()
        self._used: Counter[DiskFile] = Counter()
        self._released: dict[DiskFile, Callable[[], object]] = {}

    def add(self, file: DiskFile, offset: int, size: int, take: Callable[[Octets], object]) -> None:
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
        data: Octets | None = None
        with contextlib.suppress(OSError):
            file, offset, size, _ = self._queue[0]
            data = file.read(offset, size)
        self._take(data or b"")
        while self._queue and room > 0:
            file, offset, size, _ = self._queue[0]
            data = None
            with contextlib.suppress(OSError):
                data = file.read_at_hand(offset, size)
            if data is None or len(data) < size:
                break
            room -= size
            self._take(data)
        if self._queue:
            self._fetch()

    def _take(self, data: Octets) -> None:
        """Hand over what the first one is, and let go of its file."""
        file, _, _, take = self._queue.popleft()
        take(data)
        self._used[file] -= 1
        if not self._used[file]:
            del self._used[file]
            if file in self._released:
                self._disk.release(file, self._released.pop(file))
