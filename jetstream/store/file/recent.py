"""The last durable groups, kept in memory: consumers that keep up read them there.

The buffers of those that go are used again: with a fresh one for each group of some MiB, a third of
what storing a message took was the faults of its pages. Small groups are kept behind each other, as
the page cache may not have them yet, and the buffer of each is a later one's: one waits for the
next group, and another if that is begun while the one before is written. To make and clear one
takes 30,000 instructions, as many as five messages.
"""

from __future__ import annotations

from midge.jetstream.store import numbers
from midge.jetstream.store.file.group import Group, Segment

_BUFFER = 64 * 1024
_RECENT_BYTES = 1024 * 1024
_JOINED = 256 * 1024  # bytes of small groups that are kept as one
_BUFFER_KEPT = 8 * 1024 * 1024


class RecentGroups:
    """Up to 1 MiB of groups."""

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
