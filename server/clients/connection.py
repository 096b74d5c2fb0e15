"""One client's connection: the effects of its commands, and the messages that it may receive.

A connection has a channel, which moves bytes, and a parser, which calls the methods here and, for
messages, in `publishing.py`. Here they are in the order of a connection's life: CONNECT, PING,
SUB, deliveries, permissions. Matching and delivery are in the SubList and the router.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from midge.protocol import errors
from midge.protocol.errors import ProtocolError
from midge.protocol.frame import Frame, without_headers
from midge.protocol.messages import DEFAULTS, ConnectOptions, check_json_object, parse_connect
from midge.protocol.parser import Parser
from midge.server.channels.channel import Channel, ChannelOwner
from midge.server.channels.channel_state import ChannelState
from midge.server.channels.charges import (
    COMMAND_BYTES,
    ESCAPED_BYTES,
    LOG_LINE_BYTES,
    STEP_BYTES,
)
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.reading import AUTHENTICATING
from midge.server.clients.clean_up import CleanUp
from midge.server.clients.deliver_denials import DeliverDenials
from midge.server.clients.publishing import Publishing
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.router import DEFERRED
from midge.server.routing.slow_path import (
    BEHIND,
    CLOSED,
    DENIED_SUBJECTS,
    INTERCEPTED,
    MAPPED,
    NO_ECHO,
    NO_HEADERS,
    PEDANTIC,
    REPLY_GRANTS,
    RESTRICTED,
    SCREENED,
    TRACED,
    VERBOSE,
    WATCHED,
)
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.sharded_dict import ShardedDict
from midge.sublist.subscription import Subscription

if TYPE_CHECKING:
    import socket

    from midge.server.auth.identity import Identity, Login
    from midge.server.auth.permissions import Permissions
    from midge.server.channels.host import Host
    from midge.server.clients.broker_api import BrokerApi, Waiting
    from midge.server.clients.protocol_trace import Tracer
    from midge.server.clients.settling import LatePongs
    from midge.server.clock import Timer

_PING = b"PING\r\n"
_PONG = b"PONG\r\n"
_NO_SUBSCRIPTIONS = ShardedDict()  # shared by all connections without subscriptions; never changed
_CONNECT_BYTES = 64 * 1024  # charge for a CONNECT


class Connection(ChannelOwner):
    """The connection of one client.

    `listener_kind` is STANDARD or WEBSOCKET. `own_login` decides on the clients of a listener for
    the server's own processes, which count towards no limit; elsewhere it is None. `identity` is
    the authenticated user's, `info` its description for interceptors, and `pending` has the
    commands that wait for interceptors; each may be None. `subscriptions` are its own, by sid. With
    `is_unsettled`, other workers may not know all its subscriptions yet, and the next PONG waits
    until they do. `late_pongs` answers each PING after the first, if there are several workers and
    the client sends PING before the commands that it is meant to cover.
    """

    def __init__(
        self,
        broker: "BrokerApi[Connection]",
        cid: int,
        peer: tuple[str, int],
        listener_kind: str,
        own_login: "Login | None" = None,
    ) -> None:
        ChannelOwner.__init__(self, cid, broker.global_account, broker.chunks, broker.router)
        self.broker = broker
        self.options = DEFAULTS
        limits = broker.options.limits
        self.listener_kind = listener_kind
        self.own_login = own_login
        self.commands = Commands(self, broker)
        self.parser = Parser(
            self.commands,
            max_control_line=limits.max_control_line_bytes,
            max_payload=limits.max_payload_bytes,
        )
        self.channel = Channel(
            cast("Host", broker),
            self,
            self.parser,
            peer,
            ping_interval_s=broker.ping_interval_s(listener_kind),
        )
        self.pending: Waiting | None = None
        self.identity: Identity | None = None
        self.info: object | None = None
        self.nonce = b""
        self.cookies: dict[str, str] | None = None
        self.subscriptions = _NO_SUBSCRIPTIONS
        self.max_subscriptions = limits.max_subscriptions or -1
        self.deliver_checks = NO_HEADERS
        self.introduced = False  # True once a CONNECT was accepted, even during another CONNECT
        self.owes_info = False  # whether INFO goes out only when there is a transport
        self.is_unsettled = False
        self.late_pongs: LatePongs | None = None
        self._has_sent_info = False
        self._denials: DeliverDenials | None = None
        self._auth_timer: Timer | None = None

    # Opened and closed.

    def opened(self) -> None:
        """Register with the broker."""
        if self.owes_info:
            self.send_info()  # it is written after the timers that a client relies on are running
        self.broker.connection_made(self)

    def closed(self) -> None:
        """Leave the broker's clients, and drop the subscriptions."""
        self.stop_auth_timer()
        self.broker.client_closed(self)
        self._drop_subscriptions()

    def finishing(self) -> None:
        """Drop the subscriptions, because nothing can be delivered any more, and then go on."""
        self._drop_subscriptions(self.channel.go_on_finishing)

    def is_busy(self) -> bool:
        """Return whether commands wait for interceptors, or PONGs for other workers."""
        is_late = self.late_pongs is not None and self.late_pongs.is_due()
        return is_late or self.pending is not None

    def broke_protocol(self, error: ProtocolError) -> None:
        """Log the error; a client that sends another command before CONNECT counts as refused."""
        if error.wire == errors.AUTHORIZATION_VIOLATION:
            self.broker.admission.note_refused(self, error.detail)
        else:
            ChannelOwner.broke_protocol(self, error)

    def append_last_error(self, wire: str) -> None:
        """Append the -ERR that the channel ends with."""
        if self.commands.tracer is not None:
            self.commands.tracer.sent(f"-ERR {wire}")
        ChannelOwner.append_last_error(self, wire)

    def send_error(self, text: str) -> None:
        """Send -ERR without closing the connection."""
        if self.commands.tracer is not None:
            self.commands.tracer.sent(f"-ERR {text}")
        is_plain = text.isascii() and "\\" not in text
        self.spend(COMMAND_BYTES + len(text) * (8 if is_plain else ESCAPED_BYTES))
        self.broker.error_sent(self, text)
        self.send(b"-ERR '%b'\r\n" % text.encode())

    def lost(self) -> None:
        """Leave the broker: the transport is gone, or was never made."""
        self.stop_auth_timer()
        self.late_pongs = None
        self.commands.forget_match()
        self.commands = _NO_COMMANDS  # break the cycle, so that both are freed now
        self.broker.connection_lost(self)

    # CONNECT.

    def require_connect(self, timeout_s: float) -> None:
        """Require a CONNECT as the next command, within `timeout_s`."""
        self.parser.connect_required = True
        self._end_after(
            timeout_s, ClosedReason.AUTHENTICATION_TIMEOUT, errors.AUTHENTICATION_TIMEOUT
        )

    def require_handshake(self, bare_socket: "socket.socket", timeout_s: float) -> None:
        """Close the bare socket unless it has become a transport within `timeout_s`."""
        self.channel.bare_socket = bare_socket
        self._end_after(timeout_s, ClosedReason.TLS_HANDSHAKE_FAILURE, None)

    def _end_after(self, timeout_s: float, reason: ClosedReason, wire: str | None) -> None:
        """Close for `reason` after `timeout_s`, unless the client is authenticated by then."""
        self.stop_auth_timer()
        self._auth_timer = self.broker.clock.call_later(timeout_s, self.close, reason, wire)

    def introduce(self, options: ConnectOptions) -> None:
        """Authenticate the client by the `options` of its CONNECT."""
        self.options = options
        self.commands.no_responders = options.no_responders
        self.channel.keepalive.connect_received()
        self.channel.reading.halt(AUTHENTICATING)
        is_anew = self.channel.state == ChannelState.CONNECTED
        if is_anew:
            self.channel.become(ChannelState.INTRODUCING)
        if not (is_anew or self.broker.admission.requires_auth(self)):
            self._introduced()  # the client had no identity, and keeps its subscriptions
            return
        # Subscriptions of the former identity must get no more messages while they are removed.
        self._set_deliver_check(CLOSED, True)
        self._drop_subscriptions(self._introduced)

    def _introduced(self) -> None:
        """Authenticate, now that no subscription of the former identity is left."""
        if self.channel.state == ChannelState.INTRODUCING:
            self._set_deliver_check(CLOSED, False)
            self.broker.admission.authenticate(self)

    def authenticated(self, identity: "Identity") -> None:
        """Continue as `identity`; its account, permissions and limits have been set."""
        if self.channel.state != ChannelState.INTRODUCING:
            return  # the client has expired during authentication
        options = self.options
        headers = options.headers and self.broker.options.limits.header_support
        self.stop_auth_timer()
        self.identity = identity
        self.parser.headers = headers
        self._set_deliver_check(NO_HEADERS, not headers)
        self._set_deliver_check(NO_ECHO, not options.echo)
        self.commands.check(VERBOSE, options.verbose)
        self.commands.check(PEDANTIC, options.pedantic)
        self.channel.become(ChannelState.CONNECTED)
        self.introduced = True
        self.info = None
        self.commands.forget_match()
        self.channel.reading.unhalt(AUTHENTICATING)
        if options.verbose:
            self.commands.send_ok()
        self.channel.keepalive.connected()
        if self.broker.barrier is not None:
            from midge.server.clients.settling import (  # noqa: PLC0415 - only with several workers
                make_late_pongs,
            )

            self.late_pongs = make_late_pongs(self, self.options.lang, self.broker.settle)
        self.broker.client_connected(self)
        self.spend(_CONNECT_BYTES)

    def stop_auth_timer(self) -> None:
        """Cancel the timer for CONNECT."""
        if self._auth_timer is not None:
            self._auth_timer.cancel()
            self._auth_timer = None

    # PING and INFO.

    def send_ping(self) -> None:
        """Send PING; a stale match is dropped, because it may refer to receivers that are gone."""
        self.commands.forget_stale_match()
        if self.commands.tracer is not None:
            self.commands.tracer.sent("PING")
        self.send(_PING)

    def answer_ping(self) -> None:
        """Send PONG, at once or when every worker knows this client's subscriptions."""
        if self.late_pongs is not None and self._has_sent_info:
            self.late_pongs.ping()
        else:
            self.answer(self.send_pong)

    def send_pong(self) -> None:
        """Send PONG, and behind the first one the INFO for the authenticated client."""
        self.send(_PONG)
        if self.introduced and not self._has_sent_info:
            self._has_sent_info = True
            if self.options.protocol >= 1:
                self.send_info(connect_info=True)

    def answer(self, answer: Callable[[], None]) -> None:
        """Call `answer`, at once or when every worker knows this client's subscriptions."""
        if not self.is_unsettled:
            answer()
            return
        from midge.server.clients.settling import (  # noqa: PLC0415 - only with several workers
            answer_when_settled,
        )

        self.is_unsettled = False
        answer_when_settled(self.channel, self.broker.settle, answer)

    def renew_info(self) -> None:
        """Send INFO again to a client that wants changes and has had its first PONG.

        Clients without their first PONG get INFO behind it, because a client may take anything
        before it for the PONG.
        """
        if self._has_sent_info and self.options.protocol >= 1 and self.reason is None:
            self.send_info()

    def send_info(self, *, connect_info: bool = False) -> None:
        """Send the current INFO for this client."""
        self.send(self.broker.info_line(self, connect_info=connect_info))

    # Subscribing.

    def subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Add a subscription, unless it is refused or the client has left."""
        if self.channel.finishes:
            return
        refusal = self.commands.refuse_subscription(subject, queue)
        if refusal is not None:
            self.send_error(refusal)
            return
        if self.subscriptions.get(sid) is None:
            subscription = RoutedSubscription(subject, queue, sid, self)
            sublist = self.account.sublist
            steps = sublist.steps
            if self.account.add(subscription) is not None:
                self.send_error(errors.INVALID_SUBJECT)
                return
            self.spend((sublist.steps - steps) * STEP_BYTES)
            if self.subscriptions is _NO_SUBSCRIPTIONS:
                self.subscriptions = ShardedDict()
            self.subscriptions.put(sid, subscription)
            self.broker.subscribed(self, subscription)
        self.commands.confirm()

    def unsubscribe(self, ended: Subscription, cause: str) -> None:
        """End the subscription `ended` and notify observers of the `cause`."""
        subscription = self.subscriptions.pop(ended.sid)
        if subscription is None:
            return
        if self.commands.tracer is not None:
            self.commands.tracer.subscription_removed(subscription)
        sublist = self.account.sublist
        steps = sublist.steps
        self.account.remove(subscription)
        self.spend((sublist.steps - steps) * STEP_BYTES)
        self.broker.unsubscribed(self, subscription, cause)

    def _drop_subscriptions(self, dropped: Callable[[], None] | None = None) -> None:
        """End all subscriptions, a slice at a time, with other connections' turns in between.

        Calls `dropped` when none is left: at once, or later, and then parses the input that came
        meanwhile.
        """
        subscriptions = self.subscriptions
        self.subscriptions = _NO_SUBSCRIPTIONS
        if self.commands.tracer is not None:
            for subscription in subscriptions.values():
                self.commands.tracer.subscription_removed(subscription)

        def unsubscribed(subscription: RoutedSubscription) -> None:
            self.broker.unsubscribed(self, subscription, "disconnected")

        def dropped_later() -> None:
            if dropped is not None:
                dropped()
                self.channel.resume()

        host, account = self.channel.host, self.account
        work = CleanUp(host, account, subscriptions, unsubscribed, dropped_later)
        if work.begin() and dropped is not None:
            dropped()

    # Receiving.

    def checked(
        self, subscription: Subscription, publisher: Client | None, frame: Frame
    ) -> Frame | None:
        """Return the form of `frame` that this client may get, or None."""
        checks = self.deliver_checks
        if checks & CLOSED or (checks & NO_ECHO and publisher is self):
            return None
        if checks & DENIED_SUBJECTS:
            denials = self._denials
            queue = subscription.queue
            if denials is None or not (
                denials.permit(queue, publisher, frame)
                or self.broker.rights.permits_delivery(self.commands.permissions, queue, frame)
            ):
                return None
        if checks & BEHIND and not self.has_room(publisher):
            return None
        if checks & INTERCEPTED:
            screened = self.broker.screens.deliver(self, subscription, publisher, frame)
            if screened is None or screened is DEFERRED:
                return screened
            frame = screened
        if checks & REPLY_GRANTS and frame.has_reply():
            self.broker.rights.grant_reply(self.commands.permissions, frame)
        if checks & NO_HEADERS and frame.header_size > 0:
            frame = without_headers(frame)
        if checks & TRACED and self.commands.tracer is not None:
            self.commands.tracer.message_sent(subscription, frame)
        return frame

    def has_room(self, publisher: Client | None) -> bool:
        """See `Client.has_room`."""
        return self.channel.has_room(publisher)

    def finished(self, subscription: Subscription) -> None:
        """End a subscription that has had its maximum of messages."""
        self.unsubscribe(subscription, "auto_unsubscribed")

    # Publishing many lines at once: see `LineTaker`.

    def lines_to(self, subscription: Subscription) -> "Connection | None":
        """See `Client.lines_to`."""
        return self if self.commands.goes_only_to(subscription) else None

    def account_of_lines(self) -> Account | None:
        """Return the client's account, or None if each PUB must be checked."""
        return None if self.commands.publish_checks else self.account

    # Account and permissions.

    def join(self, account: Account) -> None:
        """Move to `account`; subscriptions must have been dropped before."""
        self.account = account
        self.info = None
        self.commands.forget_match()
        self.commands.check(MAPPED, account.mapper is not None)

    def restrict(self, permissions: "Permissions | None") -> None:
        """Apply `permissions` from now on; None lifts all restrictions."""
        self.commands.permissions = permissions
        self._denials = None
        if permissions is not None and permissions.has_deliver_deny:
            self._denials = DeliverDenials(permissions)
        self.commands.check(RESTRICTED, permissions is not None and permissions.has_publish_rules)
        self._set_deliver_check(DENIED_SUBJECTS, self._denials is not None)
        self._set_deliver_check(
            REPLY_GRANTS, permissions is not None and permissions.allows_responses
        )

    def trace(self, tracer: "Tracer | None") -> None:
        """Report all traffic to `tracer`, or to none if it is None."""
        self.commands.tracer = tracer
        self.commands.check(WATCHED, tracer is not None)
        self._set_deliver_check(TRACED, tracer is not None)

    def screen(self, publishes: bool, deliveries: bool) -> None:
        """Show publishes, or deliveries, to the screens first."""
        self.commands.check(SCREENED, publishes)
        self._set_deliver_check(INTERCEPTED, deliveries)

    def _set_deliver_check(self, bit: int, on: bool) -> None:
        self.deliver_checks = self.deliver_checks | bit if on else self.deliver_checks & ~bit


class Commands(Publishing):
    """Takes the commands of the client of `connection`, in the order in which they come."""

    def _connection(self) -> Connection:
        return self.client  # type: ignore[return-value]  # made by a Connection

    def on_connect(self, document: bytes) -> None:
        """Read CONNECT and authenticate the client."""
        connection = self._connection()
        if connection.pending is not None:
            connection.pending.defer_connect(document)
            return
        options = parse_connect(document, connection.options)
        if connection.cookies:
            _take_cookies(options, connection.cookies)
        if self.tracer is not None:
            self.tracer.connect_received(document)
            connection.spend(LOG_LINE_BYTES)
        connection.introduce(options)

    def on_ping(self) -> None:
        """Answer with PONG, at once or when every worker knows this client's subscriptions."""
        connection = self._connection()
        if connection.pending is not None:
            # PONG confirms that all commands before it are done.
            connection.pending.defer(self.on_ping)
            return
        if self.tracer is not None:
            self.tracer.received("PING")
            self.tracer.sent("PONG")
            connection.spend(2 * LOG_LINE_BYTES)
        connection.answer_ping()

    def on_pong(self) -> None:
        """Record the answer to the server's PING."""
        connection = self._connection()
        if self.tracer is not None:
            self.tracer.received("PONG")
            connection.spend(LOG_LINE_BYTES)
        connection.channel.keepalive.pong()

    def on_info(self, document: bytes) -> None:
        """Ignore the INFO of a client, but require it to be JSON."""
        check_json_object(document, "INFO")

    def on_peer_error(self, text: bytes) -> None:
        """Raise ProtocolError, because the client reports an error."""
        raise ProtocolError(None, f"the client sent -ERR {text[:256]!r}")

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Add a subscription, or send the -ERR of its refusal."""
        connection = self._connection()
        if self.tracer is not None:
            self.tracer.subscribe_received(subject, queue, sid)
            connection.spend(LOG_LINE_BYTES)
        if self.broker.interception is None:
            connection.subscribe(subject, queue, sid)
        else:
            self.broker.interception.subscribe(connection, subject, queue, sid)

    def refuse_subscription(self, subject: bytes, queue: bytes | None) -> str | None:
        """Return the -ERR text of a refusal, or None; charge for looking up permissions."""
        connection = self._connection()
        rules = None if self.permissions is None else self.permissions.rules
        steps = 0 if rules is None else rules.steps()
        refusal = self.broker.rights.refuse_subscription(self.permissions, subject, queue)
        if rules is not None:
            connection.spend((rules.steps() - steps) * STEP_BYTES)
        most = connection.max_subscriptions
        if refusal is None and 0 <= most <= len(connection.subscriptions):
            return errors.MAXIMUM_SUBSCRIPTIONS
        return refusal

    def on_unsubscribe(self, sid: bytes, max_messages: int) -> None:
        """End a subscription, now or when it has had `max_messages` messages in all."""
        connection = self._connection()
        if connection.pending is not None:
            connection.pending.defer(self.on_unsubscribe, sid, max_messages)
            return
        if self.tracer is not None:
            self.tracer.unsubscribe_received(sid, max_messages)
            connection.spend(LOG_LINE_BYTES)
        subscription = connection.subscriptions.get(sid)
        if subscription is not None:
            if max_messages > subscription.delivered:
                subscription.max_messages = max_messages
            else:
                subscription.max_messages = 0
                connection.unsubscribe(subscription, "unsubscribed")
        self.confirm()

    def confirm(self) -> None:
        """Send +OK to a verbose client, when every worker knows its subscriptions."""
        if self.publish_checks & VERBOSE:
            self._connection().answer(self._confirm)

    def _confirm(self) -> None:
        self.send_ok()

    def show_publish(self, frame: Frame) -> None:
        """Show `frame` to the screens; it is routed if none of them objects."""
        self.broker.screens.publish(self._connection(), frame)


_NO_COMMANDS = Commands(cast("Connection", None), cast("BrokerApi[Connection]", None))


def _take_cookies(options: ConnectOptions, cookies: dict[str, str]) -> None:
    """Complete the credentials of a CONNECT from the cookies that a browser sent."""
    options.jwt = options.jwt or cookies.get("jwt", "")
    options.user = options.user or cookies.get("user", "")
    options.password = options.password or cookies.get("password", "")
    options.auth_token = options.auth_token or cookies.get("auth_token", "")
