"""Message tracing: report the route of a message whose headers ask for it.

`Nats-Trace-Dest` names the subject that the trace is published to. With `Nats-Trace-Only`, the
message is traced but not delivered. A W3C `traceparent` header that is marked as sampled starts a
trace if the account's `msg_trace` has a destination. As in nats-server, a trace ends at the border
of its account unless `allow_trace` of a service's export or a stream's import lets it go on: then
the same trace has the events of the other account. It continues over links: each server publishes
its own events, and `Nats-Trace-Hop` says which server is behind which link. Behind a service,
servers publish them to a reply subject that leads back to the account in which the trace began.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from midge.protocol import errors
from midge.protocol.frame import compose
from midge.server.accounts.service_link import Response, ServiceLink
from midge.server.accounts.stream_link import StreamLink
from midge.server.clients.connection import Connection
from midge.server.log.logger import get_logger
from midge.server.routing.receivers import (
    deliver_to_each,
    name_groups,
    pick_instead,
    pick_links,
    take_carried,
)
from midge.server.routing.reserved import RESERVED_SUBJECTS
from midge.server.routing.role import Role
from midge.server.routing.slow_path import CLOSED, DENIED_SUBJECTS, NO_ECHO, SCREENED
from midge.sublist.subjects import is_valid_publish_subject

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.accounts.link_context import LinkContext
    from midge.server.auth.claims import TraceClaim
    from midge.server.channels.host import Host
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.receivers import CarriedGroup
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.result import QueueGroup, SubListResult

DESTINATION = "Nats-Trace-Dest"
ONLY = "Nats-Trace-Only"
PARENT = "traceparent"
HOP = "Nats-Trace-Hop"
TRACING_PROTOCOL = 3
"""Least protocol of a server that supports message tracing: it reports a message's route, and does
not deliver a message that is only to be traced."""

_ORIGIN_ACCOUNT = "Nats-Trace-Origin-Account"
_DISABLED = "trace disabled"
_VERSION_LINE = b"NATS/1.0\r\n"
_TRUE = ("1", "true", "on")
_SAMPLED = 1
_CLIENT = 0  # the kinds of connections, in nats-server's numbers
_KINDS = {Role.ROUTE: 1, Role.WORKER: 1, Role.LEAF: 4, Role.HUB: 4}

NO_ECHO_TEXT = "Not delivered because of no echo"
DENIED_TEXT = "Not delivered because subscription denies this subject"
CLOSED_TEXT = "Not delivered because client is closed"
PUBLISH_DENIED_TEXT = "Not delivered because publish denied for this subject"
NOT_TRACING_TEXT = "Not delivered because remote does not support message tracing"
UNTRACED_TEXT = (
    "Message delivered but remote does not support message tracing so no trace event generated"
    " from there"
)
SLOW_TEXT = "Not delivered because fast producer not stalled and consumer is slow"

Event = dict[str, Any]
Send = Callable[["Account", bytes, Event], None]

log = get_logger()


class Sampling(Struct, frozen=True):
    """Destination of an account's `traceparent` traces, and the percentage that is traced."""

    destination: str
    percent: int


class MessageTraces:
    """The traces of one server; `send` publishes them, and without it nothing is traced.

    `claim` returns the trace settings in an account's token, or None without a token, and
    `find_account` returns the account of a name. `links` are those between accounts.
    """

    def __init__(
        self,
        host: Host,
        claim: Callable[[str], TraceClaim | None],
        find_account: Callable[[str], Account | None],
        links: LinkContext,
    ) -> None:
        self.host = host
        self.links = links
        self._claim = claim
        self._find_account = find_account
        self.send: Send | None = None

    def begin(self, connection: Connection, frame: Frame) -> Trace | None:
        """Begin the trace that the headers of `frame` ask for, or return None.

        If a message asks only for a trace and none is possible, the trace `is_void`, and the
        message is dropped.
        """
        headers = read_trace_headers(frame.header_bytes() or b"")
        sampling = self._wanted(headers, connection.account)
        parent = self._parent(headers)
        if self.send is None or sampling is None:
            if parent is None or connection.commands.publish_checks & SCREENED:
                return None
            return Trace(self, None, connection, frame, headers, "", parent)
        destination = sampling.destination
        trace = Trace(self, self.send, connection, frame, headers, destination, parent)
        trace.is_silent = DESTINATION not in headers and not self._is_chosen(sampling)
        is_possible = trace.is_possible(connection)
        return trace if is_possible or trace.is_void or trace.is_silent else None

    def begin_on_link(self, source: Client, frame: Frame) -> Trace | None:
        """Continue another server's trace of `frame`, or return None.

        The trace is published in the account in which it began, if this server has it.
        """
        headers = read_trace_headers(frame.header_bytes() or b"")
        sampling = self._wanted(headers, source.account)
        parent = self._parent(headers)
        if self.send is None or sampling is None:
            if parent is None:
                return None
            return Trace(self, None, source, frame, headers, "", parent)
        destination = sampling.destination
        trace = Trace(self, self.send, source, frame, headers, destination, parent)
        trace.hop = headers.get(HOP, [""])[0]
        began_in = headers.get(_ORIGIN_ACCOUNT, [source.account.name])[0]
        account = self._find_account(began_in)
        if account is not None and trace.has_destination():
            trace.account = account
            return trace
        trace.is_void = trace.is_only
        return trace if trace.is_void else None

    def _parent(self, headers: dict[str, list[str]]) -> Any:
        """Return the context for spans of a message with these headers, or None."""
        spans = self.host.router.spans
        return None if spans is None or not headers else spans.parent(headers)

    def _wanted(self, headers: dict[str, list[str]], account: Account) -> Sampling | None:
        """Return the destination of the trace that `headers` ask for, or None."""
        if not headers:
            return None
        if DESTINATION in headers:
            return Sampling(headers[DESTINATION][0], 100)
        return self._sampling(account)

    def _sampling(self, account: Account) -> Sampling | None:
        """Return the account's settings for `traceparent` traces, or None."""
        claim = self._claim(account.name)
        if claim is not None:
            return Sampling(claim.dest, claim.sampling) if claim.dest else None
        for table in self.host.options.accounts:
            if table.name == account.name and table.msg_trace.destination:
                return Sampling(table.msg_trace.destination, table.msg_trace.sampling_percent)
        return None

    def _is_chosen(self, sampling: Sampling) -> bool:
        percent = sampling.percent
        return not 0 < percent < 100 or self.host.random.randrange(100) < percent


class Trace:
    """The trace of one message, published in `account`; behind a link it has a `hop`.

    With `is_only`, the message itself is not delivered. With `is_void`, there is neither a trace
    nor a delivery; `refusal` is the -ERR for a destination that is not allowed. With `is_silent`,
    the message is delivered without a trace, and a header keeps other servers from tracing it.

    Without a `destination`, the trace is for spans alone, and no header is added. With `parent`,
    spans of the trace are reported: see spans.py.
    """

    def __init__(
        self,
        traces: MessageTraces,
        send: Send | None,
        publisher: Client,
        frame: Frame,
        headers: dict[str, list[str]],
        destination: str,
        parent: Any = None,
    ) -> None:
        self._host = traces.host
        self._between_accounts = traces.links
        self._send = send
        self._publisher = publisher
        self.account = publisher.account
        self.destination = destination.encode(errors="surrogateescape")
        self._parent = parent
        self._reply = b"" if parent is None else frame.reply_bytes() or b""
        asks = bool(destination) and DESTINATION in headers
        self.is_only = asks and headers.get(ONLY, [""])[0].lower() in _TRUE
        self.hop = ""
        self.hops = 0
        self.is_void = False
        self.is_silent = False
        self.refusal: str | None = None
        self._ingress = self._event(
            "in", acc=publisher.account.name, subj=_text(frame.subject_bytes()), client=publisher
        )
        self._events = [self._ingress]
        self._import: tuple[StreamLink, Event] | None = None
        self._headers = headers
        self._size = frame.size

    def is_possible(self, connection: Connection) -> bool:
        """Return whether a client's message can be traced; set the flags of the trace if not."""
        if connection.commands.publish_checks & SCREENED:
            self.is_void = self.is_only  # the effect of an interceptor is not reported
            self.is_silent = False
        elif _ORIGIN_ACCOUNT in self._headers:
            self.is_void, self.is_silent = self.is_only, not self.is_only
        elif not self.has_destination():
            self.is_void = self.is_only
        elif not self._may_be_sent(connection):
            self.refusal = errors.publish_violation(self.destination)
            self.is_void = True
        else:
            return True
        return False

    def has_destination(self) -> bool:
        """Return whether the destination is a valid subject; log an error if not."""
        if is_valid_publish_subject(self.destination):
            return True
        owner = _owner_of(self._publisher)
        destination = _text(self.destination)
        log.error("trace_impossible", cid=owner.cid, peer=owner.peer, destination=destination)
        return False

    def _may_be_sent(self, connection: Connection) -> bool:
        permissions = connection.commands.permissions
        return not self.destination.startswith(RESERVED_SUBJECTS) and (
            permissions is None or permissions.may_publish(self.destination)
        )

    def go_on(self, subject: bytes, target: bytes, refusal: str | None) -> None:
        """Record that mappings turn `subject` into `target`, and the refusal unless None."""
        if target and target != subject:
            self._events.append(self._event("sm", to=_text(target)))
        if refusal is not None:
            self._ingress["error"] = refusal

    def route(self, result: SubListResult, frame: Frame, over: Frame | None = None) -> int:
        """Deliver `frame`, or only report the receivers; return their number.

        Links get `over` in its place, where that is given.
        """
        over = over or frame
        if self.is_silent:
            publisher = self._publisher
            untraced, sent = without_trace(frame), without_trace(over)
            router = self._host.router
            return router.route_in_two_forms(publisher.account, result, publisher, untraced, sent)
        plain = cast("tuple[RoutedSubscription, ...]", result.plain)
        publisher, router = self._publisher, self._host.router
        delivered = sum(self._offer(subscription, frame) for subscription in plain)
        carried = take_carried(router.carried, frame)
        picked: dict[bytes, Client] = {}
        if result.remotes is not None:
            picked = pick_links(result, publisher, router.chooser, carried) or {}
        offer_to_own = partial(self._offer_to_group, frame)
        queued = deliver_to_each(carried, picked, result, offer_to_own, router.chooser)
        for group in result.queues:
            if group.name in picked or group.name in carried:
                continue
            if offer_to_own(group):
                queued += 1
            elif link := pick_instead(group.name, result, publisher, router.chooser):
                picked[group.name] = link
        crossed = self._cross(result, over, picked, carried)
        delivered += crossed
        if not self.is_only:
            router.show_traced(publisher, frame, delivered, queued, crossed)
        return delivered + queued

    def _cross(
        self,
        result: SubListResult,
        frame: Frame,
        picked: dict[bytes, Client],
        carried: dict[bytes, list[CarriedGroup]],
    ) -> int:
        """Send `frame` over each link that is to have it; return over how many it goes."""
        if result.remotes is None:
            return 0
        far = cast("tuple[Client, ...]", result.remotes.plain)
        links: dict[Client, list[bytes]] = {link: [] for link in far if link is not self._publisher}
        links |= name_groups(far, self._publisher, picked, carried)
        return sum(self._forward(link, frame, links[link]) for link in links)

    def route_imported(
        self, link: StreamLink, result: SubListResult, frame: Frame, over: Frame | None
    ) -> int:
        """Do what `route` does, and report the import with each receiver."""
        before, self._import = self._import, (link, link.import_event(frame.subject_bytes()))
        try:
            return self.route(result, frame, over)
        finally:
            self._import = before

    def forward_imported(
        self, link: StreamLink, remote: Client, frame: Frame, queues: list[bytes] | None
    ) -> bool:
        """Send `frame` over the link `remote`, and report the import; return whether it goes."""
        before, self._import = self._import, (link, link.import_event(frame.subject_bytes()))
        try:
            return self._forward(remote, frame, queues)
        finally:
            self._import = before

    def route_led_back(self, way: bytes, result: SubListResult, frame: Frame) -> int:
        """Do what `route` does, and have other servers publish their traces to `way`."""
        before, self.destination = self.destination, way
        try:
            return self.route(result, _with_header(frame, DESTINATION, _text(way)))
        finally:
            self.destination = before

    def send(self) -> None:
        """Publish the trace, and report its spans."""
        if self._parent is not None:
            self._host.router.spans.report(
                self._parent,
                self._events,
                is_published_here=isinstance(self._publisher, Connection),
                reply=self._reply,
                size=self._size,
            )
        if self._send is not None and not self.is_silent:
            request = {"header": self._headers, "msgsize": self._size}
            hops = {"hops": self.hops} if self.hops else {}
            trace = {"request": request, **hops, "events": self._events}
            self._send(self.account, self.destination, trace)

    def _forward(self, link: Client, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` over `link`, where the trace goes on; return whether it was sent."""
        self._note_import()
        if not self.destination:
            self._events.append(self._event("eg", client=link, hop=""))
            return link.forward(self._publisher, frame, queues or None)
        self.hops += 1
        hop = f"{self.hop}.{self.hops}" if self.hop else str(self.hops)
        owner = _owner_of(link)
        is_traced = owner.parser.headers and owner.peer_protocol >= TRACING_PROTOCOL
        error, is_sent = "", False
        if not is_traced:
            error = NOT_TRACING_TEXT if self.is_only else UNTRACED_TEXT
        if is_traced or not self.is_only:
            sent = _with_header(frame, HOP, hop)
            is_sent = link.forward(self._publisher, sent, queues or None)
            if not is_sent:
                error = _refusal_of_link(owner, frame)
        fields = {"error": error} if error else {}
        account = self._other_account(link)
        self._events.append(self._event("eg", client=link, **account, hop=hop, **fields))
        return is_sent

    def _offer_to_group(self, frame: Frame, group: QueueGroup) -> bool:
        """Offer `frame` to the members of a group, beginning with the one whose turn it is."""
        chooser, count = self._host.router.chooser, len(group.members)
        members = cast("tuple[RoutedSubscription, ...]", group.members)
        start = group.turn if chooser is None else chooser.randrange(count)
        for i in range(count):
            chosen = (start + i) % count
            if self._offer(members[chosen], frame):
                group.turn = chosen + 1
                return True
        return False

    def _offer(self, subscription: RoutedSubscription, frame: Frame) -> bool:
        """Deliver to a subscription, unless only a trace is wanted; return whether it takes it."""
        client = subscription.client
        if client is None:
            return self._offer_inside(subscription, frame)
        self._note_import()
        refusal = _refusal_of(client, subscription.queue, self._publisher, frame)
        if refusal is None and not self.is_only:
            outcome = self._host.router.deliver(subscription, self._publisher, frame)
            refusal = None if outcome else SLOW_TEXT
        queue, subject = subscription.queue, subscription.subject
        if self._import is not None:
            subject = self._import[0].exporters_subject(subject) or subject
        self._events.append(
            self._event(
                "eg",
                client=client,
                **self._other_account(client),
                sub=_text(subject),
                **({"queue": _text(queue)} if queue else {}),
                **({"error": refusal} if refusal else {}),
            )
        )
        return refusal is None

    def _offer_inside(self, subscription: RoutedSubscription, frame: Frame) -> bool:
        """Deliver to a part of the server, and add the events that it reports to the trace."""
        report = getattr(subscription, "trace_events", None)
        events = [] if report is None else report(frame)
        goes_on = getattr(subscription, "allows_trace", False)
        if goes_on and isinstance(subscription, StreamLink):
            events = []  # `route_imported` reports one before each receiver
        elif events:
            self._note_import()
        self._events += [self._event(**event) for event in events]
        if self.is_only and not goes_on:
            return bool(events)
        if self.destination and isinstance(subscription, ServiceLink | Response) and not goes_on:
            frame = without_trace(frame)
        self._between_accounts.trace = self if goes_on else None
        try:
            return bool(self._host.router.deliver(subscription, self._publisher, frame))
        finally:
            self._between_accounts.trace = None

    def _other_account(self, receiver: Client) -> dict[str, str]:
        """Return the field for the receiver's account if it is not the publisher's."""
        name = receiver.account.name
        is_named = name != self._ingress["acc"] and receiver.role not in {Role.ROUTE, Role.WORKER}
        return {"acc": name} if is_named else {}

    def _note_import(self) -> None:
        """Add the event of the import by which the next receiver gets a message of a stream."""
        if self._import is not None:
            self._events.append(self._event(**self._import[1]))

    def _event(self, type: str, client: Client | None = None, **fields: Any) -> Event:  # noqa: A002
        """Make one event; with a client, it has the client's kind and name."""
        made: Event = {"type": type, "ts": self._host.clock.wall()}
        if client is not None:
            made |= {"kind": _KINDS.get(Role(client.role), _CLIENT), "cid": client.cid}
            name = _name_of(client)
            made |= {"name": name} if name else {}
        return {**made, **fields}


def read_trace_headers(block: bytes) -> dict[str, list[str]]:
    """Return all headers of `block` if one of them asks for a trace, else nothing."""
    if not block.startswith(_VERSION_LINE):
        return {}
    headers: dict[str, list[str]] = {}
    asks = False
    for line in block[len(_VERSION_LINE) :].split(b"\r\n"):
        key, colon, value = line.partition(b":")
        value = value.strip(b" \t")
        if not colon:
            break
        if not key or not value:
            continue
        name, text = _text(key), _text(value)
        if name == DESTINATION:
            if text == _DISABLED:
                return {}
            asks = True
        elif name.lower() == PARENT:
            asks = asks or _is_sampled(text)
        headers.setdefault(name, []).append(text)
    return headers if asks else {}


def without_trace(frame: Frame) -> Frame:
    """Return `frame` with a header that keeps other servers from tracing it."""
    return _with_header(frame, DESTINATION, _DISABLED)


def _with_header(frame: Frame, name: str, value: str) -> Frame:
    """Return `frame` with one header of that name."""
    start = name.encode() + b":"
    lines = (frame.header_bytes() or b"").removesuffix(b"\r\n").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(start)]
    block = b"".join([*kept, start, b" ", value.encode(errors="replace"), b"\r\n\r\n"])
    return compose(frame.subject_bytes(), frame.payload_bytes(), frame.reply_bytes(), block)


def _is_sampled(parent: str) -> bool:
    """Return whether a `traceparent` says that its trace is recorded."""
    parts = parent.split("-")
    try:
        return len(parts) == 4 and len(parts[3]) == 2 and bool(int(parts[3], 16) & _SAMPLED)
    except ValueError:
        return False


def _refusal_of(client: Client, queue: bytes | None, publisher: Client, frame: Frame) -> str | None:
    """Return why a subscription of `client`, in `queue`, does not get `frame`, or None."""
    checks = client.deliver_checks
    if checks & NO_ECHO and client is publisher:
        return NO_ECHO_TEXT
    if checks & CLOSED:
        return CLOSED_TEXT
    if checks & DENIED_SUBJECTS:
        permissions = client.commands.permissions if isinstance(client, Connection) else None
        if permissions and not permissions.may_deliver(frame.subject_bytes(), queue):
            return DENIED_TEXT
    return None


def _refusal_of_link(link: Any, frame: Frame) -> str:
    """Return why a link did not send `frame`."""
    if link.deliver_checks & CLOSED:
        return CLOSED_TEXT
    rules = link.send_rules
    if rules is not None and not rules.may_publish(frame.subject_bytes()):
        return PUBLISH_DENIED_TEXT
    return SLOW_TEXT


def _owner_of(client: Client) -> Any:
    """Return the connection of `client`: its link, if it is a link's branch to one account."""
    return getattr(client, "link", client)


def _name_of(client: Client) -> str:
    """Return the name of a client, or of the server behind a link."""
    if isinstance(client, Connection):
        return client.options.name
    name: str = getattr(_owner_of(client), "name", "")
    return name


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
