"""Message tracing: a message whose headers ask for it says which way it takes through the server.

`Nats-Trace-Dest` names the subject that the trace goes to, `Nats-Trace-Only` has nothing but the
trace happen. W3C's `traceparent`, when it says that it is sampled, is traced where the account's
`msg_trace` says where to. A trace follows a message to the borders of its account, as nats-server's
does unless an import or export allows more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from midge.protocol import errors
from midge.protocol.frame import compose
from midge.server.clients.publishing import PublishingClient
from midge.server.log.logger import get_logger
from midge.server.routing.reserved import RESERVED_SUBJECTS
from midge.server.routing.slow_path import CLOSED, DENIED_SUBJECTS, NO_ECHO, SCREENED
from midge.sublist.subjects import is_valid_publish_subject

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.auth.claims import TraceClaim
    from midge.server.clients.host import Host
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.result import QueueGroup, SubListResult

DESTINATION = "Nats-Trace-Dest"
ONLY = "Nats-Trace-Only"
PARENT = "traceparent"
_ORIGIN_ACCOUNT = "Nats-Trace-Origin-Account"
_DISABLED = "trace disabled"
_VERSION_LINE = b"NATS/1.0\r\n"
_TRUE = ("1", "true", "on")
_SAMPLED = 1
_CLIENT = 0  # the kind of a client, in nats-server's numbers

NO_ECHO_TEXT = "Not delivered because of no echo"
DENIED_TEXT = "Not delivered because subscription denies this subject"
CLOSED_TEXT = "Not delivered because client is closed"
SLOW_TEXT = "Not delivered because fast producer not stalled and consumer is slow"

Event = dict[str, Any]
Send = Callable[["Account", bytes, Event], None]

log = get_logger()


class Sampling(Struct, frozen=True):
    """Where an account's `traceparent` traces go, and how many of a hundred."""

    destination: str
    percent: int


class MessageTraces:
    """The traces of one server; `send` publishes them, and without it there are none.

    `claim` returns what the token of an account says of traces, None without one.
    """

    def __init__(self, host: Host, claim: Callable[[str], TraceClaim | None]) -> None:
        self._host = host
        self._claim = claim
        self.send: Send | None = None

    def begin(self, connection: PublishingClient, frame: Frame) -> Trace | None:
        """Begin the trace that the headers of `frame` ask for, or return None.

        What asks for a trace alone and cannot have it gives one that `is_void`: the message goes
        nowhere then.
        """
        headers = read_trace_headers(frame.header_bytes() or b"")
        send = self.send
        if not headers or send is None:
            return None
        is_only, sampling = False, None
        if DESTINATION in headers:
            is_only = headers.get(ONLY, [""])[0].lower() in _TRUE
            destination = headers[DESTINATION][0]
        else:
            sampling = self._sampling(connection.account)
            if sampling is None:
                return None
            destination = sampling.destination
        trace = Trace(self._host, send, connection, frame, headers, destination, is_only=is_only)
        trace.is_silent = DESTINATION not in headers and not self._is_chosen(sampling)
        return trace if trace.is_possible() or trace.is_void or trace.is_silent else None

    def _sampling(self, account: Account) -> Sampling | None:
        """Return what the settings say of traces that an account's own headers do not ask for."""
        claim = self._claim(account.name)
        if claim is not None:
            return Sampling(claim.dest, claim.sampling) if claim.dest else None
        for table in self._host.options.accounts:
            if table.name == account.name and table.msg_trace.destination:
                return Sampling(table.msg_trace.destination, table.msg_trace.sampling_percent)
        return None

    def _is_chosen(self, sampling: Sampling | None) -> bool:
        percent = 100 if sampling is None else sampling.percent
        return not 0 < percent < 100 or self._host.random.randrange(100) < percent


class Trace:
    """The way of one message.

    One that `is_void` goes nowhere; `refusal` is the -ERR for a destination that is not allowed.
    One that `is_silent` goes its way untraced, and says so to other servers.
    """

    def __init__(
        self,
        host: Host,
        send: Send,
        connection: PublishingClient,
        frame: Frame,
        headers: dict[str, list[str]],
        destination: str,
        *,
        is_only: bool,
    ) -> None:
        self._host = host
        self._send = send
        self._connection = connection
        self._account = connection.account
        self._destination = destination.encode(errors="surrogateescape")
        self._is_only = is_only
        self.is_void = False
        self.is_silent = False
        self.refusal: str | None = None
        self._ingress = self._event(
            "in", acc=self._account.name, subj=_text(frame.subject_bytes()), client=connection
        )
        self._events = [self._ingress]
        self._headers = headers
        self._size = frame.size

    def is_possible(self) -> bool:
        """Tell whether there can be a trace; if not, a message for that alone is void."""
        connection, destination = self._connection, self._destination
        if connection.publish_checks & SCREENED:
            self.is_void = self._is_only  # what an interceptor does is its own to tell
            self.is_silent = False
        elif _ORIGIN_ACCOUNT in self._headers:
            self.is_void, self.is_silent = self._is_only, not self._is_only
        elif not is_valid_publish_subject(destination):
            log.error(
                "trace_impossible",
                cid=connection.cid,
                peer=connection.peer,
                destination=_text(destination),
            )
            self.is_void = self._is_only
        elif not self._may_be_sent():
            self.refusal = errors.publish_violation(destination)
            self.is_void = True
        else:
            return True
        return False

    def _may_be_sent(self) -> bool:
        permissions = self._connection.permissions
        return not self._destination.startswith(RESERVED_SUBJECTS) and (
            permissions is None or permissions.may_publish(self._destination)
        )

    def go_on(self, subject: bytes, target: bytes, refusal: str | None) -> None:
        """Note that mappings make `target` of `subject`, and that it is refused, if it is."""
        if target and target != subject:
            self._events.append(self._event("sm", to=_text(target)))
        if refusal is not None:
            self._ingress["error"] = refusal

    def route(self, result: SubListResult, frame: Frame) -> int:
        """Deliver `frame`, or tell how it would be; return how many take it."""
        if self.is_silent:
            untraced = without_trace(frame)
            return self._host.router.route(self._account, result, self._connection, untraced)
        plain = cast("tuple[RoutedSubscription, ...]", result.plain)
        taken = sum(self._offer(subscription, frame) for subscription in plain)
        return taken + sum(self._offer_to_group(group, frame) for group in result.queues)

    def send(self) -> None:
        """Publish the trace."""
        if not self.is_silent:
            request = {"header": self._headers, "msgsize": self._size}
            trace = {"request": request, "events": self._events}
            self._send(self._account, self._destination, trace)

    def _offer_to_group(self, group: QueueGroup, frame: Frame) -> bool:
        """Offer `frame` to the members of a group from the one whose turn it is on."""
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
        """Deliver to a subscription, unless only a trace is wanted; tell whether it takes it."""
        client = subscription.client
        if client is None:
            return self._offer_inside(subscription, frame)
        refusal = _refusal_of(client, subscription.queue, self._connection, frame)
        if refusal is None and not self._is_only:
            outcome = self._host.router.deliver(subscription, self._connection, frame)
            refusal = None if outcome else SLOW_TEXT
        queue = subscription.queue
        self._events.append(
            self._event(
                "eg",
                client=client,
                sub=_text(subscription.subject),
                **({"queue": _text(queue)} if queue else {}),
                **({"error": refusal} if refusal else {}),
            )
        )
        return refusal is None

    def _offer_inside(self, subscription: RoutedSubscription, frame: Frame) -> bool:
        """Deliver to a part of the server; what it may tell is part of the trace."""
        told = getattr(subscription, "trace_events", None)
        events = [] if told is None else told(frame)
        self._events += [self._event(**event) for event in events]
        if self._is_only:
            return bool(events)
        if any(event["type"] == "si" for event in events):
            frame = without_trace(frame)  # the other account has not allowed it
        return bool(self._host.router.deliver(subscription, self._connection, frame))

    def _event(self, type: str, client: Client | None = None, **fields: Any) -> Event:  # noqa: A002
        """Make one event; that of a client says which."""
        made: Event = {"type": type, "ts": self._host.clock.wall()}
        if client is not None:
            made |= {"kind": _CLIENT, "cid": client.cid}
            name = client.options.name if isinstance(client, PublishingClient) else ""
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
    name = DESTINATION.encode() + b":"
    lines = (frame.header_bytes() or b"").removesuffix(b"\r\n").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(name)]
    block = b"".join([*kept, name, b" ", _DISABLED.encode(), b"\r\n\r\n"])
    return compose(frame.subject_bytes(), frame.payload_bytes(), frame.reply_bytes(), block)


def _is_sampled(parent: str) -> bool:
    """Tell whether a `traceparent` says that its trace is recorded."""
    parts = parent.split("-")
    try:
        return len(parts) == 4 and len(parts[3]) == 2 and bool(int(parts[3], 16) & _SAMPLED)
    except ValueError:
        return False


def _refusal_of(
    client: Client, queue: bytes | None, publisher: PublishingClient, frame: Frame
) -> str | None:
    """Return why a subscription of `client`, in `queue`, does not get `frame`; None if it does."""
    checks = client.deliver_checks
    if checks & NO_ECHO and client is publisher:
        return NO_ECHO_TEXT
    if checks & CLOSED:
        return CLOSED_TEXT
    if checks & DENIED_SUBJECTS:
        permissions = client.permissions if isinstance(client, PublishingClient) else None
        if permissions and not permissions.may_deliver(frame.subject_bytes(), queue):
            return DENIED_TEXT
    return None


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
