"""The listener of HTTP monitoring: limits on connections, their idle time and slowness.

aiohttp reads the requests and answers them, but sets no limits: a client that sends nothing, or
half a request, or does not read its answer could stay for ever. Until its first request is complete
a connection does not count against the limit, so that hundreds of half requests do not delay a
whole one.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.server.broker.broker import Broker
from midge.server.listeners.tcp import Listener
from midge.server.listeners.tls import TlsContexts
from midge.server.listeners.tls_alert import alerting
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from midge.server.clock import Timer

CHECK_EVERY_S = 10.0
"""Seconds between two checks of how much of its answer a client has read."""

SLOWEST_BYTES_PER_S = 4096
"""A client that reads its answer more slowly is disconnected."""

OUTSIDE_PER_CONNECTION = 4
"""Connections without a complete request, per connection allowed; a further one closes the
oldest."""

_RETRY_S = 0.05  # seconds until accepting is tried again when there is no room
_HEAD_MAX_BYTES = 16 * 1024  # of a first request kept here; aiohttp refuses longer ones
_HEAD_ENDS = (b"\n\r\n", b"\n\n")
_KERNEL_BUFFER_BYTES = 64 * 1024  # a larger one would hide for long that a client does not read

log = get_logger()


class HttpConnection(asyncio.Protocol):
    """One connection; passes everything on to aiohttp's protocol, and closes what takes too long.

    It is idle from its start, or the end of an answer, until a request is complete: bytes that
    trickle in do not restart that time. `listener` admits it when its first request is complete.
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
        self._check_timer: Timer | None = None
        self.is_idle = True

    @property
    def is_open(self) -> bool:
        """Return whether there is a transport that is not closing."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def unread_bytes(self) -> int:
        """Return the size of the unsent output."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def may_make_room(self) -> bool:
        """Return whether it is idle, with the last answer read."""
        return self.is_idle and not self.unread_bytes

    @property
    def is_ready(self) -> bool:
        """Whether its first request is complete, or too long to be buffered here."""
        return len(self._head) > _HEAD_MAX_BYTES or self._is_whole

    @property
    def _is_whole(self) -> bool:
        return any(end in self._head for end in _HEAD_ENDS)

    def admit(self) -> None:
        """Pass the buffered request on to be answered."""
        self._answering = self._make_answering()
        if self._is_whole:
            self.asked()
        head, self._head = bytes(self._head), bytearray()
        self._answering.connection_made(self._transport)
        self._transport.resume_reading()
        self._answering.data_received(head)

    def asked(self) -> None:
        """Called when a request is complete."""
        self.is_idle = False
        self._stop_idle_timer()

    def answered(self) -> None:
        """Called when its answer is written; reading it may take the client a while."""
        self.is_idle = True
        self._stop_idle_timer()
        if self._transport is not None:
            delay_s = self._broker.options.monitoring.idle_timeout_s
            self._idle_timer = self._broker.clock.call_later(delay_s, self._expire)

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first request."""
        self._transport = transport
        self.answered()

    def data_received(self, data: bytes) -> None:
        """Called with bytes of a request."""
        if self._answering is not None:
            self._answering.data_received(data)
            return
        self._head += data
        if self.is_ready:
            self._transport.pause_reading()
            self._listener.ready(self)

    def eof_received(self) -> bool | None:
        """Called at the end of the client's input."""
        return None if self._answering is None else self._answering.eof_received()

    def pause_writing(self) -> None:
        """Called when the write buffer fills."""
        if self._answering is not None:
            self._answering.pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Called when the write buffer has drained."""
        self._stop_checking()
        if self._answering is not None:
            self._answering.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the transport is lost."""
        self._transport = None
        self._stop_idle_timer()
        self._stop_checking()
        if self._answering is not None:
            self._answering.connection_lost(exc)
        self._listener.forget(self)

    def _expire(self) -> None:
        """Close a connection that was idle too long, unless it still reads its answer."""
        self._idle_timer = None
        if self._check_timer is not None:
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
        clock = self._broker.clock
        self._check_timer = clock.call_later(CHECK_EVERY_S, self._check_progress, waiting)

    def _check_progress(self, waited: int) -> None:
        """Disconnect a client that has read too little since the last check."""
        waiting = self.unread_bytes
        if not waiting or waited - waiting < min(waited, SLOWEST_BYTES_PER_S * CHECK_EVERY_S):
            self.abort()
        else:
            self._watch()

    def _stop_checking(self) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
            self._check_timer = None


class HttpListener(Listener):
    """The listening socket of the monitoring; `answering` makes the handler of a connection."""

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
        """Called when `connection` has an answer: it is the least idle one now."""
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
        """Remove the lost `connection`."""
        for group in (self._outside, self._ready, self._open):
            group.pop(connection, None)
        self._admit_next()
        self._go_on_accepting()

    def _admit_next(self) -> None:
        """Admit connections with a request, in place of the longest idle ones."""
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
        """Take no more connections, and close those without a request in progress."""
        super().close()
        self._stop_retrying()
        for connection in [*self._outside, *self._ready]:
            connection.abort()

    def _has_place(self) -> bool:
        """Return whether one more may be answered; make room for it if possible."""
        if len(self._open) < self._broker.options.monitoring.max_connections:
            return True
        self._broker.limit_hits["monitoring_connections"] += 1
        return self._make_room(self._open)

    def _room(self) -> int:
        """Make room for one more; if impossible, pause accepting for a while."""
        there = len(self._tasks) + len(self._outside) + len(self._ready) + len(self._open)
        most = self._broker.options.monitoring.max_connections * (1 + OUTSIDE_PER_CONNECTION)
        if most > there:
            return min(most - there, super()._room())
        self._broker.limit_hits["monitoring_connections"] += 1
        if self._make_room(self._outside) or self._make_room(self._open):
            return 1
        self._stop_accepting(_RETRY_S)
        return 0

    def _options_of_proxies(self) -> None:
        """Serve every peer as it is."""

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER_BYTES)
        self._run(self._connect_http(accepted))

    def _make_room(self, group: dict[HttpConnection, None]) -> bool:
        """Close the connection of `group` that has been idle longest, if there is one."""
        idle = next((one for one in group if one.may_make_room), None)
        if idle is None:
            return False
        del group[idle]
        idle.abort()
        return True

    async def _connect_http(self, accepted: socket.socket) -> None:
        """Make a connection of the socket, with TLS if configured, within the time limit."""
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
