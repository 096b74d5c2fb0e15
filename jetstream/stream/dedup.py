"""The message ids of a stream, each known for the duplicate window.

An id lives its time whatever becomes of its message: purging does not make it forgotten.
"""

from __future__ import annotations

from collections import deque


class Dedup:
    """Ids with the sequence they got, the oldest first."""

    __slots__ = ("_ids", "_order", "window_ns")

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self._ids: dict[bytes, int] = {}
        self._order: deque[tuple[bytes, int, int]] = deque()

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, msg_id: bytes, now_ns: int) -> int:
        """Return the sequence that `msg_id` got within the window; 0 when it is new."""
        self.forget_before(now_ns - self.window_ns + 1)
        return self._ids.get(msg_id, 0)

    def add(self, msg_id: bytes, seq: int, time_ns: int) -> None:
        """Remember an id."""
        self._ids[msg_id] = seq
        self._order.append((msg_id, seq, time_ns))

    def forget_before(self, time_ns: int) -> None:
        """Forget the ids that came before `time_ns`."""
        order = self._order
        while order and order[0][2] < time_ns:
            msg_id, seq, _ = order.popleft()
            if self._ids.get(msg_id) == seq:
                del self._ids[msg_id]

    def take_back(self, after_seq: int) -> None:
        """Forget the ids of messages after `after_seq`, which were lost."""
        order = self._order
        while order and order[-1][1] > after_seq:
            msg_id, seq, _ = order.pop()
            if self._ids.get(msg_id) == seq:
                del self._ids[msg_id]
