"""Leaf nodes as a server starts, changes and stops them: the port, and the remotes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from midge.server.auth.authenticator import Authenticator
from midge.server.auth.client_tls import build_client_context
from midge.server.auth.identity import Identity
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.observer import Observer
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.options import Account, Authorization, Options, User
from midge.server.errors import ConfigError
from midge.server.listeners.tls import build_server_context
from midge.server.log.logger import get_logger
from midge.server.peers.dial import Diallers
from midge.server.peers.leaf_accepted import AcceptedLeaf
from midge.server.peers.leaf_nodes import LeafNodes, leaf_link
from midge.server.peers.leaf_solicited import Remote
from midge.server.peers.listener import LinkListener

if TYPE_CHECKING:
    import socket
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

_CALLOUT_TIMEOUT_S = 2.0

log = get_logger()


class LeafListener(LinkListener):
    """Accepts the leafs of one server, and has their users checked."""

    def __init__(self, nodes: LeafNodes) -> None:
        """Read the settings.

        Raises:
            ConfigError: they cannot be.
        """
        LinkListener.__init__(self, nodes.broker, "leafnode_connections")
        self._nodes = nodes
        self.prepare(self.broker.options)()

    def prepare(self, options: Options) -> Callable[[], None]:
        """Read the users and the certificates of `options`; return what puts them in force.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        table, users = options.leafnodes, options_of(options.leafnodes, options.proxies)
        own = None if users is None else Authenticator(users)
        tls = build_server_context(table.tls, "leafnodes.tls") if table.tls.enabled else None
        return partial(self.check_by, own, tls, table.tls.timeout_s)

    def open_by(self, source: ConnectionSource, kind: str, host: str, port: int) -> tuple[str, int]:
        """Listen on a socket of `source`, for `host` and `port`; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        LinkListener.open_by(self, source, kind, host, port)
        log.info("leafnode_listener_started", address=f"{self.address[0]}:{self.address[1]}")
        return self.address

    def _options_of_proxies(self) -> Options | None:
        options = self.broker.options
        return options if options.leafnodes.proxy_protocol else None

    def make_link(self, peer: tuple[str, int]) -> Link:
        """Return a link for a leaf at `peer` that has just connected."""
        return self._make_link(peer, "LEAFNODE")

    def make_websocket_link(self, peer: tuple[str, int]) -> Link:
        """Return the link of a leaf inside a WebSocket; where too many are, it ends at once."""
        link = self._make_link(peer, "LEAFNODE_WS")
        if self.is_full():
            reason = ClosedReason.MAXIMUM_CONNECTIONS
            asyncio.get_running_loop().call_soon(link.close, reason)
        self.begin(link)
        return link

    def _make_link(self, peer: tuple[str, int], connection_type: str) -> Link:
        side = AcceptedLeaf(self._nodes, self._authenticate, self.address, connection_type)
        return leaf_link(self.broker, self.broker.take_cid(), peer, side)

    def count_links(self) -> int:
        """Count the leafs that are up."""
        return len(self._nodes.links)

    def greet(self, accepted: socket.socket, link: Link) -> None:
        """Send INFO before the handshake, unless that comes first."""
        if self.broker.options.leafnodes.tls.handshake_first == "off":
            accepted.send(link.side.info(link))
            link.side.owes_info = False

    def _authenticate(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a leaf, once all workers know its account."""
        seats, verdict = self.broker.admission.seats, self._decide(request)
        return verdict if seats is None else seats.introduce(verdict)

    def _decide(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a leaf by the users of this port, or else by clients' users."""
        if self.own is not None:
            return self.own.authenticate(request)
        authenticator = self.broker.admission.authenticator
        if not authenticator.is_required_by("STANDARD"):
            return authenticator.through_proxy(request, Identity())
        verdict, callout = authenticator.authenticate(request), self.broker.admission.callout
        if callout is None:
            return verdict
        timeout_s = self.broker.options.authorization.timeout_s or _CALLOUT_TIMEOUT_S
        return callout.decide(authenticator, request, verdict, timeout_s)


class LeafNodeService(Observer):
    """The links of `broker`, as its options describe them."""

    def __init__(self, broker: Broker, ledger: Ledger) -> None:
        self.nodes = LeafNodes(broker, ledger)
        self._broker = broker
        self._remotes = Diallers()
        self._listener: LeafListener | None = None
        broker.observers.append(self)

    def start(self, source: ConnectionSource) -> None:
        """Take leaf nodes at `source`, and connect to the remotes and stay connected.

        Raises:
            OSError: the address cannot be bound.
            ConfigError: the settings name what cannot be.
        """
        table = self._broker.options.leafnodes
        if table.port:
            self._listener = LeafListener(self.nodes)
            self._listener.open_by(source, "leafnodes", table.host, table.port)
        for remote in _enabled(self._broker.options):
            self._begin(Remote(self.nodes, remote))

    def _begin(self, remote: Remote) -> None:
        self._remotes.append(remote)
        remote.start()

    @property
    def address(self) -> tuple[str, int] | None:
        """Where leaf nodes connect; None where they do not."""
        return None if self._listener is None else self._listener.address

    @property
    def make_link(self) -> Callable[[tuple[str, int]], Link] | None:
        """The factory for links of leafs that come by WebSocket; None where none are accepted."""
        return None if self._listener is None else self._listener.make_websocket_link

    def tokens_scanned(self, why_ended: WhyEnded) -> None:
        """Close the links whose users have been taken back."""
        for link in list(self.nodes.links.values()):
            if isinstance(link.side, AcceptedLeaf):
                link.side.end_if(link, why_ended)

    # Changes while serving.

    def cluster_renamed(self) -> None:
        """Reconnect to the remotes that have the old name, as nats-server does.

        A leaf that has connected to this server gets the new name when it reconnects.
        """
        for remote in self._remotes:
            remote.tell_anew()

    def cluster_urls_changed(self) -> None:
        """Send the leafs the addresses that they may connect to by now."""
        for link in list(self.nodes.links.values()):
            if isinstance(link.side, AcceptedLeaf):
                link.send(link.side.info_again(link))

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check `options` and return what puts them in force, once they are the broker's.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        table = options.leafnodes
        renew_port = None if self._listener is None else self._listener.prepare(options)
        for index, remote in enumerate(table.remotes):
            self._check(remote, f"leafnodes.remotes[{index}]")

        def put_in_force() -> None:
            if renew_port is not None:
                renew_port()
            self._follow(_enabled(options))
            for link in list(self.nodes.links.values()):
                link.parser.max_payload = options.limits.max_payload_bytes
                link.announced.max_size = self.nodes.max_interest()
                if isinstance(link.side, AcceptedLeaf):
                    link.side.ask_again(link)

        return put_in_force

    def _check(self, table: LeafRemote, where: str) -> None:
        """Raise ConfigError where `table` names what cannot be."""
        try:
            if table.urls:
                Remote(self.nodes, table)
        except ValueError as error:
            raise ConfigError(str(error), key=f"{where}.urls") from error
        build_client_context(table.tls, f"{where}.tls")

    def _follow(self, tables: list[LeafRemote]) -> None:
        """Keep the links that are still described, end the others, and begin those that are new."""
        for remote in self._remotes[:]:
            known = next((table for table in tables if remote.take(table)), None)
            if known is not None:
                tables.remove(known)
                continue
            self._remotes.end(remote, ClosedReason.CLIENT_CLOSED)
        for table in tables:
            self._begin(Remote(self.nodes, table))

    async def stop(self) -> None:
        """Connect no more, and close the links."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._remotes.stop()
        self.nodes.close()


def _enabled(options: Options) -> list[LeafRemote]:
    """Return the remotes that are to be connected to."""
    return [table for table in options.leafnodes.remotes if table.urls and not table.disabled]


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
