"""A port that other servers connect to: accepts them, within bounds, and has them checked."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from midge.server.auth import Verdict
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.loop_adapter import forget, protocol_for
from midge.server.channels.reading import AUTHENTICATING
from midge.server.listeners.accepting import Acceptor
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sized

    from midge.server.auth.authenticator import Authenticator
    from midge.server.broker.broker import Broker
    from midge.server.clock import Clock
    from midge.server.config.options import Options
    from midge.server.listeners.connection_source import ConnectionSource
    from midge.server.peers.link import Link

HANDSHAKES_MAX = 256
"""Most servers that may be shaking hands at a time; each holds a task and a socket."""

REFUSAL_DELAY_S = 1.0
"""How long a server waits for INFO after a refusal, because nats-server 2.15.1 connects again at
once, 1,400 times a second on loopback. It does not wait for -ERR instead: nats-server registers a
route by INFO, and would close a good route from here as its duplicate until then."""

_REFUSED_MAX = 1024
_ACCEPTS_PER_TURN = 16
_BACKLOG = 1024

log = get_logger()


class Refusals:
    """The hosts whose servers have been refused in the last second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: dict[str, float] = {}

    def add(self, host: str) -> None:
        """Note that a server of `host` has been refused."""
        if len(self._at) >= _REFUSED_MAX:
            self._at.clear()
        self._at[host] = self._clock.monotonic()

    def delay_s(self, host: str) -> float:
        """Return how long a new connection from `host` has to wait for INFO."""
        at = self._at.get(host)
        if at is None:
            return 0.0
        left_s = at + REFUSAL_DELAY_S - self._clock.monotonic()
        if left_s <= 0:
            del self._at[host]
        return max(left_s, 0.0)


class PortRules(NamedTuple):
    """The rules of a port: its users, None without any of its own, and the context of handshakes.

    That is None without TLS, and `tls_timeout_s` the time for a handshake. With `has_proxies`,
    connections of proxies begin with a header.
    """

    users: Authenticator | None
    tls: ssl.SSLContext | None
    tls_timeout_s: float
    has_proxies: bool = False


class LinkListener(Acceptor):
    """A port for other servers. `limit` is the counter of connections beyond the limits.

    `read` returns the rules for the port by the options, or raises ConfigError. `make_link` returns
    the link of a server that has just connected, and `links` has those that are up.
    """

    def __init__(
        self,
        broker: Broker,
        limit: str,
        read: Callable[[Options], PortRules],
        make_link: Callable[[tuple[str, int]], Link],
        links: Sized,
    ) -> None:
        """Read the settings.

        Raises:
            ConfigError: they cannot be.
        """
        Acceptor.__init__(self, broker.clock)
        self.broker = broker
        self.rules = read(broker.options)
        self._links = links
        self._limit = limit
        self._read = read
        self._make_link = make_link
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: set[Link] = set()

    def prepare(self, options: Options) -> Callable[[], None]:
        """Read the rules by `options`; return what puts them in force.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        return partial(self._check_by, self._read(options))

    def _check_by(self, rules: PortRules) -> None:
        """Check servers that connect from now on by `rules`."""
        if self.rules.users is not None:
            self.rules.users.close()
        self.rules = rules

    def open_by(self, source: ConnectionSource, kind: str, host: str, port: int) -> tuple[str, int]:
        """Listen on a socket of `source`, for `host` and `port`; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        listening, address = source.listen(kind, host, port, _BACKLOG)
        self.adopt(listening)
        return address

    def close(self) -> None:
        """Take no more servers; links that are up are closed by others."""
        Acceptor.close(self)
        if self.rules.users is not None:
            self.rules.users.close()
        self.end_handshakes(ClosedReason.SERVER_SHUTDOWN)

    def end_handshakes(self, reason: ClosedReason) -> None:
        """Close the links that are not up yet."""
        for link in list(self._begun):
            if not link.is_ready:
                link.close(reason)

    def take(self, link: Link) -> None:
        """Count a link that another listener has accepted; where too many are, it ends at once."""
        if self._is_full():
            reason = ClosedReason.MAXIMUM_CONNECTIONS
            asyncio.get_running_loop().call_soon(link.close, reason)
        self._begun.add(link)

    def _is_full(self) -> bool:
        """Return whether there are as many links, or as many shaking hands, as may be; count it."""
        self._begun = {link for link in self._begun if link.reason is None and not link.is_ready}
        too_many = len(self._begun) >= HANDSHAKES_MAX or len(self._tasks) >= HANDSHAKES_MAX
        if too_many or len(self._links) >= self.broker.options.limits.max_connections:
            self.broker.limit_hits[self._limit] += 1
            return True
        return False

    def _room(self) -> int:
        return _ACCEPTS_PER_TURN

    def _options_of_proxies(self) -> Options | None:
        return self.broker.options if self.rules.has_proxies else None

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        if self._is_full():
            accepted.close()
            return
        link = self._make_link(peer)
        link.channel.bare_socket = accepted
        self._begun.add(link)
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
        tls, timeout_s = self.rules.tls, self.rules.tls_timeout_s
        try:
            if tls is not None and (greeting := link.end.greeting(link)):
                accepted.send(greeting)
            await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=(timeout_s or None) if tls else None,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            error.__traceback__ = None
            forget(protocol)
            accepted.close()
            text = str(error) or type(error).__name__
            log.error("tls_handshake_failed", cid=link.cid, peer=link.peer, error=text)
            link.close(ClosedReason.TLS_HANDSHAKE_FAILURE)
            link.channel.dispose()


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
