"""One client's connection: asyncio's callbacks in, the parser's commands out to the router.

This is a shell. What the bytes mean is the parser's business, who gets a message the SubList's and
the router's; here stands what happens to this client, in the order of a connection's life: made,
heard, authenticated, subscribing, publishing, receiving, held back, closed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.protocol import errors, memory
from midge.protocol.errors import ProtocolError
from midge.protocol.frame import Frame, compose, with_subject, without_headers
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound
from midge.protocol.messages import ConnectOptions, check_json_object, parse_connect
from midge.protocol.parser import Parser
from midge.server.client import (
    BEHIND,
    CLOSED,
    DENIED_SUBJECTS,
    INTERCEPTED,
    NO_ECHO,
    NO_HEADERS,
    REPLY_GRANTS,
    TRACED,
    Client,
)
from midge.server.flow import Flow
from midge.server.keepalive import Keepalive
from midge.server.reasons import ClosedReason
from midge.server.router import SWALLOWED
from midge.server.subscription import RoutedSubscription
from midge.sublist.result import SubListResult
from midge.sublist.subjects import is_valid_publish_subject
from midge.sublist.sublist import SubList
from midge.sublist.subscription import Subscription

if TYPE_CHECKING:
    from midge.server.auth.identity import Identity
    from midge.server.clock import Timer
    from midge.server.hub import Hub

# Why a publish by this client needs a second look. Zero, after a usual CONNECT, means that none
# does.
VERBOSE = 1  # it wants +OK
PEDANTIC = 2  # it wants its publish subjects checked
RESTRICTED = 4  # its permissions limit what it may publish
MAPPED = 8  # its account rewrites subjects
WATCHED = 16  # its messages are traced
SCREENED = 32  # somebody wants to see, change or refuse publishes
RESERVED = 64  # the frame at hand names a subject of the server's own

# The first two bytes of the subjects that are the server's own: $NRG. and $JS.ACK., _GR_. and _R_.
# The inboxes of clients, which are as common as other subjects, begin with _I.
_DOLLAR, _J, _N = 0x24, 0x4A, 0x4E
_UNDERSCORE, _G, _R = 0x5F, 0x47, 0x52

_OWN = (b"$NRG.", b"_GR_.")  # subjects that mappings must not lead clients to

_NOBODY = Handler()
_OK = b"+OK\r\n"
_PING = b"PING\r\n"
_PONG = b"PONG\r\n"

_LINGER_S = 0.25  # how long to read on after the last word, so that it is not lost in a reset
_HELD_BYTES = 64 * 1024  # what may wait unparsed while it is found out who a client is
_CLEAN_UP_SLICE = 2000  # subscriptions removed before others have their turn

# Why the parser may be halted; it goes on when no reason is left.
INTRODUCING = 1  # it is being found out who the client is
TURN_OVER = 2  # others have their turn
WAITING = 4  # interceptors have too much to look at

# What one read holds may keep others waiting for long, so it uses up a turn of some 20 ms, counted
# in bytes copied: those of each delivery, and as many as could be copied while a command is done.
_TURN_BYTES = 32 * 1024 * 1024
_CONNECT_BYTES = 64 * 1024
_COMMAND_BYTES = 8 * 1024
_DELIVERY_BYTES = 128
_DELIVERY_IN_RUN_BYTES = 16
_STEP_BYTES = 64  # of the SubList


class Connection(Client):
    """A client over a byte-stream transport; asyncio's BufferedProtocol by its methods.

    `options` are those of its CONNECT, `identity` is who it turned out to be, and `subscriptions`
    are its own, by sid. Times are the clock's: `started_at` and `last_active_at` monotonic.
    """

    def __init__(self, hub: "Hub", cid: int, peer: tuple[str, int], kind: str) -> None:
        Client.__init__(self, cid, hub.global_account, hub.chunks)
        limits = hub.options.limits
        self.hub = hub
        self.router = hub.router
        self.peer_host = peer[0]
        self.peer_port = peer[1]
        self.forwarded_for = ""  # what a proxy, or somebody who plays one, says of the address
        self.kind = kind
        self.options = ConnectOptions()
        self.identity: Identity | None = None
        self.permissions: Any = None
        self.tracer: Any = None
        self.stream: Any = None  # what waits for interceptors; None while nothing does
        self.info: Any = None  # what interceptors are told of this client
        self.nonce = b""
        self.cookies: dict[str, str] = {}
        self.subscriptions: dict[bytes, RoutedSubscription] = {}
        self.max_subscriptions = limits.max_subscriptions or -1
        self.max_pending_bytes = limits.max_pending_bytes
        self.parser = Parser(
            self,
            max_control_line=limits.max_control_line_bytes,
            max_payload=limits.max_payload_bytes,
        )
        self.inbound = Inbound(self.parser, hub.shared_buffer)
        self.guard = VERBOSE | PEDANTIC
        self.watch = NO_HEADERS
        self.reason: ClosedReason | None = None
        self.started_at = hub.clock.monotonic()
        self.last_active_at = self.started_at
        self.connected = False
        self.has_info = False  # whether INFO went out before there was a transport
        self.keepalive = Keepalive(
            hub.clock,
            hub.random,
            interval_s=hub.ping_interval_s(kind),
            ping_max=hub.options.keepalive.ping_max,
            ping=self._send_ping,
            stale=self._end_stale,
        )
        self._transport: Any = None
        self._told_info = False
        self._subject: bytes | None = None  # of the message at hand, where somebody asked for it
        self._deliverable: bytes | None = None
        self._deliverable_in: bytes | None = None
        self._result: SubListResult | None = None
        self._result_of: SubList | None = None
        self._generation = 0
        self.flow = Flow(self)
        self._turn_left = _TURN_BYTES
        self._auth_timer: Timer | None = None
        self._linger_timer: Timer | None = None
        self._eof = False
        self._paused = False
        self._ended = False
        self._halts = 0

    # Made and heard.

    def connection_made(self, transport: Any) -> None:
        """Start on `transport`; asyncio calls this once."""
        self._transport = transport
        # Every byte the socket leaves behind counts, so that back-pressure is felt at once.
        transport.set_write_buffer_limits(high=0)
        self.outbound.attach(transport)
        self.hub.connection_made(self)
        self.router.flush()

    def get_buffer(self, size_hint: int) -> memoryview:
        """Give the room for the next read."""
        return self.inbound.get_buffer()

    def buffer_updated(self, count: int) -> None:
        """Take the `count` bytes just read, and flush what came of them."""
        if self._ended:
            return  # after the last word, what comes is read only to be dropped
        self._note_activity()
        self._turn_left = _TURN_BYTES
        try:
            self.inbound.received(count)
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch()

    def feed(self, data: bytes) -> None:
        """Take `data`, from a transport that reads into buffers of its own."""
        if self._ended:
            return
        self._note_activity()
        self._turn_left = _TURN_BYTES
        try:
            self.inbound.feed(data)
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch()

    def _note_activity(self) -> None:
        now = self.hub.clock.monotonic()
        self.last_active_at = now
        self.keepalive.last_heard = now

    def _finish_batch(self) -> None:
        """Write what came of a read, and read no further where somebody has to be waited for."""
        self.router.flush()
        if self._ended:
            return
        if self.flow.held_by is not None:
            self.flow.hold_back()
        if self.parser.halted:
            self._wait_with_reading()

    def eof_received(self) -> bool:
        """Hear that the client sends no more; what it has asked for is still answered."""
        self.router.flush()
        if self._halts == TURN_OVER and self.tls_facts() is not None:
            while self._halts == TURN_OVER and not self._ended:
                self._take_turn()  # a TLS transport ends now, whatever is answered here
        if (self.parser.halted or self.stream is not None) and not self._ended:
            self._eof = True  # it, or what it has sent, is still being looked at
            return True
        self.close(ClosedReason.CLIENT_CLOSED)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Hear that the transport is gone."""
        self.close(ClosedReason.READ_ERROR if error else ClosedReason.CLIENT_CLOSED)
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        self.outbound.detach()
        self._transport = None
        self.hub.connection_lost(self)
        # Without these circles the connection goes at once, and not when the collector comes by.
        self.parser.handler = _NOBODY
        self.keepalive.forget()
        self._result = None

    def pause_writing(self) -> None:
        """Hear that the socket is full; the flush that made it so sees it by itself."""

    def resume_writing(self) -> None:
        """Hear that the transport has got rid of what it held."""
        self.outbound.caught_up()
        if self.outbound.behind:
            self.flow.progressed()
            return
        self.watch &= ~BEHIND
        self.flow.caught_up()

    @property
    def peer(self) -> str:
        """Where the client is, for the log: `host:port`, and before it what a proxy says."""
        address = f"{self.peer_host}:{self.peer_port}"
        return f"{self.forwarded_for}/{address}" if self.forwarded_for else address

    # Commands.

    def on_connect(self, document: bytes) -> None:
        """Take the client's introduction, and find out who it is."""
        if self.stream is not None:
            self.stream.defer_connect(document)
            return
        options = parse_connect(document, self.options)
        if self.cookies:
            self._take_cookies(options)
        if self.tracer is not None:
            self.tracer.connect_received(document)
        self.options = options
        self.halt(INTRODUCING)
        if not (self.connected or self.hub.gate.asks_who(self)):
            self._introduced()  # it was nobody in particular, and keeps what it subscribed to
            return
        # What it subscribed to as somebody else must get nothing more, gone already or not.
        self._set_watch(CLOSED, True)
        self._drop_subscriptions(self._introduced)

    def _introduced(self) -> None:
        """Find out who the client is, now that nothing is left of who it was."""
        if not self._ended:
            self._set_watch(CLOSED, False)
            self.hub.gate.authenticate(self)

    def _take_cookies(self, options: ConnectOptions) -> None:
        """Complete the credentials of a CONNECT by those that a browser sent as cookies."""
        cookies = self.cookies
        options.jwt = options.jwt or cookies.get("jwt", "")
        options.user = options.user or cookies.get("user", "")
        options.password = options.password or cookies.get("password", "")
        options.auth_token = options.auth_token or cookies.get("auth_token", "")

    def authenticated(self, identity: "Identity") -> None:
        """Go on as `identity`, with the options of the CONNECT at hand.

        Raises:
            ProtocolError: the options are ones that no client may have.
        """
        options = self.options
        if options.account or options.new_account:
            self.close(ClosedReason.AUTHENTICATION_FAILURE, errors.AUTHORIZATION_VIOLATION)
            return
        self.identity = identity
        self._stop_auth_timer()
        if options.protocol < 0 or options.protocol > 1:
            self.close(ClosedReason.BAD_CLIENT_PROTOCOL, errors.INVALID_CLIENT_PROTOCOL)
            return
        headers = options.headers and self.hub.options.limits.header_support
        if options.no_responders and not headers:
            self.close(
                ClosedReason.NO_RESPONDERS_REQUIRES_HEADERS, errors.NO_RESPONDERS_REQUIRES_HEADERS
            )
            return
        self.parser.headers = headers
        self._set_watch(NO_HEADERS, not headers)
        self._set_watch(NO_ECHO, not options.echo)
        self._set_guard(VERBOSE, options.verbose)
        self._set_guard(PEDANTIC, options.pedantic)
        self.connected = True
        self.info = None
        self._result = None
        self.unhalt(INTRODUCING)
        if options.verbose:
            self.send_ok()
        self.keepalive.connected()
        self.hub.client_connected(self)
        self._spend(_CONNECT_BYTES)

    def resume(self) -> None:
        """Parse what came while the parser was halted."""
        if self._ended:
            return
        try:
            self.inbound.resume()
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch()
        if self.parser.halted:
            return
        if self._eof and self.stream is None:
            self.close(ClosedReason.CLIENT_CLOSED)
        elif self._paused:
            self._paused = False
            if not self.flow.is_held_back:
                self._transport.resume_reading()

    def halt(self, why: int) -> None:
        """Parse nothing more after the command at hand; what comes meanwhile waits."""
        self._halts |= why
        self.parser.halted = True

    def unhalt(self, why: int) -> None:
        """Have `why` halt the parser no longer; `resume` then parses what waits, if it may."""
        self._halts &= ~why
        self.parser.halted = self._ended or self._halts != 0

    def _spend(self, cost_bytes: int) -> None:
        """Use up so much of the turn; at its end the rest waits until others have had theirs."""
        self._turn_left -= cost_bytes
        if self._turn_left < 0 and not self._halts & TURN_OVER:
            self.halt(TURN_OVER)
            self.hub.clock.call_later(0, self._take_turn)

    def _take_turn(self) -> None:
        """Go on with what waits."""
        if self._ended:
            return
        self._turn_left = _TURN_BYTES
        self.unhalt(TURN_OVER)
        self.resume()

    def on_ping(self) -> None:
        """Answer; the first time, with the INFO that belongs to who the client is."""
        if self.stream is not None:
            self.stream.defer(self.on_ping)  # the answer tells that all before it is done
            return
        if self.tracer is not None:
            self.tracer.received("PING")
            self.tracer.sent("PONG")
        self._send(_PONG)
        if self.connected and not self._told_info:
            self._told_info = True
            if self.options.protocol >= 1:
                self.send_info(connect_info=True)

    def on_pong(self) -> None:
        """Take the answer to a PING of ours."""
        if self.tracer is not None:
            self.tracer.received("PONG")
        self.keepalive.pong()

    def on_info(self, document: bytes) -> None:
        """Ignore what a client says of itself as a server, if it is JSON at all."""
        check_json_object(document, "INFO")

    def on_peer_error(self, text: bytes) -> None:
        """Take the client's word that something is wrong, and leave."""
        raise ProtocolError(None, f"the client sent -ERR {text[:256]!r}")

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Add a subscription, unless something forbids it; then say so and go on."""
        if self.tracer is not None:
            self.tracer.subscribe_received(subject, queue, sid)
        self._spend(_COMMAND_BYTES)
        if self.hub.interception is None:
            self.subscribe(subject, queue, sid)
        else:
            self.hub.interception.subscribe(self, subject, queue, sid)

    def subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Add a subscription that the client asks for, unless it may not."""
        refusal = self.hub.gate.refuse_subscription(self, subject, queue)
        if refusal is not None:
            self.send_error(refusal)
            return
        if sid not in self.subscriptions:
            subscription = RoutedSubscription(subject, queue, sid, self)
            sublist = self.account.sublist
            steps = sublist.steps
            if sublist.insert(subscription) is not None:
                self.send_error(errors.INVALID_SUBJECT)
                return
            self._spend((sublist.steps - steps) * _STEP_BYTES)
            self.subscriptions[sid] = subscription
            self.hub.subscribed(self, subscription)
        if self.guard & VERBOSE:
            self.send_ok()

    def on_unsubscribe(self, sid: bytes, max_messages: int) -> None:
        """End a subscription, now or when it has had `max_messages` in all."""
        if self.stream is not None:
            self.stream.defer(self.on_unsubscribe, sid, max_messages)
            return
        if self.tracer is not None:
            self.tracer.unsubscribe_received(sid, max_messages)
        self._spend(_COMMAND_BYTES)
        subscription = self.subscriptions.get(sid)
        if subscription is not None:
            if max_messages > subscription.delivered:
                subscription.max_messages = max_messages
            else:
                subscription.max_messages = 0
                self.unsubscribe(subscription, "unsubscribed")
        if self.guard & VERBOSE:
            self.send_ok()

    def on_publish(self, frame: Frame) -> None:
        """Route one message."""
        self.in_messages += 1
        self.in_bytes += frame.size
        if not frame.repeated:
            self._subject = None
            self._result = None
            self._note_reserved(frame)
            if self.permissions is not None and self.permissions.has_publish_rules:
                self.guard |= RESTRICTED  # what was found of the subject before says nothing
        if self.guard:
            self._publish_guarded(frame)
        else:
            self._route(frame)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Route messages that differ in their payloads only, all at once if nothing forbids it.

        Gives how many: as many as there is time for in this turn, and then it is over.
        """
        if not self.guard:
            result = self._match(frame)
            cost = len(result.plain) * (frame.end + _DELIVERY_IN_RUN_BYTES)
            if cost and cost * count > self._turn_left:
                count = max(self._turn_left // cost + 1, 1)
            if (result or not frame.has_reply()) and self.router.route_run(
                self.account, result, self, frame, count
            ):
                self.in_messages += count
                self.in_bytes += count * frame.size
                self._spend(cost * count)
                return count
        self.on_publish(frame)
        return 1

    # Publishing.

    def _note_reserved(self, frame: Frame) -> None:
        """Note whether `frame` might name a subject that only the server may publish to."""
        reserved = _may_be_reserved(frame.data, frame.base + frame.subject_start)
        if not reserved and frame.reply_end > frame.reply_start:
            reserved = _may_be_reserved(frame.data, frame.base + frame.reply_start)
        if reserved:
            self.guard |= RESERVED
        else:
            self.guard &= ~RESERVED

    def _subject_of(self, frame: Frame) -> bytes:
        """Give the subject of the message at hand, copied once however often it repeats."""
        subject = self._subject
        if subject is None:
            subject = frame.subject_bytes()
            self._subject = subject
        return subject

    def _match(self, frame: Frame) -> SubListResult:
        """Give those who are interested in the subject of the message at hand."""
        sublist = self.account.sublist
        result = self._result
        if (
            result is None
            or self._generation != sublist.generation
            or self._result_of is not sublist
        ):
            self._generation = sublist.generation
            self._result_of = sublist
            start = frame.base + frame.subject_start
            steps = sublist.steps
            result = sublist.match_within(frame.data, start, frame.base + frame.subject_end)
            self._spend((sublist.steps - steps) * _STEP_BYTES)
            self._result = result
        return result

    def _route(self, frame: Frame) -> None:
        """Deliver `frame` to those who are interested in the subject at hand."""
        result = self._match(frame)
        offers = self.router.offers
        taken = self.router.route(self.account, result, self, frame)
        self._spend((self.router.offers - offers) * (frame.end + _DELIVERY_BYTES))
        if taken == 0 and frame.reply_end > frame.reply_start and self.options.no_responders:
            self._send_no_responders(frame, self._subject_of(frame))

    def _publish_guarded(self, frame: Frame) -> None:
        """Deliver `frame` after everything that may forbid, change or accompany it."""
        guard = self.guard
        subject = self._subject_of(frame)
        if guard & WATCHED and self.tracer is not None:
            self.tracer.publish_received(frame)
        if guard & PEDANTIC and not is_valid_publish_subject(subject):
            self.send_error(errors.INVALID_PUBLISH_SUBJECT)
        # What counts is where it goes: a mapping is no way round a denial.
        target = self._mapped(subject) if guard & MAPPED else subject
        may_publish = not guard & RESTRICTED or self.permissions.may_publish(target)
        if guard & RESERVED or not may_publish or (guard & MAPPED and target.startswith(_OWN)):
            refusal = self.hub.gate.refuse_publish(self, target, frame)
            if refusal is not None:
                self.send_error(refusal)
                return
        elif guard & RESTRICTED and not guard & MAPPED:
            self.guard &= ~RESTRICTED  # the same line again needs no asking again
        if guard & SCREENED:
            self.hub.screen_publish(self, frame)
            return
        if guard & VERBOSE:
            self.send_ok()
        if target == subject:
            self._route(frame)
        elif target:
            self._route_to(target, with_subject(frame, target))

    def _mapped(self, subject: bytes) -> bytes:
        """Give the subject that the account's mappings make of `subject`; empty to drop it."""
        mapper = self.account.mapper
        return subject if mapper is None else mapper.map(subject) or b""

    def route_mapped(self, frame: Frame) -> None:
        """Deliver `frame`, which has been shown, under the subject that its mappings give it."""
        subject = frame.subject_bytes()
        mapped = self._mapped(subject)
        if mapped == subject:
            self._route(frame)
        elif mapped and self._may_go_to(mapped, frame):
            self._route_to(mapped, with_subject(frame, mapped))

    def _may_go_to(self, mapped: bytes, frame: Frame) -> bool:
        """Tell whether the client may publish where a mapping takes `frame`; else say so."""
        refusal = self.hub.gate.refuse_publish(self, mapped, frame)
        if refusal is not None:
            self.send_error(refusal)
        return refusal is None

    def route_apart(self, frame: Frame) -> None:
        """Deliver a frame that is not the one at hand, by the account's mappings too."""
        subject = frame.subject_bytes()
        mapped = self._mapped(subject)
        if mapped == subject:
            self._route_to(subject, frame)
        elif mapped and self._may_go_to(mapped, frame):
            self._route_to(mapped, with_subject(frame, mapped))

    def _route_to(self, subject: bytes, frame: Frame) -> None:
        """Deliver `frame` to those who are interested in `subject`, which is its own."""
        sublist = self.account.sublist
        steps = sublist.steps
        result = sublist.match(subject)
        offers = self.router.offers
        taken = self.router.route(self.account, result, self, frame)
        self._spend(_COMMAND_BYTES + (sublist.steps - steps) * _STEP_BYTES)
        self._spend((self.router.offers - offers) * (frame.end + _DELIVERY_BYTES))
        if taken == 0 and frame.has_reply() and self.options.no_responders:
            self._send_no_responders(frame, subject)

    def _send_no_responders(self, frame: Frame, subject: bytes) -> None:
        """Tell the client that nobody is there on `subject`, if it listens for the answer."""
        reply = frame.reply_bytes() or b""
        for subscription in self.account.sublist.match(reply).plain:
            if subscription.owner is self:
                headers = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
                self.outbound.append_message(compose(reply, b"", None, headers), subscription.sid)
                self.router.touch(self)
                return

    # Receiving.

    def checked(
        self, subscription: Subscription, publisher: Client | None, frame: Frame
    ) -> Frame | None:
        """Give what this client may have of `frame`, or None."""
        watch = self.watch
        if watch & CLOSED or (watch & NO_ECHO and publisher is self):
            return None
        if watch & DENIED_SUBJECTS and not self._may_deliver(subscription, frame):
            return None
        if watch & BEHIND and not self.flow.has_room(publisher):
            return None
        if watch & INTERCEPTED:
            screened = self.hub.screen_delivery(self, subscription, publisher, frame)
            if screened is None or screened is SWALLOWED:
                return screened
            frame = screened
        if watch & REPLY_GRANTS and frame.has_reply():
            self.hub.gate.grant_reply(self, frame)
        if watch & NO_HEADERS and frame.header_size > 0:
            frame = without_headers(frame)
        if watch & TRACED and self.tracer is not None:
            self.tracer.message_sent(subscription, frame)
        return frame

    def _may_deliver(self, subscription: Subscription, frame: Frame) -> bool:
        """Tell whether no denial forbids `frame`; quick for the subject of the last time."""
        start = frame.base + frame.subject_start
        end = frame.base + frame.subject_end
        last = self._deliverable
        if (
            last is not None
            and end - start == len(last)
            and self._deliverable_in is subscription.queue
            and memory.starts_with(frame.data, start, end, last)
        ):
            return True
        subject = memory.take(frame.data, start, end)
        if not self.permissions.may_deliver(subject, subscription.queue):
            return False
        self._deliverable = subject
        self._deliverable_in = subscription.queue
        return True

    def finished(self, subscription: Subscription) -> None:
        """End a subscription that has had all the messages it asked for."""
        self.unsubscribe(subscription, "auto_unsubscribed")

    def flushed(self) -> None:
        """See after a flush whether the socket took everything, and whether too much waits."""
        if not self.outbound.behind:
            return
        if not self.watch & BEHIND:
            self.watch |= BEHIND
            self.flow.fell_behind()
        if self.outbound.pending_bytes() > self.max_pending_bytes:  # of answers, which nobody asks
            self.close(ClosedReason.SLOW_CONSUMER_PENDING)

    def hold_for(self, receiver: Client) -> None:
        """Hear that `receiver` is far behind; this connection is read no further for a moment."""
        self.flow.hold_for(receiver)

    def held(self, publisher: Client) -> None:
        """Remember a publisher that waits for this client."""
        self.flow.holding[publisher] = None

    def release(self) -> None:
        """Read on, if this connection was waiting for a receiver."""
        self.flow.release()

    def pause_reading(self) -> None:
        """Read nothing more for now; the transport keeps what comes."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless what has been read still waits."""
        if not (self._ended or self._paused):
            self._transport.resume_reading()

    # Sending.

    def send_info(self, *, connect_info: bool = False) -> None:
        """Send INFO, as it is for this client now."""
        self._send(self.hub.info_line(self, connect_info=connect_info))

    def send_error(self, text: str) -> None:
        """Send -ERR and go on."""
        if self.tracer is not None:
            self.tracer.sent(f"-ERR {text}")
        self._spend(_COMMAND_BYTES)
        self.hub.error_sent(self, text)
        self._send(b"-ERR '%b'\r\n" % text.encode())

    def _send(self, piece: bytes) -> None:
        self.outbound.append(piece)
        self.router.touch(self)

    def send_ok(self) -> None:
        """Say that a command has been taken, as a verbose client wants it."""
        if self.tracer is not None:
            self.tracer.sent("OK")
        self._send(_OK)

    def _send_ping(self) -> None:
        if self._generation != self.account.sublist.generation:
            self._result = None  # it may hold on to many who have left since
        if self.tracer is not None:
            self.tracer.sent("PING")
        self._send(_PING)
        self.router.flush()

    # Subscriptions.

    def unsubscribe(self, ended: Subscription, cause: str) -> None:
        """End the subscription `ended`; `cause` says why, for those who look on."""
        subscription = self.subscriptions.pop(ended.sid, None)
        if subscription is None:
            return
        if self.tracer is not None:
            self.tracer.subscription_removed(subscription)
        sublist = self.account.sublist
        steps = sublist.steps
        sublist.remove(subscription)
        self._spend((sublist.steps - steps) * _STEP_BYTES)
        self.hub.unsubscribed(self, subscription, cause)

    def _drop_subscriptions(self, dropped: Callable[[], None] | None = None) -> None:
        """End all subscriptions, a slice at a time so that others have their turn between.

        Calls `dropped` when none is left: at once, or later and then going on with what came
        meanwhile.
        """
        subscriptions = list(self.subscriptions.values())
        self.subscriptions = {}
        if self.tracer is not None:
            for subscription in subscriptions:
                self.tracer.subscription_removed(subscription)
        self.hub.clean_up(self, self.account, subscriptions, _CLEAN_UP_SLICE)
        if dropped is None:
            return
        if subscriptions:
            self.hub.clock.call_later(0, self._go_on_when_dropped, subscriptions, dropped)
        else:
            dropped()

    def _go_on_when_dropped(
        self, left: list[RoutedSubscription], dropped: Callable[[], None]
    ) -> None:
        """Call `dropped` once nothing is `left`, and parse what came meanwhile."""
        if left:
            self.hub.clock.call_later(0, self._go_on_when_dropped, left, dropped)
            return
        dropped()
        self.resume()

    def _set_watch(self, bit: int, on: bool) -> None:
        self.watch = self.watch | bit if on else self.watch & ~bit

    def _set_guard(self, bit: int, on: bool) -> None:
        self.guard = self.guard | bit if on else self.guard & ~bit

    def restrict(self, permissions: Any) -> None:
        """Have `permissions` checked from now on; None lifts all restrictions."""
        self.permissions = permissions
        self._deliverable = None
        self._set_guard(RESTRICTED, permissions is not None and permissions.has_publish_rules)
        self._set_watch(DENIED_SUBJECTS, permissions is not None and permissions.has_deliver_deny)
        self._set_watch(REPLY_GRANTS, permissions is not None and permissions.allows_responses)

    def trace(self, tracer: Any) -> None:
        """Have what comes and goes told to `tracer`; None stops that."""
        self.tracer = tracer
        self._set_guard(WATCHED, tracer is not None)
        self._set_watch(TRACED, tracer is not None)

    def screen(self, publishes: bool, deliveries: bool) -> None:
        """Have publishes, or deliveries, shown first to who may hold, change or refuse them."""
        self._set_guard(SCREENED, publishes)
        self._set_watch(INTERCEPTED, deliveries)

    def join(self, account: Any) -> None:
        """Belong to `account` from now on; subscriptions must have been dropped before."""
        self.account = account
        self.info = None
        self._result = None
        self._set_guard(MAPPED, account.mapper is not None)

    def peer_certificate(self) -> bytes:
        """Give the certificate that the client has proven to own, in DER; empty without one."""
        transport = self._transport
        tls = None if transport is None else transport.get_extra_info("ssl_object")
        return b"" if tls is None else tls.getpeercert(binary_form=True) or b""

    # The end.

    def require_connect(self, timeout_s: float) -> None:
        """Take nothing but a CONNECT, and not for longer than `timeout_s`."""
        self.parser.connect_required = True
        self._stop_auth_timer()
        self._auth_timer = self.hub.clock.call_later(timeout_s, self._end_unauthenticated)

    def close(self, reason: ClosedReason, wire: str | None = None) -> None:
        """End the connection: say `wire` as -ERR if given, write what is pending, and leave."""
        if self._ended:
            return
        self._ended = True
        self.reason = reason
        self.watch |= CLOSED
        self.parser.halted = True
        self.keepalive.stop()
        self._stop_auth_timer()
        self.flow.stop()
        if wire is not None:
            if self.tracer is not None:
                self.tracer.sent(f"-ERR {wire}")
            self.outbound.append(b"-ERR '%b'\r\n" % wire.encode())
        self._leave(reason, wire)
        self.hub.client_closed(self)
        self._drop_subscriptions()

    def tls_facts(self) -> tuple[str, str] | None:
        """Give the version and the cipher suite of TLS; None on a plain connection."""
        encryption = self._transport and self._transport.get_extra_info("ssl_object")
        if not encryption:
            return None
        suite = encryption.cipher()
        return encryption.version() or "", suite[0] if suite else ""

    def abort(self) -> None:
        """Cut the transport, whatever is pending."""
        self.outbound.detach()
        if self._transport is not None:
            self._transport.abort()

    def _leave(self, reason: ClosedReason, wire: str | None) -> None:
        """Close the transport in the way that `reason` asks for."""
        transport = self._transport
        if transport is None:
            return
        if reason.is_slow_consumer:
            self.abort()
            return
        self.outbound.finish()
        if wire is None or not transport.can_write_eof():
            self._close_transport()
            return
        # Closing with input unread would reset the connection and could eat the -ERR.
        try:
            transport.write_eof()
        except OSError:
            self._close_transport()
            return
        self._linger_timer = self.hub.clock.call_later(_LINGER_S, self._close_transport)

    def _close_transport(self) -> None:
        """Close, and cut when the client does not take its last words within the write deadline.

        It counts as a client no more, so nothing else would end one that never reads them.
        """
        if self._transport is not None:
            deadline_s = self.hub.options.limits.write_deadline_s
            self._linger_timer = self.hub.clock.call_later(deadline_s, self._cut)
            self._transport.close()

    def _cut(self) -> None:
        self.hub.limits_met["last_words"] += 1
        self.abort()

    def _wait_with_reading(self) -> None:
        """Read no more while nobody parses: who is not known yet may not fill the memory."""
        if not self._paused and self.inbound.held_bytes() > _HELD_BYTES:
            self._paused = True
            if not self.connected:
                self.hub.limits_met["bytes_before_authentication"] += 1
            self._transport.pause_reading()

    def _end_on_error(self, error: ProtocolError) -> None:
        """End on what the parser, or a command, found wrong."""
        self.hub.protocol_error(self, error)
        self.close(_REASONS.get(error.wire, ClosedReason.PROTOCOL_VIOLATION), error.wire)

    def _end_stale(self) -> None:
        self.close(ClosedReason.STALE_CONNECTION, errors.STALE_CONNECTION)

    def _end_unauthenticated(self) -> None:
        self._auth_timer = None
        self.close(ClosedReason.AUTHENTICATION_TIMEOUT, errors.AUTHENTICATION_TIMEOUT)

    def _stop_auth_timer(self) -> None:
        if self._auth_timer is not None:
            self._auth_timer.cancel()
            self._auth_timer = None


_REASONS = {
    None: ClosedReason.PROTOCOL_VIOLATION,
    errors.UNKNOWN_OPERATION: ClosedReason.PARSE_ERROR,
    errors.MAXIMUM_CONTROL_LINE: ClosedReason.MAXIMUM_CONTROL_LINE,
    errors.MAXIMUM_PAYLOAD: ClosedReason.MAXIMUM_PAYLOAD,
    errors.AUTHORIZATION_VIOLATION: ClosedReason.AUTHENTICATION_FAILURE,
}


def _may_be_reserved(data: bytearray, start: int) -> bool:
    """Tell by its first two bytes, or one and a space, whether a subject may be the server's."""
    first, second = data[start], data[start + 1]
    if first == _UNDERSCORE:
        return second == _G or second == _R
    return first == _DOLLAR and (second == _J or second == _N)
