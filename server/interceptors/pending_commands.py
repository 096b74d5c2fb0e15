"""The queues that wait for interceptors: one client's commands, and deliveries to one client."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.server.channels.reading import WAITING

if TYPE_CHECKING:
    from midge.server.clients.connection import Connection


class PendingCommands:
    """The commands of one client, in order; `connection` is None for the process itself.

    When no command waits any more, `ended` is called with this object.
    """

    def __init__(
        self,
        connection: Connection | None,
        max_pending: int,
        ended: Callable[[PendingCommands], None],
    ) -> None:
        self.connection = connection
        self.queue = AnswerQueue(max_pending, self._advanced)
        self.full: set[PendingDeliveries] = set()
        self._ended = ended
        self._has_halted = False

    @property
    def is_idle(self) -> bool:
        """Return whether the next command need not wait."""
        return not self.queue and not self.full

    def put(
        self, apply_verdict: Callable[[Any], object], size_bytes: int = 0
    ) -> Callable[[Any], None]:
        """Take the next place, and return the function that takes the answer."""
        pending = self.queue.put(apply_verdict, size_bytes)
        if self.connection is not None and self.queue.is_full:
            self._halt(self.connection)
        return pending.answer

    def defer(self, command: Callable[..., object], *arguments: Any) -> None:
        """Run `command` when all commands before it are done."""
        self.put(lambda _: self._do(command, *arguments))(None)

    def defer_connect(self, document: bytes) -> None:
        """Handle a CONNECT when all commands before it are done; halt parsing until then."""
        connection = self.connection
        assert connection is not None, "the process itself does not connect"
        self._halt(connection)
        self.defer(connection.commands.on_connect, document)

    def wait_for(self, deliveries: PendingDeliveries) -> None:
        """Stop until `deliveries` have room."""
        if self.connection is not None and deliveries not in self.full:
            self.full.add(deliveries)
            deliveries.waiting.append(self)
            self.queue.is_held = True
            self._halt(self.connection)

    def go_on(self, deliveries: PendingDeliveries) -> None:
        """Resume, because `deliveries` have room; called in a separate turn of the loop."""
        self.full.discard(deliveries)
        self.queue.is_held = bool(self.full)
        if self.queue:
            self.queue.advance()
        else:
            self._advanced()

    def drop(self) -> int:
        """Drop the waiting commands; return how many there were."""
        for deliveries in self.full:
            if self in deliveries.waiting:
                deliveries.waiting.remove(self)
        self.full.clear()
        return self.queue.drop()

    def _do(self, command: Callable[..., object], *arguments: Any) -> None:
        """Run a command whose turn has come, without deferring it again."""
        connection = self.connection
        assert connection is not None, "the process itself gives no commands"
        connection.pending = None
        command(*arguments)
        if connection.reason is None:
            connection.pending = self

    def _halt(self, connection: Connection) -> None:
        self._has_halted = True
        connection.channel.reading.halt(WAITING)

    def _advanced(self) -> None:
        """Resume reading when there is room; call `ended` when no command is left."""
        connection = self.connection
        is_idle = self.is_idle
        if is_idle:
            self._ended(self)
        if connection is None or connection.reason is not None:
            return
        if self._has_halted and not self.full and (is_idle or self.queue.has_room):
            self._has_halted = False
            connection.channel.reading.unhalt(WAITING)
        if is_idle or not connection.parser.halted:
            connection.channel.resume()


class PendingDeliveries:
    """The deliveries to one client, in order; the commands in `waiting` wait for room.

    `advanced` is called with this object after some of them have been delivered or dropped.
    """

    def __init__(
        self,
        connection: Connection,
        max_pending: int,
        advanced: Callable[[PendingDeliveries], None],
    ) -> None:
        self.connection = connection
        self.queue = AnswerQueue(max_pending, self._advance)
        self.waiting: list[PendingCommands] = []
        self._advanced = advanced

    def drop(self) -> None:
        """Drop the waiting deliveries."""
        self.queue.drop()
        self._let_go()

    def _advance(self) -> None:
        if self.queue.has_room:
            self._let_go()
        self._advanced(self)

    def _let_go(self) -> None:
        """Resume the waiting publishers in a later turn, because one of them may be running now."""
        waiting, self.waiting = self.waiting, []
        for pending in waiting:
            asyncio.get_running_loop().call_soon(pending.go_on, self)


QUEUED_BYTES_MAX = 1 << 20
"""Most bytes of messages that may wait in one queue."""

_OPEN = object()


class PendingAnswer:
    """A command that waits for its verdict in a queue; `answer` it once."""

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
    """The pending answers of one client; `advanced` is called when some have been applied.

    While `is_held`, no answer is applied.
    """

    __slots__ = ("_advanced", "_is_advancing", "_most", "_pending", "is_held", "size_bytes")

    def __init__(self, most: int, advanced: Callable[[], object]) -> None:
        self.size_bytes = 0
        self.is_held = False
        self._most = most
        self._advanced = advanced
        self._pending: deque[PendingAnswer] = deque()
        self._is_advancing = False

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        """Return whether the queue should get no more pending answers."""
        return len(self._pending) >= self._most or self.size_bytes >= QUEUED_BYTES_MAX

    @property
    def has_room(self) -> bool:
        """Return whether at least half of the queue is free."""
        return len(self._pending) * 2 <= self._most and self.size_bytes * 2 <= QUEUED_BYTES_MAX

    def put(self, apply_verdict: Callable[[Any], object], size_bytes: int = 0) -> PendingAnswer:
        """Take the next place; `apply_verdict` is called with the answer, in this order."""
        pending = PendingAnswer(self, apply_verdict, size_bytes)
        self._pending.append(pending)
        self.size_bytes += size_bytes
        return pending

    def advance(self) -> None:
        """Apply the answers, up to the first missing one."""
        if self._is_advancing:
            return
        self._is_advancing = True
        concluded = 0
        try:
            while self._pending and not self._pending[0].is_open and not self.is_held:
                pending = self._pending.popleft()
                self.size_bytes -= pending.size_bytes
                concluded += 1
                pending.apply_verdict()
        finally:
            self._is_advancing = False
        if concluded:
            self._advanced()

    def drop(self) -> int:
        """Drop all pending answers; return how many there were."""
        left = len(self._pending)
        self._pending.clear()
        self.size_bytes = 0
        return left
