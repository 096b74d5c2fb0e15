"""The port that leaf nodes connect to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from midge.server.auth.authenticator import Authenticator
from midge.server.auth.identity import Identity
from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.loop_adapter import forget, protocol_for
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.options import Account, Authorization, Options, User
from midge.server.leafnodes.accepted import Accepted
from midge.server.leafnodes.link import LeafLink
from midge.server.listeners.sockets import listen, peer_of
from midge.server.listeners.tls import build_server_context
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.auth import AuthRequest, Verdict
    from midge.server.config.leafnodes import LeafAuthorization, LeafNodes
    from midge.server.leafnodes import nodes as leaf_nodes

HANDSHAKES_MAX = 256
"""Most leafs that may be shaking hands at a time; each holds a task and a socket."""

_BACKLOG = 128
_ACCEPTS_PER_TURN = 16
_CALLOUT_TIMEOUT_S = 2.0
_PAUSE_S = 0.5  # after running out of file descriptors

log = get_logger()


class LeafListener:
    """Accepts the leafs of one server, and has their users checked."""

    def __init__(self, nodes: leaf_nodes.LeafNodes) -> None:
        """Read the settings.

        Raises:
            ConfigError: they cannot be.
        """
        self._nodes = nodes
        self._broker = nodes.broker
        self._own: Authenticator | None = None
        self._tls: ssl.SSLContext | None = None
        self.prepare(self._broker.options.leafnodes)()
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: set[LeafLink] = set()
        self.address = ("", 0)

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
            self._own, self._tls = own, tls

        return put_in_force

    def open(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be bound.
        """
        table = self._broker.options.leafnodes
        self._socket, self.address = listen(table.host, table.port, _BACKLOG)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        log.info("leafnode_listener_started", address=f"{self.address[0]}:{self.address[1]}")

    def close(self) -> None:
        """Take no more leafs; those that are up are closed by others."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for task in list(self._tasks):
            task.cancel()
        for link in list(self._begun):
            link.close(ClosedReason.SERVER_SHUTDOWN)
        if self._own is not None:
            self._own.close()

    def _accept(self) -> None:
        """Take the leafs that wait, up to a turn's worth."""
        for _ in range(_ACCEPTS_PER_TURN):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("accept_failed", error=str(error), delay_s=_PAUSE_S)
                asyncio.get_running_loop().remove_reader(self._socket)
                self._broker.clock.call_later(_PAUSE_S, self._watch)
                return
            self._begin(accepted, peer_of(address))

    def _watch(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def make_link(self, peer: tuple[str, int]) -> LeafLink:
        """Make the link of a leaf that has come by a WebSocket."""
        side = Accepted(self._nodes, self._authenticate, self.address, "LEAFNODE_WS")
        link = LeafLink(self._broker, self._broker.take_cid(), peer, side)
        if self._is_full():
            self._broker.limit_hits["leafnode_connections"] += 1
            reason = ClosedReason.MAXIMUM_CONNECTIONS
            asyncio.get_running_loop().call_soon(link.close, reason)
        self._begun.add(link)
        return link

    def _is_full(self) -> bool:
        """Tell whether there are as many leafs, or as many shaking hands, as may be."""
        self._begun = {link for link in self._begun if link.reason is None and not link.is_ready}
        too_many = len(self._begun) >= HANDSHAKES_MAX or len(self._tasks) >= HANDSHAKES_MAX
        return too_many or len(self._nodes.links) >= self._broker.options.limits.max_connections

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        if self._is_full():
            self._broker.limit_hits["leafnode_connections"] += 1
            accepted.close()
            return
        accepted.setblocking(False)
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        side = Accepted(self._nodes, self._authenticate, self.address)
        link = LeafLink(self._broker, self._broker.take_cid(), peer, side)
        self._begun.add(link)
        task = asyncio.get_running_loop().create_task(self._connect(accepted, link, side))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, link: LeafLink, side: Accepted) -> None:
        """Bring `link` onto the socket, by TLS after its INFO where that is asked for."""
        loop = asyncio.get_running_loop()
        table = self._broker.options.leafnodes.tls
        protocol = protocol_for(loop, link.channel)
        try:
            if self._tls is not None and table.handshake_first == "off":
                accepted.send(side.info(link))
                side.owes_info = False
            await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=(table.timeout_s or None) if self._tls else None,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            error.__traceback__ = None
            forget(protocol)
            accepted.close()
            text = str(error) or type(error).__name__
            log.error("tls_handshake_failed", cid=link.cid, peer=link.peer, error=text)
            link.close(ClosedReason.TLS_HANDSHAKE_FAILURE)
            link.channel.let_go()

    def _authenticate(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Say who a leaf is: by the rules of this port, or else by those of clients."""
        if self._own is not None:
            return self._own.authenticate(request)
        authenticator = self._broker.admission.authenticator
        if not authenticator.is_required_by("STANDARD"):
            return Identity()
        verdict, callout = authenticator.authenticate(request), self._broker.admission.callout
        if callout is None:
            return verdict
        timeout_s = self._broker.options.authorization.timeout_s or _CALLOUT_TIMEOUT_S
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
