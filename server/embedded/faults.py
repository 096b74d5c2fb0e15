"""Fault injection: failures of networks and brokers at the place and time that a test chooses.

Each method starts one fault and returns it; as a context manager it ends with its block. Without
faults, messages are not inspected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.screens import Screen
from midge.server.config.type_check import nearest
from midge.server.embedded.fault_kinds import (
    CuttingTransport,
    Delay,
    Drop,
    Duplicate,
    EditInfo,
    Fault,
    MessageFault,
    NoResponders,
    Reorder,
    Restart,
    Script,
    ScriptFunction,
    Undoable,
    copied,
)
from midge.server.embedded.mistakes import explain_arguments
from midge.server.embedded.stream_faults import AfterDeliveries, StreamFaults
from midge.server.routing.router import DEFERRED
from midge.sublist.subjects import matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.protocol.frame import Frame
    from midge.protocol.messages import Info
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.clients.screens import Passage
    from midge.server.routing.client import Client
    from midge.server.routing.subscription import RoutedSubscription
    from midge.server.server import Server


class Faults(StreamFaults, Screen):
    """The faults of one server; `seed` makes random choices repeatable.

    Methods take clients by name or cid.
    """

    def __init__(
        self,
        server: Server,
        restart: Callable[[float, bool], object] = lambda *_: None,
        seed: int = 0,
    ) -> None:
        self.broker: Broker = server.broker
        self.random = Random(seed)  # noqa: S311 - repeatable, not secret
        self._server = server
        self._restart = restart
        self._active = []
        self._screen = self
        self._leaving: asyncio.Future[None] | None = None

    def seed(self, seed: int) -> None:
        """Restart the random numbers."""
        self.random.seed(seed)

    # Faults of messages. `nth` counts the matching messages from 1.

    def drop(
        self,
        pattern: str = ">",
        *,
        nth: int | Iterable[int] | None = None,
        probability: float = 1.0,
        to: str | int | None = None,
    ) -> Fault:
        """Drop messages: all of them, the n-th, or each with a `probability`."""
        return self._begin(Drop(self, pattern, nth, probability, to))

    def duplicate(
        self,
        pattern: str = ">",
        *,
        copies: int = 2,
        nth: int | Iterable[int] | None = None,
        probability: float = 1.0,
        to: str | int | None = None,
    ) -> Fault:
        """Deliver messages `copies` times."""
        fault = Duplicate(self, pattern, nth, probability, to)
        fault.copies = copies
        return self._begin(fault)

    def delay(
        self,
        delay_s: float,
        pattern: str = ">",
        *,
        jitter_s: float = 0.0,
        nth: int | Iterable[int] | None = None,
        probability: float = 1.0,
        to: str | int | None = None,
    ) -> Fault:
        """Delay messages, by the server's clock: by `delay_s` and up to `jitter_s` more."""
        fault = Delay(self, pattern, nth, probability, to)
        fault.delay_s, fault.jitter_s = delay_s, jitter_s
        return self._begin(fault)

    def reorder(
        self,
        pattern: str = ">",
        *,
        nth: int | Iterable[int] = 1,
        by: int = 1,
        to: str | int | None = None,
    ) -> Fault:
        """Deliver the n-th message after the next `by` messages."""
        fault = Reorder(self, pattern, nth, 1.0, to)
        fault.by = by
        return self._begin(fault)

    def script(
        self,
        function: ScriptFunction,
        pattern: str = ">",
        *,
        nth: int | Iterable[int] | None = None,
        probability: float = 1.0,
        to: str | int | None = None,
    ) -> Fault:
        """Call `function(message, send)`: `send()` sends the message, `send(b"x")` another payload.

        The function may send at once or later, once, several times or never.
        """
        fault = Script(self, pattern, nth, probability, to)
        fault.function = function
        return self._begin(fault)

    def no_responders(self, pattern: str = ">", *, nth: int | Iterable[int] | None = None) -> Fault:
        """Answer requests with 503, as if there were no responders."""
        return self._begin(NoResponders(self, pattern, nth, 1.0, None))

    # Faults of connections.

    def cut(self, client: str | int, *, after_bytes: int = 0) -> Fault:
        """Cut the connection once `after_bytes` more have been sent to the client."""
        connection = self._find(client)
        # The only private attribute that a fault needs.
        transport: Any = connection.channel._transport  # noqa: SLF001
        fault = Undoable(self, lambda: connection.outbound.attach(transport))
        fault.hits = 0
        if after_bytes == 0:
            fault.hits = 1
            connection.channel.abort()
        else:
            connection.outbound.attach(CuttingTransport(transport, after_bytes, fault))
        return self._begin(fault)

    def stop_reading(self, client: str | int) -> Fault:
        """Read nothing from the client until the fault ends."""
        connection = self._find(client)
        transport: Any = connection.channel._transport  # noqa: SLF001
        transport.pause_reading()
        return self._begin(
            Undoable(self, lambda: None if transport.is_closing() else transport.resume_reading())
        )

    def refuse_accepts(self) -> Fault:
        """Refuse new connections until the fault ends; existing ones go on."""
        self._server.pause_accepting()
        return self._begin(Undoable(self, self._server.resume_accepting))

    def slow_consumer(self, client: str | int) -> Fault:
        """Close the client as a slow consumer."""
        self._find(client).close(ClosedReason.SLOW_CONSUMER_PENDING)
        return self._begin(Undoable(self, lambda: None))

    def info(self, **changes: Any) -> Fault:
        """Change fields of INFO for new clients, such as `max_payload=10`.

        Raises:
            ValueError: INFO has no such field.
        """
        from midge.protocol.messages import Info  # noqa: PLC0415 - only needed here

        for name in changes:
            if name not in Info.__struct_fields__:
                hint = nearest(name, list(Info.__struct_fields__))
                raise ValueError(f"info: INFO has no field {name!r}{hint}")
        fault = EditInfo(self)
        fault.changes = changes
        return self._begin(fault)

    def restart(
        self,
        pattern: str = "",
        *,
        nth: int = 1,
        down_s: float = 0.0,
        power_failure: bool = False,
    ) -> Fault:
        """Restart the server at the n-th message on `pattern`, which is lost; without one, now.

        The server restarts in the background, in a later turn of its loop; see `Server.restart`.
        """
        if power_failure:
            self._disk()
        if pattern:
            fault = Restart(self, pattern, nth, 1.0, None)
            fault.restart = partial(self._restart, down_s, power_failure)
            return self._begin(fault)
        self._restart(down_s, power_failure)
        return self._done(1)

    async def lame_duck(self) -> None:
        """Enter lame duck mode, permanently; return once clients have been informed.

        The server closes them one by one, by its clock; see `Server.lame_duck`.
        """
        await self._server.announce_lame_duck()
        self._leaving = asyncio.ensure_future(self._server.close_clients_slowly())

    def clear(self) -> None:
        """End all faults."""
        if self._leaving is not None:
            self._leaving.cancel()
        for fault in list(self._active):
            fault.end()

    # Screen.

    def publish(self, passage: Passage) -> None:
        """Apply the first matching fault to a published message."""
        account, publisher, frame = passage.account, passage.publisher, passage.frame
        subject = frame.subject_bytes()
        struck = self._first_striking(subject, None)
        if struck is None:
            passage.go_on()
        elif isinstance(struck, NoResponders):
            struck.answer(account, frame)
        else:
            struck.act(copied(frame), lambda one: self.route(account, publisher, one))
        self._report_passed(subject, struck, None)

    def deliver(
        self,
        connection: Connection,
        subscription: RoutedSubscription,
        publisher: Client | None,
        frame: Frame,
    ) -> Frame | None:
        """Apply the first matching fault of its client to a delivery."""
        for fault in self._active:
            if isinstance(fault, AfterDeliveries):
                fault.delivered(frame)
        subject = frame.subject_bytes()
        struck = self._first_striking(subject, connection)
        if struck is not None:
            struck.act(copied(frame), lambda one: self._write(connection, subscription, one))
            subscription.delivered += 1
            return DEFERRED
        waits = [fault for fault in self._of(connection) if isinstance(fault, Reorder)]
        if not waits:
            return frame
        self._write(connection, subscription, frame)
        self._report_passed(subject, None, connection)
        subscription.delivered += 1
        return DEFERRED

    def edit_info(self, info: Info) -> None:
        """Change INFO."""
        for fault in self._active:
            if isinstance(fault, EditInfo):
                fault.hits += 1
                for name, value in fault.changes.items():
                    setattr(info, name, value)

    # Internals.

    def _of(self, connection: Connection | None) -> list[MessageFault]:
        """List the faults of messages to `connection`, or of published messages for None."""
        found = [fault for fault in self._active if isinstance(fault, MessageFault)]
        if connection is None:
            return [fault for fault in found if fault.to is None]
        names = (connection.cid, connection.options.name)
        return [fault for fault in found if fault.to is not None and fault.to in names]

    def _first_striking(self, subject: bytes, connection: Connection | None) -> MessageFault | None:
        return next((one for one in self._of(connection) if one.strikes(subject)), None)

    def _report_passed(
        self, subject: bytes, struck: MessageFault | None, connection: Connection | None
    ) -> None:
        for fault in self._of(connection):
            if fault is not struck and matches(subject, fault.pattern):
                fault.passed()

    def _write(
        self, connection: Connection, subscription: RoutedSubscription, frame: Frame
    ) -> None:
        """Write a delivery to its client, unless it has disconnected."""
        if connection.reason is None:
            if connection.commands.tracer is not None:
                connection.commands.tracer.message_sent(subscription, frame)
            connection.outbound.append_message(frame, subscription.sid)
            connection.out_messages += 1
            connection.out_bytes += frame.size
            self.broker.router.touch(connection)

    def _find(self, client: str | int) -> Connection:
        """Find a client. Raises: ValueError when none, or several, have that name."""
        clients = self.broker.clients.values()
        found = [one for one in clients if client in (one.cid, one.options.name)]
        if len(found) != 1:
            known = ", ".join(f"{one.cid} {one.options.name!r}" for one in clients)
            expected = f"expected one of {known}" if known else "nobody is connected"
            hint = nearest(str(client), [one.options.name for one in clients if one.options.name])
            raise ValueError(f"client: {expected}, got {client!r}{hint}")
        return found[0]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(unknown_fault(name))


def unknown_fault(name: str) -> str:
    """Return the text about a fault that does not exist."""
    known = [one for one in dir(Faults) if not one.startswith("_")]
    return f"no fault is called {name!r}{nearest(name, known)}"


for _kind in (Faults, StreamFaults):
    explain_arguments(_kind, "Fault")
