"""Pending answers, applied in the order of their questions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

QUEUED_BYTES_MAX = 1 << 20
"""Most bytes of messages that may wait in one queue."""

_OPEN = object()


class Ticket:
    """One place in a queue; `answer` it once."""

    __slots__ = ("_answer", "_conclude", "_queue", "size_bytes")

    def __init__(
        self, queue: AnswerQueue, apply_verdict: Callable[[Any], object], size_bytes: int
    ) -> None:
        self.size_bytes = size_bytes
        self._queue = queue
        self._conclude = apply_verdict
        self._answer: Any = _OPEN

    @property
    def is_open(self) -> bool:
        """Return whether the answer is still to come."""
        return self._answer is _OPEN

    def answer(self, answer: Any) -> None:
        """Set the answer, which is applied after the answers before it; ignore a second one."""
        if self._answer is _OPEN:
            self._answer = answer
            self._queue.advance()

    def apply_verdict(self) -> None:
        """Apply the answer."""
        self._conclude(self._answer)


class AnswerQueue:
    """The tickets of one client; `advanced` is called when some have been applied.

    While `is_held`, no answer is applied.
    """

    __slots__ = ("_advanced", "_is_advancing", "_most", "_tickets", "is_held", "size_bytes")

    def __init__(self, most: int, advanced: Callable[[], object]) -> None:
        self.size_bytes = 0
        self.is_held = False
        self._most = most
        self._advanced = advanced
        self._tickets: deque[Ticket] = deque()
        self._is_advancing = False

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def is_full(self) -> bool:
        """Return whether the queue should get no more tickets."""
        return len(self._tickets) >= self._most or self.size_bytes >= QUEUED_BYTES_MAX

    @property
    def has_room(self) -> bool:
        """Return whether at least half of the queue is free."""
        return len(self._tickets) * 2 <= self._most and self.size_bytes * 2 <= QUEUED_BYTES_MAX

    def put(self, apply_verdict: Callable[[Any], object], size_bytes: int = 0) -> Ticket:
        """Take the next place; `apply_verdict` is called with the answer, in this order."""
        ticket = Ticket(self, apply_verdict, size_bytes)
        self._tickets.append(ticket)
        self.size_bytes += size_bytes
        return ticket

    def advance(self) -> None:
        """Apply the answers, up to the first missing one."""
        if self._is_advancing:
            return
        self._is_advancing = True
        concluded = 0
        try:
            while self._tickets and not self._tickets[0].is_open and not self.is_held:
                ticket = self._tickets.popleft()
                self.size_bytes -= ticket.size_bytes
                concluded += 1
                ticket.apply_verdict()
        finally:
            self._is_advancing = False
        if concluded:
            self._advanced()

    def drop(self) -> int:
        """Drop all tickets; return how many there were."""
        left = len(self._tickets)
        self._tickets.clear()
        self.size_bytes = 0
        return left
