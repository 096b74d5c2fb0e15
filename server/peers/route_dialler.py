"""A server that a route is opened to, and again when it is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from midge.protocol.route_messages import GOSSIP_DEFAULT
from midge.server.clock import sleep
from midge.server.peers.dial import ENDED, NO_INFO, Dialler, attach, dial
from midge.server.peers.route import RouteLink
from midge.server.peers.route_end import SolicitedRoute

if TYPE_CHECKING:
    import ssl

    from midge.server.peers.addresses import Address
    from midge.server.peers.cluster import Cluster

RECONNECT_S = 1.0
RECONNECT_SPREAD_S = 0.1
"""How long after a failure a server is tried again: so long, and up to so much more."""

GOSSIPED_RETRIES_MIN = 2
"""Least further attempts to reach a server that another one has announced.

nats-server makes `connect_retries` of them, none by default. But a server that has just started is
announced at once, and a returning server possibly before the end of its old route has been noticed:
after a single failed attempt these two servers would never meet.
"""

_BACKOFF_MAX_S = 30.0
_DIAL_TIMEOUT_S = 1.0


class RouteDialler(Dialler):
    """Opens a route to `address`; for ever if the settings name it, else a few times.

    `tls` is the context of handshakes; None for none. `is_done` is True when there will be no
    further attempt, and `was_tried` when the first attempt has succeeded or failed.
    """

    failed_event = "route_connect_failed"

    def __init__(
        self,
        cluster: Cluster,
        address: Address,
        tls: ssl.SSLContext | None,
        *,
        is_explicit: bool,
        gossip_mode: int = GOSSIP_DEFAULT,
    ) -> None:
        Dialler.__init__(self, cluster.broker, address)
        self.is_explicit = is_explicit
        self.gossip_mode = gossip_mode
        self.is_done = False
        self.was_tried = asyncio.Event()
        self.server_id = ""
        self.tls = tls
        self._cluster = cluster
        self._left = asyncio.Event()
        self._is_told_of_again = False

    def told_again(self) -> None:
        """Record that gossip has named the server again: an attempt under way was too early."""
        self._is_told_of_again = True

    def joined(self) -> None:
        """Record that the route is up."""
        self.was_tried.set()

    def left(self, server_id: str) -> None:
        """Record that the route to a server is gone, whichever of the two has opened it."""
        if server_id == self.server_id:
            self._left.set()

    async def keep_up(self) -> None:
        """Make one attempt after the other, until the server is not worth another one."""
        failures = 0
        while True:
            self._is_told_of_again = False
            is_up = await self._attempt()
            self.was_tried.set()
            failures = 0 if is_up or self._is_told_of_again else failures + 1
            if self.server_id == self._cluster.server_id:
                break  # it is this server itself
            retries = max(self.broker.options.cluster.connect_retries, GOSSIPED_RETRIES_MIN)
            if not self.is_explicit and failures > retries:
                break
            if self.server_id in self._cluster.routes:  # which that server has opened
                self._left.clear()
                await self._left.wait()
            await sleep(self.broker.clock, self._delay_s(failures))
        self.is_done = True

    def _delay_s(self, failures: int) -> float:
        """Return how long to wait before the next attempt."""
        delay_s = RECONNECT_S
        if self.broker.options.cluster.connect_backoff:
            delay_s = min(RECONNECT_S * 2.0 ** min(max(failures - 1, 0), 8), _BACKOFF_MAX_S)
        return delay_s + self.broker.random.random() * RECONNECT_SPREAD_S

    async def _attempt(self) -> bool:
        """Keep a route up while it lasts; tell whether there was one."""
        end = SolicitedRoute(self._cluster, self)
        if not await self.attempt(end):
            return False
        self.server_id = end.found_id or self.server_id
        is_up = bool(end.info.server_id)
        if end.failure or not end.found_id:
            self.failed(end.failure or (ENDED if end.found_id or self.tls else NO_INFO))
        elif is_up:
            self.attempts.succeeded()
        return is_up

    async def connect(self, end: SolicitedRoute) -> None:
        """Bring a route up as far as a transport."""
        host, port = self.address.host, self.address.port
        bare = await dial(asyncio.get_running_loop(), host, port, _DIAL_TIMEOUT_S)
        peer = bare.getpeername()[:2]
        cid, interval_s = self.broker.take_cid(), self._cluster.ping_interval_s()
        link = RouteLink(self.broker, cid, (peer[0], peer[1]), end, interval_s)
        self.link = link
        await attach(link, bare, host, self.tls, self.broker.options.cluster.tls.timeout_s)
