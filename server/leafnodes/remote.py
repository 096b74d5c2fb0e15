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
from midge.server.leafnodes.credentials import parse_address
from midge.server.leafnodes.link import LeafLink
from midge.server.leafnodes.solicited import Solicited
from midge.server.links.addresses import Address
from midge.server.links.dial import (
    ENDED,
    NO_INFO,
    Attempts,
    attach,
    cause_of,
    dial,
    read_line,
    within,
)
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from midge.server.config.leafnodes import LeafRemote
    from midge.server.leafnodes.nodes import LeafNodes
    from midge.server.listeners.websocket.client import WebSocketClient

_DISCOVERED_MAX = 256
"""Most addresses taken from a hub's INFO; a cluster has a handful of servers."""

log = get_logger()


class Remote:
    """Keeps up the link to what `table` describes, from `start` to `stop`."""

    def __init__(self, nodes: LeafNodes, table: LeafRemote) -> None:
        """Read the addresses.

        Raises:
            ValueError: one of them is invalid.
        """
        self.table = table
        self._nodes = nodes
        self._broker = nodes.broker
        self._configured = [parse_address(url) for url in table.urls]
        if not table.no_randomize:
            nodes.broker.random.shuffle(self._configured)
        self._addresses = list(self._configured)
        self.address = self._addresses[0]
        self._task: asyncio.Task[None] | None = None
        self._gone: asyncio.Event = asyncio.Event()
        self._link: LeafLink | None = None
        self._is_anonymous = False  # whether it speaks TLS and has no certificate
        self._attempts = Attempts(lambda: nodes.broker.options)

    def start(self) -> None:
        """Connect, and again when that fails or ends."""
        self._task = asyncio.get_running_loop().create_task(self._keep_up())

    async def stop(self, reason: ClosedReason = ClosedReason.SERVER_SHUTDOWN) -> None:
        """Try no more, and close the link."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._link is not None:
            self._link.close(reason)

    def take(self, table: LeafRemote) -> bool:
        """Go by `table` from the next connection on; False: it describes another link."""
        if structs.replace(table, tls=self.table.tls) != self.table:
            return False
        self.table = table
        return True

    def tell_anew(self) -> None:
        """End a link over which this server has introduced itself; the next one is made soon."""
        if self._link is not None and self._link.side.has_connected:
            self._link.close(ClosedReason.CLUSTER_NAME_CONFLICT)

    # What its link tells.

    def joined(self) -> None:
        """Record that the link is up."""
        self._attempts.succeeded()

    def ended(self, link: LeafLink) -> None:
        """Record that the link is gone."""
        if link is self._link:
            self._gone.set()

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
                found = parse_address(url)
                if (found.host, found.port) not in known:
                    known.add((found.host, found.port))
                    credentials = (self.address.user, self.address.password)
                    rest = (self.address.is_encrypted, self.address.path)
                    self._addresses.append(Address(*found[:2], *credentials, *rest))

    # Dialling.

    async def _keep_up(self) -> None:
        while True:
            self._next_address()
            delay_s = await self._attempt()
            await sleep(self._broker.clock, delay_s)

    def _next_address(self) -> None:
        """Move on to the address that was tried longest ago."""
        following = 0
        if self.address in self._addresses:
            following = (self._addresses.index(self.address) + 1) % len(self._addresses)
        self.address = self._addresses[following]

    async def _attempt(self) -> float:
        """Keep a link up while it lasts; return the seconds to wait before the next one."""
        reconnect_s = self._broker.options.leafnodes.reconnect_s
        side = Solicited(self._nodes, self)
        self._gone.clear()
        try:
            await self._connect(side)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            self._failed(cause_of(error))
            if self._link is not None:
                self._link.close(ClosedReason.CLIENT_CLOSED)
                self._link = None
            return reconnect_s * (1 + self._broker.random.random())
        await self._gone.wait()
        self._link = None
        if not side.is_done:
            self._failed(side.failure or ENDED)
        return side.retry_delay_s or reconnect_s

    def _failed(self, cause: str) -> None:
        """Log a failed attempt, if it is one of those that are logged."""
        if cause == ENDED and self._is_anonymous:
            cause += "; it may require a client certificate"
        remote, is_reported = str(self.address), self._attempts.is_reported(cause)
        count = self._attempts.count
        if is_reported:
            log.error("leafnode_connect_failed", remote=remote, attempt=count, error=cause)
        else:
            log.debug("leafnode_connect_failed", remote=remote, attempt=count, error=cause)

    async def _connect(self, side: Solicited) -> None:
        """Bring a link up as far as a transport."""
        loop = asyncio.get_running_loop()
        table, address = self.table, self.address
        name = table.account or GLOBAL_ACCOUNT
        await self._broker.admission.make_known(name)
        async with within(table.dial_timeout_s, "no answer to the connection attempt"):
            bare = await dial(loop, address.host, address.port)
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
        account = self._broker.account(name)
        link = LeafLink(self._broker, self._broker.take_cid(), (peer[0], peer[1]), side)
        link.account = account
        self._link = link
        try:
            await attach(
                link,
                bare,
                address.host,
                context,
                table.tls.timeout_s,
                self._upgrade_for(link),
                table.first_info_timeout_s,
            )
        except BaseException:
            self._link = None
            raise
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
