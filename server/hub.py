"""What the connections of one server share: accounts, router, limits, and what is decided centrally.

A connection asks here who its client is and what it may do, and tells here what happened to it. Every
refusal is decided in this one place, so that no path around it exists.
"""

import asyncio
import base64
import secrets
from collections import deque
from collections.abc import Awaitable
from random import Random
from typing import Any

from midge.protocol import COMPATIBLE_VERSION, errors
from midge.protocol.errors import ProtocolError
from midge.protocol.frame import Frame
from midge.protocol.inbound import SharedBuffer
from midge.protocol.messages import Info
from midge.server.account import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT, Account
from midge.server.auth import Authenticator, AuthRequest, Identity, Verdict
from midge.server.client import Client
from midge.server.clock import Clock
from midge.server.connection import Connection
from midge.server.logging import get_logger
from midge.server.options import Options
from midge.server.outbound import ChunkPool
from midge.server.permissions import Permissions
from midge.server.reasons import ClosedReason
from midge.server.router import Router
from midge.server.server_keys import ServerKeys
from midge.server.subscription import RoutedSubscription
from midge.server.tracing import Tracer
from midge.sublist import SubList

_NONCE_BYTES = 11
_SYSTEM_QUEUE = b"_sys_"
_RESERVED_SUBJECTS = (b"$NRG.", b"_GR_.")
_RESERVED_REPLIES = (b"_R_.", b"_GR_.", b"$JS.ACK.")

log = get_logger()


class Observer:
    """Somebody who looks on; every method is a no-op here. Called on the loop, so it must be quick."""

    def client_connected(self, connection: Connection) -> None:
        """See a client that has been let in."""

    def client_closed(self, connection: Connection) -> None:
        """See a client that has gone; its counts are final and `reason` says why."""

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        """See a new subscription."""

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        """See a subscription end: `unsubscribed`, `auto_unsubscribed` or `disconnected`."""

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """See a message after its deliveries; `frame` is valid until this returns."""


class _Several(Observer):
    """Several observers of messages as one."""

    def __init__(self, observers: list[Observer]) -> None:
        self._observers = observers

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        for observer in self._observers:
            observer.message_routed(account, publisher, frame, plain, queued)


class Totals:
    """Counts over connections that have gone, and of what happened to them."""

    __slots__ = (
        "connections",
        "in_bytes",
        "in_messages",
        "out_bytes",
        "out_messages",
        "slow_consumers",
        "stale_connections",
    )

    def __init__(self) -> None:
        self.connections = 0
        self.in_messages = 0
        self.in_bytes = 0
        self.out_messages = 0
        self.out_bytes = 0
        self.slow_consumers = 0
        self.stale_connections = 0

    def add(self, client: Client) -> None:
        """Count in what `client` received and sent."""
        self.in_messages += client.in_messages
        self.in_bytes += client.in_bytes
        self.out_messages += client.out_messages
        self.out_bytes += client.out_bytes


class Hub:
    """The shared state of one server's connections; `clock` and `random` are its only such sources.

    `clients` are the live connections by cid, `closed` the last ones that went, oldest first.
    """

    def __init__(self, options: Options, clock: Clock, random: Random) -> None:
        self.options = options
        self.clock = clock
        self.random = random
        self.keys = ServerKeys()
        self.shared_buffer = SharedBuffer()
        self.chunks = ChunkPool()
        chooser = random if options.routing.queue_selection == "random" else None
        self.router = Router(chooser)
        self.accounts: dict[str, Account] = {}
        self.global_account = self.account(GLOBAL_ACCOUNT)
        self.system_account = self.account(options.system_account or SYSTEM_ACCOUNT)
        self.authenticator = Authenticator(options, wall_clock=clock.wall)
        self.clients: dict[int, Connection] = {}
        self.closed: deque[Connection] = deque(maxlen=options.limits.max_closed_clients)
        self.totals = Totals()
        self.stalled_clients = 0
        self.observers: list[Observer] = []
        self._message_observers: list[Observer] = []
        self.lame_duck = False
        self.host = options.listen.host
        self.port = options.listen.port
        self._last_cid = 4  # nats-server's internal clients take the first few
        self._transports: set[Connection] = set()
        self._tasks: set[asyncio.Future[None]] = set()

    # Connections.

    def account(self, name: str) -> Account:
        """Give the account called `name`, made when it does not exist yet."""
        account = self.accounts.get(name)
        if account is None:
            routing = self.options.routing
            sublist = SubList(
                cache_max=routing.cache_max,
                cache_sweep_to=min(routing.cache_sweep_to, routing.cache_max),
                exact_match=routing.exact_match,
            )
            account = Account(name, sublist)
            self.accounts[name] = account
        return account

    def make_connection(self, peer: tuple[str, int], kind: str = "STANDARD") -> Connection:
        """Make a connection with a cid of its own, not yet on a transport."""
        self._last_cid += 1
        connection = Connection(self, self._last_cid, peer, kind)
        if self.authenticator.needs_nonce:
            raw = secrets.token_bytes(_NONCE_BYTES)
            connection.nonce = base64.urlsafe_b64encode(raw).rstrip(b"=")
        return connection

    def connection_made(self, connection: Connection) -> None:
        """Take a connection in, or turn it away when there are too many."""
        self.totals.connections += 1
        self._transports.add(connection)
        self.clients[connection.cid] = connection
        if len(self.clients) > self.options.limits.max_connections:
            connection.close(ClosedReason.MAXIMUM_CONNECTIONS, errors.MAXIMUM_CONNECTIONS)
            return
        self.global_account.clients[connection.cid] = connection
        log.debug("client_connected", cid=connection.cid, peer=_peer(connection))
        self.trace(connection)
        if self.authenticator.admits_silent_clients:
            self._bind_silent(connection)
            connection.keepalive.start()
        else:
            connection.require_connect(self.options.authorization.timeout_s)

    def trace(self, connection: Connection) -> None:
        """Trace `connection` while `logging.trace` says so."""
        wanted = self.options.logging.trace or self.options.logging.trace_verbose
        if wanted or connection.tracer is not None:
            connection.trace(Tracer(connection, self.options.logging) if wanted else None)

    def authenticate(self, connection: Connection) -> None:
        """Find out who the client of `connection` is; `authenticated` or an -ERR follows."""
        verdict = self.authenticator.authenticate(self._request(connection))
        if isinstance(verdict, Verdict):
            self._conclude(connection, verdict)
        else:
            self._begin(self._conclude_later(connection, verdict))

    def client_connected(self, connection: Connection) -> None:
        """Hear that the client has been let in."""
        for observer in self.observers:
            observer.client_connected(connection)

    def client_closed(self, connection: Connection) -> None:
        """Hear that a connection has ended; its transport may have some last words to write."""
        self.clients.pop(connection.cid, None)
        connection.account.clients.pop(connection.cid, None)
        self.totals.add(connection)
        self.closed.append(connection)
        reason = connection.reason
        if reason is not None and reason.is_slow_consumer:
            self.totals.slow_consumers += 1
            log.warning(
                "slow_consumer_closed", cid=connection.cid, peer=_peer(connection), reason=reason.value
            )
        elif reason is ClosedReason.STALE_CONNECTION:
            self.totals.stale_connections += 1
        log.debug(
            "client_closed",
            cid=connection.cid,
            peer=_peer(connection),
            reason=reason.value if reason else "",
        )
        for observer in self.observers:
            observer.client_closed(connection)

    def connection_lost(self, connection: Connection) -> None:
        """Hear that the transport of a connection is gone."""
        self._transports.discard(connection)

    def open_transports(self) -> int:
        """Count the connections whose transport is not gone yet."""
        return len(self._transports)

    def protocol_error(self, connection: Connection, error: ProtocolError) -> None:
        """Log what a client did wrong."""
        log.error("protocol_error", cid=connection.cid, peer=_peer(connection), error=error.detail)

    def error_sent(self, connection: Connection, text: str) -> None:
        """Log an -ERR after which the connection goes on."""
        log.debug("error_sent", cid=connection.cid, peer=_peer(connection), error=text)

    # Who it is.

    def _request(self, connection: Connection) -> AuthRequest:
        options = connection.options
        return AuthRequest(
            user=options.user,
            password=options.password,
            token=options.auth_token,
            jwt=options.jwt,
            nkey=options.nkey,
            signature=options.sig,
            client_name=options.name,
            lang=options.lang,
            version=options.version,
            nonce=connection.nonce,
            peer_host=connection.peer_host,
            peer_port=connection.peer_port,
            connection_type=connection.kind,
        )

    def _bind_silent(self, connection: Connection) -> None:
        """Give a client that may go without CONNECT the identity it has until then."""
        verdict = self.authenticator.authenticate(self._request(connection))
        if isinstance(verdict, Identity):
            self._bind(connection, verdict)

    async def _conclude_later(
        self, connection: Connection, pending: Awaitable[Verdict]
    ) -> None:
        verdict = await pending
        if connection.reason is None:
            self._conclude(connection, verdict)
            connection.resume()

    def _conclude(self, connection: Connection, verdict: Verdict) -> None:
        if isinstance(verdict, Identity):
            self._bind(connection, verdict)
            connection.authenticated(verdict)
            return
        log.error(
            "authentication_failed", cid=connection.cid, peer=_peer(connection), detail=verdict.detail
        )
        connection.close(ClosedReason(verdict.reason), verdict.wire)

    def _bind(self, connection: Connection, identity: Identity) -> None:
        """Put `connection` into its account with its permissions and limits."""
        connection.account.clients.pop(connection.cid, None)
        account = self.account(identity.account)
        connection.join(account)
        account.clients[connection.cid] = connection
        rules = identity.rules
        connection.restrict(None if rules is None else Permissions(rules))
        limits = self.options.limits
        connection.max_subscriptions = _tighter(limits.max_subscriptions, identity.max_subscriptions)
        connection.parser.max_payload = _tighter(
            limits.max_payload_bytes, identity.max_payload_bytes
        )

    # What it may do.

    def refuse_subscription(
        self, connection: Connection, subject: bytes, queue: bytes | None
    ) -> str | None:
        """Give the -ERR text for a subscription that may not be, or None."""
        permissions = connection.permissions
        if queue == _SYSTEM_QUEUE or (
            permissions is not None and not permissions.may_subscribe(subject, queue)
        ):
            return errors.subscription_violation(subject, queue)
        limits = self.options.limits
        if limits.max_subscription_tokens and (
            subject.count(b".") + 1 > limits.max_subscription_tokens
        ):
            return errors.too_many_tokens(subject)
        most = connection.max_subscriptions
        if most > 0 and len(connection.subscriptions) >= most:
            return errors.MAXIMUM_SUBSCRIPTIONS
        return None

    def refuse_publish(self, connection: Connection, subject: bytes, frame: Frame) -> str | None:
        """Give the -ERR text for a message that may not be published, or None."""
        reply = frame.reply_bytes()
        if reply is not None and reply.startswith(_RESERVED_REPLIES):
            return errors.reply_violation(reply)
        permissions = connection.permissions
        allowed = not subject.startswith(_RESERVED_SUBJECTS) and (
            permissions is None
            or permissions.may_publish(subject)
            or permissions.use_response(subject, self.clock.monotonic())
        )
        return None if allowed else errors.publish_violation(subject)

    def grant_reply(self, connection: Connection, frame: Frame) -> None:
        """Note that `connection` may answer the message that it is about to get."""
        connection.permissions.grant_response(frame.reply_bytes(), self.clock.monotonic())

    def screen_publish(self, connection: Connection, frame: Frame) -> None:
        """Show a publish to the interceptors; without any, route it."""
        connection.route_mapped(frame)

    def screen_delivery(
        self, connection: Connection, subscription: Any, frame: Frame
    ) -> Frame | None:
        """Show a delivery to the interceptors; without any, let it pass."""
        return frame

    # What it subscribed to.

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        """Hear of a new subscription."""
        for observer in self.observers:
            observer.subscribed(connection, subscription)

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        """Hear of the end of one."""
        for observer in self.observers:
            observer.unsubscribed(connection, subscription, cause)

    def clean_up(
        self, connection: Connection, account: Account, left: list[RoutedSubscription], slice_: int
    ) -> None:
        """Remove the subscriptions `left`, `slice_` of them now and the others later."""
        for subscription in left[-slice_:]:
            account.sublist.remove(subscription)
            self.unsubscribed(connection, subscription, "disconnected")
        del left[-slice_:]
        if left:
            self.clock.call_later(0, self.clean_up, connection, account, left, slice_)

    # What it is told.

    def info_line(self, connection: Connection, *, connect_info: bool = False) -> bytes:
        """Give INFO as `connection` is to see it."""
        info = self._info()
        info.client_id = connection.cid
        info.client_ip = connection.peer_host
        if connection.nonce:
            info.nonce = connection.nonce.decode()
        if self.authenticator.is_required and (
            connect_info or not self.authenticator.admits_silent_clients
        ):
            info.auth_required = True
        if self.lame_duck:
            info.ldm = True
        if connect_info:
            info.connect_info = True
            info.remote_account = connection.account.name
            info.max_payload = connection.parser.max_payload
            if connection.account is self.system_account:
                info.acc_is_sys = True
        return info.line()

    def _info(self) -> Info:
        limits = self.options.limits
        return Info(
            server_id=self.keys.server_id,
            server_name=self.options.server_name or self.keys.server_id,
            version=COMPATIBLE_VERSION,
            go="python",
            host=self.host,
            port=self.port,
            headers=limits.header_support,
            max_payload=limits.max_payload_bytes,
            xkey=self.keys.xkey,
        )

    def watch_messages(self, observer: Observer) -> None:
        """Have `observer` see everything, every message included."""
        self.observers.append(observer)
        self._message_observers.append(observer)
        self._choose_observer()

    def look_away(self, observer: Observer) -> None:
        """Tell `observer` nothing any more."""
        self.observers.remove(observer)
        if observer in self._message_observers:
            self._message_observers.remove(observer)
        self._choose_observer()

    def _choose_observer(self) -> None:
        """Give the router one observer to tell of messages, or none."""
        several = self._message_observers
        self.router.observer = several[0] if len(several) == 1 else None
        if len(several) > 1:
            self.router.observer = _Several(several)

    def close(self) -> None:
        """Let go of what outlives connections."""
        for task in list(self._tasks):
            task.cancel()
        self.authenticator.close()

    def abort_all(self) -> None:
        """Cut every transport that is still there."""
        for connection in list(self._transports):
            connection.abort()

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _peer(connection: Connection) -> str:
    return f"{connection.peer_host}:{connection.peer_port}"


def _tighter(one: int, other: int) -> int:
    """Give the smaller of two limits, where less than 1 is none."""
    bounds = [limit for limit in (one, other) if limit > 0]
    return min(bounds, default=0)
