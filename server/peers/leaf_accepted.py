"""The end of a link that another server, a leaf, has connected to."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

from midge.protocol import errors
from midge.protocol.leaf_messages import (
    LeafConnect,
    LeafInfo,
    SubjectRules,
    parse_leaf_connect,
    parse_leaf_info,
)
from midge.server.auth import AuthRequest, Identity, Refusal, Verdict
from midge.server.broker.expiry import expiry_text
from midge.server.broker.server_info import LEAFS, WEBSOCKETS
from midge.server.channels.closed_reason import ClosedReason
from midge.server.config.addresses import advertised_address
from midge.server.listeners.sockets import host_in_url
from midge.server.peers.compression import OFF, Compression
from midge.server.peers.end import new_nonce
from midge.server.peers.leaf_end import LeafEnd
from midge.server.peers.leaf_nodes import LEAFNODE_WS
from midge.server.peers.listener import when_decided
from midge.server.peers.rules import denied_for, rules_of
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from midge.server.auth.permissions import PermissionRules
    from midge.server.broker.expiry import WhyEnded
    from midge.server.peers.leaf_nodes import LeafNodes
    from midge.server.peers.link import Link
    from midge.server.routing.account import Account

_LONGEST_WAIT_S = 24 * 3600.0  # timers may not be set for years
_VERSION_PART = re.compile("[0-9]{1,9}")
_WRONG_PORT = "attempted to connect to leaf node port"


class AcceptedLeaf(LeafEnd):
    """This end, for a leaf whose connection is of `connection_type`."""

    def __init__(self, nodes: LeafNodes, connection_type: str) -> None:
        table = nodes.broker.options.leafnodes
        own = OFF if connection_type == LEAFNODE_WS else table.compression
        LeafEnd.__init__(self, nodes, Compression(own, table.compression_rtt_s))
        self._nonce = new_nonce()
        self._connection_type = connection_type
        self._connect: LeafConnect | None = None
        self._request: AuthRequest | None = None
        self._identity: Identity | None = None
        self._owes_info = True

    def greeting(self, link: Link) -> bytes:
        """Return INFO, unless the TLS handshake comes first."""
        if self.broker.options.leafnodes.tls.handshake_first != "off":
            return b""
        self._owes_info = False
        return self.info(link)

    def opened(self, link: Link) -> None:
        """Send INFO, unless that is done, and wait for CONNECT."""
        LeafEnd.opened(self, link)
        if link.reason is not None:
            return
        if self._owes_info:
            link.send(self.info(link))
        self.await_connect(link, self.broker.options.leafnodes.authorization.timeout_s)

    def info(self, link: Link) -> bytes:
        """Return the line of the first INFO, or of the second one, which settles compression."""
        info = self._info(link)
        info.nonce = self._nonce.decode()
        info.info_on_connect = True
        compression = self.compression
        info.compression = compression.announced if compression.is_settled else compression.own
        return info.line()

    def info_again(self, link: Link) -> bytes:
        """Return the INFO line that announces changed addresses to a leaf."""
        return self._info(link).line()

    def on_info(self, link: Link, document: bytes) -> None:
        """Agree on compression with a leaf that has some; CONNECT follows."""
        compression = self.compression
        if self._connect is not None:
            return
        if compression.own == OFF or compression.is_settled:
            reason = ClosedReason.AUTHENTICATION_FAILURE
            self.fail(link, errors.AUTHORIZATION_VIOLATION, reason, "an unexpected INFO")
        elif compression.settle(link, parse_leaf_info(document).compression):
            compression.begin(link)
            link.send(self.info(link))

    def _info(self, link: Link) -> LeafInfo:
        broker = self.broker
        options = broker.options
        host, port = self.nodes.address
        shown_host, shown_port = advertised_address(options.leafnodes.advertise, host, port)
        shown = f"{host_in_url(shown_host)}:{shown_port}"
        urls = [] if options.leafnodes.no_advertise else [shown]
        websockets: list[str] = []
        if broker.cluster is not None:
            urls = broker.cluster.urls(LEAFS)
            # As from nats-server, without the address of this server.
            websockets = broker.cluster.urls(WEBSOCKETS, with_own=False)
        return LeafInfo(
            **self.nodes.own_fields(),
            host=host,
            port=port,
            auth_required=True,
            tls_required=options.leafnodes.tls.enabled,
            client_id=link.cid,
            jetstream=options.jetstream.enabled or UNSET,
            domain=(options.jetstream.enabled and options.jetstream.domain) or UNSET,
            cluster=self.nodes.cluster_name() or UNSET,
            ip=shown,
            ws_connect_urls=tuple(websockets) or UNSET,
            leafnode_urls=tuple(urls) or UNSET,
            api_lvl=5,
        )

    def pinned_certs(self) -> tuple[str, ...]:
        """Return the fingerprints of the port that the leaf has connected to."""
        options = self.broker.options
        is_websocket = self._connection_type == LEAFNODE_WS
        return (options.websocket if is_websocket else options.leafnodes).tls.pinned_certs

    # CONNECT.

    def on_connect(self, link: Link, document: bytes) -> None:
        """Find out whose the link is; a second CONNECT breaks the protocol."""
        if self._connect is not None:
            self.fail(link, None, ClosedReason.PROTOCOL_VIOLATION, "a second CONNECT")
            return
        self.take_connect(link)
        connect = self._connect = parse_leaf_connect(document)
        self.version, self.user, link.name = connect.version, connect.user, connect.name
        refusal = self._refusal(connect)
        if refusal is not None:
            self.fail(link, refusal, ClosedReason.PROTOCOL_VIOLATION)
            return
        self._request = AuthRequest(
            user=connect.user,
            password=connect.password,
            token=connect.auth_token,
            jwt=connect.jwt,
            nkey=connect.nkey,
            signature=connect.sig,
            client_name=connect.name,
            version=connect.version,
            nonce=self._nonce,
            peer_host=link.peer_host,
            peer_port=link.peer_port,
            connection_type=self._connection_type,
            proxy_signature=connect.proxy_sig,
            certificate=link.channel.peer_certificate(),
        )
        self._ask(link)

    def _ask(self, link: Link) -> None:
        """Check the leaf's user, which may take a while."""
        assert self._request is not None, "it is CONNECT that asks"
        when_decided(link, self.nodes.authenticate(self._request), partial(self._conclude, link))

    def ask_again(self, link: Link) -> None:
        """Find out whether a leaf that is in may stay, and as what; the rules have changed."""
        if self._identity is not None and link.reason is None:
            self._ask(link)

    def _refusal(self, connect: LeafConnect) -> str | None:
        """Return the reason why a server with this CONNECT cannot be a leaf, or None."""
        if connect.lang:
            return _WRONG_PORT
        if connect.gateway:
            return f'Rejecting connection from gateway "{connect.gateway}" on the leafnode port'
        least = self.broker.options.leafnodes.min_version
        if least and _version(connect.version) < _version(least):
            return f'connection rejected since minimum version required is "{least}"'
        if any(character.isspace() for character in connect.cluster):
            return "cluster name cannot contain spaces"
        if connect.cluster and connect.cluster == self.nodes.cluster_name():
            return "remote leafnode has same cluster name"
        return None

    def _conclude(self, link: Link, verdict: Verdict) -> None:
        """Admit or refuse the leaf."""
        if isinstance(verdict, Refusal):
            self.fail(link, verdict.wire, ClosedReason.AUTHENTICATION_FAILURE, verdict.detail)
            return
        if self._identity is not None:
            self._stay(link, self._identity, verdict)
            return
        plan = self.broker.admission.plan_for(verdict.account)
        if plan is None:
            detail = "the account cannot be"
            self.fail(link, errors.AUTHORIZATION_VIOLATION, ClosedReason.MISSING_ACCOUNT, detail)
            return
        account = self.broker.account(verdict.account)
        if account is self.broker.system_account:
            detail = "midge does not link the system account"
            self.fail(link, errors.AUTHORIZATION_VIOLATION, ClosedReason.MISSING_ACCOUNT, detail)
            return
        self._admit(link, verdict, account, plan.max_leafnodes)

    def _stay(self, link: Link, before: Identity, identity: Identity) -> None:
        """Apply the leaf's present permissions; close the link if its account has changed."""
        connect = self._connect
        assert connect is not None, "a leaf that is in has connected"
        if identity.account != before.account:
            self.fail(link, None, ClosedReason.CLIENT_CLOSED, "its user is of another account now")
            return
        self._take_identity(link, identity)
        if _table_of(identity) == _table_of(before):
            return
        info = self._second_info(link, identity)
        self._bind(link, identity.rules, connect.deny_pub or (), info)
        link.send(info.line())
        self.nodes.announce_again(link)

    def end_if(self, link: Link, why_ended: WhyEnded) -> None:
        """Close `link` if its user, or the account of that, has been taken back."""
        ended = None if self._identity is None else why_ended(self._identity)
        if ended is not None:
            self.fail(link, ended.wire, ClosedReason(ended.reason), ended.detail)

    def _take_identity(self, link: Link, identity: Identity) -> None:
        """Record the leaf's identity, and close `link` when its user's token expires."""
        self._identity = identity
        self.user = identity.user
        self.proxy_key = identity.proxy_key
        self._watch_expiry(link, identity)

    def _watch_expiry(self, link: Link, identity: Identity) -> None:
        """Close `link` when its user's token ends."""
        self.stop_timer()
        if identity.expires_at_s is None:
            return
        clock = self.broker.clock
        left_s = identity.expires_at_s - clock.wall()
        if left_s > _LONGEST_WAIT_S:
            self._timer = clock.call_later(_LONGEST_WAIT_S, self._watch_expiry, link, identity)
            return
        reason = ClosedReason.AUTHENTICATION_EXPIRED
        self.wait(link, max(left_s, 0.0), expiry_text(identity), reason)

    def _second_info(self, link: Link, identity: Identity) -> LeafInfo:
        """Return the INFO that depends on the leaf's identity."""
        info = self._info(link)
        info.connect_info = True
        info.remote_account = identity.account
        return info

    def _admit(self, link: Link, identity: Identity, account: Account, most: int) -> None:
        """Bind the link to `account`, answer with INFO, and take part, unless `most` are there."""
        connect = self._connect
        assert connect is not None, "it is CONNECT that is concluded"
        broker = self.broker
        link.account = account
        link.peer_protocol = connect.protocol
        link.cluster = connect.cluster
        link.remote_account = connect.remote_account
        self._end_duplicates(link)
        _, there = broker.count_elsewhere(account.name)
        if 0 <= most <= self._count_in(account) + there:
            reason = ClosedReason.MAXIMUM_ACCOUNT_CONNECTIONS
            self.fail(link, errors.MAXIMUM_ACCOUNT_CONNECTIONS, reason)
            return
        self._take_identity(link, identity)
        self.compare_domains(link, has_jetstream=connect.jetstream, domain=connect.domain)
        link.takes_headers(connect.headers and broker.options.limits.header_support)
        info = self._second_info(link, identity)
        try:
            self._bind(link, identity.rules, connect.deny_pub or (), info)
        except ValueError as error:
            self.fail(link, None, ClosedReason.PROTOCOL_VIOLATION, f"deny_pub: {error}")
            return
        link.send(info.line())
        is_isolated = connect.isolate or broker.options.leafnodes.isolate_interest
        self.nodes.join(link, Role.HUB if connect.is_hub else Role.LEAF, is_isolated=is_isolated)

    def _bind(
        self,
        link: Link,
        rules: PermissionRules | None,
        deny_pub: tuple[str, ...],
        info: LeafInfo,
    ) -> None:
        """Limit `link` by its user's permissions, and put them into `info`.

        `subscribe` limits the messages that go to the leaf, `publish` those that come from it.
        """
        own = denied_for(self.broker.options.jetstream)
        if rules is None:
            link.limit(rules_of((), (*deny_pub, *own.send)), rules_of((), own.take), 0)
            return
        table = rules.table
        subscribe, publish = table.subscribe, table.publish
        link.limit(
            rules_of(subscribe.allow, (*subscribe.deny, *deny_pub, *own.send)),
            rules_of(publish.allow, (*publish.deny, *own.take), table.allow_responses),
            0,
        )
        if subscribe.allow or subscribe.deny:
            info.import_ = SubjectRules(allow=subscribe.allow, deny=subscribe.deny)
        if publish.allow or publish.deny:
            info.export = SubjectRules(allow=publish.allow, deny=publish.deny)

    def _count_in(self, account: Account) -> int:
        """Count the leafs of `account` that are up."""
        accepted = self.nodes.accepted()
        return sum(link.account is account and link.reason is None for link in accepted)

    def _end_duplicates(self, link: Link) -> None:
        """Close an older link of the same leaf, which has reconnected while the old one hung."""
        for other in self.nodes.accepted():
            if (
                other is not link
                and other.name
                and (other.name, other.cluster) == (link.name, link.cluster)
                and other.account is link.account
                and other.remote_account == link.remote_account
            ):
                text = "Duplicate Remote LeafNode Connection"
                self.fail(other, text, ClosedReason.DUPLICATE_REMOTE_LEAFNODE)

    # What the leaf may not do.

    def allows_interest(self, link: Link, subject: bytes) -> bool:
        """Return whether the leaf may have `subject`; a refused subject ends the link."""
        if LeafEnd.allows_interest(self, link, subject):
            return True
        text = errors.subscription_violation(subject)
        self.fail(link, text, ClosedReason.PROTOCOL_VIOLATION)
        return False

    def refuse_message(self, link: Link, subject: bytes) -> None:
        """End a link that brings what its user may not publish."""
        self.fail(link, errors.publish_violation(subject), ClosedReason.PROTOCOL_VIOLATION)


def _table_of(identity: Identity) -> object:
    return None if identity.rules is None else identity.rules.table


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare; empty if it is not a version."""
    numbers = text.lstrip("v").partition("-")[0].split(".")
    is_version = all(_VERSION_PART.fullmatch(number) for number in numbers)
    return tuple(int(number) for number in numbers) if is_version else ()
