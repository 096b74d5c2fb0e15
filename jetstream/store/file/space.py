"""Space on the disk for segments: reserved ahead, and sparingly when there is little."""

from __future__ import annotations

import contextlib
import errno

from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file.group import Segment, pages

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

RESERVE = 64 * 1024
"""Bytes kept for records that remove something: a thousand of them or more."""

_AHEAD_MIN = 64 * 1024
_AHEAD_MAX = 4 * 1024 * 1024

_PLENTY = 256 * 1024 * 1024
"""Free bytes from which a disk surely has room for the messages accepted before their write.

These are 16 MiB at most. Growing a file may take 100 ms while other processes write.
"""

SPARE = 1024 * 1024
"""Bytes that small extensions leave free, for copies of the last messages of segments.

With a sixteenth of a segment left in it the rest can be given back.
"""


def ahead_of(segment: Segment) -> int:
    """Return the bytes to reserve beyond the needed ones: more for a longer segment."""
    return min(max(segment.allocated, _AHEAD_MIN), _AHEAD_MAX)


def has_plenty(disk: Disk) -> bool:
    """Return whether the disk has so much free space that accepted messages surely fit."""
    return disk.free_bytes() > _PLENTY


class Space:
    """Reserves space on the disk.

    `is_short` is True if the disk lacked the full reserve of a segment at the last request.
    """

    def __init__(self, disk: Disk) -> None:
        self.is_short = False
        self._disk = disk

    def promise(self, segment: Segment, needed: int, is_message: bool) -> int:
        """Ensure room for a segment of `needed` bytes; return 0, or the errno of the refusal.

        The part grows with the segment, so that a store in which little happens stays small. As
        long as the disk has plenty of room, the file is made longer only later. On a disk that is
        nearly full a message gets little ahead, and only other records take the last of it.
        """
        size = pages(needed + ahead_of(segment))
        if segment.allocated > 0 and has_plenty(self._disk):
            segment.promised = size
            self.is_short = False
            return 0
        error = self._allocate(segment, size)
        self.is_short = error in NO_ROOM
        if self.is_short:
            size = pages(needed + _AHEAD_MIN if is_message else needed)
            left = self._disk.free_bytes() - (size - segment.allocated)
            if left >= SPARE or not is_message:
                error = self._allocate(segment, size)
        return error

    def begin(self, segment: Segment, old: Segment, end: int) -> bool:
        """Ensure the reserve of a new segment; False if the disk has no room for it.

        On a disk that is nearly full it gets what `old` has behind its end.
        """
        error = 0
        if segment.allocated < RESERVE:
            error = self._allocate(segment, RESERVE)
        self.is_short = self.is_short or error != 0
        if self.is_short and old.allocated > end:
            before = old.allocated
            self._cut(old, end)
            if error:
                error = self._allocate(segment, RESERVE)
            if error:
                self._allocate(old, before)
        return not error

    def has_room(self, size: int) -> bool:
        """Return whether a copy of `size` bytes has room on the disk."""
        return size == 0 or self._disk.free_bytes() >= size

    def _allocate(self, segment: Segment, size: int) -> int:
        """Make a segment's file longer; return 0 or the errno.

        The disk is not asked for more than it has: ext4 refuses, yet the file gets all there is.
        """
        if size - segment.file.size() > self._disk.free_bytes():
            return errno.ENOSPC
        try:
            segment.file.allocate(size)
        except OSError as error:
            return error.errno or errno.EIO
        segment.allocated = segment.promised = size
        return 0

    def _cut(self, segment: Segment, end: int) -> None:
        """Give back what a segment has behind its end."""
        with contextlib.suppress(OSError):  # then it stays as long as it is
            segment.file.truncate(end)
            segment.allocated = segment.promised = end
            segment.zeroed_to = 0
