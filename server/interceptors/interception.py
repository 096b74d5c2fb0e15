"""Call the interceptors for the events of clients, and apply their answers; see `api.py`.

A client's commands keep their order. A plain function answers at once. While an async function is
awaited, the client's later messages and commands wait in one `AnswerQueue` per client; when that is
full, the client is not read. Deliveries to a client wait in another queue; when that is full, the
publishers to that client are not read. No other client waits.

A command that passes, changed or not, is then checked as if it had just come. An interceptor can
therefore remove permissions, but never grant any.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.protocol import errors
from midge.protocol.frame import Frame, compose
from midge.protocol.text import decode, encode
from midge.server.auth import Identity, Refusal
from midge.server.auth.permissions import PermissionRules
from midge.server.clients.connection import Connection
from midge.server.clients.screens import Screen
from midge.server.interceptors.api import ClientInfo, Connect, Deliver, Publish, Refuse, Subscribe
from midge.server.interceptors.calls import Call, InterceptorCalls
from midge.server.interceptors.pending_commands import PendingCommands, PendingDeliveries
from midge.server.routing.role import Role
from midge.server.routing.router import DEFERRED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from midge.server.auth import Verdict
    from midge.server.auth.permissions import Permissions
    from midge.server.clients.broker_api import BrokerApi
    from midge.server.clients.screens import Passage
    from midge.server.interceptors.api import Event, Interceptor
    from midge.server.routing.client import Client
    from midge.server.routing.subscription import RoutedSubscription

UNHELD_FACTOR = 16
"""Messages of the process itself may wait up to this many times `max_pending`."""

_SHOWN_REASON_LENGTH = 128


class Interception(Screen):
    """The interceptors of one server, and the commands that wait for their answers."""

    decides = True

    def __init__(self, broker: BrokerApi[Connection], functions: Mapping[str, Interceptor]) -> None:
        settings = broker.options.interceptors
        self.max_pending = settings.max_pending
        self.functions = dict(functions)
        self.calls = InterceptorCalls(
            broker.clock, settings.timeout_s, broker.options.logging.max_lines_per_offender_per_s
        )
        self._broker = broker
        self._pending: dict[Connection | None, PendingCommands] = {}
        self._deliveries: dict[Connection, PendingDeliveries] = {}
        self._is_passing = False

    def change(self, functions: Mapping[str, Interceptor]) -> None:
        """Call `functions` from now on, with the current settings."""
        settings = self._broker.options.interceptors
        self.functions = dict(functions)
        self.max_pending = settings.max_pending
        self.calls.timeout_s = settings.timeout_s

    def screens_publishes(self, connection: Connection) -> bool:
        """Return whether a publish of `connection` must be shown."""
        wanted = "publish" in self.functions or "subscribe" in self.functions
        return wanted or connection in self._pending

    def screens_deliveries(self, connection: Connection) -> bool:
        """Return whether a delivery to `connection` must be shown."""
        return "deliver" in self.functions or connection in self._deliveries

    # Connecting.

    @property
    def wants_connects(self) -> bool:
        """Return whether every client must send CONNECT."""
        return "connect" in self.functions

    def connect(
        self, connection: Connection, verdict: Verdict | Awaitable[Verdict]
    ) -> Verdict | Awaitable[Verdict]:
        """Return `verdict`, the result of authentication, after the interceptor's changes."""
        function = self.functions.get("connect")
        if function is None:
            return verdict
        if isinstance(verdict, Refusal):
            return verdict
        if not isinstance(verdict, Identity):
            return self._connect_later(connection, verdict)
        answer = self.calls.ask("connect", function, _connect_event(connection, verdict))
        if isinstance(answer, Call):
            return self._await_connect(answer, connection, verdict)
        return self._conclude_connect(connection, verdict, answer)

    async def _connect_later(self, connection: Connection, pending: Awaitable[Verdict]) -> Verdict:
        verdict = self.connect(connection, await pending)
        return verdict if isinstance(verdict, Identity | Refusal) else await verdict

    async def _await_connect(
        self, call: Call, connection: Connection, identity: Identity
    ) -> Verdict:
        judged: asyncio.Future[Event | Refuse] = asyncio.get_running_loop().create_future()
        call.on_answer = lambda answer: None if judged.done() else judged.set_result(answer)
        return self._conclude_connect(connection, identity, await judged)

    def _conclude_connect(
        self, connection: Connection, identity: Identity, answer: Event | Refuse
    ) -> Verdict:
        if not isinstance(answer, Connect):
            reason = answer.reason if isinstance(answer, Refuse) else ""
            return Refusal(f"interceptor: refused {_printable(reason)}".rstrip())
        try:
            rules = identity.rules
            if answer.permissions is not None:
                rules = PermissionRules(answer.permissions)
        except Exception as error:  # noqa: BLE001 - the answer may hold anything
            self.calls.fail("connect", answer.client, str(error))
            return Refusal("interceptor: permissions that cannot be")
        return structs.replace(identity, user=answer.user, account=answer.account, rules=rules)

    # Subscribing.

    def subscribe(
        self, connection: Connection, subject: bytes, queue: bytes | None, sid: bytes
    ) -> None:
        """Subscribe for `connection`, now or later, if it is allowed."""
        function = self.functions.get("subscribe")
        # A subscription that is not allowed is not shown, but refused when its turn comes.
        refusal = connection.commands.refuse_subscription(subject, queue)
        if function is None or refusal is not None:
            later = partial(connection.subscribe, subject, queue, sid)
            self._settle(connection, None, lambda _: later())
            return
        event = Subscribe(
            client_info(connection), decode(subject), None if queue is None else decode(queue)
        )
        answer = self.calls.ask("subscribe", function, event)
        apply_verdict = partial(self._conclude_subscribe, connection, event, sid)
        self._settle(connection, answer, apply_verdict)

    def _conclude_subscribe(
        self, connection: Connection, event: Subscribe, sid: bytes, answer: Event | Refuse
    ) -> None:
        if not isinstance(answer, Subscribe):
            text = errors.subscription_violation(encode(event.subject), _encode(event.queue))
            connection.send_error(_with_reason(text, answer))
            return
        connection.subscribe(encode(answer.subject), _encode(answer.queue), sid)

    # Publishing.

    def publish(self, passage: Passage) -> None:
        """Ask about a message that permissions allow, and pass it on now, later or never."""
        connection, frame = passage.publisher, passage.frame
        function = self.functions.get("publish")
        pending = self._pending.get(connection)
        if function is None and pending is None:
            passage.go_on()
            return
        if connection is None and pending is not None and self._is_overfull(pending):
            passage.refuse()
            return
        event = Publish(None if connection is None else client_info(connection), *_message(frame))
        answer = event if function is None else self.calls.ask("publish", function, event)
        if answer is event and pending is None:
            passage.go_on()
        elif connection is None:
            self._settle(None, answer, partial(self._conclude_own_publish, passage), frame.size)
        else:
            apply_verdict = partial(
                self._conclude_publish, passage, connection, connection.commands.permissions, event
            )
            self._settle(connection, answer, apply_verdict, frame.size)

    def _is_overfull(self, pending: PendingCommands) -> bool:
        """Return whether too many messages of the process wait, which cannot be held back."""
        if len(pending.queue) < UNHELD_FACTOR * self.max_pending:
            return False
        self.calls.fail("publish", None, "too many messages of the process itself wait")
        return True

    def _conclude_publish(
        self,
        passage: Passage,
        connection: Connection,
        permissions: Permissions | None,
        event: Publish,
        answer: Event | Refuse,
    ) -> None:
        if not isinstance(answer, Publish):
            text = errors.publish_violation(encode(event.subject))
            connection.send_error(_with_reason(text, answer))
            return
        frame = _frame(answer)
        if 0 <= connection.parser.max_payload < frame.size:
            self.calls.fail("publish", event.client, f"changed Publish: {frame.size} bytes")
            connection.send_error(errors.publish_violation(encode(event.subject)))
            return
        rights = self._broker.rights
        refusal = None
        # The message used up its grant to answer when it came, so the same check is not repeated.
        if answer.subject != event.subject or connection.commands.permissions is not permissions:
            refusal = rights.refuse_publish(
                connection.commands.permissions, _target(connection, frame), frame
            )
        elif answer.reply != event.reply:
            refusal = rights.refuse_reply(frame)
        if refusal is not None:
            connection.send_error(refusal)
            return
        passage.go_on_with(frame)

    def _conclude_own_publish(self, passage: Passage, answer: Event | Refuse) -> None:
        """Pass on a message of the process itself, or drop it, by `answer`."""
        passage.refuse()
        if not isinstance(answer, Publish):
            return
        frame = _frame(answer)
        largest = self._broker.options.limits.max_payload_bytes
        if frame.size <= largest or largest < 0:
            passage.go_on_with(frame)
        else:
            self.calls.fail("publish", None, f"changed Publish: {frame.size} bytes")

    # Delivering.

    def deliver(
        self,
        connection: Connection,
        subscription: RoutedSubscription,
        publisher: Client | None,
        frame: Frame,
    ) -> Frame | None:
        """Return the frame for `connection`, None for nothing, or DEFERRED for later."""
        if self._is_passing:
            return frame
        deliveries = self._deliveries.get(connection)
        if deliveries is not None and not self._make_room(deliveries, publisher):
            return None
        event = Deliver(
            client_info(connection),
            *_message(frame),
            client_info(publisher) if publisher and publisher.role == Role.CLIENT else None,
            decode(subscription.subject),
            None if subscription.queue is None else decode(subscription.queue),
        )
        function = self.functions.get("deliver")
        answer = event if function is None else self.calls.ask("deliver", function, event)
        if deliveries is None and not isinstance(answer, Call):
            return frame if answer is event else self._permitted(connection, event, answer)
        if deliveries is None:
            deliveries = PendingDeliveries(connection, self.max_pending, self._advance_deliveries)
            self._deliveries[connection] = deliveries
        apply_verdict = partial(self._conclude_deliver, connection, subscription, publisher, event)
        pending = deliveries.queue.put(apply_verdict, frame.size)
        if isinstance(answer, Call):
            answer.on_answer = pending.answer
        else:
            # Other deliveries are before it, so this does not run in the middle of the router's
            # work.
            pending.answer(answer)
        if deliveries.queue.is_full:
            self._hold(publisher, deliveries)
        return DEFERRED

    def _make_room(self, deliveries: PendingDeliveries, publisher: Client | None) -> bool:
        """Return whether one more delivery may wait."""
        if len(deliveries.queue) < UNHELD_FACTOR * self.max_pending:
            return True
        self.calls.fail("deliver", client_info(deliveries.connection), "too many wait")
        self._hold(publisher, deliveries)
        return False

    def _hold(self, publisher: Client | None, deliveries: PendingDeliveries) -> None:
        """Stop reading `publisher` until there is room."""
        if isinstance(publisher, Connection) and publisher.cid in self._broker.clients:
            self._pending_of(publisher).wait_for(deliveries)

    def _permitted(
        self, connection: Connection, event: Deliver, answer: Event | Refuse
    ) -> Frame | None:
        """Return the frame of a possibly changed message, or None if it is refused."""
        if not isinstance(answer, Deliver):
            return None
        permissions = connection.commands.permissions
        if answer.subject != event.subject and permissions is not None:
            queue = _encode(event.queue)
            if not permissions.may_subscribe(encode(answer.subject), queue):
                problem = f"{connection.cid} may not have {answer.subject!r}"
                self.calls.fail("deliver", event.client, problem)
                return None
        return _frame(answer)

    def _conclude_deliver(
        self,
        connection: Connection,
        subscription: RoutedSubscription,
        publisher: Client | None,
        event: Deliver,
        answer: Event | Refuse,
    ) -> None:
        frame = self._permitted(connection, event, answer)
        if frame is None or connection.subscriptions.get(subscription.sid) is not subscription:
            return
        # Deliver it like any other message, because the receiver may have changed meanwhile.
        self._is_passing = True
        try:
            self._broker.router.deliver(subscription, publisher, frame)
        finally:
            self._is_passing = False

    # Waiting.

    def forget(self, connection: Connection) -> int:
        """Drop the waiting commands and deliveries of an ended connection; count its commands."""
        deliveries = self._deliveries.pop(connection, None)
        if deliveries is not None:
            deliveries.drop()
        pending = self._pending.pop(connection, None)
        connection.pending = None
        return 0 if pending is None else pending.drop()

    def _end_pending(self, pending: PendingCommands) -> None:
        """Forget `pending`, in which no command waits any more."""
        connection = pending.connection
        if self._pending.get(connection) is not pending:
            return
        del self._pending[connection]
        if connection is not None:
            connection.pending = None
            self._broker.screens.attach(connection)

    def _advance_deliveries(self, deliveries: PendingDeliveries) -> None:
        """Write the deliveries made, and forget `deliveries` if none of them waits any more."""
        connection = deliveries.connection
        if not deliveries.queue and self._deliveries.get(connection) is deliveries:
            del self._deliveries[connection]
            self._broker.screens.attach(connection)

    def close(self) -> None:
        """End all calls."""
        self.calls.close()

    def _settle(
        self,
        connection: Connection | None,
        answer: Event | Refuse | Call | None,
        apply_verdict: Callable[[Any], object],
        size_bytes: int = 0,
    ) -> None:
        """Call `apply_verdict` with the answer: at once, or after the commands before it."""
        if connection not in self._pending and not isinstance(answer, Call):
            apply_verdict(answer)
            return
        take = self._pending_of(connection).put(apply_verdict, size_bytes)
        if isinstance(answer, Call):
            answer.on_answer = take
        else:
            take(answer)

    def _pending_of(self, connection: Connection | None) -> PendingCommands:
        """Return a client's pending commands; make them when the first one has to wait."""
        pending = self._pending.get(connection)
        if pending is None:
            pending = PendingCommands(connection, self.max_pending, self._end_pending)
            self._pending[connection] = pending
            if connection is not None:
                connection.pending = pending
                self._broker.screens.attach(connection)
        return pending


def client_info(client: Client) -> ClientInfo:
    """Return the description of `client`: the same object until it re-authenticates."""
    info: ClientInfo | None = getattr(client, "info", None)
    if info is None:
        info = _client_info(client)
        client.info = info  # type: ignore[attr-defined]  # a Connection has it
    return info


def _client_info(client: Any) -> ClientInfo:
    identity = client.identity
    return ClientInfo(
        cid=client.cid,
        name=client.options.name,
        user="" if identity is None else identity.user,
        account=client.account.name,
        host=client.peer_host,
        port=client.peer_port,
        kind=client.listener_kind,
    )


def _connect_event(connection: Connection, identity: Identity) -> Connect:
    options = connection.options
    info = replace(_client_info(connection), user=identity.user, account=identity.account)
    return Connect(info, options.lang, options.version, identity.user, identity.account)


def _message(frame: Frame) -> tuple[str, str | None, bytes | None, bytes]:
    """Return subject, reply, header block and payload of a frame."""
    reply = frame.reply_bytes()
    return (
        decode(frame.subject_bytes()),
        None if reply is None else decode(reply),
        frame.header_bytes(),
        frame.payload_bytes(),
    )


def _frame(event: Publish | Deliver) -> Frame:
    """Make a frame from the event that an interceptor lets pass."""
    return compose(encode(event.subject), event.payload, _encode(event.reply), event.header_block)


def _with_reason(text: str, answer: Event | Refuse) -> str:
    """Add the interceptor's reason, if there is one, to the text of an -ERR."""
    reason = _printable(answer.reason) if isinstance(answer, Refuse) else ""
    return f"{text}, {reason}" if reason else text


def _printable(reason: str) -> str:
    """Return the part of a reason that an -ERR can carry."""
    kept = "".join(one for one in reason if one.isprintable() and one != "'")
    return kept[:_SHOWN_REASON_LENGTH]


def _encode(text: str | None) -> bytes | None:
    return None if text is None else encode(text)


def _target(connection: Connection, frame: Frame) -> bytes:
    """Return the subject that the client of `connection` must be allowed to publish to."""
    mapper = connection.account.mapper
    subject = frame.subject_bytes()
    return subject if mapper is None else mapper.map(subject) or subject
