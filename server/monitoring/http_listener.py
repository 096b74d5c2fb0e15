"""Where the monitoring's HTTP connections come in: how many, how idle and how slow they may be.

aiohttp reads the requests and answers them. Here is what it leaves open: a client that sends
nothing, or half a request, or does not read its answer would stay for as long as it likes. Until a
connection's first request is there it waits outside, where it takes the place of nobody who has
one: hundreds of half requests do not delay a whole one.
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
from midge.server.listeners.tls_alert import alerting
from midge.server.log.logger import get_logger

LOOK_EVERY_S = 10.0
"""How often it is looked at how far a client has come with reading its answer."""

SLOWEST_BYTES_PER_S = 4096
"""Who reads an answer more slowly than that is cut off."""

OUTSIDE_PER_CONNECTION = 4
"""Connections without a whole request, for each that may be answered; the oldest make room."""

_RETRY_S = 0.05  # after which accepting is tried again when there is no room
_HEAD_MAX_BYTES = 16 * 1024  # of a first request kept here; aiohttp refuses longer ones
_HEAD_ENDS = (b"\n\r\n", b"\n\n")
_KERNEL_BUFFER_BYTES = 64 * 1024  # a larger one would hide for long whether a client reads

log = get_logger()


class HttpConnection(asyncio.Protocol):
    """One connection; passes everything on to aiohttp's protocol, and ends what takes too long.

    It is idle from its beginning, or the end of an answer, until a request has come whole: bytes
    that trickle in do not prolong that. `listener` admits it when its first request is there.
    """

    def __init__(
        self,
        broker: Broker,
        make_answering: Callable[[], asyncio.Protocol],
        listener: "HttpListener",
    ) -> None:
        self._broker = broker
        self._make_answering = make_answering
        self._answering: Any = None  # until it is admitted
        self._listener = listener
        self._head = bytearray()  # of the first request, until it is admitted
        self._transport: Any = None
        self._idle_timer: Timer | None = None
        self._look_timer: Timer | None = None
        self.is_idle = True

    @property
    def is_open(self) -> bool:
        """Tell whether there is a transport that is not about to go."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def unread_bytes(self) -> int:
        """Count what waits for the client to read on."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def may_make_room(self) -> bool:
        """Tell whether it is idle, with the last answer read."""
        return self.is_idle and not self.unread_bytes

    @property
    def is_ready(self) -> bool:
        """Whether its first request has come whole, or is too long to ever do so here."""
        return len(self._head) > _HEAD_MAX_BYTES or self._is_whole

    @property
    def _is_whole(self) -> bool:
        return any(end in self._head for end in _HEAD_ENDS)

    def admit(self) -> None:
        """Have the request that is there answered."""
        self._answering = self._make_answering()
        if self._is_whole:
            self.asked()
        head, self._head = bytes(self._head), bytearray()
        self._answering.connection_made(self._transport)
        self._transport.resume_reading()
        self._answering.data_received(head)

    def asked(self) -> None:
        """Hear that a request has come whole."""
        self.is_idle = False
        self._stop_idle_timer()

    def answered(self) -> None:
        """Hear that its answer is made; it may take a while until it is read."""
        self.is_idle = True
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

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if self._answering is not None:
            self._answering.data_received(data)
            return
        self._head += data
        if self.is_ready:
            self._transport.pause_reading()
            self._listener.ready(self)

    def eof_received(self) -> bool | None:
        """Hear that the client sends no more."""
        return None if self._answering is None else self._answering.eof_received()

    def pause_writing(self) -> None:
        """Hear that the client does not read as fast as it is answered."""
        if self._answering is not None:
            self._answering.pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Hear that the client has caught up."""
        self._look_away()
        if self._answering is not None:
            self._answering.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the transport is gone."""
        self._transport = None
        self._stop_idle_timer()
        self._look_away()
        if self._answering is not None:
            self._answering.connection_lost(exc)
        self._listener.forget(self)

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
        self._outside: dict[HttpConnection, None] = {}  # without a request so far, the oldest first
        self._ready: dict[HttpConnection, None] = {}  # with one, while all others are busy
        self._retry_timer: Timer | None = None

    def answered(self, connection: HttpConnection) -> None:
        """Hear that `connection` has an answer: it is the least idle one now."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None
            connection.answered()
            self._admit_next()

    def ready(self, connection: HttpConnection) -> None:
        """Answer the first request of `connection`, now or when there is room."""
        self._outside.pop(connection, None)
        self._ready[connection] = None
        self._admit_next()

    def forget(self, connection: HttpConnection) -> None:
        """Count `connection`, which is gone, no more."""
        for group in (self._outside, self._ready, self._open):
            group.pop(connection, None)
        self._admit_next()
        self._go_on_accepting()

    def _admit_next(self) -> None:
        """Admit those with a request; the longest idle ones make room for them."""
        self._stop_retrying()
        while self._ready and self._socket is not None:
            if not self._has_place():
                self._retry_timer = self._broker.clock.call_later(_RETRY_S, self._admit_next)
                return
            connection = next(iter(self._ready))
            del self._ready[connection]
            if connection.is_open:
                self._open[connection] = None
                connection.admit()

    def _stop_retrying(self) -> None:
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None

    def close(self) -> None:
        """Take no more connections, and end those whose request was not begun."""
        super().close()
        self._stop_retrying()
        for connection in [*self._outside, *self._ready]:
            connection.abort()

    def _has_place(self) -> bool:
        """Tell whether one more may be answered, and make room for it if that can be."""
        if len(self._open) < self._broker.options.monitoring.max_connections:
            return True
        self._broker.limit_hits["monitoring_connections"] += 1
        return self._make_room(self._open)

    def _room(self) -> int:
        """Make room for one if there is none; if that cannot be, the others wait for a while."""
        there = len(self._tasks) + len(self._outside) + len(self._ready) + len(self._open)
        most = self._broker.options.monitoring.max_connections * (1 + OUTSIDE_PER_CONNECTION)
        if most > there:
            return min(most - there, super()._room())
        self._broker.limit_hits["monitoring_connections"] += 1
        if self._make_room(self._outside) or self._make_room(self._open):
            return 1
        self._stop_accepting(_RETRY_S)
        return 0

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER_BYTES)
        self._run(self._connect_http(accepted))

    def _make_room(self, group: dict[HttpConnection, None]) -> bool:
        """End the connection of `group` that has been idle for longest, if there is one."""
        idle = next((one for one in group if one.may_make_room), None)
        if idle is None:
            return False
        del group[idle]
        idle.abort()
        return True

    async def _connect_http(self, accepted: socket.socket) -> None:
        """Bring a connection onto the socket, by TLS if configured, within the time for it."""
        loop = asyncio.get_running_loop()
        tls = self._tls
        connection = HttpConnection(self._broker, self._answering, self)
        try:
            with alerting(accepted):
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
            if connection.is_open and not connection.is_ready and connection not in self._open:
                self._outside[connection] = None
