"""Segments of the log, and groups: the records of one write and one sync.

The problem. A message may be acknowledged only after a sync, and a sync takes the disk some 0.1 ms
and more. A sync for each message would bound all publishers together, and a file for each stream
would need a sync for each stream. So all streams of a store directory share one log, and all
changes that arrive during a sync share the next one.

The log is a row of segments, files of some 16 MiB, of which only the last one grows. A group is a
piece of a segment: a record GROUP with a checksum over the others, then records of any streams
(records.py). It is the unit of a crash: its changes survive together or not at all.

A group has three states, and `Log` (log.py) has at most one group in each of the first two:

    open        Changes append their records to its buffer. At the end of the turn of the event loop
                `Log.flush` hands it to the committer, unless that is busy.
    flying      The committer writes and syncs it, in a thread or in the kernel. Meanwhile changes
                gather in the next open group, so a slower disk makes larger groups and not a longer
                queue. Publishers are paused when the open group exceeds `PRESSED_BYTES`.
    durable     `Log` notifies the streams, which acknowledge and deliver its messages, and calls
                the barriers. `RecentGroups` keeps the bytes of the last groups for readers.

One group at a time. The committer writes a group only after the sync of the one before. So a crash
can tear only the last group, which has not been acknowledged, and recovery.py can distinguish a
torn end from damage. Between two groups the committer may do a chore: extend the file, fill it with
zeros, copy a segment for compaction.

A lone group has one message, as the one before it had. Its pages have been written with zeros
ahead, so the kernel can write and sync it alone, without the thread: see `is_overwriting`.

When a write fails:

- For lack of room the group stays flying, and `Log.retry` writes it again at the same place.
  Meanwhile the store refuses messages, but not removals, for which each segment has a reserve.
- Any other failure is final. The kernel marks pages clean that it could not write, so no later sync
  would prove anything. The log undoes all groups that are not durable, and refuses changes.

Three exceptions to the simple way:

- With a `sync_interval` a group counts as durable once it is written, as on nats-server, and
  `Log.sync_written` syncs the segments later.
- An erased message is overwritten in two steps. First its removal becomes durable, then a further
  group records that the one before is whole, because a group with overwritten bytes looks torn.
- A store without changes writes a last group without records (`Log.mark`). Its head has the synced
  position, so later damage before that position is not taken for a torn end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midge.jetstream.store import numbers
from midge.jetstream.store.disk import DiskFile
from midge.jetstream.store.file import records

SUFFIX = ".log"

_BUFFER = 64 * 1024
_RECENT_BYTES = 1024 * 1024
_JOINED = 256 * 1024  # bytes of small groups that are kept as one
_BUFFER_KEPT = 8 * 1024 * 1024


def pages(size: int) -> int:
    """Return `size` in whole pages."""
    return (size + 4095) & ~4095


def segment_name(number: int) -> str:
    """Return the name of a segment's file."""
    return f"{number:016x}{SUFFIX}"


def segment_number(name: str) -> int:
    """Return the number of the segment in the file of this name; 0 when that is no segment."""
    digits = name.removesuffix(SUFFIX)
    try:
        number = int(digits, 16)
    except ValueError:
        return 0
    return number if name == segment_name(number) else 0


class Segment:
    """One file of the log.

    `end` is the end of its last durable group, `allocated` the length of the file. The bytes in
    between are zeros with space on the disk, and from `zeroed_from` to `zeroed_to` they have been
    written and synced. Space up to `promised` is reserved. Bytes before `warm_to` are in the page
    cache, as far as it has room. `live_bytes` counts the remaining messages, as streams count them,
    and `message_bytes` all messages written. With `holds_more` the segment has records that matter
    even when its messages are gone: ids, removals, consumers, deletions of streams, or unreadable
    ones.
    """

    __slots__ = (
        "allocated",
        "end",
        "erasures",
        "file",
        "has_erasures",
        "holds_more",
        "is_damaged",
        "is_new",
        "is_rewritten",
        "is_unsynced",
        "live_bytes",
        "message_bytes",
        "number",
        "promised",
        "purged_group",
        "warm_to",
        "zeroed_from",
        "zeroed_to",
    )

    def __init__(self, number: int, file: DiskFile, end: int, allocated: int) -> None:
        self.number = number
        self.file = file
        self.end = end
        self.allocated = allocated
        self.promised = allocated
        self.zeroed_from = 0
        self.zeroed_to = 0
        self.warm_to = end
        self.purged_group = 0  # every removal up to this group has been carried out in the file
        self.is_damaged = False
        self.is_rewritten = False
        self.is_unsynced = False
        self.has_erasures = False  # bytes of it will be overwritten: a copy must not be kept
        self.erasures = 0  # how often that was so: a copy made meanwhile must not be kept either
        self.is_new = False  # the directory has not been synced since its creation
        self.live_bytes = 0
        self.message_bytes = 0
        self.holds_more = False


class Group:
    """Records that become durable together, written at `base` of a segment.

    With `is_lone` it has one message, like the group before it. `is_overwriting` is set when it
    goes to the disk: True if all its pages have been written with zeros before.
    """

    __slots__ = (
        "barriers",
        "base",
        "count",
        "data",
        "erasures",
        "is_lone",
        "is_overwriting",
        "lasts",
        "number",
        "overwrites",
        "segment",
        "streams",
        "used",
    )

    def __init__(self, number: int, segment: Segment, base: int, data: bytearray) -> None:
        self.number = number
        self.segment = segment
        self.base = base
        self.data = data
        self.streams: list[Any] = []
        self.lasts: list[int] = []
        self.barriers: list[Callable[[], object]] = []
        self.erasures: list[tuple[Segment, int, int]] = []
        self.overwrites: list[tuple[Segment, int, int]] = []
        self.used = records.GROUP_HEAD
        self.count = 1
        self.is_lone = False
        self.is_overwriting = False
        records.start_group(data, number)

    def note_overwriting(self) -> None:
        """Set `is_overwriting`: whether a lone group goes to pages that already have zeros."""
        segment = self.segment
        end = pages(self.base + self.used)
        self.is_overwriting = (
            self.is_lone
            and segment.zeroed_from <= self.base
            and end <= segment.zeroed_to
            and not segment.is_new
        )


class RecentGroups:
    """The last durable groups, up to 1 MiB of them: consumers that keep up read them there.

    The buffers of those that go are used again: with a fresh one for each group of some MiB, a
    third of what storing a message took was the faults of its pages. Small groups are kept behind
    each other, as the page cache may not have them yet, and the buffer of each is a later one's:
    one waits for the next group, and another if that is begun while the one before is written. To
    make and clear one takes 30,000 instructions, as many as five messages.
    """

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._bytes = 0
        self._spare: bytearray | None = None
        self._small_spare: bytearray | None = None  # another one

    def take_buffer(self) -> bytearray:
        """Return a buffer for the next group."""
        data = self._spare
        if data is not None:
            self._spare = None
            return data
        data = self._small_spare
        self._small_spare = None
        return data if data is not None else bytearray(_BUFFER)

    def drop_buffer(self) -> None:
        """Give up a large buffer that waits for the next group."""
        if self._spare is not None and len(self._spare) > _RECENT_BYTES:
            self._spare = None

    def keep(self, group: Group) -> None:
        """Keep a group, and the buffer of one that goes for it."""
        if self._join(group):
            return
        if group.used <= _BUFFER and len(group.data) < _JOINED:
            numbers.grow(group.data, _JOINED - len(group.data))  # for those that come behind it
        self._groups.append(group)
        self._bytes += len(group.data)
        while self._bytes > _RECENT_BYTES:
            oldest = self._groups.pop(0)
            self._bytes -= len(oldest.data)
            if len(oldest.data) <= _BUFFER_KEPT:
                self._spare = oldest.data

    def _join(self, group: Group) -> bool:
        """Append a small group to the last one, if it directly follows it."""
        if group.used > _BUFFER or not self._groups:
            return False
        last = self._groups[-1]
        is_next = last.segment is group.segment and last.base + last.used == group.base
        if not is_next or last.used + group.used > min(len(last.data), _JOINED):
            return False
        numbers.put(last.data, last.used, group.data, 0, group.used)
        last.used += group.used
        if self._spare is not None and len(self._spare) <= _JOINED:
            self._small_spare = self._spare
        self._spare = group.data
        return True

    def find(self, segment: Segment, offset: int) -> Group | None:
        """Return the group that has the record at `offset` of a segment; None when it is gone."""
        for group in self._groups:
            if group.segment is segment and group.base <= offset < group.base + group.used:
                return group
        return None

    def forget(self, segment: Segment) -> None:
        """Drop the groups of a segment."""
        self._groups = [group for group in self._groups if group.segment is not segment]
        self._bytes = sum(len(group.data) for group in self._groups)
