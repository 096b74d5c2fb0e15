"""A server that a route is opened to, and again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from midge.protocol.route_messages import GOSSIP_DEFAULT
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clock import sleep
from midge.server.cluster.link import RouteLink
from midge.server.cluster.side import SolicitedRoute
from midge.server.links.dial import (
    ENDED,
    NO_INFO,
    Attempts,
    attach,
    cause_of,
    dial,
    within,
)
from midge.server.log.logger import get_logger
from midge.server.routing.role import Role

if TYPE_CHECKING:
    import ssl

    from midge.server.cluster.cluster import Cluster
    from midge.server.links.addresses import Address

RECONNECT_S = 1.0
RECONNECT_SPREAD_S = 0.1
"""How long after a failure a server is tried again: so long, and up to so much more."""

GOSSIPED_RETRIES_MIN = 2
"""Least further attempts to reach a server that another one has told of.

nats-server makes `connect_retries` of them, none by default. But a server that has just started is
told of at once, and one that comes back may be, under its old name, before the end of its old route
has been noticed: one attempt in vain, and those two servers would never meet.
"""

_BACKOFF_MAX_S = 30.0
_DIAL_TIMEOUT_S = 1.0

log = get_logger()


class Dialler:
    """Opens a route to `address`; for ever if the settings name it, else a few times.

    `tls` is the context of handshakes; None for none. `is_done` tells that no more is tried, and
    `was_tried` that a first route is up, or could not be.
    """

    def __init__(
        self,
        cluster: Cluster,
        address: Address,
        tls: ssl.SSLContext | None,
        *,
        is_explicit: bool,
        gossip_mode: int = GOSSIP_DEFAULT,
    ) -> None:
        self.address = address
        self.is_explicit = is_explicit
        self.gossip_mode = gossip_mode
        self.is_done = False
        self.was_tried = asyncio.Event()
        self.server_id = ""
        self._cluster = cluster
        self._broker = cluster.broker
        self.tls = tls
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._left = asyncio.Event()
        self._link: RouteLink | None = None
        self._is_told_of_again = False
        self._attempts = Attempts(lambda: cluster.broker.options)

    def start(self) -> None:
        """Connect, and again when that fails or ends."""
        self._task = asyncio.get_running_loop().create_task(self._keep_up())

    async def stop(self, reason: ClosedReason = ClosedReason.SERVER_SHUTDOWN) -> None:
        """Try no more, and close the route."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._link is not None:
            self._link.close(reason)

    def told_again(self) -> None:
        """Record that gossip has named the server again: an attempt under way was too early."""
        self._is_told_of_again = True

    def joined(self) -> None:
        """Record that the route is up."""
        self.was_tried.set()

    def ended(self, link: RouteLink) -> None:
        """Record that the link is gone."""
        if link is self._link:
            self._ended.set()

    def left(self, server_id: str) -> None:
        """Record that the route to a server is gone, whichever of the two has opened it."""
        if server_id == self.server_id:
            self._left.set()

    async def _keep_up(self) -> None:
        failures = 0
        while True:
            self._is_told_of_again = False
            is_up = await self._attempt()
            self.was_tried.set()
            failures = 0 if is_up or self._is_told_of_again else failures + 1
            if self.server_id == self._cluster.server_id:
                break  # it is this server itself
            retries = max(self._broker.options.cluster.connect_retries, GOSSIPED_RETRIES_MIN)
            if not self.is_explicit and failures > retries:
                break
            if self.server_id in self._cluster.routes:  # which that server has opened
                self._left.clear()
                await self._left.wait()
            await sleep(self._broker.clock, self._delay_s(failures))
        self.is_done = True

    def _delay_s(self, failures: int) -> float:
        """Return how long to wait before the next attempt."""
        delay_s = RECONNECT_S
        if self._broker.options.cluster.connect_backoff:
            delay_s = min(RECONNECT_S * 2.0 ** min(max(failures - 1, 0), 8), _BACKOFF_MAX_S)
        return delay_s + self._broker.random.random() * RECONNECT_SPREAD_S

    async def _attempt(self) -> bool:
        """Keep a route up while it lasts; tell whether there was one."""
        side = SolicitedRoute(self._cluster, self)
        self._ended.clear()
        try:
            await self._connect(side)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            self._failed(cause_of(error))
            self._link = None
            return False
        await self._ended.wait()
        self._link = None
        self.server_id = side.found_id or self.server_id
        is_up = bool(side.info.server_id)
        if side.failure or not side.found_id:
            self._failed(side.failure or (ENDED if side.found_id or self.tls else NO_INFO))
        elif is_up:
            self._attempts.succeeded()
        return is_up

    def _failed(self, cause: str) -> None:
        """Log a failed attempt, if it is one of those that are logged."""
        remote, is_reported = str(self.address), self._attempts.is_reported(cause)
        count = self._attempts.count
        if is_reported:
            log.error("route_connect_failed", remote=remote, attempt=count, error=cause)
        else:
            log.debug("route_connect_failed", remote=remote, attempt=count, error=cause)

    async def _connect(self, side: SolicitedRoute) -> None:
        """Bring a route up as far as a transport."""
        loop = asyncio.get_running_loop()
        async with within(_DIAL_TIMEOUT_S, "no answer to the connection attempt"):
            bare = await dial(loop, self.address.host, self.address.port)
        peer = bare.getpeername()[:2]
        link = RouteLink(
            self._broker,
            self._broker.take_cid(),
            (peer[0], peer[1]),
            side,
            Role.ROUTE,
            self._cluster.ping_interval_s(),
        )
        self._link = link
        timeout_s = self._broker.options.cluster.tls.timeout_s
        try:
            await attach(link, bare, self.address.host, self.tls, timeout_s)
        except BaseException:
            self._link = None
            raise
