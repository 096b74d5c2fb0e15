"""The servers of a cluster that this one has routes to: membership, gossip and interest."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType, structs

from midge.protocol import COMPATIBLE_VERSION
from midge.protocol.leaf_messages import SubjectRules
from midge.protocol.route_messages import (
    GOSSIP_DEFAULT,
    GOSSIP_DISABLED,
    GOSSIP_OVERRIDE,
    RouteInfo,
)
from midge.server.broker.message_trace import TRACING_PROTOCOL
from midge.server.broker.server_info import CLIENTS, LEAFS, WEBSOCKETS
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.observer import Observer
from midge.server.config.addresses import advertised_address
from midge.server.listeners.sockets import host_in_url
from midge.server.log.logger import get_logger
from midge.server.peers.announcer import InterestAnnouncer, InterestLines
from midge.server.peers.end import Peers
from midge.server.peers.rules import RouteInterestRules
from midge.server.routing.account import Account

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker
    from midge.server.clock import Clock
    from midge.server.config.security import SubjectPermissions
    from midge.server.peers.dial import Place
    from midge.server.peers.ledger import Ledger
    from midge.server.peers.link import Link
    from midge.server.peers.route import RouteBranch

UNKNOWN_ACCOUNTS_MAX = 4096
"""Most accounts of one route whose interest is kept although this server does not know them."""

UNKNOWN_NAME_MAX_BYTES = 256
"""Longest name of such an account."""

URLS_MAX = 64
"""Most addresses for clients that are taken from one server."""

REFUSAL_DELAY_S = 1.0
"""How long a server waits for INFO after a refusal, because nats-server 2.15.1 connects again at
once, 1,400 times a second on loopback. It does not wait for -ERR instead: nats-server registers a
route by INFO, and would close a good route from here as its duplicate until then."""

POOL_SIZE = 3
"""Routes in a pool where the settings give no number, as on nats-server."""

_REFUSED_MAX = 1024
_FNV_OFFSET = 2166136261
_FNV_PRIME = 16777619
_NAME_LENGTH = 22
_NAME_LETTERS = string.ascii_letters + string.digits
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104  # nosec B104 - compared, not bound

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


class Cluster(Peers, Observer):
    """All routes of `broker`.

    `links` has the routes that are up, by server id and place (dial.py), and `routes` one of
    them for each server. The end of every route to a server has that server's latest INFO.

    `name` is the cluster's name, and `is_dynamic` is True if no setting has it. `discovered` is
    called with a server's INFO about a third one, `urls_changed` when the addresses for clients
    have changed, and `joined` and `left` when a route has come up or ended. Other servers connect
    to `address`, and `connects` counts the routes that have come up.
    """

    def __init__(self, broker: Broker, ledger: Ledger) -> None:
        Peers.__init__(self, broker, ledger)
        self.links: dict[tuple[str, Place], Link] = {}
        self.routes: dict[str, Link] = {}
        self.address = ("", 0)
        self.connects = 0
        self.refusals = Refusals(broker.clock)
        self.discovered: Callable[[RouteInfo], object] = _nothing
        self.urls_changed: Callable[[], object] = _nothing
        self.joined: Callable[[Link], object] = _nothing
        self.left: Callable[[str], object] = _nothing
        self.name = broker.options.cluster.name or _random_name()
        self.is_dynamic = not broker.options.cluster.name
        self.telling = RouteInterestRules(broker, broker.options.cluster.permissions)
        broker.observers.append(self)

    def close(self) -> None:
        """Close the routes."""
        if self in self.broker.observers:
            self.broker.observers.remove(self)
        self.close_all(ClosedReason.SERVER_SHUTDOWN)

    def close_all(self, reason: ClosedReason, but: str = "") -> None:
        """Close the routes, except those to the server `but`."""
        for (server_id, _), link in list(self.links.items()):
            if server_id != but:
                link.close(reason)

    @property
    def server_id(self) -> str:
        """The id of this server."""
        return self.broker.keys.server_id

    def ping_interval_s(self) -> float:
        """Return the seconds between PINGs on routes."""
        own_s = self.broker.options.cluster.ping_interval_s
        return min(own_s or self.broker.options.keepalive.ping_interval_s, 30.0)

    # What this server says of itself.

    def info(self) -> RouteInfo:
        """Return the INFO for routes."""
        options = self.broker.options
        host, port = self.address
        shown_host, shown_port = advertised_address(options.cluster.advertise, host, port)
        shown = f"{host_in_url(shown_host)}:{shown_port}"
        return RouteInfo(
            server_id=self.server_id,
            server_name=self.server_name(),
            version=COMPATIBLE_VERSION,
            proto=TRACING_PROTOCOL,
            go="python",
            host=host,
            port=port,
            headers=options.limits.header_support,
            auth_required=True if options.cluster.authorization.user else UNSET,
            tls_required=True if options.cluster.tls.enabled else UNSET,
            tls_verify=True if options.cluster.tls.enabled else UNSET,
            max_payload=options.limits.max_payload_bytes,
            jetstream=False,
            midge_jetstream=True if options.jetstream.enabled else UNSET,
            route_pool_size=self.own_pool_size() or UNSET,
            ip=f"nats-route://{shown}/" if options.cluster.advertise else UNSET,
            cluster=self.name,
            cluster_dynamic=True if self.is_dynamic else UNSET,
            connect_urls=self._own_urls(CLIENTS) or UNSET,
            ws_connect_urls=self._own_urls(WEBSOCKETS) or UNSET,
            leafnode_urls=self._own_urls(LEAFS) or UNSET,
            ldm=True if self.broker.lame_duck else UNSET,
            compression=options.cluster.compression,
            import_=_told_of(self.telling.permissions.imports),
            export=_told_of(self.telling.permissions.exports),
            lnoc=True,
            lnocu=True,
            api_lvl=5,
        )

    def _own_urls(self, kind: str) -> tuple[str, ...]:
        """Return this server's own addresses for the field `kind` of INFO."""
        broker, options = self.broker, self.broker.options
        address, advertised = (broker.host, broker.port), options.listen.client_advertise
        is_hidden = options.cluster.no_advertise
        if kind == WEBSOCKETS:
            address, advertised = broker.websocket_address, options.websocket.advertise
        elif kind == LEAFS:
            address, advertised = broker.leafnode_address, options.leafnodes.advertise
            is_hidden = options.leafnodes.no_advertise
        host, port = advertised_address(advertised, *address)
        if is_hidden or not address[1] or (host in _ANY_ADDRESS and not advertised):
            return ()
        return (f"{host_in_url(host)}:{port}",)

    def urls(self, kind: str, *, with_own: bool = True) -> list[str]:
        """Return the addresses for the field `kind`: this server's, then the other servers'."""
        if self.broker.options.cluster.no_advertise and kind != LEAFS:
            return []
        shows_own = with_own and not self.broker.lame_duck
        found = dict.fromkeys(self._own_urls(kind) if shows_own else ())
        for link in self.routes.values():
            info = link.side.info
            if not info.ldm:
                found.update(dict.fromkeys((getattr(info, kind) or ())[:URLS_MAX]))
        return list(found)

    def announce(self) -> None:
        """Tell all routes how this server has changed."""
        for link in self.routes.values():
            link.send(link.side.own_info().line())

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
        self.close_all(ClosedReason.CLUSTER_NAME_CONFLICT, but=server_id)
        self.urls_changed()
        return False

    def rename(self, name: str) -> None:
        """Take the name that the settings have now; routes that are up stay, as nats-server's."""
        self.is_dynamic = not name
        if name and name != self.name:
            self._take_name(name)

    def _take_name(self, name: str) -> None:
        """Adopt another name."""
        log.info("cluster_name_changed", before=self.name, name=name)
        self.name = name
        self.broker.observers.show("cluster_renamed")

    # Servers that come and go.

    def join(self, link: Link, info: RouteInfo) -> None:
        """Register `link` after its handshake."""
        server_id = info.server_id
        others = self.links_to(server_id)
        self.links[server_id, link.side.place] = self.routes[server_id] = link
        self.connects += 1
        link.announced.max_size = self.max_interest()
        link.names_origins = info.lnoc is True
        link.start()
        for account in list(self.broker.accounts.values()):
            self._tell(link, account)
        log.info("route_connected", cid=link.cid, peer=link.peer, server=link.name)
        self.joined(link)
        if not others and info.urls():
            self.urls_changed()
        if all(link.is_dedicated or other.is_dedicated for other in others):
            self._gossip(link, info)

    def leave(self, link: Link) -> None:
        """Forget `link`, which has ended."""
        for branch in link.commands.branches.values():
            if branch.announcer is not None:
                self.ledger.of(branch.account).remove(branch)
                branch.announcer.end()
        side = link.side
        server_id = side.info.server_id
        if self.links.get((server_id, side.place)) is not link:
            return
        del self.links[server_id, side.place]
        reason = "" if link.reason is None else link.reason.value
        log.info("route_closed", cid=link.cid, peer=link.peer, server=link.name, reason=reason)
        others = self.links_to(server_id)
        if others:
            self.routes[server_id] = others[0]
        else:
            del self.routes[server_id]
            if side.info.urls():
                self.urls_changed()
        self.left(server_id)

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

    def _gossip(self, link: Link, info: RouteInfo) -> None:
        """Tell the other servers of the one behind `link`, for them to connect to it.

        As on nats-server, once for its pool, and once for each dedicated route.
        """
        side = link.side
        if side.gossip_mode == GOSSIP_DISABLED:
            return
        for server_id, other in list(self.routes.items()):
            if server_id == info.server_id:
                continue
            other_side = other.side
            if link.is_dedicated and not other_side.pool_size:
                continue
            told = structs.replace(
                info,
                nonce=UNSET,
                route_pool_idx=UNSET,
                route_account=side.place if link.is_dedicated else UNSET,
                gossip_mode=_gossip_mode(side, other_side),
            )
            other.send(told.line())

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
        """Tell all routes of the interest in a new account, and take theirs."""
        for link in self.links.values():
            branch = link.commands.branches.get(account.name.encode())
            if branch is not None:
                branch.leave_account(account)
            self._tell(link, account)
            for told in [] if branch is None else list(branch.interest):
                account.sublist.insert_remote(told)
                link.side.interest_changed(branch, told, told.weight)

    def _tell(self, link: Link, account: Account) -> None:
        """Tell `link` of the interest in `account` from now on."""
        if not account.name or any(character.isspace() for character in account.name):
            return  # no line could name it
        side = link.side
        if side.pool_size and self.place_of(account.name) != side.place:
            return  # another route carries it
        branch = link.commands.branch(account.name.encode())
        if branch is None:
            return
        lines = InterestLines(b"RS", branch.account_word, names_origins=link.names_origins)
        branch.announcer = InterestAnnouncer(branch, self.broker.turns, lines)
        self.ledger.of(account).add(branch, self._allows(branch))

    def _allows(self, branch: RouteBranch) -> Callable[[bytes], bool]:
        """Return the function that decides which interest is announced over `branch`."""
        return self.telling.of(branch.account, branch.link.side.taken)

    def tell_anew(self, link: Link) -> None:
        """Announce newly allowed interest over `link`, and withdraw interest now denied."""
        for branch in link.commands.branches.values():
            if branch.announcer is not None:
                self.ledger.of(branch.account).renew(branch, self._allows(branch))


def _gossip_mode(side: Any, other: Any) -> int:
    """Return whether the server of `other` should pass the server of `side` on to further servers.

    As nats-server: a server announced by a server that connected explicitly is passed on; for a
    server that has accepted the connection, the others need not do so.
    """
    if side.was_solicited:
        return GOSSIP_OVERRIDE if side.is_explicit else GOSSIP_DEFAULT
    return GOSSIP_OVERRIDE if other.is_explicit else GOSSIP_DISABLED


def _told_of(rules: SubjectPermissions) -> SubjectRules | UnsetType:
    """Return `rules` as INFO has them."""
    if not rules.allow and not rules.deny:
        return UNSET
    return SubjectRules(allow=rules.allow, deny=rules.deny)


def _random_name() -> str:
    return "".join(secrets.choice(_NAME_LETTERS) for _ in range(_NAME_LENGTH))


def _nothing(*_: object) -> None:
    pass
