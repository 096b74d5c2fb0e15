"""The port that leaf nodes connect to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from midge.server.auth.authenticator import Authenticator
from midge.server.auth.identity import Identity
from midge.server.channels.closed_reason import ClosedReason
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.options import Account, Authorization, Options, User
from midge.server.leafnodes.accepted import Accepted
from midge.server.leafnodes.link import LeafLink
from midge.server.links.listener import LinkListener
from midge.server.listeners.tls import build_server_context
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from midge.server.auth import AuthRequest, Verdict
    from midge.server.config.leafnodes import LeafAuthorization, LeafNodes
    from midge.server.config.options import Options
    from midge.server.leafnodes import nodes as leaf_nodes
    from midge.server.links.link import Link
    from midge.server.listeners.doors import Doors

_CALLOUT_TIMEOUT_S = 2.0

log = get_logger()


class LeafListener(LinkListener):
    """Accepts the leafs of one server, and has their users checked."""

    def __init__(self, nodes: leaf_nodes.LeafNodes) -> None:
        """Read the settings.

        Raises:
            ConfigError: they cannot be.
        """
        LinkListener.__init__(self, nodes.broker, "leafnode_connections")
        self._nodes = nodes
        self._own: Authenticator | None = None
        self.prepare(self.broker.options.leafnodes)()

    def prepare(self, table: LeafNodes) -> Callable[[], None]:
        """Read the users and the certificates of `table`; return what puts them in force.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        options = options_of(table.authorization)
        own = None if options is None else Authenticator(options)
        tls = build_server_context(table.tls, "leafnodes.tls") if table.tls.enabled else None

        def put_in_force() -> None:
            if self._own is not None:
                self._own.close()
            self._own, self.tls, self.tls_timeout_s = own, tls, table.tls.timeout_s

        return put_in_force

    def open_by(self, doors: Doors, kind: str, host: str, port: int) -> tuple[str, int]:
        """Listen on a socket of `doors`, for `host` and `port`; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        LinkListener.open_by(self, doors, kind, host, port)
        log.info("leafnode_listener_started", address=f"{self.address[0]}:{self.address[1]}")
        return self.address

    def _options_of_proxies(self) -> Options | None:
        options = self.broker.options
        return options if options.leafnodes.proxy_protocol else None

    def close(self) -> None:
        """Take no more leafs; those that are up are closed by others."""
        LinkListener.close(self)
        if self._own is not None:
            self._own.close()

    def make_link(self, peer: tuple[str, int]) -> LeafLink:
        """Return a link for a leaf at `peer` that has just connected."""
        return self._make_link(peer, "LEAFNODE")

    def make_websocket_link(self, peer: tuple[str, int]) -> LeafLink:
        """Return the link of a leaf inside a WebSocket; where too many are, it ends at once."""
        link = self._make_link(peer, "LEAFNODE_WS")
        if self.is_full():
            reason = ClosedReason.MAXIMUM_CONNECTIONS
            asyncio.get_running_loop().call_soon(link.close, reason)
        self.begin(link)
        return link

    def _make_link(self, peer: tuple[str, int], connection_type: str) -> LeafLink:
        side = Accepted(self._nodes, self._authenticate, self.address, connection_type)
        return LeafLink(self.broker, self.broker.take_cid(), peer, side)

    def count_links(self) -> int:
        """Count the leafs that are up."""
        return len(self._nodes.links)

    def greet(self, accepted: socket.socket, link: Link) -> None:
        """Send INFO before the handshake, unless that comes first."""
        if self.broker.options.leafnodes.tls.handshake_first == "off":
            accepted.send(link.side.info(link))
            link.side.owes_info = False

    def _authenticate(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Say who a leaf is, once all workers know its account."""
        seats, verdict = self.broker.admission.seats, self._decide(request)
        return verdict if seats is None else seats.introduce(verdict)

    def _decide(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Say who a leaf is: by the rules of this port, or else by those of clients."""
        if self._own is not None:
            return self._own.authenticate(request)
        authenticator = self.broker.admission.authenticator
        if not authenticator.is_required_by("STANDARD"):
            return Identity()
        verdict, callout = authenticator.authenticate(request), self.broker.admission.callout
        if callout is None:
            return verdict
        timeout_s = self.broker.options.authorization.timeout_s or _CALLOUT_TIMEOUT_S
        return callout.decide(authenticator, request, verdict, timeout_s)


def options_of(table: LeafAuthorization) -> Options | None:
    """Write the users of the port as options of a server; None where it has none of its own."""
    users: dict[str, list[User]] = {}
    if table.user or table.nkey:
        only = User(user=table.user, password=table.password, nkey=table.nkey)
        users.setdefault(table.account, []).append(only)
    for user in table.users:
        one = User(
            user=user.user, password=user.password, nkey=user.nkey, permissions=user.permissions
        )
        users.setdefault(user.account or table.account, []).append(one)
    if not users:
        return None
    unnamed = [*users.pop("", []), *users.pop(GLOBAL_ACCOUNT, [])]
    return Options(
        authorization=Authorization(users=tuple(unnamed)),
        accounts=tuple(Account(name=name, users=tuple(of)) for name, of in users.items()),
    )
