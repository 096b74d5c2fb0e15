"""Keeping up the links that this server opens: the attempts, their reports, and the waits between.

A server that cannot be reached is tried again and again. `Attempts` decides which failures are
logged. dial.py has the sockets, and the ends of links have the handshakes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.protocol.leaf_messages import LeafInfo, parse_leaf_info
from midge.protocol.route_messages import GOSSIP_DEFAULT
from midge.server.auth.client_tls import build_client_context
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clock import sleep
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.log.logger import get_logger
from midge.server.peers.dial import (
    ENDED,
    NO_INFO,
    Address,
    attach,
    cause_of,
    dial,
    parse_leaf_address,
    read_line,
    within,
)

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Mapping

    from midge.server.broker.broker import Broker
    from midge.server.config.leafnodes import LeafRemote
    from midge.server.config.options import Options
    from midge.server.listeners.websocket.client import WebSocketClient
    from midge.server.peers.dial import Place
    from midge.server.peers.link import Link

RECONNECT_S = 1.0
RECONNECT_SPREAD_S = 0.1
"""How long after a failure a route is tried again: so long, and up to so much more."""

GOSSIPED_RETRIES_MIN = 2
"""Least further attempts to reach a server that another one has announced.

nats-server makes `connect_retries` of them, none by default. But a server that has just started is
announced at once, and a returning server possibly before the end of its old route has been noticed:
after a single failed attempt these two servers would never meet.
"""

_BACKOFF_MAX_S = 30.0
_DIAL_TIMEOUT_S = 1.0

_CAUSES_MAX = 16
"""Most different causes of one row of failures that are logged; a few addresses have a few each."""

_DISCOVERED_MAX = 256
"""Most addresses taken from a hub's INFO; a cluster has a handful of servers."""

log = get_logger()


class Attempts:
    """The failed attempts in a row to reach one server, and which of them are logged.

    As on nats-server, every `connect_error_reports`-th failure is logged before the link has first
    come up, and every `reconnect_error_reports`-th after that. Each cause is logged the first time
    as well.
    """

    def __init__(self, options: Callable[[], Options]) -> None:
        self.count = 0
        self._options = options
        self._causes: set[str] = set()
        self._was_up = False

    def succeeded(self) -> None:
        """Begin a new row: the link is up."""
        self.count = 0
        self._causes.clear()
        self._was_up = True

    def is_reported(self, cause: str) -> bool:
        """Count a failure; return whether to log it as an error."""
        self.count += 1
        is_new = cause not in self._causes and len(self._causes) < _CAUSES_MAX
        if is_new:
            self._causes.add(cause)
        table = self._options().logging
        every = table.reconnect_error_reports if self._was_up else table.connect_error_reports
        return is_new or self.count % every == 0


class Dialler:
    """Keeps up a link to the server at `address`, from `start` to `stop`.

    `make_end` returns an end for the next attempt. `failed_event` is the name of a failure in the
    log.
    """

    failed_event = ""

    def __init__(self, broker: Broker, address: Address, make_end: Callable[[Any], Any]) -> None:
        self.address = address
        self.broker = broker
        self.attempts = Attempts(lambda: broker.options)
        self.link: Link | None = None
        self._make_end = make_end
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and again when that fails or ends."""
        self._task = asyncio.get_running_loop().create_task(self._keep_up())

    async def stop(self, reason: ClosedReason = ClosedReason.SERVER_SHUTDOWN) -> None:
        """Try no more, and close the link."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self.link is not None:
            self.link.close(reason)

    def joined(self) -> None:
        """Record that the link is up."""
        raise NotImplementedError

    def ended(self, link: Link) -> None:
        """Record that the link is gone."""
        if link is self.link:
            self._ended.set()

    async def connect(self, end: Any) -> None:
        """Bring a link with this `end` up as far as a transport."""
        raise NotImplementedError

    async def delay_after_s(self, end: Any) -> float | None:
        """Return how long to wait after an attempt; None: it was the last one.

        `end` is the end of the last link, and None if that had no transport.
        """
        raise NotImplementedError

    async def _keep_up(self) -> None:
        """Make one attempt after the other."""
        while (delay_s := await self.delay_after_s(await self._attempt())) is not None:
            await sleep(self.broker.clock, delay_s)

    async def _attempt(self) -> Any:
        """Keep a link up while it lasts; return its end, or None where it has had no transport."""
        self._ended.clear()
        end = self._make_end(self)
        try:
            await self.connect(end)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            self.failed(cause_of(error))
            if self.link is not None:
                self.link.close(ClosedReason.CLIENT_CLOSED)
                self.link = None
            return None
        await self._ended.wait()
        self.link = None
        return end

    def failed(self, cause: str) -> None:
        """Log a failed attempt, if it is one of those that are logged."""
        remote, is_reported = str(self.address), self.attempts.is_reported(cause)
        count = self.attempts.count
        if is_reported:
            log.error(self.failed_event, remote=remote, attempt=count, error=cause)
        else:
            log.debug(self.failed_event, remote=remote, attempt=count, error=cause)


class RouteDialler(Dialler):
    """Opens a route to `address`; for ever if the settings name it, else a few times.

    `links` has the routes that are up, by server id and place. This route is the one at `place`.
    Only the one at place 0 is opened by itself. The others of a pool are begun when that is up, and
    are tried while there is any route to the server.

    `tls` is the context of handshakes; None for none. `is_done` is True when there will be no
    further attempt, and `was_tried` when the first attempt has succeeded or failed.
    """

    failed_event = "route_connect_failed"

    def __init__(
        self,
        broker: Broker,
        links: Mapping[tuple[str, Place], Link],
        address: Address,
        tls: ssl.SSLContext | None,
        make_end: Callable[[RouteDialler], Any],
        *,
        is_explicit: bool,
        gossip_mode: int = GOSSIP_DEFAULT,
        place: Place = 0,
    ) -> None:
        Dialler.__init__(self, broker, address, make_end)
        self.is_explicit = is_explicit
        self.gossip_mode = gossip_mode
        self.place = place
        self.is_done = False
        self.was_tried = asyncio.Event()
        self.server_id = ""
        self.tls = tls
        self._links = links
        self._failures = 0
        self._left = asyncio.Event()
        self._is_announced_again = False

    def announced_again(self) -> None:
        """Record that gossip has named the server again: an attempt under way was too early."""
        self._is_announced_again = True

    def joined(self) -> None:
        """Record that the route is up."""
        self.was_tried.set()

    def left(self, server_id: str) -> None:
        """Record that the route to a server is gone, whichever of the two has opened it."""
        if server_id == self.server_id:
            self._left.set()

    async def connect(self, end: Any) -> None:
        """Bring a route up as far as a transport."""
        self._is_announced_again = False
        host, port = self.address.host, self.address.port
        bare = await dial(asyncio.get_running_loop(), host, port, _DIAL_TIMEOUT_S)
        link = self.link = end.link_to(bare.getpeername()[:2])
        await attach(link, bare, host, self.tls, self.broker.options.cluster.tls.timeout_s)

    async def delay_after_s(self, end: Any) -> float | None:
        """Wait while the other server's route is up; None if this server needs no other attempt."""
        is_up = end is not None and self._was_up(end)
        self.was_tried.set()
        self._failures = 0 if is_up or self._is_announced_again else self._failures + 1
        if not self._is_worth_another():
            self.is_done = True
            return None
        if (self.server_id, self.place) in self._links:  # which that server has opened
            self._left.clear()
            await self._left.wait()
        delay_s = RECONNECT_S
        if self.broker.options.cluster.connect_backoff:
            delay_s = min(RECONNECT_S * 2.0 ** min(max(self._failures - 1, 0), 8), _BACKOFF_MAX_S)
        return delay_s + self.broker.random.random() * RECONNECT_SPREAD_S

    def _was_up(self, end: Any) -> bool:
        """Return whether the route of `end` has been up; report why not."""
        self.server_id = end.found_id or self.server_id
        is_up = bool(end.info.server_id)
        if end.failure or not end.found_id:
            self.failed(end.failure or (ENDED if end.found_id or self.tls else NO_INFO))
        elif is_up:
            self.attempts.succeeded()
        return is_up

    def _is_worth_another(self) -> bool:
        """Return whether to try again: not at this server itself, and at others for their time."""
        if self.server_id == self.broker.keys.server_id:
            return False
        if self.place:
            return any(server_id == self.server_id for server_id, _ in self._links)
        retries = max(self.broker.options.cluster.connect_retries, GOSSIPED_RETRIES_MIN)
        return self.is_explicit or self._failures <= retries


class LeafDialler(Dialler):
    """Keeps up the link to the hub that `table` describes, for ever, at each address in turn."""

    failed_event = "leafnode_connect_failed"

    def __init__(
        self, broker: Broker, table: LeafRemote, make_end: Callable[[LeafDialler], Any]
    ) -> None:
        """Read the addresses.

        Raises:
            ValueError: one of them is invalid.
        """
        self._configured = [parse_leaf_address(url) for url in table.urls]
        if not table.no_randomize:
            broker.random.shuffle(self._configured)
        Dialler.__init__(self, broker, self._configured[0], make_end)
        self.table = table
        self._addresses = list(self._configured)
        self._is_anonymous = False  # whether it speaks TLS and has no certificate

    def take(self, table: LeafRemote) -> bool:
        """Go by `table` from the next connection on; False: it describes another link."""
        if structs.replace(table, tls=self.table.tls) != self.table:
            return False
        self.table = table
        return True

    # Events of its link.

    def joined(self) -> None:
        """Record that the link is up."""
        self.attempts.succeeded()

    def discovered(self, info: LeafInfo) -> None:
        """Take over the addresses of the hub's cluster."""
        is_websocket = self.address.path is not None
        urls = info.ws_connect_urls if is_websocket else info.leafnode_urls
        if self.table.ignore_discovered_servers or not isinstance(urls, tuple):
            return
        known = {(one.host, one.port) for one in self._configured}
        self._addresses = list(self._configured)
        for url in urls[:_DISCOVERED_MAX]:
            with contextlib.suppress(ValueError):
                found = parse_leaf_address(url)
                if (found.host, found.port) not in known:
                    known.add((found.host, found.port))
                    self._addresses.append(self.address._replace(host=found.host, port=found.port))

    # Dialling.

    async def delay_after_s(self, end: Any) -> float:
        """Return the delay by the settings, or by the last link's end; the next address follows."""
        if end is not None and not end.is_done:
            self.failed(end.failure or ENDED)
        self._next_address()
        delay_s = self.broker.options.leafnodes.reconnect_s
        if end is None:
            return delay_s * (1 + self.broker.random.random())
        retry_delay_s: float = end.retry_delay_s
        return retry_delay_s or delay_s

    def _next_address(self) -> None:
        """Move on to the address that was tried longest ago."""
        following = 0
        if self.address in self._addresses:
            following = (self._addresses.index(self.address) + 1) % len(self._addresses)
        self.address = self._addresses[following]

    def failed(self, cause: str) -> None:
        """Log a failed attempt, if it is one of those that are logged."""
        if cause == ENDED and self._is_anonymous:
            cause += "; it may require a client certificate"
        Dialler.failed(self, cause)

    async def connect(self, end: Any) -> None:
        """Bring a link up as far as a transport."""
        loop = asyncio.get_running_loop()
        table, address = self.table, self.address
        name = table.account or GLOBAL_ACCOUNT
        await self.broker.admission.make_known(name)
        bare, peer = await self._dial(loop)
        try:
            first = b""
            if not table.tls.handshake_first and address.path is None:
                async with within(table.first_info_timeout_s, NO_INFO):
                    first = await read_line(loop, bare)
            context = self._tls_context(first)
            self._is_anonymous = context is not None and not table.tls.cert_file
        except BaseException:
            bare.close()
            raise
        link = self.link = end.link_to(peer)
        link.account = self.broker.account(name)
        upgrade, limit_s = self._upgrade_for(link), table.first_info_timeout_s
        await attach(link, bare, address.host, context, table.tls.timeout_s, upgrade, limit_s)
        if first:
            link.channel.feed(first)

    async def _dial(self, loop: asyncio.AbstractEventLoop) -> tuple[socket.socket, tuple[str, int]]:
        """Connect a socket to the address; return it, and to which host and port it is."""
        table, address, proxy = self.table, self.address, self.table.proxy
        if not proxy.url:
            bare = await dial(loop, address.host, address.port, table.dial_timeout_s)
            host, port = bare.getpeername()[:2]
            return bare, (host, port)
        # Few remotes are behind one.
        from midge.server.peers.proxy import dial_through  # noqa: PLC0415

        return await dial_through(proxy, address, proxy.timeout_s or table.dial_timeout_s, loop)

    def _upgrade_for(self, link: Link) -> WebSocketClient | None:
        """Return what makes a WebSocket of the connection, where the URL asks for one."""
        address, table = self.address, self.table
        if address.path is None:
            return None
        # Only links of this kind pay for importing it.
        from midge.server.listeners.websocket.client import (  # noqa: PLC0415
            WebSocketClient,
        )

        return WebSocketClient(
            link,
            str(address),
            address.path,
            compress=table.ws_compression,
            no_masking=table.ws_no_masking,
        )

    def _tls_context(self, first_line: bytes) -> ssl.SSLContext | None:
        """Return the context for the handshake, if there is to be one."""
        tls = self.table.tls
        wanted = tls.required or tls.handshake_first or self.address.is_encrypted
        if not wanted and first_line.startswith(b"INFO "):
            wanted = parse_leaf_info(first_line[5:]).tls_required is True
        return build_client_context(tls) if wanted else None
