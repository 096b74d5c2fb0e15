"""Where the monitoring's HTTP connections come in: how many, how idle and how slow they may be.

aiohttp reads the requests and answers them. Here is what it leaves open: a client that sends
nothing, or half a request, or does not read its answer would stay for as long as it likes.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

from midge.server.broker.broker import Broker
from midge.server.clock import Timer
from midge.server.listeners.tcp import Listener
from midge.server.listeners.tls import TlsContexts
from midge.server.log.logger import get_logger

LOOK_EVERY_S = 10.0
"""How often it is looked at how far a client has come with reading its answer."""

SLOWEST_BYTES_PER_S = 4096
"""Who reads an answer more slowly than that is cut off."""

LEAST_IDLE_S = 0.5
"""What a new connection has to ask, before it may have to make room for another."""

LEAST_BEGUN_S = 2.0
"""What it has once a request has begun to come; a busy server may be slow to take it."""

_KERNEL_BUFFER_BYTES = 64 * 1024  # a larger one would hide for long whether a client reads

log = get_logger()


class HttpConnection(asyncio.Protocol):
    """One connection; passes everything on to `answering`, and ends what takes too long.

    It is idle from its beginning, or the end of an answer, until a request has come whole: bytes
    that trickle in do not prolong that.
    """

    def __init__(
        self, broker: Broker, answering: asyncio.Protocol, gone: Callable[..., None]
    ) -> None:
        self._broker = broker
        self._answering = answering
        self._gone = gone
        self._transport: Any = None
        self._idle_timer: Timer | None = None
        self._look_timer: Timer | None = None
        self.is_idle = True
        self._idle_since = broker.clock.monotonic()
        self._has_begun = False  # the next request

    @property
    def is_open(self) -> bool:
        """Tell whether there is a transport."""
        return self._transport is not None

    @property
    def unread_bytes(self) -> int:
        """Count what waits for the client to read on."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def may_make_room(self) -> bool:
        """Tell whether it has been idle for a while, with the last answer read."""
        idle_s = self._broker.clock.monotonic() - self._idle_since
        least_s = LEAST_BEGUN_S if self._has_begun else LEAST_IDLE_S
        return self.is_idle and idle_s >= least_s and not self.unread_bytes

    def asked(self) -> None:
        """Hear that a request has come whole."""
        self.is_idle = False
        self._stop_idle_timer()

    def answered(self) -> None:
        """Hear that its answer is made; it may take a while until it is read."""
        self.is_idle = True
        self._idle_since = self._broker.clock.monotonic()
        self._has_begun = False
        self._stop_idle_timer()
        if self._transport is not None:
            delay_s = self._broker.options.monitoring.idle_timeout_s
            self._idle_timer = self._broker.clock.call_later(delay_s, self._expire)

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: Any) -> None:
        """Begin, and wait for the first request."""
        self._transport = transport
        self.answered()
        self._answering.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        self._has_begun = True
        self._answering.data_received(data)

    def eof_received(self) -> bool | None:
        """Hear that the client sends no more."""
        return self._answering.eof_received()

    def pause_writing(self) -> None:
        """Hear that the client does not read as fast as it is answered."""
        self._answering.pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Hear that the client has caught up."""
        self._look_away()
        self._answering.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the transport is gone."""
        self._transport = None
        self._stop_idle_timer()
        self._look_away()
        self._answering.connection_lost(exc)
        self._gone(self)

    def _expire(self) -> None:
        """End a connection that was idle for long, unless it still reads its answer."""
        self._idle_timer = None
        if self._look_timer is not None:
            self.answered()
        elif self.unread_bytes:
            self._watch()
        else:
            self.abort()

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _watch(self) -> None:
        waiting = self.unread_bytes
        self._look_timer = self._broker.clock.call_later(LOOK_EVERY_S, self._look, waiting)

    def _look(self, waited: int) -> None:
        """Cut off a client that has read too little since the last look, or has read it all."""
        waiting = self.unread_bytes
        if not waiting or waited - waiting < min(waited, SLOWEST_BYTES_PER_S * LOOK_EVERY_S):
            self.abort()
        else:
            self._watch()

    def _look_away(self) -> None:
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None


class HttpListener(Listener):
    """The listening socket of the monitoring; `answering` makes what answers a connection."""

    def __init__(
        self,
        broker: Broker,
        answering: Callable[[], asyncio.Protocol],
        tls: TlsContexts | None = None,
    ) -> None:
        super().__init__(broker, tls)
        self._answering = answering
        self._open: dict[HttpConnection, None] = {}  # the longest idle one first

    def answered(self, connection: HttpConnection) -> None:
        """Hear that `connection` has an answer: it is the least idle one now."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None
            connection.answered()

    def _room(self) -> int:
        """Make room for one if there is none; if that cannot be, the others wait for a while."""
        there = len(self._tasks) + len(self._open)
        free = self._broker.options.monitoring.max_connections - there
        if free > 0:
            return min(free, super()._room())
        self._broker.limit_hits["monitoring_connections"] += 1
        if self._make_room():
            return 1
        self._stop_accepting(LEAST_IDLE_S)
        return 0

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER_BYTES)
        self._run(self._connect_http(accepted))

    def _make_room(self) -> bool:
        """End the connection that has been idle for longest, if that is long enough."""
        idle = next((one for one in self._open if one.may_make_room), None)
        if idle is None:
            return False
        del self._open[idle]
        idle.abort()
        return True

    async def _connect_http(self, accepted: socket.socket) -> None:
        """Bring a connection onto the socket, by TLS if configured, within the time for it."""
        loop = asyncio.get_running_loop()
        tls = self._tls
        connection = HttpConnection(self._broker, self._answering(), self._forget)
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls.context if tls else None,
                ssl_handshake_timeout=tls.table.timeout_s or None if tls else None,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            accepted.close()
            log.debug("monitoring_handshake_failed", error=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            accepted.close()
            raise
        else:
            if connection.is_open:
                self._open[connection] = None

    def _forget(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)
        self._go_on_accepting()
