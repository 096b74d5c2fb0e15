"""The end of a link that has connected to another server, its hub."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

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
from midge.server.broker.message_trace import TRACING_PROTOCOL
from midge.server.channels.closed_reason import ClosedReason
from midge.server.peers.compression import OFF, Compression
from midge.server.peers.end import RENEWAL_BYTES
from midge.server.peers.leaf_accepted import AcceptedLeaf
from midge.server.peers.leaf_end import LOOP_DELAY_S, LeafEnd
from midge.server.peers.rules import denied_for, rules_of
from midge.server.peers.service import Ends
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from midge.server.config.leafnodes import LeafRemote
    from midge.server.peers.dial import Address
    from midge.server.peers.dialler import LeafDialler
    from midge.server.peers.leaf_nodes import LeafNodes
    from midge.server.peers.link import Link

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

    def __init__(self, nodes: LeafNodes, remote: LeafDialler) -> None:
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
        own = LeafInfo(
            **self.nodes.own_fields(), client_id=link.cid, compression=compression.announced
        )
        link.send(own.line())
        compression.begin(link)
        return True

    def _join(self, link: Link, info: LeafInfo) -> None:
        """Announce our interest and take messages, within what the hub's INFO allows."""
        self.stop_timer()
        if info.acc_is_sys:
            self.retry_delay_s = LOOP_DELAY_S
            detail = "the hub has us in its system account, which midge does not link"
            self.fail(link, None, ClosedReason.MISSING_ACCOUNT, detail)
            return
        self.is_done = True
        self._remote.joined()
        self.compare_domains(link, has_jetstream=info.jetstream is True, domain=info.domain or "")
        if self._bind(link, info):
            table = self._remote.table
            role = Role.LEAF if table.hub else Role.HUB
            self.nodes.join(link, role, is_isolated=table.isolate_interest)

    def _renew(self, link: Link, info: LeafInfo) -> None:
        """Go by other permissions from now on."""
        link.spend(RENEWAL_BYTES)
        if self._bind(link, info):
            self.nodes.announce_again(link)

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
        message = text.decode(errors="replace")
        if LOOP_TEXT in message or "same cluster name" in message:
            self.loop_found()
            link.close(ClosedReason.PROTOCOL_VIOLATION)
        elif "permissions violation" in message.lower():
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


LEAF_ENDS = Ends(AcceptedLeaf, SolicitedLeaf)


def _rules(announced: object) -> SubjectRules:
    return announced if isinstance(announced, SubjectRules) else SubjectRules()


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
