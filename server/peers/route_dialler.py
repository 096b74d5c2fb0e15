"""The end of a route that this server has opened, and the attempts to open it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET

from midge.protocol import errors
from midge.protocol.route_messages import GOSSIP_DEFAULT, RouteConnect, RouteInfo
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clock import sleep
from midge.server.peers.dial import ENDED, NO_INFO, Dialler, attach, dial
from midge.server.peers.link import Link
from midge.server.peers.route import route_link
from midge.server.peers.route_end import RouteEnd

if TYPE_CHECKING:
    import ssl

    from midge.server.peers.cluster import Cluster
    from midge.server.peers.dial import Address, Place

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
_INFO_TIMEOUT_S = 2.0


class RouteDialler(Dialler):
    """Opens a route to `address`; for ever if the settings name it, else a few times.

    The route is the one at `place`. Only the one at place 0 is opened by itself. The others of a
    pool are begun when that is up, and are tried while there is any route to the server.

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
        place: Place = 0,
    ) -> None:
        Dialler.__init__(self, cluster.broker, address)
        self.is_explicit = is_explicit
        self.gossip_mode = gossip_mode
        self.place = place
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
            if self.place:
                if self.server_id not in self._cluster.routes:
                    break
            elif not self.is_explicit and failures > retries:
                break
            if (self.server_id, self.place) in self._cluster.links:  # which that server has opened
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
        link = route_link(self.broker, cid, (peer[0], peer[1]), end, interval_s)
        self.link = link
        await attach(link, bare, host, self.tls, self.broker.options.cluster.tls.timeout_s)


class SolicitedRoute(RouteEnd):
    """This end of a route that `dialler` has opened; `failure` says why it is refused."""

    def __init__(self, cluster: Cluster, dialler: RouteDialler) -> None:
        explicit, gossip_mode = dialler.is_explicit, dialler.gossip_mode
        RouteEnd.__init__(self, cluster, dialler, is_explicit=explicit, gossip_mode=gossip_mode)
        self.place = dialler.place
        self._address = dialler.address
        self.found_id = ""
        self.was_introduced = False

    def opened(self, link: Link) -> None:
        """Wait for INFO."""
        RouteEnd.opened(self, link)
        if link.reason is None:
            self.wait(link, _INFO_TIMEOUT_S, detail=NO_INFO)

    def compresses(self, link: Link, info: RouteInfo) -> bool:
        """Return False: `first_info` agrees on compression, between CONNECT and INFO."""
        return False

    def takes_failure(self, error: str) -> bool:
        """Return True until the route is up, and for a refusal, which comes after that."""
        if errors.AUTHORIZATION_VIOLATION in error:
            self.is_done = False
        return RouteEnd.takes_failure(self, error)

    def first_info(self, link: Link, info: RouteInfo) -> None:
        """Introduce this server, and register the other one."""
        self.found_id = info.server_id
        cluster = self.cluster
        if not info.server_id or info.client_id is not UNSET:
            detail = "attempted to connect to wrong port: its INFO is not that of a route port"
            self.fail(link, None, ClosedReason.WRONG_PORT, detail)
            return
        if self.was_introduced:
            link.send(self.own_info().line())
            self._join(link, info)
            return
        if not self.admit(link, info):
            return
        name, is_dynamic = info.cluster or "", info.cluster_dynamic is True
        refused = cluster.refuses_name(name, is_dynamic=is_dynamic, server_id=info.server_id)
        address = self._address
        own = self.broker.options.cluster.authorization
        user, password = address.user, address.password
        if not user:
            user, password = own.user, own.password
        connect = RouteConnect(
            user=user or UNSET,
            password=password or UNSET,
            tls_required=self.broker.options.cluster.tls.enabled,
            headers=self.broker.options.limits.header_support,
            name=cluster.server_id,
            cluster=cluster.name,
            cluster_dynamic=True if cluster.is_dynamic else UNSET,
            lnoc=True,
            lnocu=True,
        )
        link.send(connect.line())
        if refused and not is_dynamic:
            # As nats-server does: with CONNECT the other server can tell its log why.
            detail = f"cluster name {errors.quote(name.encode())} does not match"
            self.fail(link, None, ClosedReason.CLUSTER_NAME_CONFLICT, detail)
            return
        self.was_introduced = True
        is_compressed = RouteEnd.compresses(self, link, info)
        link.send(self.own_info().line())
        if is_compressed:  # another INFO is to come
            self.compression.begin(link)
            return
        self._join(link, info)

    def _join(self, link: Link, info: RouteInfo) -> None:
        self.take_part(link, info)
        self.is_done = True
        if self.dialler is not None:
            self.dialler.joined()
