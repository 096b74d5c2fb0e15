"""The kinds of faults, with their effects on a message or a connection.

`midge.server.embedded.faults` starts and ends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from midge.protocol.frame import Frame, compose
from midge.server.embedded.inbox import Message
from midge.sublist.subjects import is_valid_subject, matches

if TYPE_CHECKING:
    from random import Random

    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.clients.screens import Screen
    from midge.server.routing.account import Account

ScriptFunction = Callable[[Message, Callable[..., None]], object]
"""Decides on a message; its second argument sends it, with another payload or its own."""


class ActiveFaults:
    """The faults in force on one server; `_screen` shows them its messages."""

    broker: Broker
    random: Random
    _active: list[Fault]
    _screen: Screen

    def end(self, fault: Fault) -> None:
        """End one fault."""
        if fault in self._active:
            self._active.remove(fault)
            fault.undo()
            if not self._active:
                self.broker.remove_screen(self._screen)

    def route(self, account: Account, publisher: Connection | None, frame: Frame) -> None:
        """Route a message past the faults."""
        result = account.sublist.match(frame.subject_bytes())
        self.broker.internal.route_frame(account, result, frame, publisher)

    def _begin(self, fault: Fault) -> Fault:
        self._active.append(fault)
        self.broker.add_screen(self._screen)
        return fault


class Fault:
    """One fault in force; `hits` counts how often it has struck."""

    def __init__(self, faults: ActiveFaults) -> None:
        self.hits = 0
        self._faults = faults

    def end(self) -> None:
        """End the fault; a second call does nothing."""
        self._faults.end(self)

    def undo(self) -> None:
        """Send the held messages."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class MessageFault(Fault):
    """A fault of messages published to `pattern`, or with `to` delivered to that client."""

    def __init__(
        self,
        faults: ActiveFaults,
        pattern: str,
        nth: int | Iterable[int] | None,
        probability: float,
        to: str | int | None,
    ) -> None:
        super().__init__(faults)
        self.pattern = pattern.encode()
        if not is_valid_subject(self.pattern):
            raise ValueError(f"pattern: expected tokens separated by dots, got {pattern!r}")
        numbers = (nth,) if isinstance(nth, int) else tuple(nth or ())
        if any(number < 1 for number in numbers):
            raise ValueError(f"nth: expected 1 or more, for it counts from 1, got {nth!r}")
        if not 0 < probability <= 1:
            raise ValueError(f"probability: expected above 0 and at most 1, got {probability}")
        self.to = to
        self._nth = None if nth is None else set(numbers)
        self._probability = probability
        self._seen = 0

    def strikes(self, subject: bytes) -> bool:
        """Count a message, and return whether the fault applies to it."""
        if not matches(subject, self.pattern):
            return False
        self._seen += 1
        if self._nth is not None and self._seen not in self._nth:
            return False
        if self._probability < 1 and self._faults.random.random() >= self._probability:
            return False
        self.hits += 1
        return True

    def passed(self) -> None:
        """Called when a message that the fault did not strike has passed."""

    def act(self, frame: Frame, send: Callable[[Frame], object]) -> None:
        """Apply the fault to `frame`, a copy; `send` passes it on, now or later."""


class Drop(MessageFault):
    """Messages are lost."""


class Duplicate(MessageFault):
    """Messages are duplicated."""

    copies = 2

    def act(self, frame: Frame, send: Callable[[Frame], object]) -> None:
        """Send the message several times."""
        for _ in range(self.copies):
            send(frame)


class Delay(MessageFault):
    """Messages are delayed."""

    delay_s = 0.0
    jitter_s = 0.0

    def act(self, frame: Frame, send: Callable[[Frame], object]) -> None:
        """Send the message later."""
        late_s = self.delay_s + self._faults.random.uniform(0, self.jitter_s)
        self._faults.broker.clock.call_later(late_s, send, frame)


class Reorder(MessageFault):
    """The next messages overtake a message."""

    by = 1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._held: list[tuple[int, Frame, Callable[[Frame], object]]] = []

    def act(self, frame: Frame, send: Callable[[Frame], object]) -> None:
        """Hold the message until others have passed."""
        self._held.append((self._seen + self.by, frame, send))

    def passed(self) -> None:
        """Send messages that have been held long enough."""
        due = [held for held in self._held if held[0] <= self._seen]
        self._held = [held for held in self._held if held[0] > self._seen]
        for _, frame, send in due:
            send(frame)

    def undo(self) -> None:
        """Send all held messages."""
        held, self._held = self._held, []
        for _, frame, send in held:
            send(frame)


class Script(MessageFault):
    """A function of the test decides."""

    function: ScriptFunction

    def act(self, frame: Frame, send: Callable[[Frame], object]) -> None:
        """Call the function."""

        def passing(payload: bytes | None = None) -> None:
            send(frame if payload is None else with_payload(frame, payload))

        self.function(Message(frame), passing)


class NoResponders(MessageFault):
    """Requests are answered as if there were no responders."""

    def answer(self, account: Account, frame: Frame) -> None:
        """Send the 503 in place of routing `frame`."""
        reply = frame.reply_bytes()
        if reply is not None:
            headers = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % frame.subject_bytes()
            self._faults.route(account, None, compose(reply, b"", None, headers))


class Restart(MessageFault):
    """The server restarts at a message, which is lost."""

    restart: Callable[[], object]

    def act(self, frame: Frame, send: Callable[[Frame], object]) -> None:
        """Begin the restart."""
        self.restart()


class Undoable(Fault):
    """A fault of connections, with the function that ends it."""

    def __init__(self, faults: ActiveFaults, undo: Callable[[], object]) -> None:
        super().__init__(faults)
        self.hits = 1
        self._undo = undo

    def undo(self) -> None:
        """Call the function that ends the fault."""
        self._undo()


class EditInfo(Fault):
    """INFO has other fields."""

    changes: dict[str, Any]


class CuttingTransport:
    """Passes a number of bytes to the client, then cuts the connection, also within a message."""

    def __init__(self, transport: Any, left: int, fault: Fault) -> None:
        self._transport = transport
        self._left = left
        self._fault = fault

    def write(self, data: bytes | memoryview) -> None:
        """Write the bytes that may still pass; cut the connection at the first byte beyond."""
        self._transport.write(bytes(data[: self._left]))
        if len(data) > self._left or self._left == 0:
            self._fault.hits += 1
            self._transport.close()
        self._left = max(0, self._left - len(data))

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the socket has not taken yet."""
        size: int = self._transport.get_write_buffer_size()
        return size


def copied(frame: Frame) -> Frame:
    """Copy a frame, which is valid only during the call."""
    return compose(
        frame.subject_bytes(), frame.payload_bytes(), frame.reply_bytes(), frame.header_bytes()
    )


def with_payload(frame: Frame, payload: bytes) -> Frame:
    """Return `frame` with another payload."""
    return compose(frame.subject_bytes(), payload, frame.reply_bytes(), frame.header_bytes())
