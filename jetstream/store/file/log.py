"""The log of a store directory: all its streams write here, and one sync serves them all.

Changes join the open group, which the loop hands to the committer at the end of its turn; changes
during its write and sync form the next group. group.py describes the life of a group. Only opening
a store blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from midge.jetstream.store import numbers
from midge.jetstream.store.disk import Disk, Write
from midge.jetstream.store.file import records
from midge.jetstream.store.file.fetches import Fetches, ReadBuffers
from midge.jetstream.store.file.group import Group, RecentGroups, Segment
from midge.jetstream.store.file.space import (
    NO_ROOM,
    RESERVE,
    SEGMENT_MAX,
    Chore,
    NextSegment,
    Space,
)
from midge.jetstream.store.interface import (
    GroupListener,
    StoreError,
    StoreFailedError,
    StoreFullError,
)
from midge.jetstream.store.turns import Turns

PRESSED_BYTES = 6 * 1024 * 1024
"""Bytes of the open group from which publishers are paused until it goes to the disk.

Together with the group being written this stays under 16 MiB, although a publisher is paused only
after its whole last read. With 4 MiB the loop had to wait for the disk more often.
"""

_RESERVE = RESERVE  # as a C number
_LONE_COUNT = 4  # most records of a group with one message: head, removals by limits, the message
_LONE_BYTES = 16 * 1024
_GROWN_MAX = 1024 * 1024  # most bytes by which a group's buffer grows at once


def _nothing() -> None:
    """Do nothing."""


def _remove_at_once(_: int, done: Callable[[bool], object]) -> None:
    """Remove a segment that no head names."""
    done(True)


class Log:
    """The groups of a store directory.

    `group` is the number of the open group, or of the next one; `durable` is the number of the last
    group on the disk. `request_flush` is called when the open group gets its first record: `flush`
    should then be called at the end of the turn. `on_records` is called when a segment gets its
    first records, `on_begun` when its first group is durable, and `before_removal` before a segment
    is removed, with the segment's number and a function that continues. `full` is True while the
    disk has no room for messages, `is_pressed` while it does not keep up; `on_pressure` is called
    when that changes.
    """

    def __init__(
        self,
        disk: Disk,
        seed: int,
        request_flush: Callable[[], object],
        turns: Turns | None = None,
    ) -> None:
        self.disk = disk
        self.turns = turns if turns is not None else Turns()
        self.buffers = ReadBuffers()
        self.fetches = Fetches(disk)
        self.seed = seed
        self.group = 1
        self.durable = 0
        self.full = False
        self.space = Space(disk)
        self.failure: StoreError | None = None
        self.sync_each = True
        self.segments: list[Segment] = []
        self.synced_segment = 0
        self.synced_position = 0
        self.marked_position = 0
        self.written_groups = 0
        self._request_flush = request_flush
        self._listeners: list[GroupListener] = []
        self._open: Group | None = None
        self._flying: Group | None = None
        self._erasing: list[tuple[Segment, int, int]] = []
        self._waiting: list[Callable[[], object]] = []
        self._chores: list[Chore] = []
        self._chore: Chore | None = None
        self._had_chore = False
        self._recent = RecentGroups()
        self._is_wanted = False
        self._is_stuck = False
        self._is_leaving = False
        self._was_small = False
        self._next = NextSegment(disk, self._chores, SEGMENT_MAX)
        self.on_failure: Callable[[], object] = lambda: None
        self.on_records: Callable[[], object] = _nothing
        self.on_begun: Callable[[], object] = _nothing
        self.before_removal: Callable[[int, Callable[[bool], object]], object] = _remove_at_once
        self._is_fresh = False
        self.is_pressed = False
        self.pressed_bytes = PRESSED_BYTES
        self.on_pressure: Callable[[bool], object] = lambda _: None
        self.committer = disk.committer(self.committed)

    def listen(self, listener: GroupListener) -> None:
        """Call `listener` when a group becomes durable or fails."""
        self._listeners.append(listener)

    def pending_bytes(self) -> int:
        """Return the size of the open and the flying group, in bytes."""
        total = self._open.used if self._open is not None else 0
        return total + (self._flying.used if self._flying is not None else 0)

    def reserve(self, length: int, is_message: bool) -> int:
        """Make room in the open group for a record; return its index in the group's data.

        Raises:
            StoreFullError: the disk has no room for another message.
            StoreFailedError: a sync has failed.
        """
        group = self.opened()
        at = group.used
        end = at + records.padded(length)
        needed = group.base + end + (_RESERVE if is_message else 0)
        if is_message and self.full:
            raise StoreFullError("no room for another message: the disk is full")
        if needed > group.segment.promised:
            self._extend(group.segment, needed, is_message)
        if end > len(group.data):
            size = len(group.data)
            numbers.grow(group.data, max(end - size, min(size, _GROWN_MAX)))
        group.used = end
        group.count += 1
        if end > self.pressed_bytes and not self.is_pressed:
            self._see_pressure()
        return at

    def _see_pressure(self) -> None:
        """Call `on_pressure` when the open group has become too large, or has been flushed."""
        is_pressed = self._open is not None and self._open.used > self.pressed_bytes
        if self.failure is not None or self._is_stuck:
            is_pressed = False  # later publishers must get an answer
        if is_pressed != self.is_pressed:
            self.is_pressed = is_pressed
            self.on_pressure(is_pressed)

    def admit(self) -> None:
        """Raise StoreFailedError if the store refuses changes."""
        if self.failure is not None:
            raise StoreFailedError(str(self.failure))

    def opened(self) -> Group:
        """Return the open group; open one if necessary."""
        if self._open is not None:
            return self._open
        group = self._begin()
        if self._is_fresh:
            self._is_fresh = False
            self.on_records()
        return group

    def join(self, stream: Any) -> int:
        """Call `stream.made_durable` when the open group is durable; return the group's number."""
        group = self.opened()
        group.streams.append(stream)
        return group.number

    def flush(self) -> None:
        """Hand the open group to the committer, now or as soon as that is free."""
        if self._open is None or self.failure is not None:
            return
        if self._flying is not None or self._erasing or self._chore is not None:
            self._is_wanted = True
            return
        self._is_wanted = False
        group = self._open
        group.lasts = [stream.close_group() for stream in group.streams]
        self._open = None
        self.group = group.number + 1
        self._submit(group)
        if self.is_pressed:
            self._see_pressure()

    def barrier(self, callback: Callable[[], object]) -> None:
        """Call `callback` once all changes so far are durable.

        After a failure that is at once, because the other changes have been undone.
        """
        if self.failure is not None:
            callback()
        elif self._open is not None:
            self._open.barriers.append(callback)
        elif self._flying is not None:
            self._flying.barriers.append(callback)
        elif self._erasing:
            self._waiting.append(callback)
        else:
            callback()

    def is_written_to(self, segment: Segment) -> bool:
        """Return whether a group that is not durable yet belongs to a segment."""
        return any(
            group is not None and group.segment is segment for group in (self._open, self._flying)
        )

    def forget_recent(self, segment: Segment) -> None:
        """Drop recent groups of a segment; later reads use its file."""
        self._recent.forget(segment)

    def rest(self) -> None:
        """Free the spare buffer for large groups, if no group is open or flying."""
        if self._open is None and self._flying is None:
            self._recent.drop_buffer()

    def mark(self) -> None:
        """Write the synced position if the log does not have it yet, and no group is open."""
        if (
            self._open is None
            and self._flying is None
            and not self._erasing
            and self._chore is None
            and self.failure is None
            and self.synced_position != self.marked_position
            and not self.segments[-1].is_unsynced
        ):
            self._begin()
            self.flush()

    def committed(self, stage: int, error: int) -> None:
        """Handle the committer's result, on the loop: 0 success, 1 not written, 2 not synced."""
        if self._erasing:
            self._erased()
        elif self._chore is not None:
            self._finish_chore(stage == 0)
        elif stage == 0:
            self._succeeded()
        elif stage == 1 and error in NO_ROOM:
            self.full = True
            self.space.is_short = True
            self._is_stuck = True  # `retry` writes the same group at the same place
            self._see_pressure()
        else:
            self._failed(error)

    def retry(self) -> None:
        """Write the group that had no room again."""
        self.full = False
        if self._is_stuck and self._flying is not None:
            self._is_stuck = False
            self._write(self._flying)

    def sync_written(self, done: Callable[[], object] = _nothing) -> None:
        """Sync all groups that were written without a sync, then call `done`.

        After a failure `done` is not called.
        """
        if self.failure is not None:
            return
        unsynced = [segment for segment in self.segments if segment.is_unsynced]
        for segment in unsynced:
            write = Write(segment.file, bytearray(8), 0, 0)
            write.with_directory = segment.is_new
            then = done if segment is unsynced[-1] else _nothing
            self.chore(write, partial(self._synced, segment, segment.end, then))
        if not unsynced:
            done()

    def _synced(
        self, segment: Segment, end: int, then: Callable[[], object], is_well: bool
    ) -> None:
        """Called when a segment has been synced up to `end`, or the sync has failed."""
        if not is_well:
            self._failed(errno.EIO)
            return
        segment.is_new = False
        segment.is_unsynced = segment.end > end
        self.synced_segment = segment.number
        self.synced_position = end
        if end == self.marked_position + records.GROUP_HEAD:  # nothing but the mark itself
            self.marked_position = end
        then()

    def write_deletion(self, number: int) -> None:
        """Write down that a stream has been deleted."""
        at = self.reserve(records.HEAD, False)
        group = self.opened()
        group.segment.holds_more = True
        records.start_record(group.data, at, records.HEAD, records.STREAM_DELETED, number, 0, 0)

    def chore(self, write: Write, done: Callable[[bool], object]) -> None:
        """Write between two groups; `done` is called with the success."""
        self._chores.append((write, done))
        self._go_on()

    def find(self, segment: Segment, offset: int) -> Group | None:
        """Return the group in memory that has the record at `offset` of a segment."""
        group = self._open
        if group is not None and group.segment is segment and offset >= group.base:
            return group
        group = self._flying
        if group is not None and group.segment is segment and offset >= group.base:
            return group
        return self._recent.find(segment, offset)

    def begin_segment(self, number: int) -> None:
        """Make a new segment, and write to it from now on."""
        self.segments.append(self._next.take(number))
        self._is_fresh = True

    def leave_segment(self) -> None:
        """Go on in a new segment, so that the last one can be compacted."""
        if self._is_stuck or self.failure is not None:
            return
        if self._open is not None:
            self._is_leaving = True  # with the next group
        else:
            segment = self.segments[-1]
            self._roll(segment, self._end_of(segment))

    def finish(self) -> None:
        """Write the open group and the synced position, and wait for the disk."""
        self._drain()
        self.sync_written()
        self._drain()
        self.mark()
        self._drain()

    def close(self) -> None:
        """Close the files."""
        self.committer.close()
        self._next.close()
        for segment in self.segments:
            segment.file.close()

    def _drain(self) -> None:
        """Wait until all groups are durable."""
        while self.failure is None and not self._is_stuck:
            self.flush()
            if self._flying is None and not self._erasing and self._chore is None:
                return
            self.committer.settle()

    def _begin(self) -> Group:
        """Open a group at the end of the last segment, or of a new one."""
        self.admit()
        segment = self.segments[-1]
        base = self._end_of(segment)
        is_whole = base >= SEGMENT_MAX and not self.full
        if (is_whole or self._is_leaving) and self._roll(segment, base):
            segment = self.segments[-1]
            base = 0
        if base + records.GROUP_HEAD > segment.promised:
            self._extend(segment, base + records.GROUP_HEAD, False)
        self._open = Group(self.group, segment, base, self._recent.take_buffer())
        self._request_flush()
        return self._open

    def _end_of(self, segment: Segment) -> int:
        """Return where the next group of a segment begins."""
        if self._flying is not None and self._flying.segment is segment:
            return self._flying.base + self._flying.used
        return segment.end

    def _roll(self, old: Segment, end: int) -> bool:
        """Begin the segment after `old`, whose groups end at `end`; return whether there is room.

        Without room for the new one's reserve the old segment goes on, and keeps its own reserve.
        """
        self._is_leaving = False
        try:
            prepared = self._next.get(old.number + 1)
        except OSError:
            return False
        if not self.space.begin(prepared, old, end):
            return False
        self.begin_segment(old.number + 1)
        return True

    def _extend(self, segment: Segment, needed: int, is_message: bool) -> None:
        """Ensure room for a segment of `needed` bytes, with a reserve."""
        error = self.space.promise(segment, needed, is_message)
        if error and self._next.give_back():
            error = self.space.promise(segment, needed, is_message)
        if error and is_message:  # other records are written without a promise
            self.full = self.full or error in NO_ROOM
            raise StoreFullError(f"no room for another message: {os.strerror(error)}")

    def _submit(self, group: Group) -> None:
        is_small = group.count <= _LONE_COUNT and group.used <= _LONE_BYTES
        group.is_lone = is_small and self._was_small and self.sync_each
        self._was_small = is_small
        records.finish_group(
            group.data, group.used, group.count, self.synced_segment, self.synced_position
        )
        self._flying = group
        self._write(group)

    def _write(self, group: Group) -> None:
        self.written_groups += 1
        write = Write(group.segment.file, group.data, group.used, group.base)
        write.seal = True
        write.seed = self.seed
        write.segment = group.segment.number
        write.sync = self.sync_each
        write.with_directory = group.segment.is_new
        group.note_overwriting()
        write.is_overwriting = group.is_overwriting
        write.is_passing = self.buffers.total_bytes == 0  # no stream has read from a file
        self.committer.write(write)

    def _succeeded(self) -> None:
        """Make a group visible, and call its waiters."""
        group = self._flying
        assert group is not None
        self._flying = None
        segment = group.segment
        if self.sync_each:
            segment.is_new = False
        else:
            segment.is_unsynced = True
        segment.end = group.base + group.used
        if not group.is_overwriting:
            segment.warm_to = segment.end
        segment.allocated = max(segment.allocated, segment.end)
        if self.sync_each:
            self.synced_segment = segment.number
            self.synced_position = segment.end
        if group.count == 1:
            self.marked_position = self.synced_position
        self.durable = group.number
        for index in range(len(group.streams)):
            group.streams[index].made_durable(group.lasts[index])
        self._recent.keep(group)
        for listener in self._listeners:
            listener.durable(group.number)
        if segment is self.segments[-1] and not self._next.is_extending and not self.space.is_short:
            synced = group.used if self.sync_each else 0
            self._next.prepare(segment, synced, group.is_lone)
        if group.erasures or group.overwrites:
            self.sync_written(partial(self._go_on_erasing, group))
        else:
            for callback in group.barriers:
                callback()
        if group.base == 0:
            self.on_begun()
        self._go_on()

    def _go_on(self) -> None:
        """Begin the next write for the committer: groups and chores alternate."""
        if self._flying is not None or self._erasing or self._chore is not None:
            return
        if self._chores and self.failure is None and not (self._had_chore and self._is_wanted):
            self._chore = self._chores.pop(0)
            self._had_chore = True
            self.committer.write(self._chore[0])
        elif self._is_wanted:
            self._had_chore = False
            self.flush()

    def _finish_chore(self, is_well: bool) -> None:
        assert self._chore is not None
        done = self._chore[1]
        self._chore = None
        done(is_well)
        self._go_on()

    def _go_on_erasing(self, group: Group) -> None:
        """Do the next step of an erasure, the last step of others, now that a group is synced."""
        if group.erasures:
            self._mark_before_erasing(group)
        if group.overwrites:
            self._erase(group)

    def _mark_before_erasing(self, group: Group) -> None:
        """Record in another group that this one is whole, before bytes of it are overwritten.

        Without that, a crash would leave a group that looks torn.
        """
        following = self.opened()
        following.overwrites.extend(group.erasures)
        following.barriers[:0] = group.barriers
        group.barriers.clear()
        self._is_wanted = True

    def _erase(self, group: Group) -> None:
        """Overwrite the erased messages, now that their removal is durable."""
        self._erasing = group.overwrites
        self._waiting.extend(group.barriers)
        self._erase_next()

    def _erase_next(self) -> None:
        segment, position, length = self._erasing[0]
        self.committer.write(Write(segment.file, bytearray(length), length, position))

    def _erased(self) -> None:
        self._erasing[0][0].has_erasures = False
        self._erasing = self._erasing[1:]
        if self._erasing:
            self._erase_next()
            return
        waiting = self._waiting
        self._waiting = []
        for callback in waiting:
            callback()
        self._go_on()

    def _failed(self, error: int) -> None:
        """Undo all changes that are not durable, for good.

        The kernel has marked the unwritten pages clean, so a later sync proves nothing about them.
        """
        group = self._flying
        first = group.number if group is not None else self.durable + 1
        self.failure = StoreFailedError(f"the store cannot be synced: {errno.errorcode[error]}")
        self._flying = None
        self._open = None
        self._is_wanted = False
        self._waiting = []
        segment = self.segments[-1] if group is None else group.segment
        with contextlib.suppress(OSError):  # nothing behind `end` is believed in any case
            segment.file.truncate(segment.end)
        self.on_failure()
        self._see_pressure()
        for listener in self._listeners:
            listener.failed(first, self.failure)
