"""The leaf nodes of one server: the port that leafs connect to, the remotes, and the links."""

from __future__ import annotations

import secrets
import string
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.protocol.leaf_messages import LOOP_PREFIX
from midge.server.auth.authenticator import Authenticator
from midge.server.auth.client_tls import build_client_context
from midge.server.auth.identity import Identity
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.closed_clients import (
    SUBSCRIPTIONS_KEPT,
    ClosedSubscription,
    ConnectionRecord,
    common_facts,
)
from midge.server.clients.observer import Observer
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.options import Account, Authorization, Options, User
from midge.server.errors import ConfigError
from midge.server.listeners.tls import build_server_context
from midge.server.log.logger import get_logger
from midge.server.peers.announcer import InterestLines
from midge.server.peers.dialler import LeafDialler
from midge.server.peers.listener import LinkListener, PortRules
from midge.server.peers.rules import interest_filter
from midge.server.peers.service import Ends, LinkService
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.auth import AuthRequest, Verdict
    from midge.server.broker.broker import Broker
    from midge.server.broker.expiry import WhyEnded
    from midge.server.config.leafnodes import LeafNodes as Table
    from midge.server.config.leafnodes import LeafRemote
    from midge.server.config.options import Proxies
    from midge.server.listeners.connection_source import ConnectionSource
    from midge.server.peers.ledger import Ledger
    from midge.server.peers.link import Link
    from midge.server.routing import account as routing

LEAFNODE = "LEAFNODE"
LEAFNODE_WS = "LEAFNODE_WS"
"""The words that a JWT allows connections of leafs by; the second is for those by WebSocket."""

_CALLOUT_TIMEOUT_S = 2.0
_TOKEN_LENGTH = 22
_TOKEN_LETTERS = string.ascii_letters + string.digits

log = get_logger()


class LeafNodes(LinkService, Observer):
    """The leaf node links of `broker`, as its options describe them; `links` are by cid.

    `ends` makes their ends: an accepted one by the type of the connection, LEAFNODE or LEAFNODE_WS.
    `connects` counts by account those that have come up. `joined` and `left`, if set, are called
    with each that has come up, or has ended after that.
    """

    def __init__(self, broker: Broker, ledger: Ledger, ends: Ends) -> None:
        LinkService.__init__(self, broker, ledger)
        self._ends = ends
        self.ledger.extra[Role.LEAF] = self._subjects_for
        self.ledger.extra[Role.HUB] = self._subjects_for
        self.connects: Counter[str] = Counter()
        self.joined: Callable[[Link], object] | None = None
        self.left: Callable[[Link], object] | None = None
        self._loop_subjects: dict[str, bytes] = {}
        broker.observers.append(self)

    def start(self, source: ConnectionSource) -> None:
        """Accept leafs at `source`, and connect to the remotes and stay connected.

        Raises:
            OSError: the address cannot be bound.
            ConfigError: the settings name what cannot be.
        """
        table = self.broker.options.leafnodes
        if table.port:
            self.listener = LinkListener(
                self.broker, "leafnode_connections", _port_rules, self._accept, self.links
            )
            self.address = self.listener.open_by(source, "leafnodes", table.host, table.port)
            host, port = self.address
            log.info("leafnode_listener_started", address=f"{host}:{port}")
        for remote in _enabled(self.broker.options):
            self._begin(remote)

    def _begin(self, table: LeafRemote) -> None:
        remote = self._dialler_for(table)
        self.diallers.append(remote)
        remote.start()

    def _dialler_for(self, table: LeafRemote) -> LeafDialler:
        """Return what connects to a remote. Raises: ValueError, one of its URLs is invalid."""
        return LeafDialler(self.broker, table, partial(self._ends.solicited, self))

    @property
    def make_link(self) -> Callable[[tuple[str, int]], Link] | None:
        """The factory for links of leafs that come by WebSocket; None where none are accepted."""
        return None if self.listener is None else self._accept_websocket

    def _accept(self, peer: tuple[str, int], connection_type: str = LEAFNODE) -> Link:
        """Return a link for a leaf at `peer` that has just connected."""
        link: Link = self._ends.accepted(self, connection_type).link_to(peer)
        return link

    def _accept_websocket(self, peer: tuple[str, int]) -> Link:
        """Return the link of a leaf inside a WebSocket; where too many are, it ends at once."""
        link = self._accept(peer, LEAFNODE_WS)
        if self.listener is not None:
            self.listener.take(link)
        return link

    # The users of the port.

    def authenticate(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a leaf, once all workers know its account."""
        quota, verdict = self.broker.admission.quota, self._decide(request)
        return verdict if quota is None else quota.introduce(verdict)

    def _decide(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a leaf by the users of this port, or else by clients' users."""
        own = None if self.listener is None else self.listener.rules.users
        if own is not None:
            return own.authenticate(request)
        authenticator = self.broker.admission.authenticator
        if not authenticator.is_required_by("STANDARD"):
            return authenticator.through_proxy(request, Identity())
        verdict, callout = authenticator.authenticate(request), self.broker.admission.callout
        if callout is None:
            return verdict
        timeout_s = self.broker.options.authorization.timeout_s or _CALLOUT_TIMEOUT_S
        return callout.decide(authenticator, request, verdict, timeout_s)

    def tokens_scanned(self, why_ended: WhyEnded) -> None:
        """Close the links whose users have been taken back."""
        for link in self.accepted():
            link.end.end_if(link, why_ended)

    # Links that come and go.

    def accepted(self) -> list[Link]:
        """List the links of leafs that have connected to this server."""
        return [link for link in self.links.values() if not link.end.was_solicited]

    def join(self, link: Link, role: Role, *, is_isolated: bool) -> None:
        """Register `link` after its handshake: at a hub as Role.HUB, to a leaf as Role.LEAF.

        With `is_isolated`, no interest behind leafs is announced over it.
        """
        link.pass_as(role)
        link.announced.max_size = self.max_interest()
        self.links[link.cid] = link
        branch = link.commands.carry(link.account)
        link.start()
        self.announce_over(branch, InterestLines(b"LS"), is_isolated=is_isolated)
        self.connects[link.account.name] += 1
        link.joined_at = self.broker.clock.wall()
        if self.joined is not None:
            self.joined(link)
        log.info(
            "leafnode_connected",
            cid=link.cid,
            peer=link.peer,
            account=link.account.name,
            server=link.name,
        )

    def leave(self, link: Link) -> None:
        """Forget `link`, which has ended."""
        self.end_announcing(link)
        self.broker.closed.append(leafnode_record(link, self.broker.clock.monotonic()))
        if self.links.pop(link.cid, None) is not None:
            reason = "" if link.reason is None else link.reason.value
            log.info("leafnode_closed", cid=link.cid, peer=link.peer, reason=reason)
            if self.left is not None:
                self.left(link)

    def allows(self, branch: Any) -> Callable[[bytes], bool]:
        """Return the function that decides which interest is announced over `branch`."""
        return interest_filter(branch.link.take_rules)

    def loop_subject(self, account: routing.Account) -> bytes:
        """Return the subject that comes back as interest only if links of `account` form a loop."""
        subject = self._loop_subjects.get(account.name)
        if subject is None:
            token = "".join(secrets.choice(_TOKEN_LETTERS) for _ in range(_TOKEN_LENGTH))
            subject = LOOP_PREFIX + token.encode()
            self._loop_subjects[account.name] = subject
        return subject

    def _subjects_for(self, account: routing.Account) -> list[bytes]:
        """List the subjects announced to links of `account` without a subscription."""
        mapper = account.mapper
        sources = [] if mapper is None else mapper.sources()
        return [self.loop_subject(account), *sources]

    # Changes while serving.

    def cluster_name(self) -> str:
        """Return the name of the cluster that this server is in; empty where it is in none."""
        return "" if self.broker.cluster is None else self.broker.cluster.name

    def cluster_renamed(self) -> None:
        """Reconnect to the remotes that have the old name, as nats-server does.

        A leaf that has connected to this server gets the new name when it reconnects.
        """
        for link in [remote.link for remote in self.diallers if remote.link is not None]:
            if link.end.has_connected:
                link.close(ClosedReason.CLUSTER_NAME_CONFLICT)

    def cluster_urls_changed(self) -> None:
        """Send the leafs the addresses that they may connect to by now."""
        for link in self.accepted():
            link.send(link.end.info_again(link))

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check `options` and return what puts them in force, once they are the broker's.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        renew_port = None if self.listener is None else self.listener.prepare(options)
        for index, remote in enumerate(options.leafnodes.remotes):
            self._check(remote, f"leafnodes.remotes[{index}]")

        def put_in_force() -> None:
            if renew_port is not None:
                renew_port()
            self._follow(_enabled(options))
            self.limit_links()
            for link in self.accepted():
                link.end.ask_again(link)

        return put_in_force

    def _check(self, table: LeafRemote, where: str) -> None:
        """Raise ConfigError where `table` names what cannot be."""
        try:
            if table.urls:
                self._dialler_for(table)
        except ValueError as error:
            raise ConfigError(str(error), key=f"{where}.urls") from error
        build_client_context(table.tls, f"{where}.tls")

    def _follow(self, tables: list[LeafRemote]) -> None:
        """Keep the links that are still described, end the others, and begin those that are new."""
        for remote in self.diallers[:]:
            known = next((table for table in tables if remote.take(table)), None)
            if known is not None:
                tables.remove(known)
                continue
            self.end_dialler(remote, ClosedReason.CLIENT_CLOSED)
        for table in tables:
            self._begin(table)


def _enabled(options: Options) -> list[LeafRemote]:
    """Return the remotes that are to be connected to."""
    return [table for table in options.leafnodes.remotes if table.urls and not table.disabled]


def _port_rules(options: Options) -> PortRules:
    """Read the users and the certificates of the port. Raises: ConfigError, they cannot be."""
    table, users = options.leafnodes, options_of(options.leafnodes, options.proxies)
    own = None if users is None else Authenticator(users)
    tls = build_server_context(table.tls, "leafnodes.tls") if table.tls.enabled else None
    return PortRules(own, tls, table.tls.timeout_s, table.proxy_protocol)


def leafnode_record(
    link: Link, stopped_at: float, subscriptions_max: int = SUBSCRIPTIONS_KEPT
) -> ConnectionRecord:
    """Describe a link to a leaf node or a hub; the latter is not named, as on nats-server."""
    subjects = [
        ClosedSubscription(
            one.subject, one.queue, b" ".join(filter(None, (one.subject, one.queue))), 0, 0
        )
        for one in link.list_interest(subscriptions_max)
    ]
    return ConnectionRecord(
        kind="Leafnode",
        name="" if link.end.was_solicited else link.name,
        version=link.end.version,
        user=link.end.user,
        proxy_key=link.end.proxy_key,
        display_name=link.account.name if link.joined_at else "",
        pending_bytes=link.outbound.pending_bytes(),
        subscription_count=link.announced.count,
        subscriptions=subjects,
        **common_facts(link, stopped_at),
    )


def options_of(leafnodes: Table, proxies: Proxies) -> Options | None:
    """Write the users of the port as options of a server; None where it has none of its own.

    As on nats-server, certificates are mapped to the users of a list, not to a single one.
    """
    table, tls = leafnodes.authorization, leafnodes.tls
    users: dict[str, list[User]] = {}
    if table.user or table.nkey:
        tls = structs.replace(tls, verify_and_map=False)
        only = User(
            user=table.user,
            password=table.password,
            nkey=table.nkey,
            proxy_required=table.proxy_required,
        )
        users.setdefault(table.account, []).append(only)
    for user in table.users:
        one = User(
            user=user.user,
            password=user.password,
            nkey=user.nkey,
            permissions=user.permissions,
            proxy_required=user.proxy_required or table.proxy_required,
        )
        users.setdefault(user.account or table.account, []).append(one)
    if not users:
        return None
    unnamed = [*users.pop("", []), *users.pop(GLOBAL_ACCOUNT, [])]
    return Options(
        authorization=Authorization(users=tuple(unnamed)),
        accounts=tuple(Account(name=name, users=tuple(of)) for name, of in users.items()),
        leafnodes=structs.replace(leafnodes, tls=tls),
        proxies=proxies,
    )
