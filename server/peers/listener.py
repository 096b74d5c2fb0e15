"""A port that other servers connect to: accepts them, within bounds, and has them checked."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from midge.server.auth import Verdict
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.loop_adapter import forget, protocol_for
from midge.server.channels.reading import AUTHENTICATING
from midge.server.listeners.accepting import Acceptor
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from midge.server.auth.authenticator import Authenticator
    from midge.server.broker.broker import Broker
    from midge.server.listeners.connection_source import ConnectionSource
    from midge.server.peers.link import Link

HANDSHAKES_MAX = 256
"""Most servers that may be shaking hands at a time; each holds a task and a socket."""

_ACCEPTS_PER_TURN = 16
_BACKLOG = 1024

log = get_logger()


class LinkListener(Acceptor):
    """Accepts links of one kind; subclasses make them. `limit` names what is counted if too many.

    `own` has the users of the port, None without any of its own. `tls` is the context of
    handshakes, None for none, and `tls_timeout_s` their time. `address` is where it listens.
    """

    def __init__(self, broker: Broker, limit: str) -> None:
        Acceptor.__init__(self, broker.clock)
        self.broker = broker
        self.address = ("", 0)
        self.own: Authenticator | None = None
        self.tls: ssl.SSLContext | None = None
        self.tls_timeout_s = 0.0
        self._limit = limit
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: set[Link] = set()

    def check_by(
        self, own: Authenticator | None, tls: ssl.SSLContext | None, tls_timeout_s: float
    ) -> None:
        """Check servers that connect from now on by these users and certificates."""
        if self.own is not None:
            self.own.close()
        self.own, self.tls, self.tls_timeout_s = own, tls, tls_timeout_s

    def make_link(self, peer: tuple[str, int]) -> Link:
        """Return a link for a server at `peer` that has just connected."""
        raise NotImplementedError

    def count_links(self) -> int:
        """Count the links that are up."""
        raise NotImplementedError

    def greet(self, accepted: socket.socket, link: Link) -> None:
        """Send the bytes before a TLS handshake, if there are any.

        Raises:
            OSError: the peer has gone.
        """

    def open_by(self, source: ConnectionSource, kind: str, host: str, port: int) -> tuple[str, int]:
        """Listen on a socket of `source`, for `host` and `port`; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        listening, self.address = source.listen(kind, host, port, _BACKLOG)
        self.adopt(listening)
        return self.address

    def close(self) -> None:
        """Take no more servers; links that are up are closed by others."""
        Acceptor.close(self)
        if self.own is not None:
            self.own.close()
        self.end_handshakes(ClosedReason.SERVER_SHUTDOWN)

    def end_handshakes(self, reason: ClosedReason) -> None:
        """Close the links that are not up yet."""
        for link in list(self._begun):
            if not link.is_ready:
                link.close(reason)

    def begin(self, link: Link) -> None:
        """Count `link` among those that shake hands."""
        self._begun.add(link)

    def is_full(self) -> bool:
        """Return whether there are as many links, or as many shaking hands, as may be; count it."""
        self._begun = {link for link in self._begun if link.reason is None and not link.is_ready}
        too_many = len(self._begun) >= HANDSHAKES_MAX or len(self._tasks) >= HANDSHAKES_MAX
        if too_many or self.count_links() >= self.broker.options.limits.max_connections:
            self.broker.limit_hits[self._limit] += 1
            return True
        return False

    def _room(self) -> int:
        return _ACCEPTS_PER_TURN

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        if self.is_full():
            accepted.close()
            return
        link = self.make_link(peer)
        link.channel.bare_socket = accepted
        self.begin(link)
        task = asyncio.get_running_loop().create_task(self._connect(accepted, link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, link: Link) -> None:
        """Bring `link` onto the socket, by TLS where that is asked for.

        Nothing cancels this: uvloop drops a transport whose making is cancelled without calling
        `connection_lost`, and a server that stops would wait for it.
        """
        loop = asyncio.get_running_loop()
        protocol = protocol_for(loop, link.channel)
        try:
            if self.tls is not None:
                self.greet(accepted, link)
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


def when_decided(
    link: Link, verdict: Verdict | Awaitable[Verdict], conclude: Callable[[Verdict], None]
) -> None:
    """Call `conclude` with `verdict`, now or once it is there; `link` reads nothing meanwhile.

    A link that has ended by then is left alone.
    """
    if isinstance(verdict, Verdict):
        conclude(verdict)
        return

    def decided(done: asyncio.Future[Verdict]) -> None:
        if link.reason is None and not done.cancelled():
            link.channel.reading.unhalt(AUTHENTICATING)
            conclude(done.result())
            link.channel.resume()

    link.channel.reading.halt(AUTHENTICATING)
    asyncio.ensure_future(verdict).add_done_callback(decided)
