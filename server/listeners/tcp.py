"""The TCP listener: accept, send INFO, shake hands by TLS, hand over to a Connection.

INFO is written to the bare socket before any transport exists, so that a TLS handshake, when one
follows, is an ordinary one from its first byte.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from midge.platforms import HAS_EPOLL, add_reader, remove_reader
from midge.protocol import errors
from midge.server.broker.broker import Broker
from midge.server.channels.closed_reason import ClosedReason
from midge.server.listeners.accepting import Acceptor
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from midge.server.clients.connection import Connection
    from midge.server.clock import Clock
    from midge.server.config.options import Options
    from midge.server.listeners.tls import TlsContexts

_GRACE_S = 60.0

log = get_logger()


class Listener(Acceptor):
    """A listening socket of `broker`; `tls` has the contexts of handshakes, None for plain TCP."""

    def __init__(self, broker: Broker, tls: TlsContexts | None = None) -> None:
        super().__init__(broker.clock)
        self._broker = broker
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()  # handshakes; they end with the listener
        self._connecting: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Take no more connections; existing ones go on."""
        super().close()
        for task in list(self._tasks):
            task.cancel()

    def take(self, accepted: socket.socket, peer: tuple[str, int], cid: int, *, full: bool) -> None:
        """Go on with a connection that another process has accepted.

        It is to be number `cid`, and to be turned away where that process says that it is one too
        many.
        """

        def begin(accepted: socket.socket, source: tuple[str, int]) -> None:
            self._broker.expect(cid, full=full)
            self._begin(accepted, source)

        self._begin_behind_header(accepted, peer, begin)

    def _options_of_proxies(self) -> Options | None:
        options = self._broker.options
        return options if options.listen.proxy_protocol else None

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        if self._tls is not None and self._is_busy():
            self._broker.limit_hits["handshakes"] += 1
            accepted.close()
            return
        connection = self._broker.make_connection(peer)
        if self._tls is None:
            self._greet(accepted, connection)
        else:
            self._run(self._settle(accepted, connection, self._tls))

    def _is_busy(self) -> bool:
        """Return whether more handshakes are in progress than connections are allowed.

        This is checked for TLS only: a plain connection is made at once, and gets an -ERR when it
        is over the limit.
        """
        under_way = len(self._tasks) + len(self._connecting)
        return under_way > self._broker.options.limits.max_connections

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until it is done or the listener closes."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _greet(self, accepted: socket.socket, connection: Connection) -> None:
        """Send INFO and attach `connection` to the socket, in plain text."""
        try:
            self._broker.admission.greet(connection, accepted, self._broker.info_line(connection))
        except OSError as error:
            self._fail(accepted, connection, error)
        else:
            self._hand_over(accepted, connection, None)

    async def _settle(
        self, accepted: socket.socket, connection: Connection, tls: TlsContexts
    ) -> None:
        """Attach `connection` to the socket, with TLS where that applies."""
        try:
            context = await self._agree_on_tls(accepted, connection, tls)
        except asyncio.CancelledError:
            accepted.close()
            raise
        except (OSError, TimeoutError) as error:
            self._fail(accepted, connection, error)
        else:
            self._hand_over(accepted, connection, context)

    def _hand_over(
        self, accepted: socket.socket, connection: Connection, context: ssl.SSLContext | None
    ) -> None:
        """Make the transport: that of TLS in a task that nothing cancels.

        If it were cancelled, a half-made transport would never call `connection_lost`, and the
        server would wait for it when it stops.
        """
        if context is None and HAS_EPOLL:
            self._attach(accepted, connection)
            return
        loop = asyncio.get_running_loop()
        connecting = loop.create_task(self._connect(loop, accepted, connection, context))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    def _attach(self, accepted: socket.socket, connection: Connection) -> None:
        """Make the transport of a plain socket."""
        from midge.server.channels.plain_transport import (  # noqa: PLC0415 - no start needs it
            PlainTransport,
        )
        from midge.server.channels.ready_sockets import ReadySockets  # noqa: PLC0415 - as above

        try:
            loop = asyncio.get_running_loop()
            if self._broker.ready_sockets is None:
                self._broker.ready_sockets = ReadySockets(
                    loop, self._broker.router, self._broker.busy_poll
                )
            transport = PlainTransport(
                loop, self._broker.ready_sockets, accepted, connection.channel
            )
        except OSError as error:
            self._fail(accepted, connection, error)
        else:
            transport.start()

    def _fail(self, accepted: socket.socket, connection: Connection, error: Exception) -> None:
        """Abandon a connection that failed before it had a transport."""
        accepted.close()
        if self._tls is not None:
            log.error(
                "tls_handshake_failed",
                cid=connection.cid,
                peer=connection.peer,
                error="TLS handshake timeout" if connection.reason else _text_of(error),
            )
            connection.close(ClosedReason.TLS_HANDSHAKE_FAILURE)
        connection.channel.dispose()  # no transport will ever call `connection_lost`

    async def _agree_on_tls(
        self, accepted: socket.socket, connection: Connection, tls: TlsContexts
    ) -> ssl.SSLContext | None:
        """Send INFO in plain text if it comes first; return the handshake's context or None."""
        info = self._broker.info_line(connection)
        table = tls.table
        context = tls.context
        if not self._admits_handshake(tls):
            accepted.send(info + b"-ERR '%b'\r\n" % errors.CONNECTION_THROTTLED.encode())
            raise ConnectionAbortedError("too many handshakes in this second")
        clock = self._broker.clock
        if table.handshake_first == "on" or (
            table.handshake_first == "auto"
            # As in nats-server, any byte before INFO begins TLS; the handshake checks the rest.
            and await _first_byte(accepted, clock, table.handshake_first_fallback_s)
        ):
            connection.owes_info = True
            self._broker.admission.await_handshake(connection, accepted)
            return context
        if not table.allow_non_tls:
            self._broker.admission.await_handshake(connection, accepted)
            accepted.send(info)
            return context
        begins_tls = asyncio.ensure_future(_begins_tls(accepted, clock, table.timeout_s))
        await asyncio.sleep(0)  # its timer exists from here on
        accepted.send(info)
        if not await begins_tls:
            return None
        self._broker.admission.await_handshake(connection, accepted)
        return context

    def _admits_handshake(self, tls: TlsContexts) -> bool:
        """Return whether one more handshake may start in this second."""
        tls.limit.per_second = tls.table.connection_rate_limit
        if tls.limit.admit(self._broker.clock.monotonic()):
            return True
        self._broker.limit_hits["handshakes_per_second"] += 1
        return False

    async def _connect(
        self,
        loop: asyncio.AbstractEventLoop,
        accepted: socket.socket,
        connection: Connection,
        context: ssl.SSLContext | None,
    ) -> None:
        """Make the loop's own transport, with TLS if there is a `context`."""
        from midge.server.channels.loop_adapter import (  # noqa: PLC0415 - no start needs it
            forget,
            protocol_for,
        )
        from midge.server.listeners.tls_alert import alerting  # noqa: PLC0415 - for TLS only

        protocol = protocol_for(loop, connection.channel)
        try:
            # The connection's own timer, on the server's clock, must fire first.
            timeout_s = self._broker.options.tls.timeout_s + _GRACE_S if context else None
            with alerting(accepted):
                await loop.connect_accepted_socket(
                    lambda: protocol, accepted, ssl=context, ssl_handshake_timeout=timeout_s
                )
        except OSError as error:  # as an error of TLS, and a timeout, are
            # asyncio's SSL protocol is in a reference cycle and keeps the error, and so this frame,
            # alive.
            error.__traceback__ = None
            forget(protocol)
            self._fail(accepted, connection, error)


def _text_of(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _begins_tls(accepted: socket.socket, clock: Clock, wait_s: float) -> bool:
    """Return whether the first byte that comes within `wait_s` begins TLS; it stays unread."""
    from midge.server.listeners.tls import is_client_hello  # noqa: PLC0415 - for TLS only

    first = await _first_byte(accepted, clock, wait_s)
    return bool(first) and is_client_hello(first[0])


async def _first_byte(accepted: socket.socket, clock: Clock, wait_s: float) -> bytes:
    """Return the first byte that comes within `wait_s`, which stays unread; empty if none does."""
    loop = asyncio.get_running_loop()
    decided = asyncio.Event()
    timer = clock.call_later(wait_s, decided.set)
    add_reader(loop, accepted, decided.set)
    try:
        await decided.wait()
    finally:
        remove_reader(loop, accepted)
        timer.cancel()
    try:
        return accepted.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""  # none has arrived
