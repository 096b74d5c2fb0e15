"""The end of a link that has connected to another server, its hub, and the attempts to connect.

They go on for ever, at each of the hub's addresses in turn.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, structs

from midge.protocol import COMPATIBLE_VERSION
from midge.protocol.credentials import decode_user_seed, split_credentials
from midge.protocol.leaf_messages import (
    LOOP_TEXT,
    LeafConnect,
    LeafInfo,
    SubjectRules,
    parse_leaf_info,
)
from midge.protocol.nkeys import USER_PREFIX, encode_nkey
from midge.server.auth.client_tls import build_client_context
from midge.server.broker.message_trace import TRACING_PROTOCOL
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clock import sleep
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.peers.announcer import InterestAnnouncer, InterestLines
from midge.server.peers.compression import OFF, Compression
from midge.server.peers.dial import (
    ENDED,
    NO_INFO,
    Address,
    Dialler,
    attach,
    dial,
    parse_leaf_address,
    read_line,
    within,
)
from midge.server.peers.end import RENEWAL_BYTES
from midge.server.peers.leaf_nodes import LOOP_DELAY_S, LeafEnd, LeafNodes, leaf_link
from midge.server.peers.link import Link
from midge.server.peers.rules import denied_for, rules_of, telling
from midge.server.routing.role import Role

if TYPE_CHECKING:
    import socket

    from midge.server.config.leafnodes import LeafRemote
    from midge.server.listeners.websocket.client import WebSocketClient

_DISCOVERED_MAX = 256
"""Most addresses taken from a hub's INFO; a cluster has a handful of servers."""

_CREDENTIALS_MAX_BYTES = 1 << 20
_SECOND_INFO_S = 2.0
_TOGETHER_S = 0.25  # by so much the two ends of a link may see it come up at other times
_OTHER_WAIT_S = 1.0
_STALE = "Stale Leaf Node Connection - Closing"


class SolicitedLeaf(LeafEnd):
    """This end, for a connection to `remote`.

    `has_connected` is True once CONNECT has been sent. `retry_delay_s` is how long to wait before
    the next one, where this one ends for a reason that will not go away at once.
    """

    def __init__(self, nodes: LeafNodes, remote: Remote) -> None:
        table = remote.table
        own = OFF if remote.address.path is not None else table.compression
        LeafEnd.__init__(self, nodes, Compression(own, table.compression_rtt_s), remote)
        self._remote = remote
        self.has_connected = False
        self._hub_id = ""
        self.retry_delay_s = 0.0

    def opened(self, link: Link) -> None:
        """Wait for INFO."""
        LeafEnd.opened(self, link)
        if link.reason is not None:
            return
        timeout_s = self._remote.table.first_info_timeout_s
        self.wait(link, timeout_s, _STALE, ClosedReason.AUTHENTICATION_TIMEOUT)

    def on_info(self, link: Link, document: bytes) -> None:
        """Take the hub's INFO: the first is answered by CONNECT, the second by our interest."""
        info = parse_leaf_info(document)
        if not self.has_connected:
            self._introduce(link, info)
        elif info.connect_info is True and not self.is_done:
            self._join(link, info)
        elif info.connect_info is True:
            self._renew(link, info)
        self._remote.discovered(info)

    def _introduce(self, link: Link, info: LeafInfo) -> None:
        """Send CONNECT."""
        if not info.client_id or info.client_ip is not UNSET:
            detail = "attempted to connect to wrong port: its INFO is not that of a leaf node port"
            self.fail(link, None, ClosedReason.PROTOCOL_VIOLATION, detail)
            return
        if self._compresses(link, info):
            return
        self.has_connected = True
        link.name = info.server_name or info.server_id
        self._hub_id = info.server_id
        link.cluster = info.cluster or ""
        own = self.nodes.server_name()
        jetstream = self.broker.options.jetstream
        connect = LeafConnect(
            version=COMPATIBLE_VERSION,
            server_id=self.broker.keys.server_id,
            name=own,
            cluster=self.nodes.cluster_name() or own,
            is_hub=self._remote.table.hub,
            headers=self.broker.options.limits.header_support,
            isolate=self._remote.table.request_isolation,
            jetstream=jetstream.enabled,
            domain=jetstream.domain if jetstream.enabled else "",
            deny_pub=(*self._remote.table.deny_imports, *denied_for(jetstream).take) or None,
            compress_mode=self.compression.mode,
            remote_account=link.account.name,
            protocol=TRACING_PROTOCOL,
        )
        try:
            prove(connect, self._remote.table, self._remote.address, info.nonce or "")
        except (OSError, ValueError) as error:
            self.fail(link, None, ClosedReason.AUTHENTICATION_FAILURE, f"credentials: {error}")
            return
        link.takes_headers(bool(info.headers) and connect.headers)
        link.peer_protocol = info.proto
        link.send(connect.line() + b"PING\r\n")
        if info.info_on_connect:
            self.wait(link, _SECOND_INFO_S, _STALE, ClosedReason.AUTHENTICATION_TIMEOUT)
        else:
            self._join(link, info)

    def _compresses(self, link: Link, info: LeafInfo) -> bool:
        """Agree on compression by the first INFO; where True, another one is to come."""
        compression = self.compression
        if not compression.settle(link, info.compression):
            return False
        options = self.broker.options
        own = LeafInfo(
            server_id=self.broker.keys.server_id,
            server_name=self.nodes.server_name(),
            version=COMPATIBLE_VERSION,
            proto=TRACING_PROTOCOL,
            go="python",
            headers=options.limits.header_support,
            max_payload=options.limits.max_payload_bytes,
            client_id=link.cid,
            compression=compression.told,
        )
        link.send(own.line())
        compression.begin(link)
        return True

    def _join(self, link: Link, info: LeafInfo) -> None:
        """Tell our interest and take messages, within what the hub's INFO allows."""
        self.stop_timer()
        if info.acc_is_sys:
            self.retry_delay_s = LOOP_DELAY_S
            detail = "the hub has us in its system account, which midge does not link"
            self.fail(link, None, ClosedReason.MISSING_ACCOUNT, detail)
            return
        self.is_done = True
        self._remote.joined()
        self.compare_domains(link, has_jetstream=info.jetstream is True, domain=info.domain or "")
        link.announced.max_size = self.nodes.max_interest()
        link.pass_as(Role.LEAF if self._remote.table.hub else Role.HUB)
        is_isolated = self._remote.table.isolate_interest
        link.announcer = InterestAnnouncer(
            link, self.broker.turns, InterestLines(b"LS"), is_isolated=is_isolated
        )
        if self._bind(link, info):
            self.nodes.join(link, link.take_rules)

    def _renew(self, link: Link, info: LeafInfo) -> None:
        """Go by other permissions from now on."""
        link.spend(RENEWAL_BYTES)
        if self._bind(link, info):
            self.nodes.ledger.of(link.account).renew(link, telling(link.take_rules))

    def _bind(self, link: Link, info: LeafInfo) -> bool:
        """Limit `link` by what the hub allows, and by what our settings deny.

        False, and the link is closed, where what the hub says is not what it should be.
        """
        imports, exports = _rules(info.import_), _rules(info.export)
        table = self._remote.table
        own = denied_for(self.broker.options.jetstream)
        try:
            take = rules_of(imports.allow, imports.deny + table.deny_imports + own.take)
            send = rules_of(exports.allow, exports.deny + table.deny_exports + own.send)
        except ValueError as error:
            self.retry_delay_s = LOOP_DELAY_S
            detail = f"permissions in INFO: {error}"
            self.fail(link, None, ClosedReason.PROTOCOL_VIOLATION, detail)
            return False
        link.limit(send, take, info.max_payload)
        return True

    def on_peer_error(self, link: Link, text: bytes) -> None:
        """Log it, and stay away for a while after a loop or a violation of permissions."""
        LeafEnd.on_peer_error(self, link, text)
        told = text.decode(errors="replace")
        if LOOP_TEXT in told or "same cluster name" in told:
            self.loop_found()
            link.close(ClosedReason.PROTOCOL_VIOLATION)
        elif "permissions violation" in told.lower():
            self.retry_delay_s = LOOP_DELAY_S

    def loop_wait_s(self, link: Link) -> float:
        """Wait where the link was up before the loop; the one that has made it a loop ends now.

        Of links that came up together, those end whose server has a lesser id than its hub: not all
        can, in a circle.
        """
        others = [
            one.joined_at
            for one in self.nodes.links.values()
            if one is not link and one.account is link.account
        ]
        if not others:
            return _OTHER_WAIT_S  # the other link of the loop has ended meanwhile
        later_s = link.joined_at - max(others)
        is_latest = later_s > 0
        if abs(later_s) < _TOGETHER_S:
            is_latest = self.broker.keys.server_id < self._hub_id
        return 0.0 if is_latest else _OTHER_WAIT_S

    def loop_found(self) -> None:
        """Stay away for a while."""
        self.retry_delay_s = LOOP_DELAY_S * (1 + 0.5 * self.broker.random.random())


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
            delay_s = await self._attempt()
            self._next_address()
            await sleep(self.broker.clock, delay_s)

    def _next_address(self) -> None:
        """Move on to the address that was tried longest ago."""
        following = 0
        if self.address in self._addresses:
            following = (self._addresses.index(self.address) + 1) % len(self._addresses)
        self.address = self._addresses[following]

    async def _attempt(self) -> float:
        """Keep a link up while it lasts; return the seconds to wait before the next one."""
        reconnect_s = self.broker.options.leafnodes.reconnect_s
        end = SolicitedLeaf(self._nodes, self)
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

    async def connect(self, end: SolicitedLeaf) -> None:
        """Bring a link up as far as a transport."""
        loop = asyncio.get_running_loop()
        table, address = self.table, self.address
        name = table.account or GLOBAL_ACCOUNT
        await self.broker.admission.make_known(name)
        bare, peer = await self._dial(loop)
        try:
            first = b""
            if not table.tls.handshake_first and address.path is None:
                async with within(table.first_info_timeout_s, NO_INFO):
                    first = await read_line(loop, bare)
            context = self._tls_context(first)
            self._is_anonymous = context is not None and not table.tls.cert_file
        except BaseException:
            bare.close()
            raise
        link = leaf_link(self.broker, self.broker.take_cid(), peer, end)
        link.account = self.broker.account(name)
        self.link = link
        upgrade, limit_s = self._upgrade_for(link), table.first_info_timeout_s
        await attach(link, bare, address.host, context, table.tls.timeout_s, upgrade, limit_s)
        if first:
            link.channel.feed(first)

    async def _dial(self, loop: asyncio.AbstractEventLoop) -> tuple[socket.socket, tuple[str, int]]:
        """Connect a socket to the address; return it, and to which host and port it is."""
        table, address, proxy = self.table, self.address, self.table.proxy
        if not proxy.url:
            bare = await dial(loop, address.host, address.port, table.dial_timeout_s)
            host, port = bare.getpeername()[:2]
            return bare, (host, port)
        # Few remotes are behind one.
        from midge.server.peers.proxy import dial_through  # noqa: PLC0415

        return await dial_through(proxy, address, proxy.timeout_s or table.dial_timeout_s, loop)

    def _upgrade_for(self, link: Link) -> WebSocketClient | None:
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


def _rules(told: object) -> SubjectRules:
    return told if told is not UNSET and isinstance(told, SubjectRules) else SubjectRules()


def prove(connect: LeafConnect, remote: LeafRemote, address: Address, nonce: str) -> None:
    """Put the remote's credentials, and a signature of its nonce, into `connect`.

    Raises:
        OSError: the credentials file cannot be read.
        ValueError: the file or the seed is malformed.
    """
    if remote.credentials:
        with Path(remote.credentials).open("rb") as file:
            text = file.read(_CREDENTIALS_MAX_BYTES).decode(errors="replace")
        connect.jwt, seed = split_credentials(text)
        if not connect.jwt or not seed:
            raise ValueError("expected a user's JWT and seed in the credentials file")
        connect.sig = _sign(seed, nonce)[1]
    elif remote.nkey_seed:
        connect.nkey, connect.sig = _sign(remote.nkey_seed, nonce)
    elif address.user and address.password:
        connect.user, connect.password = address.user, address.password
    elif address.user:
        connect.user = connect.auth_token = address.user  # older servers take it as a token
    elif remote.token:
        connect.auth_token = remote.token
    else:
        connect.user, connect.password = remote.user, remote.password


def _sign(seed: str, nonce: str) -> tuple[str, str]:
    """Return the public key of `seed` and its signature of `nonce`."""
    # Only links with keys pay for importing it.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    key = Ed25519PrivateKey.from_private_bytes(decode_user_seed(seed))
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
    return encode_nkey(bytes([USER_PREFIX]) + raw), signature
