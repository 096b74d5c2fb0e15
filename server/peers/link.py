"""One link to another server, whatever its dialect: messages in and out, and what bounds it.

Which of the two servers has connected makes a difference to the handshake and to what happens on a
violation, and that is the business of `side`. What this server tells the other one of interest is
that of `Told`, see told.py. What a link is to one account, where messages go to and come from,
is a Client called the source here: the link itself, or a part of it for each account.
"""

from typing import TYPE_CHECKING, Any

from midge.protocol import memory
from midge.protocol.frame import Frame, with_subject, without_headers
from midge.protocol.link import LinkParser
from midge.server.auth.permissions import Permissions
from midge.server.channels.channel import Channel
from midge.server.channels.channel_hooks import WriteRule
from midge.server.channels.channel_owner import ChannelOwner
from midge.server.channels.channel_state import ChannelState
from midge.server.channels.charges import (
    COMMAND_BYTES,
    DELIVERY_BYTES,
    DELIVERY_IN_RUN_BYTES,
    STEP_BYTES,
)
from midge.server.peers.announced import Announced
from midge.server.peers.outbound import Heads, LinkOutbound
from midge.server.peers.views import full_view, plain_view, view_for
from midge.server.routing import trace_headers
from midge.server.routing.account import Account
from midge.server.routing.ack_replies import ACK_PREFIX, as_shown
from midge.server.routing.client import Client
from midge.server.routing.receivers import SERVED
from midge.server.routing.role import Role
from midge.server.routing.slow_path import (
    BEHIND,
    CLOSED,
    DENIED_SUBJECTS,
    NO_HEADERS,
    OVERSIZED,
    REPLY_GRANTS,
)
from midge.sublist.result import SubListResult
from midge.sublist.sublist import SubList

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker

DOCUMENT_MAX_BYTES = 1 << 20
"""Longest CONNECT or INFO of another server: lists of permissions and of addresses are in it."""

_CONNECTED = int(ChannelState.CONNECTED)
_ROUTE = int(Role.ROUTE)
_WORKER = int(Role.WORKER)
_DELIVERY_BYTES = DELIVERY_BYTES  # C numbers where this is compiled
_DELIVERY_IN_RUN_BYTES = DELIVERY_IN_RUN_BYTES
_CARE_BYTES = 1024  # permissions, mappings and a copy of the frame
_TRACED_BYTES = 32 * 1024  # reading headers in plain Python, and telling where a message went
_VIEW_BYTES = 64  # per named queue group, which is searched in the result
_PUB_BYTES = 4  # with its blank
_PING = b"PING\r\n"
_PONG = b"PONG\r\n"
_ACK_PREFIX = ACK_PREFIX  # a C variable where this is compiled


class Link(ChannelOwner):
    """A link to another server; `name` is that server's.

    `send_rules` limit the messages sent over the link and `take_rules` the messages accepted from
    it; None means no limit. With `maps`, the mappings of an account apply to accepted messages.
    `peer_max_payload` is the largest message that the other side accepts, `announced` the interest
    that it has announced, and `peer_protocol` its protocol version. With `names_origins` it reads
    which leaf node cluster a line comes from.
    """

    def __init__(
        self,
        broker: "Broker",
        cid: int,
        peer: tuple[str, int],
        side: Any,
        role: int,
        parser: LinkParser,
        ping_interval_s: float,
        maps: bool,
    ) -> None:
        ChannelOwner.__init__(self, cid, broker.global_account, broker.chunks, broker.router)
        self.broker = broker
        self.role = role
        self.side = side
        self.parser = parser
        self.link_outbound = LinkOutbound(broker.chunks)
        self.outbound = self.link_outbound
        self.channel = Channel(broker, self, parser, peer, ping_interval_s=ping_interval_s)
        self.is_ready = False
        self.name = ""
        self.announced = Announced()
        self.peer_protocol = 0
        self.send_rules: Permissions | None = None
        self.take_rules: Permissions | None = None
        self.peer_max_payload = 0
        self.names_origins = False
        self._maps = maps
        self._view: SubListResult | None = None
        self._view_of: SubList | None = None
        self._generation = 0
        self._is_unusual = False
        self._for_groups: list[bytes] | None = None
        self._names_every_group = False

    # Come and gone.

    def opened(self) -> None:
        """Begin the handshake."""
        self.side.opened(self)

    def closed(self) -> None:
        """Remove the other server's interest; the last lines have been appended.

        The interest goes first, because `side` shows the end of the link to observers.
        """
        self._view = None
        if self.reason is not None:
            self.broker.link_closed(self.role, self.reason)
        self.announced.drop_all(self)
        self.side.closed(self)

    def transport_failed(self, error: Exception) -> None:
        """Note why the transport is about to be lost."""
        self.side.transport_failed(self, error)

    def lost(self) -> None:
        """Release everything after the transport is lost."""
        self._view = None
        self.side.lost(self)

    def parts(self) -> "list[Any]":
        """List what the link is to the accounts that it has carried so far; itself, if to one."""
        return [self]

    def write_rule(self) -> WriteRule:
        """Return the rule of this kind of link; by default a slow one stays."""
        options = self.broker.options
        if self.role == _WORKER:
            return ChannelOwner.write_rule(self)
        table = options.cluster if self.role == _ROUTE else options.leafnodes
        deadline_s = table.write_deadline_s or options.limits.write_deadline_s
        return WriteRule(deadline_s, table.write_timeout_policy != "close")

    def send_ping(self) -> None:
        """Send PING."""
        self.send(_PING)

    def send_error(self, text: str) -> None:
        """Send -ERR and go on."""
        self.spend(COMMAND_BYTES)
        self.send(b"-ERR '%b'\r\n" % text.encode())

    def start(self) -> None:
        """Take and send messages from now on."""
        self.is_ready = True
        self._view = None
        self.channel.become(_CONNECTED)
        self.channel.keepalive.connected()

    def limit(
        self, send_rules: Permissions | None, take_rules: Permissions | None, max_payload: int
    ) -> None:
        """Limit the link by these rules, and by the other side's largest message."""
        self.send_rules = send_rules
        self.take_rules = take_rules
        self.peer_max_payload = max_payload
        own = self.parser.max_payload
        is_smaller = max_payload > 0 and (own < 0 or max_payload < own)
        grants = take_rules is not None and take_rules.allows_responses
        self._check(DENIED_SUBJECTS, send_rules is not None and send_rules.has_publish_rules)
        self._check(OVERSIZED, is_smaller)
        self._check(REPLY_GRANTS, grants)
        self._view = None

    def takes_headers(self, takes: bool) -> None:
        """Note whether the other side can read headers."""
        self.parser.headers = takes
        self._check(NO_HEADERS, not takes)

    def _check(self, bit: int, on: bool) -> None:
        self.deliver_checks = self.deliver_checks | bit if on else self.deliver_checks & ~bit

    # The handshake, and what keeps the link alive.

    def on_connect(self, document: bytes) -> None:
        """Take the other server's introduction."""
        self.side.on_connect(self, document)

    def on_info(self, document: bytes) -> None:
        """Take what the other server says of itself, at first and when that changes."""
        self.side.on_info(self, document)

    def on_peer_error(self, text: bytes) -> None:
        """Take the other server's word that something is wrong."""
        self.side.on_peer_error(self, text)

    def on_ping(self) -> None:
        """Answer."""
        self.send(_PONG)

    def on_pong(self) -> None:
        """Take the answer to a PING."""
        self.channel.keepalive.pong()
        self.side.answered(self)

    # Messages from the other server.

    def present(self) -> Client | None:
        """Return the part that the current line belongs to; None ignores the line."""
        return self

    def source_of(self, frame: Frame) -> Client | None:
        """Return the part that a message without, or with one, queue group is of; likewise."""
        return self.present()

    def on_publish(self, frame: Frame) -> None:
        """Route a message to plain subscriptions, or to a queue group that its line names."""
        source = self.source_of(frame)
        if source is not None:
            self.take(source, frame)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Route messages that differ in their payloads only; return how many."""
        source = self.source_of(frame)
        return count if source is None else self.take_run(source, frame, count)

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        """Route a message that is for a member of each of `queues` too."""
        source = self.present()
        if source is not None:
            self.take_for(source, frame, queues)

    def take(self, source: Client, frame: Frame) -> None:
        """Route a message to plain subscriptions and to the queue groups that its line names."""
        self.in_messages += 1
        self.in_bytes += frame.size
        if not frame.repeated:
            self._view = None
            self._for_groups = self._queues_of(frame)
            self._is_unusual = self._needs_care(source.account, frame)
        if frame.header_size >= 0 and self._take_traced(source, frame, self._for_groups):
            return
        if self._is_unusual:
            self._take_with_care(source, frame, self._for_groups, None)
            return
        view = self._match(source, frame)
        self._route(source, view, frame)

    def take_run(self, source: Client, frame: Frame, count: int) -> int:
        """Route messages that differ in their payloads only; return how many."""
        if frame.header_size >= 0:
            count = trace_headers.count_untraced(frame, count)
        if count and not self._is_unusual:
            view = self._match(source, frame)
            deliveries = view.count_run_deliveries() * (frame.end + _DELIVERY_IN_RUN_BYTES)
            cost = deliveries + frame.end  # which the parser charges
            if not self.channel.reading.may_spend(cost * count):
                count = max(self.parser.budget // cost + 1, 1)
            taken = self.router.route_run(source.account, view, source, frame, count)
            if taken:
                self.in_messages += taken
                self.in_bytes += taken * frame.size
                self.spend(deliveries * taken)
                return taken
        self.take(source, frame)
        return 1

    def take_for(self, source: Client, frame: Frame, queues: list[bytes]) -> None:
        """Route a message that is for a member of each of `queues` too."""
        self.in_messages += 1
        self.in_bytes += frame.size
        self._view = None
        self._for_groups = queues
        if frame.header_size >= 0 and self._take_traced(source, frame, queues):
            return
        if self._needs_care(source.account, frame):
            self._take_with_care(source, frame, queues, None)
            return
        found = self._found(source.account.sublist, frame)
        self._route(source, self._view_for(source, found, queues), frame)

    def names_group(self, name: bytes) -> bool:
        """Return whether the current line is for the queue group `name`.

        A message that a mapping changes is for every group, as on nats-server: the sending server
        knows the groups of the original subject, not the groups of the mapped one.
        """
        if self._names_every_group:
            return name != SERVED
        return self._for_groups is not None and name in self._for_groups

    def _queues_of(self, frame: Frame) -> list[bytes] | None:
        """Return the queue groups that the current line names; a PUB or HPUB names none."""
        if frame.header_size >= 0 or frame.subject_start <= _PUB_BYTES:
            return None
        return self.parser.queues

    def _needs_care(self, account: Account, frame: Frame) -> bool:
        """Return whether anything may forbid or change `frame`."""
        if not self.is_ready or self.take_rules is not None:
            return True
        if self._maps and account.mapper is not None:
            return True
        return frame.reply_end > frame.reply_start and memory.starts_with(
            frame.data, frame.base + frame.reply_start, frame.base + frame.reply_end, _ACK_PREFIX
        )

    def _take_traced(self, source: Client, frame: Frame, queues: list[bytes] | None) -> bool:
        """Route a message with headers that is traced; False where none of them asks for that."""
        if trace_headers.count_untraced(frame, 1):
            return False
        self.spend(_TRACED_BYTES)
        trace = self.broker.traces.begin_on_link(source, frame) if self.is_ready else None
        if trace is None:
            return False
        if not trace.is_void:
            self._take_with_care(source, frame, queues, trace)
            trace.send()
        return True

    def _take_with_care(
        self, source: Client, frame: Frame, queues: list[bytes] | None, trace: Any
    ) -> None:
        """Route `frame` unless it must not be taken, as its subject is mapped, and as it shows.

        With `trace`, that follows it.
        """
        if not self.is_ready:
            return
        subject = frame.subject_bytes()
        self.spend(_CARE_BYTES)
        if self.take_rules is not None and not self._may_take(subject):
            self.side.refuse_message(self, subject)
            return
        mapper = source.account.mapper if self._maps else None
        is_mapped = False
        if mapper is not None:
            mapped = mapper.map(subject)
            if mapped is None:
                return
            if mapped != subject:
                frame = with_subject(frame, mapped)
                is_mapped = True
        found = self._found(source.account.sublist, frame)
        if queues is not None:
            view = self._view_for(source, found, queues)
        elif is_mapped:
            view = full_view(source, found)
        else:
            view = plain_view(source, found)
        if trace is not None:
            trace.go_on(subject, frame.subject_bytes(), None)
        self._names_every_group = is_mapped and queues is None
        try:
            self._route_as_shown(source, view, frame, trace)
        finally:
            self._names_every_group = False

    def _route_as_shown(
        self, source: Client, view: SubListResult, frame: Frame, trace: Any
    ) -> None:
        """Deliver `frame` to those in `view`: over links as it came, to clients as they see it.

        With `trace`, that delivers it.
        """
        shown = as_shown(frame)
        links = self.broker.admission.links
        before = links.delivery
        if shown is not frame:
            links.delivery = (shown, frame.subject_bytes())
        offers = self.router.offers
        try:
            if trace is not None:
                taken = trace.route(view, shown, frame)
            elif shown is frame:
                self.router.route(source.account, view, source, frame)
            else:
                self.router.route_in_two_forms(source.account, view, source, shown, frame)
            if trace is None:
                taken = self.router.offers - offers
        finally:
            links.delivery = before
        self.spend(taken * (frame.end + _DELIVERY_BYTES))

    def _may_take(self, subject: bytes) -> bool:
        rules = self.take_rules
        return (
            rules is None
            or rules.may_publish(subject)
            or (
                rules.allows_responses
                and rules.use_response(subject, self.broker.clock.monotonic())
            )
        )

    def _route(self, source: Client, view: SubListResult, frame: Frame) -> None:
        """Deliver `frame` to those in `view`, which is charged."""
        offers = self.router.offers
        self.router.route(source.account, view, source, frame)
        self.spend((self.router.offers - offers) * (frame.end + _DELIVERY_BYTES))

    def _found(self, sublist: SubList, frame: Frame) -> SubListResult:
        """Return the subscriptions that match the subject of `frame`."""
        start = frame.base + frame.subject_start
        steps = sublist.steps
        found = sublist.match_within(frame.data, start, frame.base + frame.subject_end)
        if sublist.steps != steps:
            self.spend((sublist.steps - steps) * STEP_BYTES)
        return found

    def _match(self, source: Client, frame: Frame) -> SubListResult:
        """Return the receivers of the current message; found once for repeated lines."""
        sublist = source.account.sublist
        view = self._view
        if view is None or self._generation != sublist.generation or self._view_of is not sublist:
            self._generation = sublist.generation
            self._view_of = sublist
            found = self._found(sublist, frame)
            queues = self._queues_of(frame)
            if queues is None:
                view = plain_view(source, found)
            else:
                view = self._view_for(source, found, queues)
            self._view = view
        return view

    def _view_for(self, source: Client, found: SubListResult, queues: list[bytes]) -> SubListResult:
        """Return what a message for these queue groups reaches."""
        self.spend(_VIEW_BYTES * (len(queues) + len(found.queues)))
        return view_for(source, found, queues)

    # Messages to the other server.

    def send_message(
        self, publisher: Client | None, frame: Frame, heads: Heads, queues: list[bytes] | None
    ) -> bool:
        """Send `frame` over the link, and tell whether it goes."""
        if self.deliver_checks:
            allowed = self.sendable(publisher, frame)
            if allowed is None:
                return False
            frame = allowed
        if queues:
            self.link_outbound.append_with_queues(frame, heads, queues)
        else:
            self.link_outbound.append_plain(frame, heads)
        self.note_sent(1, frame.size)
        return True

    def sends_run(self, frame: Frame) -> bool:
        """Return whether nothing but the subject decides, and that is allowed."""
        checks = self.deliver_checks
        if checks & BEHIND and self.channel.has_room(None):
            checks &= ~BEHIND
        if checks == NO_HEADERS and frame.header_size < 0:
            return True
        return not checks

    def send_run(self, frame: Frame, heads: Heads, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        self.link_outbound.append_run_over(frame, heads, count, queues)
        self.note_sent(count, count * frame.size)

    def note_sent(self, count: int, size: int) -> None:
        """Schedule the write of `count` appended messages of `size` bytes together.

        It also checks whether the socket keeps up.
        """
        self.out_messages += count
        self.out_bytes += size
        self.router.touch(self)
        if self.outbound.behind and not self.deliver_checks & BEHIND:
            self.flushed()  # it has filled a chunk that its socket did not take

    def sendable(self, publisher: Client | None, frame: Frame) -> Frame | None:
        """Return what may be sent of `frame`, or None; called if `deliver_checks` is not 0."""
        checks = self.deliver_checks
        if checks & CLOSED:
            return None
        if checks & OVERSIZED and frame.size > self.peer_max_payload:
            self.side.refuse_oversized(self)
            return None
        if checks & DENIED_SUBJECTS and self.send_rules is not None:
            subject = frame.subject_bytes()
            if not self.send_rules.may_publish(subject):
                return None
        if checks & BEHIND and not self.channel.has_room(publisher):
            return None
        if checks & REPLY_GRANTS and self.take_rules is not None:
            reply = frame.reply_bytes()
            if reply is not None:
                self.take_rules.grant_response(reply, self.broker.clock.monotonic())
        if checks & NO_HEADERS and frame.header_size > 0:
            frame = without_headers(frame)
        return frame
