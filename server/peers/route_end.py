"""This end of a route: the handshake of either direction, and what happens on a violation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

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
from midge.server.channels.charges import COMMAND_BYTES, LOG_LINE_BYTES
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.reading import AUTHENTICATING
from midge.server.listeners.sockets import is_loopback
from midge.server.log.logger import get_logger
from midge.server.peers.compression import Compression
from midge.server.peers.dial import NO_INFO, Place
from midge.server.peers.end import RENEWAL_BYTES, End, new_nonce
from midge.server.peers.listener import when_decided
from midge.server.peers.route import route_link
from midge.server.peers.rules import rules_of
from midge.server.peers.service import Ends

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.auth import Verdict
    from midge.server.auth.permissions import Permissions
    from midge.server.peers.cluster import Cluster
    from midge.server.peers.dialler import Dialler, RouteDialler
    from midge.server.peers.link import Link

_NOT_DEDICATED = "Not possible to have a dedicated route"
_WRONG_PORT = "attempted to connect to route port"
_INFO_TIMEOUT_S = 2.0

log = get_logger()


class RouteEnd(End):
    """One end of a route; `info` is what the other server says of itself.

    `place` is which route to that server it is, and `pool_size` the number of them that share
    accounts; 0 where it is the only one. `is_explicit` says that the settings of this server name
    the other one. `taken` says which interest the other server takes; None: all of it.
    """

    kind = "route"
    error_event = "route_error"
    peer_error_event = "route_peer_error"

    def __init__(
        self,
        cluster: Cluster,
        dialler: Dialler | None = None,
        *,
        is_explicit: bool = False,
        gossip_mode: int = GOSSIP_DEFAULT,
    ) -> None:
        table = cluster.broker.options.cluster
        compression = Compression(table.compression, table.compression_rtt_s)
        End.__init__(self, cluster, compression, dialler)
        self.cluster = cluster
        self.info = RouteInfo()
        self.gossip_mode = gossip_mode
        self.is_explicit = is_explicit
        self.taken: Permissions | None = None
        self.place: Place = 0
        self.pool_size = 0

    def link_to(self, peer: tuple[str, int]) -> Link:
        """Return a new link, of which this is the end, to a server at `peer`."""
        interval_s = self.cluster.ping_interval_s()
        return route_link(self.broker, self.broker.take_cid(), peer, self, interval_s)

    def pinned_certs(self) -> tuple[str, ...]:
        """Return the fingerprints, one of which the other server's certificate must have."""
        return self.broker.options.cluster.tls.pinned_certs

    def refuse(self, link: Link, wire: str | None, reason: ClosedReason, detail: str = "") -> None:
        """Close `link` because its server may not take part, which is logged."""
        self.fail(link, wire, reason, detail)

    # What the other server says.

    def on_connect(self, link: Link, document: bytes) -> None:
        """Take CONNECT, which only the server that has connected sends."""
        self.fail(link, None, ClosedReason.PROTOCOL_VIOLATION, "an unexpected CONNECT")

    def on_info(self, link: Link, document: bytes) -> None:
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

    def compresses(self, link: Link, info: RouteInfo) -> bool:
        """Agree on compression by the first INFO; where True, another one is to come."""
        return self.compression.settle(link, info.compression)

    def own_info(self) -> RouteInfo:
        """Return the INFO of this server, with the compression that has been agreed on, if so."""
        info = self.cluster.info()
        place = self.place
        if self.was_solicited and place:
            if isinstance(place, str):
                info.route_account = place
            else:
                info.route_pool_idx = place
        if self.compression.is_settled:
            info.compression = self.compression.announced
        return info

    def ask_again(
        self,
        link: Link,
        authenticate: Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None,
    ) -> None:
        """Leave a server in that this one has connected to: it is known where that is."""

    def is_trusted(self, link: Link) -> bool:
        """Return whether an address of a third server that comes from here may be connected to."""
        return True

    def first_info(self, link: Link, info: RouteInfo) -> None:
        """Take what the other server says of itself."""
        raise NotImplementedError

    def _renew(self, link: Link, info: RouteInfo) -> None:
        """Take changes of what the other server says of itself, for all routes to it."""
        cluster = self.cluster
        before = self.info
        for one in cluster.links_to(info.server_id):
            end = one.end
            end.info = info
            if before.export != info.export:
                link.spend(RENEWAL_BYTES)
                end.take_rules(info)
                cluster.announce_again(one)
        if before.urls() != info.urls():
            cluster.urls_changed()

    def take_rules(self, info: RouteInfo) -> None:
        """Note which interest the other server takes.

        Raises:
            ProtocolError: what it says of that are not subjects.
        """
        rules = info.export or SubjectRules()
        try:
            self.taken = rules_of(rules.allow, rules.deny)
        except ValueError as error:
            raise ProtocolError(None, f"INFO: export: {error}") from None

    def admit(self, link: Link, info: RouteInfo) -> bool:
        """Admit the server of `info`; or close the link and return False."""
        cluster = self.cluster
        if info.server_id == cluster.server_id:
            self.refuse(link, None, ClosedReason.DUPLICATE_ROUTE, "a route to this server itself")
        elif (info.server_id, self.place) in cluster.links:
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

    def take_part(self, link: Link, info: RouteInfo) -> None:
        """Register the server of `info` and go on."""
        self.stop_timer()
        if not info.ip:
            port = info.port or link.peer_port
            host = f"[{link.peer_host}]" if ":" in link.peer_host else link.peer_host
            info.ip = f"nats-route://{host}:{port}/"
        self.take_rules(info)
        self.info = info
        self.pool_size = self.cluster.pool_size(info)
        if isinstance(self.place, str):
            link.dedicate(self.place)
        link.name = info.server_name or info.server_id
        link.peer_protocol = info.proto
        own = self.broker.options.limits.header_support
        link.takes_headers(bool(info.headers) and own)
        link.limit(None, None, info.max_payload)
        self.cluster.join(link, info)

    def _has_other_streams(self, info: RouteInfo) -> bool:
        """Return whether both servers have JetStream."""
        is_there = info.jetstream is True or info.midge_jetstream is True
        return is_there and self.broker.options.jetstream.enabled

    def on_peer_error(self, link: Link, text: bytes) -> None:
        """Close the route, as nats-server does for any error of the other side."""
        if _NOT_DEDICATED.encode() in text:
            # nats-server says so to itself, where it wants a route for its system account alone.
            log.debug("route_is_not_dedicated", cid=link.cid, peer=link.peer)
            link.close(ClosedReason.CLIENT_CLOSED)
            return
        End.on_peer_error(self, link, text)
        link.close(ClosedReason.PROTOCOL_VIOLATION)

    # Interest and messages.

    def allows_interest(self, link: Link, subject: bytes) -> bool:
        """Return whether interest in `subject` is taken."""
        return self.cluster.interest_rules.takes(subject)

    def refuse_subject(self, link: Link) -> None:
        """Count interest in something that is not a valid subject."""
        self._count("subjects")


class AcceptedRoute(RouteEnd):
    """This end of a route that the other server has opened."""

    def __init__(
        self,
        cluster: Cluster,
        authenticate: Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None,
    ) -> None:
        RouteEnd.__init__(self, cluster)
        self._nonce = new_nonce()
        self._authenticate = authenticate
        self._connect: RouteConnect | None = None
        self._is_let_in = False

    def opened(self, link: Link) -> None:
        """Send INFO, and wait for CONNECT; a server that was just refused waits first."""
        RouteEnd.opened(self, link)
        if link.reason is not None:
            return
        delay_s = self.cluster.refusals.delay_s(link.peer_host)
        if delay_s > 0:
            link.channel.reading.halt(AUTHENTICATING)
            self._timer = self.broker.clock.call_later(delay_s, self._go_on, link)
        else:
            self._introduce(link)

    def _go_on(self, link: Link) -> None:
        self._introduce(link)
        link.channel.reading.unhalt(AUTHENTICATING)
        link.channel.resume()

    def _introduce(self, link: Link) -> None:
        info = self.own_info()
        info.nonce = self._nonce.decode()
        link.send(info.line())
        self.await_connect(link, self.broker.options.cluster.authorization.timeout_s)

    def refuse(self, link: Link, wire: str | None, reason: ClosedReason, detail: str = "") -> None:
        """Close `link` because its server may not take part, and have its next one wait."""
        self.cluster.refusals.add(link.peer_host)
        self.fail(link, wire, reason, detail)

    def on_connect(self, link: Link, document: bytes) -> None:
        """Find out whether the server may connect; a second CONNECT breaks the protocol."""
        if self._connect is not None:
            RouteEnd.on_connect(self, link, document)
            return
        self.take_connect(link)
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
        link: Link,
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

    def _conclude(self, link: Link, verdict: Verdict) -> None:
        if isinstance(verdict, Refusal):
            reason = ClosedReason.AUTHENTICATION_FAILURE
            self.refuse(link, errors.AUTHORIZATION_VIOLATION, reason, verdict.detail)
        elif self._connect is not None and not self._is_let_in:
            self._let_in(link, self._connect)

    def _let_in(self, link: Link, connect: RouteConnect) -> None:
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
        link: Link,
        authenticate: Callable[[AuthRequest], Verdict | Awaitable[Verdict]] | None,
    ) -> None:
        """Find out whether a server that is in may stay; `authenticate` is new."""
        self._authenticate = authenticate
        if self._is_let_in and authenticate is not None and self._connect is not None:
            self._ask(link, self._connect, authenticate)

    def compresses(self, link: Link, info: RouteInfo) -> bool:
        """Agree on compression, and answer with INFO by it."""
        if not self._is_let_in or not RouteEnd.compresses(self, link, info):
            return False
        self.compression.begin(link)
        link.send(self.own_info().line())
        return True

    def is_trusted(self, link: Link) -> bool:
        """Return whether the server has proven itself, or is on this machine."""
        has_proof = self._authenticate is not None or self.broker.options.cluster.tls.enabled
        return has_proof or is_loopback(link.peer_host)

    def first_info(self, link: Link, info: RouteInfo) -> None:
        """Register the server that has connected, once it has been let in."""
        if not self._is_let_in:
            self.refuse(link, errors.AUTHORIZATION_VIOLATION, ClosedReason.AUTHENTICATION_FAILURE)
            return
        self.place = info.route_account or info.route_pool_idx or 0
        unfit = self._unfit(info)
        if unfit:
            self.fail(link, unfit, ClosedReason.PROTOCOL_VIOLATION)
        elif self.admit(link, info):
            self.take_part(link, info)

    def _unfit(self, info: RouteInfo) -> str:
        """Return why there is no route at `place` to the server of `info`; empty if there is."""
        place, size = self.place, self.cluster.pool_size(info)
        if isinstance(place, int):
            is_in_pool = 0 <= place < max(size, 1)
            return "" if is_in_pool else f"Invalid route pool index: {place} - pool size is {size}"
        if not size:
            return f'{_NOT_DEDICATED} for account "{place}" between those servers'
        return "" if place in self.cluster.dedicated() else f'No route for account "{place}"'


class SolicitedRoute(RouteEnd):
    """This end of a route that `dialler` has opened; `failure` says why it is refused."""

    def __init__(self, cluster: Cluster, dialler: RouteDialler) -> None:
        explicit, gossip_mode = dialler.is_explicit, dialler.gossip_mode
        RouteEnd.__init__(self, cluster, dialler, is_explicit=explicit, gossip_mode=gossip_mode)
        self.place = dialler.place
        self._address = dialler.address
        self.found_id = ""
        self.was_introduced = False

    def opened(self, link: Link) -> None:
        """Wait for INFO."""
        RouteEnd.opened(self, link)
        if link.reason is None:
            self.wait(link, _INFO_TIMEOUT_S, detail=NO_INFO)

    def compresses(self, link: Link, info: RouteInfo) -> bool:
        """Return False: `first_info` agrees on compression, between CONNECT and INFO."""
        return False

    def takes_failure(self, error: str) -> bool:
        """Return True until the route is up, and for a refusal, which comes after that."""
        if errors.AUTHORIZATION_VIOLATION in error:
            self.is_done = False
        return RouteEnd.takes_failure(self, error)

    def first_info(self, link: Link, info: RouteInfo) -> None:
        """Introduce this server, and register the other one."""
        self.found_id = info.server_id
        cluster = self.cluster
        if not info.server_id or info.client_id is not UNSET:
            detail = "attempted to connect to wrong port: its INFO is not that of a route port"
            self.fail(link, None, ClosedReason.WRONG_PORT, detail)
            return
        if self.was_introduced:
            link.send(self.own_info().line())
            self._join(link, info)
            return
        if not self.admit(link, info):
            return
        name, is_dynamic = info.cluster or "", info.cluster_dynamic is True
        refused = cluster.refuses_name(name, is_dynamic=is_dynamic, server_id=info.server_id)
        address = self._address
        own = self.broker.options.cluster.authorization
        user, password = address.user, address.password
        if not user:
            user, password = own.user, own.password
        connect = RouteConnect(
            user=user or UNSET,
            password=password or UNSET,
            tls_required=self.broker.options.cluster.tls.enabled,
            headers=self.broker.options.limits.header_support,
            name=cluster.server_id,
            cluster=cluster.name,
            cluster_dynamic=True if cluster.is_dynamic else UNSET,
            lnoc=True,
            lnocu=True,
        )
        link.send(connect.line())
        if refused and not is_dynamic:
            # As nats-server does: with CONNECT the other server can log why.
            detail = f"cluster name {errors.quote(name.encode())} does not match"
            self.fail(link, None, ClosedReason.CLUSTER_NAME_CONFLICT, detail)
            return
        self.was_introduced = True
        is_compressed = RouteEnd.compresses(self, link, info)
        link.send(self.own_info().line())
        if is_compressed:  # another INFO is to come
            self.compression.begin(link)
            return
        self._join(link, info)

    def _join(self, link: Link, info: RouteInfo) -> None:
        self.take_part(link, info)
        self.is_done = True
        if self.dialler is not None:
            self.dialler.joined()


ROUTE_ENDS = Ends(AcceptedRoute, SolicitedRoute)
