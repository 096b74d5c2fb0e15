"""A port that other servers connect to: accepts them, within bounds, and begins handshakes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.loop_adapter import forget, protocol_for
from midge.server.listeners.sockets import listen, peer_of
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.links.link import Link

HANDSHAKES_MAX = 256
"""Most servers that may be shaking hands at a time; each holds a task and a socket."""

_BACKLOG = 128
_ACCEPTS_PER_TURN = 16
_PAUSE_S = 0.5  # after running out of file descriptors

log = get_logger()


class LinkListener:
    """Accepts links of one kind; subclasses make them. `limit` names what is counted if too many.

    `tls` is the context of handshakes, None for none, and `tls_timeout_s` their time.
    """

    def __init__(self, broker: Broker, limit: str) -> None:
        self.broker = broker
        self.address = ("", 0)
        self.tls: ssl.SSLContext | None = None
        self.tls_timeout_s = 0.0
        self._limit = limit
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: set[Link] = set()

    def make_link(self, peer: tuple[str, int]) -> Link:
        """Return a link for a server at `peer` that has just connected."""
        raise NotImplementedError

    def count_links(self) -> int:
        """Count the links that are up."""
        raise NotImplementedError

    def open(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be bound.
        """
        self._socket, self.address = listen(host, port, _BACKLOG)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Take no more servers; links that are up are closed by others."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for task in list(self._tasks):
            task.cancel()
        for link in list(self._begun):
            link.close(ClosedReason.SERVER_SHUTDOWN)

    def _accept(self) -> None:
        """Take the servers that wait, up to a turn's worth."""
        for _ in range(_ACCEPTS_PER_TURN):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("accept_failed", error=str(error), delay_s=_PAUSE_S)
                asyncio.get_running_loop().remove_reader(self._socket)
                self.broker.clock.call_later(_PAUSE_S, self._watch)
                return
            self._begin(accepted, peer_of(address))

    def _watch(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        self._begun = {link for link in self._begun if link.reason is None and not link.is_ready}
        too_many = len(self._begun) >= HANDSHAKES_MAX or len(self._tasks) >= HANDSHAKES_MAX
        if too_many or self.count_links() >= self.broker.options.limits.max_connections:
            self.broker.limit_hits[self._limit] += 1
            accepted.close()
            return
        accepted.setblocking(False)
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = self.make_link(peer)
        self._begun.add(link)
        task = asyncio.get_running_loop().create_task(self._connect(accepted, link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, link: Link) -> None:
        """Bring `link` onto the socket, by TLS where that is asked for."""
        loop = asyncio.get_running_loop()
        protocol = protocol_for(loop, link.channel)
        try:
            await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self.tls,
                ssl_handshake_timeout=(self.tls_timeout_s or None) if self.tls else None,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            error.__traceback__ = None
            forget(protocol)
            accepted.close()
            text = str(error) or type(error).__name__
            log.error("tls_handshake_failed", cid=link.cid, peer=link.peer, error=text)
            link.close(ClosedReason.TLS_HANDSHAKE_FAILURE)
            link.channel.let_go()
