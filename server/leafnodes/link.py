"""One leaf node link: messages in and out, and what interest the other server has told.

Which of the two servers has connected makes a difference to the handshake and to what happens on a
violation, and that is the business of `side`. What this server tells the other one of interest is
that of `told`, see interest.py.
"""

from typing import TYPE_CHECKING, Any

from midge.protocol import memory
from midge.protocol.frame import Frame, compose, with_subject, without_headers
from midge.protocol.leaf import LeafParser
from midge.server.auth.permissions import Permissions
from midge.server.clients.channel import Channel, ChannelOwner
from midge.server.clients.charges import COMMAND_BYTES, STEP_BYTES
from midge.server.clients.state import State
from midge.server.leafnodes.outbound import LeafOutbound
from midge.server.routing.client import Client
from midge.server.routing.role import Role
from midge.server.routing.slow_path import (
    BEHIND,
    CLOSED,
    DENIED_SUBJECTS,
    NO_HEADERS,
    OVERSIZED,
    REPLY_GRANTS,
)
from midge.sublist.result import Remotes, SubListResult
from midge.sublist.sublist import SubList
from midge.sublist.subscription import RemoteSubscription

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker

DOCUMENT_MAX_BYTES = 1 << 20
"""Longest CONNECT or INFO of another server: lists of permissions and of addresses are in it."""

_CONNECTED = int(State.CONNECTED)
_LEAF = int(Role.LEAF)
_DELIVERY_BYTES = 128
_DELIVERY_IN_RUN_BYTES = 16
_CARE_BYTES = 1024  # permissions, mappings and a copy of the frame
_VIEW_BYTES = 64  # per queue group named, looked for among those of the result
_PING = b"PING\r\n"
_PONG = b"PONG\r\n"
_ACK_PREFIX = b"$JS.ACK."
_ACK_DOTS = 8
_DROPPED_AT_ONCE = 2000  # subscriptions of a link that has gone, before others have their turn


class LeafLink(ChannelOwner):
    """A link to another server, which belongs to one account of either.

    `interest` is what the other server has told, by subject and queue group. Links of one `cluster`
    send each other nothing, unless that is empty. `send_rules` limit what is sent over the link and
    `take_rules` what is taken from it; None where nothing does. `peer_max_payload` is the largest
    message that the other side takes.
    """

    def __init__(self, broker: "Broker", cid: int, peer: tuple[str, int], side: Any) -> None:
        ChannelOwner.__init__(self, cid, broker.global_account, broker.chunks, broker.router)
        self.broker = broker
        self.role = _LEAF
        self.side = side
        self.leaf_outbound = LeafOutbound(broker.chunks)
        self.outbound = self.leaf_outbound
        self.parser = LeafParser(
            self,
            max_control_line=DOCUMENT_MAX_BYTES,
            max_payload=broker.options.limits.max_payload_bytes,
        )
        interval_s = broker.options.keepalive.ping_interval_s
        self.channel = Channel(broker, self, self.parser, peer, ping_interval_s=interval_s)
        self.is_ready = False
        self.cluster = ""
        self.name = ""
        self.remote_account = ""
        self.told: Any = None
        self.interest: dict[tuple[bytes, bytes | None], RemoteSubscription] = {}
        self.max_interest = 0
        self.send_rules: Permissions | None = None
        self.take_rules: Permissions | None = None
        self.peer_max_payload = 0
        self._view: SubListResult | None = None
        self._view_of: SubList | None = None
        self._generation = 0
        self._is_unusual = False

    # Come and gone.

    def opened(self) -> None:
        """Begin the handshake."""
        self.side.opened(self)

    def closed(self) -> None:
        """Forget what the other server wanted; what had to be said is on its way."""
        self.side.closed(self)
        self._view = None
        left = list(self.interest.values())
        self.interest = {}
        self._drop(left)

    def lost(self) -> None:
        """Let go of everything."""
        self._view = None
        self.side.lost(self)

    def _drop(self, left: list[RemoteSubscription]) -> None:
        """Remove the interest in `left`, some of it now and the rest in later turns."""
        for _ in range(min(len(left), _DROPPED_AT_ONCE)):
            told = left.pop()
            self.account.sublist.remove_remote(told)
            self.side.interest_changed(self, told.subject, told.queue, -told.weight)
        if left:
            self.broker.clock.call_later(0, self._drop, left)

    def send_ping(self) -> None:
        """Send PING; no batch of reads may end soon."""
        self.send(_PING)
        self.router.flush_unless_due()

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
        """Have the link bound by these rules and by what the other side takes at most."""
        self.send_rules = send_rules
        self.take_rules = take_rules
        self.peer_max_payload = max_payload
        is_smaller = 0 < max_payload < self.parser.max_payload
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

    # Interest that the other server tells.

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Note the other server's interest, or that a queue group has another weight."""
        if not self.is_ready or self.side.ends_for(self, subject):
            return
        key = (subject, queue)
        told = self.interest.get(key)
        if told is not None:
            change = weight - told.weight
            told.weight = weight
            if change:
                self.side.interest_changed(self, subject, queue, change)
            return
        if len(self.interest) >= self.max_interest:
            self.side.refuse_surplus(self)
            return
        if not self.side.allows_interest(self, subject):
            return
        told = RemoteSubscription(subject, queue, self, weight)
        sublist = self.account.sublist
        steps = sublist.steps
        if sublist.insert_remote(told) is not None:
            self.side.refuse_subject(self)
            return
        self.spend((sublist.steps - steps) * STEP_BYTES)
        self.interest[key] = told
        self.side.interest_changed(self, subject, queue, weight)

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Forget interest of the other server."""
        told = self.interest.pop((subject, queue), None)
        if told is None:
            return
        sublist = self.account.sublist
        steps = sublist.steps
        sublist.remove_remote(told)
        self.spend((sublist.steps - steps) * STEP_BYTES)
        self.side.interest_changed(self, subject, queue, -told.weight)

    # Messages from the other server.

    def on_publish(self, frame: Frame) -> None:
        """Route a message to plain subscriptions, and over other links."""
        self.in_messages += 1
        self.in_bytes += frame.size
        if not frame.repeated:
            self._view = None
            self._is_unusual = self._needs_care(frame)
        if self._is_unusual:
            self._take_with_care(frame, None)
            return
        view = self._match(frame)
        self._route(view, frame)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Route messages that differ in their payloads only; return how many."""
        if not self._is_unusual:
            view = self._match(frame)
            deliveries = view.fan_out() * (frame.end + _DELIVERY_IN_RUN_BYTES)
            cost = deliveries + frame.end  # which the parser charges
            if not self.channel.reading.may_spend(cost * count):
                count = max(self.parser.budget // cost + 1, 1)
            taken = self.router.route_run(self.account, view, self, frame, count)
            if taken:
                self.in_messages += taken
                self.in_bytes += taken * frame.size
                self.spend(deliveries * taken)
                return taken
        self.on_publish(frame)
        return 1

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        """Route a message that is for a member of each of `queues` too."""
        self.in_messages += 1
        self.in_bytes += frame.size
        self._view = None
        if self._needs_care(frame):
            self._take_with_care(frame, queues)
            return
        self._route(self._with_queues(self._found(frame), queues), frame)

    def _needs_care(self, frame: Frame) -> bool:
        """Tell whether anything may forbid or change `frame`."""
        if not self.is_ready or self.take_rules is not None or self.account.mapper is not None:
            return True
        return frame.reply_end > frame.reply_start and memory.starts_with(
            frame.data, frame.base + frame.reply_start, frame.base + frame.reply_end, _ACK_PREFIX
        )

    def _take_with_care(self, frame: Frame, queues: list[bytes] | None) -> None:
        """Route `frame` unless it must not be taken, as its subject is mapped, and as it shows."""
        if not self.is_ready:
            return
        subject = frame.subject_bytes()
        self.spend(_CARE_BYTES)
        if self.take_rules is not None and not self._may_take(subject):
            self.side.refuse_message(self, subject)
            return
        mapper = self.account.mapper
        if mapper is not None:
            mapped = mapper.map(subject)
            if mapped is None:
                return
            if mapped != subject:
                frame = with_subject(frame, mapped)
        found = self._found(frame)
        view = self._plain_view(found) if queues is None else self._with_queues(found, queues)
        shown = _shown(frame)
        if shown is frame:
            self._route(view, frame)
            return
        # Over another link it goes as it came.
        self._route(SubListResult(view.plain, view.queues), shown)
        if view.remotes is not None:
            self._route(SubListResult((), (), view.remotes), frame)

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

    def _route(self, view: SubListResult, frame: Frame) -> None:
        """Deliver `frame` to those in `view`, which is charged."""
        offers = self.router.offers
        self.router.route(self.account, view, self, frame)
        self.spend((self.router.offers - offers) * (frame.end + _DELIVERY_BYTES))

    def _found(self, frame: Frame) -> SubListResult:
        """Give all who are interested in the subject of `frame`."""
        sublist = self.account.sublist
        start = frame.base + frame.subject_start
        steps = sublist.steps
        found = sublist.match_within(frame.data, start, frame.base + frame.subject_end)
        if sublist.steps != steps:
            self.spend((sublist.steps - steps) * STEP_BYTES)
        return found

    def _match(self, frame: Frame) -> SubListResult:
        """Give those who get the message at hand; found once for lines that repeat."""
        sublist = self.account.sublist
        view = self._view
        if view is None or self._generation != sublist.generation or self._view_of is not sublist:
            self._generation = sublist.generation
            self._view_of = sublist
            view = self._plain_view(self._found(frame))
            self._view = view
        return view

    def _plain_view(self, found: SubListResult) -> SubListResult:
        """Give what a message without queue groups reaches: no member of any."""
        if not found.queues and found.remotes is None:
            return found
        return SubListResult(found.plain, (), self._others(found.remotes, None))

    def _with_queues(self, found: SubListResult, queues: list[bytes]) -> SubListResult:
        """Give what a message for these queue groups reaches."""
        named = set(queues)
        self.spend(_VIEW_BYTES * (len(queues) + len(found.queues)))
        groups = tuple([group for group in found.queues if group.name in named])
        return SubListResult(found.plain, groups, self._others(found.remotes, named))

    def _others(self, remotes: Remotes | None, named: set[bytes] | None) -> Remotes | None:
        """Give the links that a message from this one goes on to; None without any."""
        if remotes is None:
            return None
        plain = tuple([link for link in remotes.plain if self._sends_on(link)])
        groups: tuple[Any, ...] = ()
        if named and remotes.queues:
            groups = tuple([group for group in remotes.queues if group.name in named])
        return Remotes(plain, groups) if plain or groups else None

    def _sends_on(self, link: Any) -> bool:
        """Tell whether what comes from here may go over `link`."""
        return link is not self and not (self.cluster and link.cluster == self.cluster)

    # Messages to the other server.

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` over the link, and tell whether it goes."""
        if self.deliver_checks:
            allowed = self._checked(publisher, frame)
            if allowed is None:
                return False
            frame = allowed
        if queues:
            self.leaf_outbound.append_with_queues(frame, queues)
        else:
            self.leaf_outbound.append_plain(frame)
        self.out_messages += 1
        self.out_bytes += frame.size
        self._appended()
        return True

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Tell whether nothing but the subject decides, and that is allowed."""
        checks = self.deliver_checks
        if checks == NO_HEADERS and frame.header_size < 0:
            return True
        return not checks

    def forward_run(self, frame: Frame, count: int) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        self.leaf_outbound.append_plain_run(frame, count)
        self.out_messages += count
        self.out_bytes += count * frame.size
        self._appended()

    def _appended(self) -> None:
        """Have what was appended written, and look whether the socket keeps up."""
        self.router.touch(self)
        if self.outbound.behind and not self.deliver_checks & BEHIND:
            self.flushed()  # it has filled a chunk that its socket did not take

    def _checked(self, publisher: Client | None, frame: Frame) -> Frame | None:
        """Give what may be sent of `frame`, or None."""
        checks = self.deliver_checks
        if checks & CLOSED:
            return None
        if checks & OVERSIZED and frame.size > self.peer_max_payload:
            self.broker.limit_hits["leafnode_payload"] += 1
            return None
        if checks & DENIED_SUBJECTS and self.send_rules is not None:
            subject = frame.subject_bytes()
            if not self.send_rules.may_publish(subject):
                return None
        if checks & BEHIND and not self.channel.pressure().has_room(publisher):
            return None
        if checks & REPLY_GRANTS and self.take_rules is not None:
            reply = frame.reply_bytes()
            if reply is not None:
                self.take_rules.grant_response(reply, self.broker.clock.monotonic())
        if checks & NO_HEADERS and frame.header_size > 0:
            frame = without_headers(frame)
        return frame


def _shown(frame: Frame) -> Frame:
    """Give `frame` as a client sees it: JetStream puts the subject behind the reply on a link."""
    reply = frame.reply_bytes()
    if reply is None or not reply.startswith(_ACK_PREFIX):
        return frame
    at = reply.find(b"@")
    if at < 0 or reply.count(b".", 0, at) < _ACK_DOTS or at + 1 == len(reply):
        return frame
    return compose(reply[at + 1 :], frame.payload_bytes(), reply[:at], frame.header_bytes())
