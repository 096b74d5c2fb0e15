"""This end of a route: the handshake of either direction, and what happens on a violation."""

from __future__ import annotations

import base64
import secrets
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import UNSET

from midge.protocol import errors
from midge.protocol.errors import ProtocolError
from midge.protocol.leaf_messages import SubjectRules
from midge.protocol.route_messages import (
    GOSSIP_DEFAULT,
    RouteConnect,
    RouteInfo,
    parse_route_connect,
    parse_route_info,
)
from midge.server.auth import AuthRequest, Refusal
from midge.server.auth.authenticator import NOT_PINNED, is_pinned
from midge.server.channels.charges import COMMAND_BYTES, LOG_LINE_BYTES
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.reading import AUTHENTICATING
from midge.server.leafnodes.rules import rules_of
from midge.server.links.compression import NOT_SUPPORTED, OFF, Compression
from midge.server.links.dial import NO_INFO, cause_of
from midge.server.links.link import DOCUMENT_MAX_BYTES, INTRODUCTION_MAX_BYTES, RENEWAL_BYTES
from midge.server.links.verdict import when_decided
from midge.server.listeners.sockets import is_loopback
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.auth import Verdict
    from midge.server.auth.permissions import Permissions
    from midge.server.clock import Timer
    from midge.server.cluster.cluster import Cluster
    from midge.server.cluster.link import RouteBranch, RouteLink
    from midge.server.links.addresses import Address
    from midge.server.routing.account import Account
    from midge.sublist.subscription import RemoteSubscription

_NONCE_BYTES = 11
_AUTH_TIMEOUT_S = 2.0
_INFO_TIMEOUT_S = 2.0
_NO_ROUTE_OF_ITS_OWN = b"Not possible to have a dedicated route"
REFUSAL_HOLD_S = 1.0
"""How long a server that has connected waits for its refusal. nats-server 2.15.1 connects again at
once, 1,400 times a second on loopback, because its route for the system account ends by itself."""

_WRONG_PORT = "attempted to connect to route port"

log = get_logger()


class Dialler(Protocol):
    """Connects to a server and keeps the route up."""

    address: Address
    is_explicit: bool
    gossip_mode: int

    def joined(self) -> None:
        """Record that the route is up."""

    def ended(self, link: RouteLink) -> None:
        """Connect again."""


class RouteSide:
    """One end of a route; `info` is what the other server says of itself.

    `is_explicit` says that the settings of this server name the other one, and `was_solicited` that
    this one has connected. `taken` says which interest the other server takes; None: all of it.
    """

    was_solicited = False

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.info = RouteInfo()
        table = cluster.broker.options.cluster
        self.compression = Compression(table.compression, table.compression_rtt_s)
        self.gossip_mode = GOSSIP_DEFAULT
        self.is_explicit = False
        self.taken: Permissions | None = None
        self._timer: Timer | None = None

    # Come and gone.

    def opened(self, link: RouteLink) -> None:
        """Begin, unless the certificate of the other server is not pinned."""
        broker = self.cluster.broker
        broker.transport_made(link)
        pinned = broker.options.cluster.tls.pinned_certs
        is_encrypted = link.channel.tls_facts() is not None
        if pinned and is_encrypted and not is_pinned(link.channel.peer_certificate(), pinned):
            self.fail(link, None, ClosedReason.TLS_HANDSHAKE_FAILURE, NOT_PINNED)

    def closed(self, link: RouteLink) -> None:
        """Let go of a route that has ended."""
        self.stop_timer()
        self.cluster.leave(link)

    def lost(self, link: RouteLink) -> None:
        """Take note that its transport is gone."""
        self.cluster.broker.connection_lost(link)

    def wait(self, link: RouteLink, timeout_s: float) -> None:
        """Close `link` unless `stop_timer` is called in time."""
        self.stop_timer()
        self._timer = self.cluster.broker.clock.call_later(timeout_s, self._time_out, link)

    def stop_timer(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, link: RouteLink) -> None:
        self._timer = None
        self.timed_out()
        self.fail(link, errors.AUTHENTICATION_TIMEOUT, ClosedReason.AUTHENTICATION_TIMEOUT)

    def timed_out(self) -> None:
        """Note that the other server has not introduced itself in time."""

    def fail(
        self, link: RouteLink, wire: str | None, reason: ClosedReason, detail: str = ""
    ) -> None:
        """Close `link` for something that went wrong, which is logged."""
        error = detail or wire or reason.value
        if not self.takes_failure(link, error):
            log.error("route_error", cid=link.cid, peer=link.peer, error=error)
        link.close(reason, wire)

    def takes_failure(self, link: RouteLink, error: str) -> bool:
        """Return whether `error` is logged by the dialler, as the reason of a failed attempt."""
        return False

    def transport_failed(self, link: RouteLink, error: Exception) -> None:
        """Note why the transport is about to be lost."""

    def refuse(
        self, link: RouteLink, wire: str | None, reason: ClosedReason, detail: str = ""
    ) -> None:
        """Close `link` because its server may not take part, which is logged."""
        self.fail(link, wire, reason, detail)

    # What the other server says.

    def on_connect(self, link: RouteLink, document: bytes) -> None:
        """Take CONNECT, which only the server that has connected sends."""
        self.fail(link, None, ClosedReason.PROTOCOL_VIOLATION, "an unexpected CONNECT")

    def on_info(self, link: RouteLink, document: bytes) -> None:
        """Take INFO: of the other server at first, then of its changes and of third servers."""
        info = parse_route_info(document)
        if not self.info.server_id:
            if not self.compresses(link, info):
                self.first_info(link, info)
        elif info.server_id == self.info.server_id:
            self._renew(link, info)
        elif link.is_ready and info.server_id and self.is_trusted(link):
            link.spend(COMMAND_BYTES + LOG_LINE_BYTES)
            self.cluster.discovered(info)

    def compresses(self, link: RouteLink, info: RouteInfo) -> bool:
        """Agree on compression by the first INFO; where True, another one is to come."""
        compression = self.compression
        if compression.is_settled:
            return False
        if compression.own == OFF:
            compression.mode = NOT_SUPPORTED if info.compression is UNSET else OFF
            return False
        return compression.settle(link, info.compression)

    def own_info(self) -> RouteInfo:
        """Return the INFO of this server, with the compression that has been agreed on, if so."""
        info = self.cluster.info()
        if self.compression.is_settled:
            info.compression = self.compression.told
        return info

    def answered(self, link: RouteLink) -> None:
        """Choose the level of compression by the round trip of a PING that has been answered."""
        self.compression.answered(link)

    def ask_again(
        self,
        link: RouteLink,
        authenticate: Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None,
    ) -> None:
        """Leave a server in that this one has connected to: it is known where that is."""

    def is_trusted(self, link: RouteLink) -> bool:
        """Return whether an address of a third server that comes from here may be connected to."""
        return True

    def first_info(self, link: RouteLink, info: RouteInfo) -> None:
        """Take what the other server says of itself."""
        raise NotImplementedError

    def _renew(self, link: RouteLink, info: RouteInfo) -> None:
        """Take changes of what the other server says of itself."""
        before, self.info = self.info, info
        if before.export != info.export:
            link.spend(RENEWAL_BYTES)
            self._take_rules(info)
            self.cluster.tell_anew(link)
        if (before.connect_urls, before.ldm) != (info.connect_urls, info.ldm):
            self.cluster.urls_changed()

    def _take_rules(self, info: RouteInfo) -> None:
        """Note which interest the other server takes.

        Raises:
            ProtocolError: what it says of that are not subjects.
        """
        rules = info.export or SubjectRules()
        try:
            self.taken = rules_of(rules.allow, rules.deny)
        except ValueError as error:
            raise ProtocolError(None, f"INFO: export: {error}") from None

    def admit(self, link: RouteLink, info: RouteInfo) -> bool:
        """Admit the server of `info`; or close the link and return False."""
        cluster = self.cluster
        if info.server_id == cluster.server_id:
            self.refuse(link, None, ClosedReason.DUPLICATE_ROUTE, "a route to this server itself")
        elif info.server_id in cluster.routes:
            log.debug("route_is_duplicate", cid=link.cid, peer=link.peer)
            link.close(ClosedReason.DUPLICATE_ROUTE)
        elif not self.was_solicited and info.server_name == self.cluster.server_name():
            detail = (
                f"Remote server has a duplicate name: {errors.quote(info.server_name.encode())}"
            )
            self.refuse(link, None, ClosedReason.DUPLICATE_SERVER_NAME, detail)
        elif self._has_other_streams(info):
            detail = (
                "this server has JetStream and so has the other one: a cluster with midge in it has"
                " its streams on midge or on nats-servers"
            )
            self.refuse(link, None, ClosedReason.PROTOCOL_VIOLATION, detail)
        else:
            return True
        return False

    def take_part(self, link: RouteLink, info: RouteInfo) -> None:
        """Register the server of `info` and go on."""
        self.stop_timer()
        if not info.ip:
            port = info.port or link.peer_port
            host = f"[{link.peer_host}]" if ":" in link.peer_host else link.peer_host
            info.ip = f"nats-route://{host}:{port}/"
        self._take_rules(info)
        self.info = info
        link.name = info.server_name or info.server_id
        link.peer_protocol = info.proto
        own = self.cluster.broker.options.limits.header_support
        link.takes_headers(bool(info.headers) and own)
        link.limit(None, None, info.max_payload)
        self.cluster.join(link, info)

    def _has_other_streams(self, info: RouteInfo) -> bool:
        """Return whether both servers have JetStream."""
        is_there = info.jetstream is True or info.midge_jetstream is True
        return is_there and self.cluster.broker.options.jetstream.enabled

    def on_peer_error(self, link: RouteLink, text: bytes) -> None:
        """Close the route, as nats-server does for any error of the other side."""
        error = errors.quote(text[:256])
        if _NO_ROUTE_OF_ITS_OWN in text:
            # nats-server says so to itself, where it wants a route for its system account alone.
            log.debug("route_is_not_dedicated", cid=link.cid, peer=link.peer)
            link.close(ClosedReason.CLIENT_CLOSED)
            return
        if not self.takes_failure(link, error):
            log.error("route_peer_error", cid=link.cid, peer=link.peer, error=error)
        link.close(ClosedReason.PROTOCOL_VIOLATION)

    # Interest and messages.

    def account_of(self, name: bytes, known: int) -> Account | None:
        """Return the account called `name` for a route that has `known` accounts already."""
        return self.cluster.account_of(name, known)

    def allows_interest(self, link: RouteLink, subject: bytes) -> bool:
        """Return whether interest in `subject` is taken."""
        return self.cluster.telling.takes(subject)

    def refuse_surplus(self, link: RouteLink) -> None:
        """Count interest beyond the bound; it is ignored, since an error would end the route."""
        self.cluster.broker.limit_hits["route_subscriptions"] += 1

    def refuse_subject(self, link: RouteLink) -> None:
        """Count interest in something that is not a valid subject."""
        self.cluster.broker.limit_hits["route_subjects"] += 1

    def refuse_message(self, link: RouteLink, subject: bytes) -> None:
        """Count a message that is not allowed."""
        self.cluster.broker.limit_hits["route_denied_messages"] += 1

    def refuse_oversized(self, link: RouteLink) -> None:
        """Count a message that the other side would not take."""
        self.cluster.broker.limit_hits["route_payload"] += 1

    def interest_changed(self, source: RouteBranch, told: RemoteSubscription, change: int) -> None:
        """Pass on that there is so much more, or less, interest behind the route."""
        if source.told is not None:
            interest = self.cluster.interests.of(source.account)
            interest.link_changed(source, told.subject, told.queue, change, told.origin)


class AcceptedRoute(RouteSide):
    """This end of a route that the other server has opened."""

    def __init__(
        self,
        cluster: Cluster,
        authenticate: Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None,
    ) -> None:
        RouteSide.__init__(self, cluster)
        self._nonce = base64.urlsafe_b64encode(secrets.token_bytes(_NONCE_BYTES)).rstrip(b"=")
        self._authenticate = authenticate
        self._connect: RouteConnect | None = None
        self._is_let_in = False

    def opened(self, link: RouteLink) -> None:
        """Say INFO, and wait for CONNECT."""
        RouteSide.opened(self, link)
        if link.reason is not None:
            return
        info = self.own_info()
        info.nonce = self._nonce.decode()
        link.send(info.line())
        link.parser.connect_required = True
        link.parser.max_control_line = INTRODUCTION_MAX_BYTES
        own_s = self.cluster.broker.options.cluster.authorization.timeout_s
        self.wait(link, own_s or _AUTH_TIMEOUT_S)

    def refuse(
        self, link: RouteLink, wire: str | None, reason: ClosedReason, detail: str = ""
    ) -> None:
        """Log why the server may not take part, read nothing more of it, and close the link later.

        A route that is up ends at once.
        """
        if link.is_ready:
            self.fail(link, wire, reason, detail)
            return
        log.error("route_error", cid=link.cid, peer=link.peer, error=detail or wire)
        link.channel.reading.halt(AUTHENTICATING)
        self.stop_timer()
        clock = self.cluster.broker.clock
        self._timer = clock.call_later(REFUSAL_HOLD_S, self._end_refused, link, wire, reason)

    def _end_refused(self, link: RouteLink, wire: str | None, reason: ClosedReason) -> None:
        self._timer = None
        link.close(reason, wire)

    def on_connect(self, link: RouteLink, document: bytes) -> None:
        """Find out whether the server may connect; a second CONNECT breaks the protocol."""
        if self._connect is not None:
            RouteSide.on_connect(self, link, document)
            return
        link.parser.max_control_line = DOCUMENT_MAX_BYTES
        connect = self._connect = parse_route_connect(document)
        if connect.lang:
            self.fail(link, _WRONG_PORT, ClosedReason.WRONG_PORT)
        elif connect.gateway:
            text = f'Rejecting connection from gateway "{connect.gateway}" on the Router port'
            self.fail(link, text, ClosedReason.WRONG_PORT)
        elif self._authenticate is None:
            self._let_in(link, connect)
        else:
            self._ask(link, connect, self._authenticate)

    def _ask(
        self,
        link: RouteLink,
        connect: RouteConnect,
        authenticate: Callable[[AuthRequest], Verdict | Awaitable[Verdict]],
    ) -> None:
        """Check user and password."""
        request = AuthRequest(
            user=connect.user or "",
            password=connect.password or "",
            client_name=connect.name,
            nonce=self._nonce,
            peer_host=link.peer_host,
            peer_port=link.peer_port,
            connection_type="STANDARD",
            certificate=link.channel.peer_certificate(),
        )
        when_decided(link, authenticate(request), partial(self._conclude, link))

    def _conclude(self, link: RouteLink, verdict: Verdict) -> None:
        if isinstance(verdict, Refusal):
            reason = ClosedReason.AUTHENTICATION_FAILURE
            self.refuse(link, errors.AUTHORIZATION_VIOLATION, reason, verdict.detail)
        elif self._connect is not None and not self._is_let_in:
            self._let_in(link, self._connect)

    def _let_in(self, link: RouteLink, connect: RouteConnect) -> None:
        """Compare the names of the clusters, and wait for INFO."""
        self.stop_timer()
        cluster = self.cluster
        is_dynamic = connect.cluster_dynamic is True
        if cluster.refuses_name(connect.cluster, is_dynamic=is_dynamic, server_id=connect.name):
            text = (
                f'Rejecting connection, cluster name "{connect.cluster}" does not match'
                f' "{cluster.name}"'
            )
            self.refuse(link, text, ClosedReason.CLUSTER_NAME_CONFLICT)
            return
        self._is_let_in = True

    def ask_again(
        self,
        link: RouteLink,
        authenticate: Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None,
    ) -> None:
        """Find out whether a server that is in may stay; `authenticate` is new."""
        self._authenticate = authenticate
        if self._is_let_in and authenticate is not None and self._connect is not None:
            self._ask(link, self._connect, authenticate)

    def compresses(self, link: RouteLink, info: RouteInfo) -> bool:
        """Agree on compression, and answer with INFO by it."""
        if not self._is_let_in or not RouteSide.compresses(self, link, info):
            return False
        self.compression.begin(link)
        link.send(self.own_info().line())
        return True

    def is_trusted(self, link: RouteLink) -> bool:
        """Return whether the server has proven itself, or is on this machine."""
        has_proof = (
            self._authenticate is not None or self.cluster.broker.options.cluster.tls.enabled
        )
        return has_proof or is_loopback(link.peer_host)

    def first_info(self, link: RouteLink, info: RouteInfo) -> None:
        """Register the server that has connected, once it has been let in."""
        if not self._is_let_in:
            self.refuse(link, errors.AUTHORIZATION_VIOLATION, ClosedReason.AUTHENTICATION_FAILURE)
        elif self.admit(link, info):
            self.take_part(link, info)


class SolicitedRoute(RouteSide):
    """This end of a route that `dialler` has opened; `failure` says why it is refused."""

    was_solicited = True

    def __init__(self, cluster: Cluster, dialler: Dialler) -> None:
        RouteSide.__init__(self, cluster)
        self._dialler = dialler
        self.is_explicit = dialler.is_explicit
        self.gossip_mode = dialler.gossip_mode
        self.found_id = ""
        self.failure = ""
        self.was_introduced = False

    def opened(self, link: RouteLink) -> None:
        """Wait for INFO."""
        RouteSide.opened(self, link)
        if link.reason is None:
            self.wait(link, _INFO_TIMEOUT_S)

    def compresses(self, link: RouteLink, info: RouteInfo) -> bool:
        """Return False: `first_info` agrees on compression, between CONNECT and INFO."""
        return False

    def timed_out(self) -> None:
        """Record that no INFO has come."""
        self.failure = NO_INFO

    def takes_failure(self, link: RouteLink, error: str) -> bool:
        """Return True until the route is up; the first error is its failure.

        The other server refuses this one only after the route is up here.
        """
        takes = not link.is_ready or errors.AUTHORIZATION_VIOLATION in error
        if takes:
            self.failure = self.failure or error
        return takes

    def transport_failed(self, link: RouteLink, error: Exception) -> None:
        """Note why the route does not come up."""
        if not link.is_ready:
            self.failure = self.failure or cause_of(error)

    def lost(self, link: RouteLink) -> None:
        """Have the server connected to again."""
        RouteSide.lost(self, link)
        self._dialler.ended(link)

    def first_info(self, link: RouteLink, info: RouteInfo) -> None:
        """Introduce this server, and register the other one."""
        self.found_id = info.server_id
        cluster = self.cluster
        if not info.server_id or info.client_id is not UNSET:
            detail = "attempted to connect to wrong port: its INFO is not that of a route port"
            self.fail(link, None, ClosedReason.WRONG_PORT, detail)
            return
        if self.was_introduced:
            link.send(self.own_info().line())
            self.take_part(link, info)
            self._dialler.joined()
            return
        if not self.admit(link, info):
            return
        name, is_dynamic = info.cluster or "", info.cluster_dynamic is True
        refused = cluster.refuses_name(name, is_dynamic=is_dynamic, server_id=info.server_id)
        address = self._dialler.address
        own = cluster.broker.options.cluster.authorization
        user, password = address.user, address.password
        if not user:
            user, password = own.user, own.password
        connect = RouteConnect(
            user=user or UNSET,
            password=password or UNSET,
            tls_required=cluster.broker.options.cluster.tls.enabled,
            headers=cluster.broker.options.limits.header_support,
            name=cluster.server_id,
            cluster=cluster.name,
            cluster_dynamic=True if cluster.is_dynamic else UNSET,
            lnoc=True,
            lnocu=True,
        )
        link.send(connect.line())
        if refused and not is_dynamic:
            # As nats-server does: with CONNECT the other server can tell its log why.
            detail = f"cluster name {errors.quote(name.encode())} does not match"
            self.fail(link, None, ClosedReason.CLUSTER_NAME_CONFLICT, detail)
            return
        self.was_introduced = True
        is_compressed = RouteSide.compresses(self, link, info)
        link.send(self.own_info().line())
        if is_compressed:  # another INFO is to come
            self.compression.begin(link)
            return
        self.take_part(link, info)
        self._dialler.joined()
