"""The last durable groups, kept in memory: consumers that keep up read them there."""

from __future__ import annotations

from midge.jetstream.store.file.group import Group, Segment

_RECENT_BYTES = 1024 * 1024
_RECENT_GROUPS = 16
_BUFFER_KEPT = 4 * 1024 * 1024


class RecentGroups:
    """Up to 16 groups, and 1 MiB of them."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._bytes = 0

    def keep(self, group: Group) -> bytearray | None:
        """Keep a group; return the buffer of one that goes for it, for the next group."""
        spare = None
        self._groups.append(group)
        self._bytes += len(group.data)
        while self._bytes > _RECENT_BYTES or len(self._groups) > _RECENT_GROUPS:
            oldest = self._groups.pop(0)
            self._bytes -= len(oldest.data)
            if len(oldest.data) <= _BUFFER_KEPT:
                spare = oldest.data
        return spare

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
