"""The last durable groups, kept in memory: consumers that keep up read them there.

The buffers of those that go are used again: with a fresh one for each group of some MiB, a third of
what storing a message took was the faults of its pages.
"""

from __future__ import annotations

from midge.jetstream.store.file.group import Group, Segment

_BUFFER = 64 * 1024
_RECENT_BYTES = 1024 * 1024
_RECENT_GROUPS = 16
_BUFFER_KEPT = 8 * 1024 * 1024


class RecentGroups:
    """Up to 16 groups, and 1 MiB of them."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._bytes = 0
        self._spare: bytearray | None = None

    def take_buffer(self) -> bytearray:
        """Return a buffer for the next group."""
        data = self._spare
        self._spare = None
        return data if data is not None else bytearray(_BUFFER)

    def drop_buffer(self) -> None:
        """Give up a large buffer that waits for the next group."""
        if self._spare is not None and len(self._spare) > _RECENT_BYTES:
            self._spare = None

    def keep(self, group: Group) -> None:
        """Keep a group, and the buffer of one that goes for it."""
        self._groups.append(group)
        self._bytes += len(group.data)
        while self._bytes > _RECENT_BYTES or len(self._groups) > _RECENT_GROUPS:
            oldest = self._groups.pop(0)
            self._bytes -= len(oldest.data)
            if len(oldest.data) <= _BUFFER_KEPT:
                self._spare = oldest.data

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
