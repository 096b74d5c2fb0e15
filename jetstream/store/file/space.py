"""Space on the disk for segments: reserved ahead, and sparingly when there is little.

`NextSegment` prepares the next segment and more room in the last one without blocking the event
loop.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from functools import partial

from midge.jetstream.store.disk import Disk, Write
from midge.jetstream.store.file.group import Segment, pages, segment_name

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

SEGMENT_MAX = 16 * 1024 * 1024
"""A segment is read and rewritten as a whole: 80,000 small records in some 20 ms."""

_ZEROED_GROUP_MAX = 64 * 1024
"""Bytes of a group up to which the room for the next ones is written with zeros before.

The first sync of a block that only has room makes ext4 write to its journal: of groups of 10 KiB
each takes 205 us and 68 us of CPU time instead of 128 and 37. With groups of 100 KiB that is what
the zeros take.
"""

_ZEROED_BYTES = 512 * 1024  # at once: the next sync takes 1 ms longer for that

_LARGE_GROUP = 1024 * 1024
"""Bytes of a group from which a segment gets its whole space at once.

Groups of 6 MB, some 3 ms apart, each waited 0.2 ms for another 4 MiB. On a small disk a segment
grows piecemeal, because the space behind the last group of each segment, a sixth of 24 MiB, would
be wasted.
"""

_PAGE_MASK = 4095

Chore = tuple[Write, Callable[[bool], object]]
"""A write between two groups, and the callback for its success."""


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


def _nothing(is_well: bool) -> None:
    """Ignore the result of a chore that no other work depends on."""


class NextSegment:
    """Prepares segments of `disk` by `chores`, which the log does between two groups.

    A segment of `segment_max` bytes is followed by another. `is_extending` is True while a file is
    being extended.
    """

    def __init__(self, disk: Disk, chores: list[Chore], segment_max: int) -> None:
        self.is_extending = False
        self._segment_max = segment_max
        self._disk = disk
        self._chores = chores
        self._prepared: Segment | None = None
        self._last: Segment | None = None

    def get(self, number: int) -> Segment:
        """Return the prepared segment, or make the one of this number; it stays prepared.

        Raises:
            OSError: it cannot be made.
        """
        if self._prepared is None:
            self._prepared = self._create(number)
        return self._prepared

    def take(self, number: int) -> Segment:
        """Return the segment of `get` for writing; the next call prepares another one."""
        segment = self.get(number)
        self._prepared = None
        return segment

    def prepare(self, segment: Segment, synced: int, is_lone: bool) -> None:
        """Prepare more room for `segment`, the last one, and the segment after it.

        The last group had `synced` bytes; 0 means that it was written without a sync. If `is_lone`,
        it had one message, and the zeros are synced as well. While other processes write, the disk
        may take 100 ms for that.
        """
        zeroed = 0 < synced <= _ZEROED_GROUP_MAX
        ahead = ahead_of(segment)
        first = self._segment_max // 4  # of the segment after it
        soon = segment.end + self._segment_max // 4
        if zeroed:
            ahead = min(ahead, _ZEROED_BYTES)
            first = min(first, _ZEROED_BYTES)
        elif synced >= _LARGE_GROUP and has_plenty(self._disk):
            first += self._segment_max  # the last group goes beyond that
            ahead = max(ahead, first - segment.allocated)
            soon = segment.end + 2 * synced  # where the group ends that is being filled
        if self._last is not None and self._last is not segment:
            self._warm(self._last)
        self._last = segment
        if segment.end < self._segment_max and segment.allocated - segment.end < ahead // 2:
            self._extend(segment, ahead, zeroed, is_lone)
        elif self._prepared is None and soon >= self._segment_max:
            with contextlib.suppress(OSError):  # it is tried again when it is needed
                self._prepared = self._create(segment.number + 1)
                self._extend(self._prepared, first, zeroed, is_lone)

    def give_back(self) -> bool:
        """Give back the room of the segment that is only prepared; False without one."""
        prepared = self._prepared
        if prepared is None or self.is_extending:
            return False
        self._prepared = None
        prepared.file.close()
        with contextlib.suppress(OSError):
            self._disk.unlink(segment_name(prepared.number))
        return True

    def close(self) -> None:
        """Remove the segment that is only prepared."""
        if self._prepared is not None:
            self._prepared.file.close()
            self._disk.unlink(segment_name(self._prepared.number))

    def _create(self, number: int) -> Segment:
        segment = Segment(number, self._disk.create(segment_name(number)), 0, 0)
        segment.is_new = True
        return segment

    def _extend(self, segment: Segment, ahead: int, zeroed: bool, is_lone: bool) -> None:
        """Extend a segment; on a nearly full disk each write requests its own room instead."""
        start = pages(segment.allocated)
        if self._disk.free_bytes() < pages(start + ahead) - segment.allocated + SPARE:
            return
        self.is_extending = True
        write = Write(segment.file, bytearray(8), 0, start)
        write.sync = zeroed and is_lone
        write.extend = pages(start + ahead)
        write.zeroed = zeroed
        self._take_warming(segment, write)
        then = partial(self._extended, segment, write.extend, start if write.sync else -1)
        self._chores.insert(0, (write, then))  # or groups are written where no space is reserved

    def _extended(self, segment: Segment, size: int, zeroed_from: int, is_well: bool) -> None:
        self.is_extending = False
        if not is_well:
            with contextlib.suppress(OSError):  # a part of it may be there
                segment.file.truncate(segment.allocated)
            return
        segment.allocated = max(segment.allocated, size)
        segment.promised = max(segment.promised, size)
        if zeroed_from >= 0:
            if segment.zeroed_to != zeroed_from:
                segment.zeroed_from = zeroed_from
            segment.zeroed_to = size

    def _warm(self, segment: Segment) -> None:
        """Read the end of a segment into the page cache if writes have bypassed it."""
        write = Write(segment.file, bytearray(8), 0, 0)
        write.sync = False
        self._take_warming(segment, write)
        if write.warm_start < write.warm_end:
            self._chores.append((write, _nothing))

    def _take_warming(self, segment: Segment, write: Write) -> None:
        """Make `write` read the pages that may have bypassed the page cache, whole ones only."""
        write.warm_start = segment.warm_to & ~_PAGE_MASK
        write.warm_end = segment.end & ~_PAGE_MASK
        segment.warm_to = max(segment.warm_to, write.warm_end)
