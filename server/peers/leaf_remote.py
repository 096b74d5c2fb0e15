"""A server that a link is kept up to: dialled again and again, at each of its addresses in turn."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING

from msgspec import structs

from midge.protocol.leaf_messages import LeafInfo, parse_leaf_info
from midge.server.auth.client_tls import build_client_context
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clock import sleep
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.peers.addresses import Address, parse_leaf_address
from midge.server.peers.dial import (
    ENDED,
    NO_INFO,
    Dialler,
    attach,
    dial,
    read_line,
    within,
)
from midge.server.peers.leaf import LeafLink
from midge.server.peers.leaf_solicited import Solicited

if TYPE_CHECKING:
    from midge.server.config.leafnodes import LeafRemote
    from midge.server.listeners.websocket.client import WebSocketClient
    from midge.server.peers.leaf_nodes import LeafNodes

_DISCOVERED_MAX = 256
"""Most addresses taken from a hub's INFO; a cluster has a handful of servers."""


class Remote(Dialler):
    """Keeps up the link to what `table` describes."""

    failed_event = "leafnode_connect_failed"

    def __init__(self, nodes: LeafNodes, table: LeafRemote) -> None:
        """Read the addresses.

        Raises:
            ValueError: one of them is invalid.
        """
        self._configured = [parse_leaf_address(url) for url in table.urls]
        if not table.no_randomize:
            nodes.broker.random.shuffle(self._configured)
        Dialler.__init__(self, nodes.broker, self._configured[0])
        self.table = table
        self._nodes = nodes
        self._addresses = list(self._configured)
        self._is_anonymous = False  # whether it speaks TLS and has no certificate

    def take(self, table: LeafRemote) -> bool:
        """Go by `table` from the next connection on; False: it describes another link."""
        if structs.replace(table, tls=self.table.tls) != self.table:
            return False
        self.table = table
        return True

    def tell_anew(self) -> None:
        """End a link over which this server has introduced itself; the next one is made soon."""
        if self.link is not None and self.link.side.has_connected:
            self.link.close(ClosedReason.CLUSTER_NAME_CONFLICT)

    # What its link tells.

    def joined(self) -> None:
        """Record that the link is up."""
        self.attempts.succeeded()

    def discovered(self, info: LeafInfo) -> None:
        """Take over the addresses of the hub's cluster."""
        is_websocket = self.address.path is not None
        urls = info.ws_connect_urls if is_websocket else info.leafnode_urls
        if self.table.ignore_discovered_servers or not isinstance(urls, tuple):
            return
        known = {(one.host, one.port) for one in self._configured}
        self._addresses = list(self._configured)
        for url in urls[:_DISCOVERED_MAX]:
            with contextlib.suppress(ValueError):
                found = parse_leaf_address(url)
                if (found.host, found.port) not in known:
                    known.add((found.host, found.port))
                    credentials = (self.address.user, self.address.password)
                    rest = (self.address.is_encrypted, self.address.path)
                    self._addresses.append(Address(*found[:2], *credentials, *rest))

    # Dialling.

    async def keep_up(self) -> None:
        """Make one attempt after the other, at each address in turn."""
        while True:
            self._next_address()
            await sleep(self.broker.clock, await self._attempt())

    def _next_address(self) -> None:
        """Move on to the address that was tried longest ago."""
        following = 0
        if self.address in self._addresses:
            following = (self._addresses.index(self.address) + 1) % len(self._addresses)
        self.address = self._addresses[following]

    async def _attempt(self) -> float:
        """Keep a link up while it lasts; return the seconds to wait before the next one."""
        reconnect_s = self.broker.options.leafnodes.reconnect_s
        end = Solicited(self._nodes, self)
        if not await self.attempt(end):
            return reconnect_s * (1 + self.broker.random.random())
        if not end.is_done:
            self.failed(end.failure or ENDED)
        return end.retry_delay_s or reconnect_s

    def failed(self, cause: str) -> None:
        """Log a failed attempt, if it is one of those that are logged."""
        if cause == ENDED and self._is_anonymous:
            cause += "; it may require a client certificate"
        Dialler.failed(self, cause)

    async def connect(self, end: Solicited) -> None:
        """Bring a link up as far as a transport."""
        loop = asyncio.get_running_loop()
        table, address = self.table, self.address
        name = table.account or GLOBAL_ACCOUNT
        await self.broker.admission.make_known(name)
        bare = await dial(loop, address.host, address.port, table.dial_timeout_s)
        try:
            first = b""
            if not table.tls.handshake_first and address.path is None:
                async with within(table.first_info_timeout_s, NO_INFO):
                    first = await read_line(loop, bare)
            context = self._tls_context(first)
            self._is_anonymous = context is not None and not table.tls.cert_file
            peer = bare.getpeername()[:2]
        except BaseException:
            bare.close()
            raise
        link = LeafLink(self.broker, self.broker.take_cid(), (peer[0], peer[1]), end)
        link.account = self.broker.account(name)
        self.link = link
        upgrade, limit_s = self._upgrade_for(link), table.first_info_timeout_s
        await attach(link, bare, address.host, context, table.tls.timeout_s, upgrade, limit_s)
        if first:
            link.channel.feed(first)

    def _upgrade_for(self, link: LeafLink) -> WebSocketClient | None:
        """Return what makes a WebSocket of the connection, where the URL asks for one."""
        address, table = self.address, self.table
        if address.path is None:
            return None
        # Only links of this kind pay for importing it.
        from midge.server.listeners.websocket.client import (  # noqa: PLC0415
            WebSocketClient,
        )

        return WebSocketClient(
            link,
            str(address),
            address.path,
            compress=table.ws_compression,
            no_masking=table.ws_no_masking,
        )

    def _tls_context(self, first_line: bytes) -> ssl.SSLContext | None:
        """Give the context for the handshake, if there is to be one."""
        tls = self.table.tls
        wanted = tls.required or tls.handshake_first or self.address.is_encrypted
        if not wanted and first_line.startswith(b"INFO "):
            wanted = parse_leaf_info(first_line[5:]).tls_required is True
        return build_client_context(tls) if wanted else None
