"""The message ids of a stream, each known for the duplicate window.

An id lives its time whatever becomes of its message: purging does not make it forgotten. Ids that
came within the same slice of the window are forgotten together, so that remembering one takes an
entry in a table and one in a list, and nothing else.
"""

from __future__ import annotations

from collections import deque

_SLICES = 1024
"""An id is forgotten late by at most this part of the window: by 0.12 s of two minutes."""


class Slice:
    """The ids that came within one slice of the window, which ends at `end_ns`."""

    __slots__ = ("end_ns", "ids")

    def __init__(self, end_ns: int) -> None:
        self.end_ns = end_ns
        self.ids: list[bytes] = []


class Dedup:
    """Ids with the sequence they got, the oldest first.

    With `is_exact`, an id is forgotten at the very moment its window ends.
    """

    __slots__ = ("_ids", "_is_exact", "_last", "_next_ns", "_slices", "window_ns")

    def __init__(self, window_ns: int, is_exact: bool = False) -> None:
        self.window_ns = window_ns
        self._is_exact = is_exact
        self._ids: dict[bytes, int] = {}
        self._last: Slice | None = None
        self._slices: deque[Slice] = deque()
        self._next_ns = 0

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, msg_id: bytes, now_ns: int) -> int:
        """Return the sequence that `msg_id` got within the window; 0 when it is new."""
        if self._last is not None and self._next_ns + self.window_ns <= now_ns:
            self._forget_before(now_ns - self.window_ns)
        return self._ids.get(msg_id, 0)

    def add(self, msg_id: bytes, seq: int, time_ns: int) -> None:
        """Remember an id."""
        current = self._last
        if current is None or time_ns >= current.end_ns:
            length_ns = 0 if self._is_exact else self.window_ns // _SLICES + 1
            current = Slice(time_ns + length_ns)
            if not self._slices:
                self._next_ns = current.end_ns
            self._last = current
            self._slices.append(current)
        current.ids.append(msg_id)
        self._ids[msg_id] = seq

    def take_back(self, after_seq: int) -> None:
        """Forget the ids of messages after `after_seq`, which were lost."""
        for current in reversed(self._slices):
            for msg_id in current.ids:
                if self._ids.get(msg_id, 0) > after_seq:
                    del self._ids[msg_id]

    def _forget_before(self, time_ns: int) -> None:
        """Forget the slices that ended before `time_ns`."""
        slices = self._slices
        while slices and slices[0].end_ns <= time_ns:
            for msg_id in slices.popleft().ids:
                self._ids.pop(msg_id, None)
        if slices:
            self._next_ns = slices[0].end_ns
        else:
            self._last = None
