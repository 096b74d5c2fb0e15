"""The cluster of a server: its port, the servers it connects to, and the routes to them."""

from __future__ import annotations

import asyncio
import secrets
import string
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from midge.protocol.route_messages import GOSSIP_DEFAULT, RouteInfo
from midge.server.broker.server_info import CLIENTS, LEAFS, WEBSOCKETS
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.observer import Observer
from midge.server.config.addresses import advertised_address
from midge.server.errors import ConfigError
from midge.server.listeners.sockets import host_in_url
from midge.server.log.logger import get_logger
from midge.server.peers import gossip
from midge.server.peers.announcer import InterestLines
from midge.server.peers.dial import Address, Place, parse_route_address
from midge.server.peers.dialler import RouteDialler
from midge.server.peers.listener import LinkListener, Refusals
from midge.server.peers.route_tls import by_certificate, client_context, port_rules
from midge.server.peers.rules import RouteInterestRules
from midge.server.peers.service import Ends, LinkService
from midge.server.routing.account import Account

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from midge.server.auth import AuthRequest, Verdict
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.config.cluster import Cluster as Table
    from midge.server.config.options import Options
    from midge.server.listeners.connection_source import ConnectionSource
    from midge.server.peers.ledger import Ledger
    from midge.server.peers.link import Link

GOSSIPED_MAX = 256
"""Most announced servers that are connected to at a time."""

UNKNOWN_ACCOUNTS_MAX = 4096
"""Most accounts of one route whose interest is kept although this server does not know them."""

UNKNOWN_NAME_MAX_BYTES = 256
"""Longest name of such an account."""

POOL_SIZE = 3
"""Routes in a pool where the settings give no number, as on nats-server."""

STARTED_AT_ONCE = 4
"""Connections to announced servers that are begun in one turn."""

_INFO_AT_ONCE = 500  # clients that get INFO in one turn
_FNV_OFFSET = 2166136261
_FNV_PRIME = 16777619
_NAME_LENGTH = 22
_NAME_LETTERS = string.ascii_letters + string.digits

log = get_logger()


class Cluster(LinkService, Observer):
    """The routes of `broker`, as its options describe them.

    `links` has the routes that are up, by server id and place (dial.py), and `routes` one of
    them for each server. The end of every route to a server has that server's latest INFO.

    `name` is the cluster's name, and `is_dynamic` is True if no setting has it. `connects` counts
    the routes that have come up. `neighbours_changed` is called when the addresses for clients may
    have changed. `ends` makes the ends of routes.
    """

    def __init__(self, broker: Broker, ledger: Ledger, ends: Ends) -> None:
        LinkService.__init__(self, broker, ledger)
        self._ends = ends
        self.routes: dict[str, Link] = {}
        self.connects = 0
        self.refusals = Refusals(broker.clock)
        self.name = broker.options.cluster.name or _random_name()
        self.is_dynamic = not broker.options.cluster.name
        self.interest_rules = RouteInterestRules(broker, broker.options.cluster.permissions)
        self.neighbours_changed: Callable[[Cluster], object] = _nothing
        self._unstarted: deque[RouteDialler] = deque()
        self._client_tls: ssl.SSLContext | None = None
        self._is_stopping = False
        self._will_send_urls = False
        broker.observers.append(self)

    def start(self, source: ConnectionSource) -> None:
        """Accept servers at `source`, connect to those in the settings and stay connected.

        Raises:
            OSError: the address cannot be bound.
            ConfigError: the settings name what cannot be.
        """
        table = self.broker.options.cluster
        self.listener = LinkListener(
            self.broker, "route_connections", port_rules, self._accept, self.links
        )
        if table.tls.enabled:
            self._client_tls = client_context(table)
        self.address = self.listener.open_by(source, "cluster", table.host, table.port)
        host, port = self.address
        log.info("route_listener_started", address=f"{host}:{port}", cluster=self.name)
        self.broker.cluster = self
        self.neighbours_changed(self)
        for url in table.routes:
            self._begin(parse_route_address(url), is_explicit=True)

    async def stop(self) -> None:
        """Accept and dial no more, and close the routes."""
        self._is_stopping = True
        self._unstarted.clear()
        await LinkService.stop(self)
        if self in self.broker.observers:
            self.broker.observers.remove(self)
        self.broker.cluster = None

    @property
    def server_id(self) -> str:
        """The id of this server."""
        return self.broker.keys.server_id

    def ping_interval_s(self) -> float:
        """Return the seconds between PINGs on routes."""
        own_s = self.broker.options.cluster.ping_interval_s
        return min(own_s or self.broker.options.keepalive.ping_interval_s, 30.0)

    # The servers that connect.

    def _accept(self, peer: tuple[str, int]) -> Link:
        """Return a route for a server at `peer` that has just connected."""
        link: Link = self._ends.accepted(self, self.authenticate).link_to(peer)
        return link

    @property
    def authenticate(self) -> Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None:
        """The check of a connecting server's credentials; None where any server may connect."""
        table = self.broker.options.cluster
        if table.check_known_urls or table.tls.verify_and_map:
            return partial(by_certificate, table)
        users = None if self.listener is None else self.listener.rules.users
        return None if users is None else users.authenticate

    # The servers to connect to.

    def _begin(
        self,
        address: Address,
        *,
        is_explicit: bool,
        gossip_mode: int = GOSSIP_DEFAULT,
        place: Place = 0,
    ) -> RouteDialler:
        dialler = RouteDialler(
            self.broker,
            self.links,
            address,
            self._client_tls,
            partial(self._ends.solicited, self),
            is_explicit=is_explicit,
            gossip_mode=gossip_mode,
            place=place,
        )
        self.diallers.append(dialler)
        if is_explicit or place:
            dialler.start()
            return dialler
        self._unstarted.append(dialler)
        if len(self._unstarted) == 1:
            asyncio.get_running_loop().call_soon(self._start_announced)
        return dialler

    def _start_announced(self) -> None:
        """Connect to announced servers, to some now and to the rest in later turns."""
        for _ in range(min(len(self._unstarted), STARTED_AT_ONCE)):
            self._unstarted.popleft().start()
        if self._unstarted:
            asyncio.get_running_loop().call_soon(self._start_announced)

    async def tried(self) -> None:
        """Return when each server that is known has been connected to once, or could not be."""
        while waiting := [one for one in self.live_diallers() if not one.was_tried.is_set()]:
            await waiting[0].was_tried.wait()

    def live_diallers(self) -> list[RouteDialler]:
        """List the diallers that still try or hold a route; forget the others."""
        self.diallers[:] = [dialler for dialler in self.diallers if not dialler.is_done]
        return self.diallers[:]

    def discovered(self, info: RouteInfo) -> None:
        """Connect to a server that another one has announced, unless there is a route already."""
        if info.server_id in {self.server_id, *self.routes} or not info.ip:
            return
        try:
            address = parse_route_address(info.ip)
        except ValueError as error:
            log.warning("route_gossip_ignored", server=info.server_id[:64], error=str(error))
            return
        live = [one for one in self.live_diallers() if not one.place]
        known = [one for one in live if one.address[:2] == address[:2]]
        if known:
            known[0].announced_again()
            return
        if len([one for one in live if not one.is_explicit]) >= GOSSIPED_MAX:
            self.broker.limit_hits["route_gossip"] += 1
            return
        log.info("route_discovered", server=info.server_name[:64], address=str(address))
        mode = info.gossip_mode if isinstance(info.gossip_mode, int) else GOSSIP_DEFAULT
        self._begin(address, is_explicit=False, gossip_mode=mode)

    # The name of the cluster.

    def refuses_name(self, name: str, *, is_dynamic: bool, server_id: str) -> bool:
        """Return whether a server of a cluster called `name` does not belong to this cluster.

        A name from the settings outweighs one that was made up, and of two made-up ones the one
        that comes later in the alphabet does: the other server is joined then.
        """
        if name == self.name:
            return False
        if not self.is_dynamic or (is_dynamic and name < self.name):
            return True
        self.is_dynamic = is_dynamic
        self._take_name(name)
        for (known, _), link in list(self.links.items()):
            if known != server_id:
                link.close(ClosedReason.CLUSTER_NAME_CONFLICT)
        self.urls_changed()
        return False

    def _take_name(self, name: str) -> None:
        """Adopt another name; routes that are up stay, as nats-server's."""
        log.info("cluster_name_changed", before=self.name, name=name)
        self.name = name
        self.broker.observers.show("cluster_renamed")

    # Servers that come and go.

    def join(self, link: Link, info: RouteInfo) -> None:
        """Register `link` after its handshake."""
        server_id = info.server_id
        others = self.links_to(server_id)
        self.links[server_id, link.end.place] = self.routes[server_id] = link
        self.connects += 1
        link.announced.max_size = self.max_interest()
        link.names_origins = info.lnoc is True
        link.start()
        for account in list(self.broker.accounts.values()):
            self._announce_interest(link, account)
        log.info("route_connected", cid=link.cid, peer=link.peer, server=link.name)
        self._open_pool(link)
        if not others and info.urls():
            self.urls_changed()
        if all(link.is_dedicated or other.is_dedicated for other in others):
            gossip.announce_server(self.routes, link, info)

    def leave(self, link: Link) -> None:
        """Forget `link`, which has ended."""
        self.end_announcing(link)
        end = link.end
        server_id = end.info.server_id
        if self.links.get((server_id, end.place)) is not link:
            return
        del self.links[server_id, end.place]
        reason = "" if link.reason is None else link.reason.value
        log.info("route_closed", cid=link.cid, peer=link.peer, server=link.name, reason=reason)
        others = self.links_to(server_id)
        if others:
            self.routes[server_id] = others[0]
        else:
            del self.routes[server_id]
            if end.info.urls():
                self.urls_changed()
        for dialler in self.diallers:
            dialler.left(server_id)

    def links_to(self, server_id: str) -> list[Link]:
        """List the routes to a server."""
        return [link for (known, _), link in self.links.items() if known == server_id]

    # Several routes to one server.

    def own_pool_size(self) -> int:
        """Return the size of a pool by the settings; 0 without one."""
        table = self.broker.options.cluster
        return max(table.pool_size or (POOL_SIZE if table.accounts else 0), 0)

    def pool_size(self, info: RouteInfo) -> int:
        """Return the size of the pool with the server of `info`; 0: one route for all accounts."""
        own, other = self.own_pool_size(), info.route_pool_size or 0
        return max(own, other) if own and other > 0 else 0

    def dedicated(self) -> set[str]:
        """Return the names of the accounts that have routes of their own, beside a pool."""
        return {*self.broker.options.cluster.accounts, self.broker.system_account.name}

    def place_of(self, account: str) -> Place:
        """Return the place of the route for the interest in `account` here, where there is a pool.

        As on nats-server that depends on the own pool's size, even if the other one's is larger.
        """
        if account in self.dedicated():
            return account
        number = _FNV_OFFSET
        for byte in account.encode():
            number = (number ^ byte) * _FNV_PRIME & 0xFFFFFFFF
        return number % self.own_pool_size()

    def _open_pool(self, link: Link) -> None:
        """Begin the other routes to a server that this one has connected to, if there is a pool."""
        end: Any = link.end
        first = end.dialler
        if first is None or first.place:
            return
        places: set[Place] = set()
        if end.pool_size:
            places = {*range(1, end.pool_size), *self.dedicated()}
        for other in self.live_diallers():
            if other.place and other.address == first.address:
                other.server_id = end.info.server_id
                if other.place in places:
                    places.remove(other.place)
                else:
                    self.end_dialler(other, ClosedReason.ROUTE_REMOVED)
        for place in places:
            more = self._begin(first.address, is_explicit=first.is_explicit, place=place)
            more.server_id = end.info.server_id

    # Accounts.

    def account_of(self, name: bytes, known: int) -> Account | None:
        """Return the account called `name`, or an empty one if it does not exist yet.

        None, if a route that has `known` accounts already names too many, or one of a long name.
        """
        text = name.decode(errors="replace")
        found = self.broker.accounts.get(text)
        if found is not None:
            return found
        most = len(self.broker.accounts) + UNKNOWN_ACCOUNTS_MAX
        if known >= most or len(name) > UNKNOWN_NAME_MAX_BYTES:
            self.broker.limit_hits["route_accounts"] += 1
            return None
        return Account(text)

    def account_made(self, account: Account) -> None:
        """Announce the interest in a new account over all routes, and take theirs."""
        for link in self.links.values():
            branch = link.commands.branches.get(account.name.encode())
            if branch is not None:
                branch.leave_account(account)
            self._announce_interest(link, account)
            for remote in [] if branch is None else list(branch.interest):
                account.sublist.insert_remote(remote)
                link.end.interest_changed(branch, remote, remote.weight)

    def _announce_interest(self, link: Link, account: Account) -> None:
        """Announce the interest in `account` over `link` from now on."""
        if not account.name or any(character.isspace() for character in account.name):
            return  # no line could name it
        end = link.end
        if end.pool_size and self.place_of(account.name) != end.place:
            return  # another route carries it
        branch = link.commands.branch(account.name.encode())
        if branch is None:
            return
        lines = InterestLines(b"RS", branch.account_word, names_origins=link.names_origins)
        self.announce_over(branch, lines)

    def allows(self, branch: Any) -> Callable[[bytes], bool]:
        """Return the function that decides which interest is announced over `branch`."""
        return self.interest_rules.of(branch.account, branch.link.end.taken)

    # What this server says about itself, and the addresses of the cluster.

    def info(self) -> RouteInfo:
        """Return the INFO for routes."""
        broker, options = self.broker, self.broker.options
        table = options.cluster
        host, port = self.address
        shown_host, shown_port = advertised_address(table.advertise, host, port)
        shown = f"{host_in_url(shown_host)}:{shown_port}"
        return RouteInfo(
            **self.own_fields(),
            host=host,
            port=port,
            auth_required=True if table.authorization.user else UNSET,
            tls_required=True if table.tls.enabled else UNSET,
            tls_verify=True if table.tls.enabled else UNSET,
            jetstream=False,
            midge_jetstream=True if options.jetstream.enabled else UNSET,
            route_pool_size=self.own_pool_size() or UNSET,
            ip=f"nats-route://{shown}/" if table.advertise else UNSET,
            cluster=self.name,
            cluster_dynamic=True if self.is_dynamic else UNSET,
            connect_urls=gossip.own_urls(broker, CLIENTS) or UNSET,
            ws_connect_urls=gossip.own_urls(broker, WEBSOCKETS) or UNSET,
            leafnode_urls=gossip.own_urls(broker, LEAFS) or UNSET,
            ldm=True if broker.lame_duck else UNSET,
            compression=table.compression,
            import_=gossip.rules_in_info(self.interest_rules.permissions.imports),
            export=gossip.rules_in_info(self.interest_rules.permissions.exports),
            lnoc=True,
            lnocu=True,
            api_lvl=5,
        )

    def urls(self, kind: str, *, with_own: bool = True) -> list[str]:
        """Return the addresses for the field `kind`: this server's, then the other servers'."""
        return gossip.known_urls(self.broker, self.routes, kind, with_own=with_own)

    def announce(self) -> None:
        """Send all routes the changed description of this server."""
        for link in self.routes.values():
            link.send(link.end.own_info().line())

    def urls_changed(self) -> None:
        """Send clients, here and in other workers, the addresses of the other servers.

        It happens in the next turn, once for all changes of this one: another server may send
        INFO a thousand times in one read.
        """
        if not self._will_send_urls:
            self._will_send_urls = True
            asyncio.get_running_loop().call_soon(self._send_urls)

    def _send_urls(self) -> None:
        self._will_send_urls = False
        if self._is_stopping:
            return
        self.neighbours_changed(self)
        self.broker.observers.show("cluster_urls_changed")
        if not self.broker.options.cluster.no_advertise:
            self._send_info(list(self.broker.clients.values()))

    def _send_info(self, left: list[Connection]) -> None:
        """Send INFO to clients, to some now and to the rest in later turns."""
        for _ in range(min(len(left), _INFO_AT_ONCE)):
            left.pop().renew_info()
        if left:
            asyncio.get_running_loop().call_soon(self._send_info, left)

    # Changes while serving.

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check `options` and return what puts them in force, once they are the broker's.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        before, table = self.broker.options.cluster, options.cluster
        addresses = [_address_of(index, url) for index, url in enumerate(table.routes)]
        interest_rules = RouteInterestRules(self.broker, table.permissions)
        client_tls = client_context(table) if table.tls.enabled else None
        renew_port = None if self.listener is None else self.listener.prepare(options)

        def put_in_force() -> None:
            if renew_port is not None:
                renew_port()
            self._client_tls = client_tls
            self.interest_rules = interest_rules
            self.is_dynamic = not table.name
            if table.name and table.name != self.name:
                self._take_name(table.name)
            self.neighbours_changed(self)
            self._follow(addresses)
            self._renew_routes(before, table)

        return put_in_force

    def _follow(self, addresses: list[Address]) -> None:
        """Keep the routes that are still named, end the others, and begin those that are new."""
        kept = set(addresses)
        for dialler in self.live_diallers():
            dialler.tls = self._client_tls
            if not dialler.is_explicit:
                continue
            if dialler.address in kept:
                if not dialler.place:
                    addresses.remove(dialler.address)
                continue
            log.info("route_removed", remote=str(dialler.address))
            for known in self.links_to(dialler.server_id):
                known.close(ClosedReason.ROUTE_REMOVED)
            self.end_dialler(dialler, ClosedReason.ROUTE_REMOVED)
        for address in addresses:
            self._begin(address, is_explicit=True)

    def _renew_routes(self, before: Table, table: Table) -> None:
        """Apply `table` to the routes that are up, and send the changes to the other servers.

        A server that was just connecting comes again: it has INFO by the settings before.
        """
        if before != table and self.listener is not None:
            self.listener.end_handshakes(ClosedReason.ROUTE_REMOVED)
        if (before.pool_size, before.accounts) != (table.pool_size, table.accounts):
            for one in [one for one in self.live_diallers() if one.place]:
                self.end_dialler(one, ClosedReason.ROUTE_REMOVED)
            self.close_all(ClosedReason.ROUTE_REMOVED)
        self.limit_links()
        has_other_rules = before.permissions != table.permissions
        for link in list(self.links.values()):
            link.channel.keepalive.interval_s = self.ping_interval_s()
            if has_other_rules:
                link.send(link.end.own_info().line())
                link.commands.drop_refused(self.interest_rules.takes)
                self.announce_again(link)
            if before.authorization != table.authorization and self.listener is not None:
                link.end.ask_again(link, self.authenticate)
        if before.no_advertise and not table.no_advertise:
            self.urls_changed()


def _random_name() -> str:
    return "".join(secrets.choice(_NAME_LETTERS) for _ in range(_NAME_LENGTH))


def _nothing(_: Cluster) -> None:
    """Do nothing: this is the only worker."""


def _address_of(index: int, url: str) -> Address:
    """Read one of `cluster.routes`. Raises: ConfigError."""
    try:
        return parse_route_address(url)
    except ValueError as error:
        raise ConfigError(str(error), key=f"cluster.routes[{index}]") from error
