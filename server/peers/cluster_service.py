"""The cluster of a server as it starts and stops: the port, and the servers it connects to."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.protocol.route_messages import GOSSIP_DEFAULT, RouteInfo
from midge.server.auth import Identity, Refusal
from midge.server.auth.authenticator import Authenticator
from midge.server.auth.client_tls import build_client_context
from midge.server.channels.closed_reason import ClosedReason
from midge.server.config.leafnodes import LeafRemoteTls
from midge.server.config.options import Authorization, Options
from midge.server.errors import ConfigError
from midge.server.listeners.tls import build_server_context
from midge.server.log.logger import get_logger
from midge.server.peers.cluster import Cluster
from midge.server.peers.dial import Address, Diallers, parse_route_address
from midge.server.peers.listener import LinkListener
from midge.server.peers.route import route_link
from midge.server.peers.route_dialler import RouteDialler
from midge.server.peers.route_end import AcceptedRoute
from midge.server.peers.rules import RouteInterestRules

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable

    from midge.server.auth import AuthRequest, Verdict
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.config.cluster import Cluster as Table
    from midge.server.listeners.connection_source import ConnectionSource
    from midge.server.peers.dial import Place
    from midge.server.peers.ledger import Ledger
    from midge.server.peers.link import Link

GOSSIPED_MAX = 256
"""Most announced servers that are connected to at a time."""

_TOLD_AT_ONCE = 500  # clients that get INFO in one turn
_STARTED_AT_ONCE = 4  # connections to announced servers that are begun in one turn

log = get_logger()


class RouteListener(LinkListener):
    """The port that the other servers of the cluster connect to."""

    def __init__(self, cluster: Cluster) -> None:
        """Read the settings.

        Raises:
            ConfigError: they cannot be.
        """
        LinkListener.__init__(self, cluster.broker, "route_connections")
        self._cluster = cluster
        self.prepare(cluster.broker.options.cluster)()

    def prepare(self, table: Table) -> Callable[[], None]:
        """Read the user and the certificates of `table`; return what puts them in force.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        own: Authenticator | None = None
        login = table.authorization
        if login.user:
            users = Options(authorization=Authorization(user=login.user, password=login.password))
            own = Authenticator(users)
        tls = server_context(table) if table.tls.enabled else None
        return partial(self.check_by, own, tls, table.tls.timeout_s)

    @property
    def authenticate(self) -> Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None:
        """The check of a connecting server's credentials; None where any server may connect."""
        table = self._cluster.broker.options.cluster
        if table.check_known_urls or table.tls.verify_and_map:
            return self._by_certificate
        return None if self.own is None else self.own.authenticate

    def _by_certificate(self, request: AuthRequest) -> Verdict:
        """Admit a server whose certificate names a host of `routes`, or the cluster's user."""
        from midge.server.auth.certificates import (  # noqa: PLC0415 - large
            names_host,
            read_names,
        )

        table = self._cluster.broker.options.cluster
        hosts = [parse_route_address(url).host for url in table.routes]
        if table.check_known_urls and names_host(request.certificate, hosts):
            return Identity()
        names = read_names(request.certificate) if table.tls.verify_and_map else None
        if names is not None and table.authorization.user in names.alternatives:
            return Identity()
        return Refusal("no name in the certificate is known")

    def make_link(self, peer: tuple[str, int]) -> Link:
        """Return a route for a server at `peer` that has just connected."""
        side = AcceptedRoute(self._cluster, self.authenticate)
        cid, interval_s = self.broker.take_cid(), self._cluster.ping_interval_s()
        return route_link(self.broker, cid, peer, side, interval_s)

    def count_links(self) -> int:
        """Count the routes that are up."""
        return len(self._cluster.links)


class ClusterService:
    """The routes of `broker`, as its options describe them."""

    def __init__(self, broker: Broker, ledger: Ledger) -> None:
        self.cluster = Cluster(broker, ledger)
        self.cluster.discovered = self._discovered
        self.cluster.joined = self._joined
        self.cluster.left = self._left
        self.cluster.urls_changed = self._urls_changed
        self._broker = broker
        self._diallers = Diallers()
        self._told_of: deque[RouteDialler] = deque()
        self._listener: RouteListener | None = None
        self._client_tls: ssl.SSLContext | None = None
        self.neighbours_changed: Callable[[Cluster], object] = _nothing
        self._is_stopping = False
        self._is_telling = False

    def start(self, source: ConnectionSource) -> None:
        """Take servers at `source`, connect to those in the settings and stay connected.

        Raises:
            OSError: the address cannot be bound.
            ConfigError: the settings name what cannot be.
        """
        table = self._broker.options.cluster
        listener = RouteListener(self.cluster)
        if table.tls.enabled:
            self._client_tls = client_context(table)
        listener.open_by(source, "cluster", table.host, table.port)
        self._listener = listener
        self.cluster.address = listener.address
        host, port = listener.address
        log.info("route_listener_started", address=f"{host}:{port}", cluster=self.cluster.name)
        self._broker.cluster = self.cluster
        self.neighbours_changed(self.cluster)
        for url in table.routes:
            self._begin(parse_route_address(url), is_explicit=True)

    def _begin(
        self,
        address: Address,
        *,
        is_explicit: bool,
        gossip_mode: int = GOSSIP_DEFAULT,
        place: Place = 0,
    ) -> RouteDialler:
        dialler = RouteDialler(
            self.cluster,
            address,
            self._client_tls,
            is_explicit=is_explicit,
            gossip_mode=gossip_mode,
            place=place,
        )
        self._diallers.append(dialler)
        if is_explicit or place:
            dialler.start()
            return dialler
        self._told_of.append(dialler)
        if len(self._told_of) == 1:
            asyncio.get_running_loop().call_soon(self._start_told_of)
        return dialler

    def _start_told_of(self) -> None:
        """Connect to announced servers, to some now and to the rest in later turns."""
        for _ in range(min(len(self._told_of), _STARTED_AT_ONCE)):
            self._told_of.popleft().start()
        if self._told_of:
            asyncio.get_running_loop().call_soon(self._start_told_of)

    async def tried(self) -> None:
        """Return when each server that is known has been connected to once, or could not be."""
        while waiting := [one for one in self._live() if not one.was_tried.is_set()]:
            await waiting[0].was_tried.wait()

    @property
    def address(self) -> tuple[str, int] | None:
        """Where other servers connect; None where they do not."""
        return None if self._listener is None else self._listener.address

    async def stop(self) -> None:
        """Connect no more, and close the routes."""
        self._is_stopping = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._told_of.clear()
        await self._diallers.stop()
        self.cluster.close()
        self._broker.cluster = None

    # Changes while serving.

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check `options` and return what puts them in force, once they are the broker's.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        before, table = self._broker.options.cluster, options.cluster
        addresses = [_address_of(index, url) for index, url in enumerate(table.routes)]
        telling = RouteInterestRules(self._broker, table.permissions)
        client_tls = client_context(table) if table.tls.enabled else None
        renew_port = None if self._listener is None else self._listener.prepare(table)

        def put_in_force() -> None:
            if renew_port is not None:
                renew_port()
            self._client_tls = client_tls
            self.cluster.telling = telling
            self.cluster.rename(table.name)
            self.neighbours_changed(self.cluster)
            self._follow(addresses)
            self._renew_routes(before, table)

        return put_in_force

    def _follow(self, addresses: list[Address]) -> None:
        """Keep the routes that are still named, end the others, and begin those that are new."""
        kept = set(addresses)
        for dialler in list(self._live()):
            dialler.tls = self._client_tls
            if not dialler.is_explicit:
                continue
            if dialler.address in kept:
                if not dialler.place:
                    addresses.remove(dialler.address)
                continue
            log.info("route_removed", remote=str(dialler.address))
            for known in self.cluster.links_to(dialler.server_id):
                known.close(ClosedReason.ROUTE_REMOVED)
            self._diallers.end(dialler, ClosedReason.ROUTE_REMOVED)
        for address in addresses:
            self._begin(address, is_explicit=True)

    def _renew_routes(self, before: Table, table: Table) -> None:
        """Apply `table` to the routes that are up, and send the changes to the other servers.

        A server that was just connecting comes again: it has INFO by the settings before.
        """
        if before != table and self._listener is not None:
            self._listener.end_handshakes(ClosedReason.ROUTE_REMOVED)
        if (before.pool_size, before.accounts) != (table.pool_size, table.accounts):
            for one in [one for one in self._live() if one.place]:
                self._diallers.end(one, ClosedReason.ROUTE_REMOVED)
            self.cluster.close_all(ClosedReason.ROUTE_REMOVED)
        has_other_rules = before.permissions != table.permissions
        for link in list(self.cluster.links.values()):
            link.announced.max_size = self.cluster.max_interest()
            link.parser.max_payload = self._broker.options.limits.max_payload_bytes
            link.channel.keepalive.interval_s = self.cluster.ping_interval_s()
            if has_other_rules:
                link.send(link.side.own_info().line())
                link.commands.drop_refused(self.cluster.telling.takes)
                self.cluster.tell_anew(link)
            if before.authorization != table.authorization and self._listener is not None:
                link.side.ask_again(link, self._listener.authenticate)
        if before.no_advertise and not table.no_advertise:
            self._urls_changed()

    # What routes tell.

    def _discovered(self, info: RouteInfo) -> None:
        """Connect to a server that another one has announced, unless there is a route already."""
        if info.server_id in {self.cluster.server_id, *self.cluster.routes} or not info.ip:
            return
        try:
            address = parse_route_address(info.ip)
        except ValueError as error:
            log.warning("route_gossip_ignored", server=info.server_id[:64], error=str(error))
            return
        live = [one for one in self._live() if not one.place]
        known = [one for one in live if one.address[:2] == address[:2]]
        if known:
            known[0].told_again()
            return
        if len([one for one in live if not one.is_explicit]) >= GOSSIPED_MAX:
            self._broker.limit_hits["route_gossip"] += 1
            return
        log.info("route_discovered", server=info.server_name[:64], address=str(address))
        mode = info.gossip_mode if isinstance(info.gossip_mode, int) else GOSSIP_DEFAULT
        self._begin(address, is_explicit=False, gossip_mode=mode)

    def _live(self) -> Iterable[RouteDialler]:
        """Return the diallers that still try or hold a route; forget the others."""
        self._diallers[:] = [dialler for dialler in self._diallers if not dialler.is_done]
        return self._diallers

    def _joined(self, link: Link) -> None:
        """Begin the other routes to a server that this one has connected to, if there is a pool."""
        side: Any = link.side
        first = side.dialler
        if first is None or first.place:
            return
        places: set[Place] = set()
        if side.pool_size:
            places = {*range(1, side.pool_size), *self.cluster.dedicated()}
        for other in list(self._live()):
            if other.place and other.address == first.address:
                other.server_id = side.info.server_id
                if other.place in places:
                    places.remove(other.place)
                else:
                    self._diallers.end(other, ClosedReason.ROUTE_REMOVED)
        for place in places:
            more = self._begin(first.address, is_explicit=first.is_explicit, place=place)
            more.server_id = side.info.server_id

    def _left(self, server_id: str) -> None:
        for dialler in self._diallers:
            dialler.left(server_id)

    def _urls_changed(self) -> None:
        """Send clients, here and in other workers, the addresses of the other servers.

        It happens in the next turn, once for all changes of this one: another server may send
        INFO a thousand times in one read.
        """
        if not self._is_telling:
            self._is_telling = True
            asyncio.get_running_loop().call_soon(self._tell_all)

    def _tell_all(self) -> None:
        self._is_telling = False
        if self._is_stopping:
            return
        self.neighbours_changed(self.cluster)
        self._broker.observers.show("cluster_urls_changed")
        if not self._broker.options.cluster.no_advertise:
            self._tell(list(self._broker.clients.values()))

    def _tell(self, left: list[Connection]) -> None:
        """Send INFO to clients, to some now and to the rest in later turns."""
        for _ in range(min(len(left), _TOLD_AT_ONCE)):
            left.pop().renew_info()
        if left:
            asyncio.get_running_loop().call_soon(self._tell, left)


def _nothing(_: Cluster) -> None:
    """Do nothing: this is the only worker."""


def _address_of(index: int, url: str) -> Address:
    """Read one of `cluster.routes`. Raises: ConfigError."""
    try:
        return parse_route_address(url)
    except ValueError as error:
        raise ConfigError(str(error), key=f"cluster.routes[{index}]") from error


def server_context(table: Table) -> ssl.SSLContext:
    """Return the context for servers that connect: their certificates are checked.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    return build_server_context(structs.replace(table.tls, verify=True), "cluster.tls")


def client_context(table: Table) -> ssl.SSLContext:
    """Return the context for connecting to servers, with this server's certificate.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    tls = table.tls
    own = tls.pairs[0]
    shown = LeafRemoteTls(
        cert_file=own.cert_file,
        key_file=own.key_file,
        ca_file=tls.ca_file,
        curve_preferences=tls.curve_preferences,
    )
    return build_client_context(shown, "cluster.tls")
