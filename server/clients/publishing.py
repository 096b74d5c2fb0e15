"""Publishing of one client: checks, mapping and matching, then the router.

Most clients need no checks: `publish_checks` is 0, and a message costs one match, or none while the
subject stays the same.
"""

from typing import TYPE_CHECKING, Any, cast

from midge.protocol import errors, memory
from midge.protocol.frame import Frame, compose, with_subject
from midge.protocol.handler import Handler
from midge.server.channels.channel import ChannelOwner
from midge.server.channels.charges import (
    COMMAND_BYTES,
    DELIVERY_BYTES,
    DELIVERY_IN_RUN_BYTES,
    LOG_LINE_BYTES,
    OK_BYTES,
    STEP_BYTES,
)
from midge.server.routing import reserved, trace_headers
from midge.server.routing.reserved import RESERVED_SUBJECTS
from midge.server.routing.slow_path import (
    MAPPED,
    METERED,
    PEDANTIC,
    RESERVED,
    RESTRICTED,
    SCREENED,
    VERBOSE,
    WATCHED,
)
from midge.sublist import subject_table
from midge.sublist.result import EMPTY_RESULT, SubListResult
from midge.sublist.subjects import is_valid_publish_subject
from midge.sublist.sublist import SubList

if TYPE_CHECKING:
    from midge.server.auth.permissions import Permissions
    from midge.server.clients.broker_api import BrokerApi
    from midge.server.clients.protocol_trace import Tracer
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.subscription import Subscription

_DELIVERY_BYTES = DELIVERY_BYTES  # C numbers where this is compiled
_DELIVERY_IN_RUN_BYTES = DELIVERY_IN_RUN_BYTES

_RESERVED_BYTES = 2048  # charge for checking in plain Python whether a subject is reserved
_TRACED_BYTES = 32 * 1024  # charge for reading headers in plain Python and reporting the route
_SCREENED_BYTES = 32 * 1024  # charge for showing a message to an interceptor
_NO_RESPONDERS_BYTES = 1024 if memory.is_compiled() else 16 * 1024

_OK = b"+OK\r\n"


class Publishing(Handler):
    """The handler of a client's publishes; `publish_checks` holds bits of slow_path.py.

    `client` is what the router knows as the publisher. `permissions` limit the subjects that it may
    publish and receive, or are None. `tracer` logs its traffic, or is None. With `no_responders`,
    a request without receivers is answered with a 503.
    """

    def __init__(self, client: ChannelOwner, broker: "BrokerApi[Any]") -> None:
        self.client = client
        self.broker = broker
        self.tracer: Tracer | None = None
        self.permissions: Permissions | None = None
        self.no_responders = False
        self.publish_checks = VERBOSE | PEDANTIC
        self._subject: bytes | None = None  # the current message's subject, copied on first use
        self._is_matched = False  # whether `_result` is the result for it
        self._result = EMPTY_RESULT
        self._result_of: SubList | None = None
        self._generation = 0

    def sender(self) -> ChannelOwner:
        """Return the client."""
        return self.client

    def on_budget_spent(self) -> None:
        """Draw more of this turn, or halt until the next one."""
        self.client.on_budget_spent()

    def on_publish(self, frame: Frame) -> None:
        """Route one message."""
        self.client.in_messages += 1
        self.client.in_bytes += frame.size
        memory.count_by_size(self.client.router.counts_by_size, frame.size, 1)
        if not frame.repeated:
            self._begin_line(frame)
        if (
            frame.header_size > 0
            and not trace_headers.count_untraced(frame, 1)
            and self._publish_traced(frame)
        ):
            pass  # the trace has routed it
        elif self.publish_checks:
            self._publish_guarded(frame)
        else:
            self._route(frame)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Route messages that differ only in their payloads, all at once if nothing forbids it.

        Returns how many were routed: as many as this turn allows, and none after a message that
        made an internal subscriber change the receivers of the next one.
        """
        if not self.publish_checks:
            result = self._match(frame)
            deliveries = result.count_run_deliveries() * (frame.end + _DELIVERY_IN_RUN_BYTES)
            channel = self.client.channel
            # The parser charges all of this except the deliveries.
            cost = deliveries + frame.end + channel.parser.run_line_cost
            if not channel.reading.may_spend(cost * count):
                count = max(channel.parser.budget // cost + 1, 1)
            if frame.header_size > 0:
                count = trace_headers.count_untraced(frame, count)
            if count and (result or not frame.has_reply()):
                client = self.client
                taken = client.router.route_run(client.account, result, client, frame, count)
                if taken:
                    client.in_messages += taken
                    client.in_bytes += taken * frame.size
                    memory.count_by_size(client.router.counts_by_size, frame.size, taken)
                    client.spend(deliveries * taken)
                    return taken
        self.on_publish(frame)
        return 1

    def check(self, bit: int, on: bool) -> None:
        """Set or clear a bit of `publish_checks`."""
        self.publish_checks = self.publish_checks | bit if on else self.publish_checks & ~bit

    def goes_only_to(self, subscription: "Subscription") -> bool:
        """Return whether PUBs like the current message can go straight to `subscription`."""
        sublist = self.client.account.sublist
        return (
            not self.publish_checks
            and self._is_matched
            and self._result.lone is subscription
            and self._result_of is sublist
            and self._generation == sublist.generation
            and self.client.router.observer is None
        )

    def forget_match(self) -> None:
        """Drop the cached match, so that the next message is matched again."""
        self._is_matched = False
        self._result = EMPTY_RESULT
        self.client.channel.parser.taker = None

    def forget_stale_match(self) -> None:
        """Drop a cached match that may refer to receivers that are gone."""
        if self._generation != self.client.account.sublist.generation:
            self.forget_match()

    def send_ok(self) -> None:
        """Send +OK to a verbose client."""
        if self.tracer is not None:
            self.tracer.sent("OK")
        self.client.spend(OK_BYTES)
        self.client.send(_OK)

    def _begin_line(self, frame: Frame) -> None:
        """Drop the state of the previous line, and set the checks for the subjects of `frame`."""
        if self._subject is not None:
            self._subject = None
        self._is_matched = False
        data, base = frame.data, frame.base
        start, end = base + frame.subject_start, base + frame.subject_end
        is_reserved = reserved.is_reserved_subject(data, start, end)
        if not is_reserved and frame.reply_end > frame.reply_start:
            start, end = base + frame.reply_start, base + frame.reply_end
            is_reserved = reserved.is_reserved_reply(data, start, end)
        if is_reserved:
            self.publish_checks |= RESERVED
        elif self.publish_checks & RESERVED:
            self.publish_checks &= ~RESERVED
        if self.permissions is not None and self.permissions.has_publish_rules:
            self.publish_checks |= RESTRICTED  # the cached permission was for another subject

    def _subject_of(self, frame: Frame) -> bytes:
        """Return the subject of the current message; copy a repeated subject only once."""
        subject = self._subject
        if subject is None:
            subject = frame.subject_bytes()
            self._subject = subject
        return subject

    def _match(self, frame: Frame) -> SubListResult:
        """Return the match of the current message's subject."""
        sublist = self.client.account.sublist
        if (
            self._is_matched
            and self._generation == sublist.generation
            and self._result_of is sublist
        ):
            return self._result
        self._generation = sublist.generation
        if self._result_of is not sublist:
            self._result_of = sublist
        self._is_matched = True
        start, end = frame.base + frame.subject_start, frame.base + frame.subject_end
        recent = sublist.recent
        if recent.generation == sublist.generation:
            found = subject_table.find(recent.table, recent.capacity, frame.data, start, end)
            if found is not None:
                recent.hits += 1
                self._result = found
                return found
        steps = sublist.steps
        result = self._result = sublist.match_again(frame.data, start, end)
        self.client.spend((sublist.steps - steps) * STEP_BYTES)
        return result

    def _route(self, frame: Frame) -> None:
        """Deliver `frame` to the subscriptions that match its subject."""
        client, result = self.client, self._match(frame)
        offers = client.router.offers
        taken = client.router.route(client.account, result, client, frame)
        # The body of `spend`, because a call costs 1 % of a message.
        parser = client.channel.parser
        parser.budget -= (client.router.offers - offers) * (frame.end + _DELIVERY_BYTES)
        if parser.budget < 0:
            client.on_budget_spent()
        if taken == 0 and frame.reply_end > frame.reply_start:
            self._note_unanswered(frame, result)
            if self.no_responders:
                self._send_no_responders(frame, self._subject_of(frame))

    def _publish_traced(self, frame: Frame) -> bool:
        """Publish a message whose headers ask for a trace; return False if they do not."""
        self.client.spend(_TRACED_BYTES)
        trace = self.broker.traces.begin(self.client, frame)
        if trace is None:
            return False
        if self.publish_checks & METERED:
            self.broker.quotas.charge(self.client, frame.size)
        if trace.is_void:
            if trace.refusal is not None:
                self.client.send_error(trace.refusal)
            return True
        checks = self.publish_checks
        subject = self._subject_of(frame)
        if checks & WATCHED and self.tracer is not None:
            self.tracer.publish_received(frame)
        if checks & PEDANTIC and not is_valid_publish_subject(subject):
            self.client.send_error(errors.INVALID_PUBLISH_SUBJECT)
        target = self._mapped(subject) if checks & MAPPED else subject
        refusal = self.broker.rights.refuse_publish(self.permissions, target or subject, frame)
        if refusal is not None:
            self.client.send_error(refusal)
        elif checks & VERBOSE:
            self.send_ok()
        trace.go_on(subject, target, refusal)
        if refusal is None and target:
            moved = frame if target == subject else with_subject(frame, target)
            taken = trace.route(self.client.account.sublist.match(target), moved)
            self.client.spend(taken * (frame.end + _DELIVERY_BYTES))
            if taken == 0 and frame.has_reply() and self.no_responders:
                self._send_no_responders(frame, target)
        trace.send()
        return True

    def _publish_guarded(self, frame: Frame) -> None:
        """Deliver `frame` after all checks, mappings and screens."""
        checks = self.publish_checks
        subject = self._subject_of(frame)
        if checks & METERED:
            self.broker.quotas.charge(self.client, frame.size)
        if checks & WATCHED and self.tracer is not None:
            self.tracer.publish_received(frame)
            self.client.spend(LOG_LINE_BYTES)
        if checks & PEDANTIC and not is_valid_publish_subject(subject):
            self.client.send_error(errors.INVALID_PUBLISH_SUBJECT)
        # Permissions apply to the mapped subject: a mapping must not bypass a denial.
        target = self._mapped(subject) if checks & MAPPED else subject
        named = target or subject  # a message that the weights drop must be allowed as well
        may_publish = not checks & RESTRICTED or self._may_publish(named)
        if checks & RESERVED:
            self.client.spend(_RESERVED_BYTES)
        is_led_astray = checks & MAPPED and named.startswith(RESERVED_SUBJECTS)
        if checks & RESERVED or not may_publish or is_led_astray:
            refusal = self.broker.rights.refuse_publish(self.permissions, named, frame)
            if refusal is not None:
                self.client.send_error(refusal)
                return
        elif checks & RESTRICTED and not checks & MAPPED:
            self.publish_checks &= ~RESTRICTED  # a repeated line needs no second check
        if checks & SCREENED:
            self.client.spend(_SCREENED_BYTES)
            self.show_publish(frame)
            return
        if checks & VERBOSE:
            self.send_ok()
        if target == subject:
            self._route(frame)
        elif target:
            self._route_to(target, with_subject(frame, target))

    def show_publish(self, frame: Frame) -> None:
        """Show `frame` to the screens, which decide whether it is routed."""

    def _may_publish(self, subject: bytes) -> bool:
        """Return whether the permissions allow publishing to `subject`, and charge for it."""
        permissions = self.permissions
        assert permissions is not None, "without any, nothing is restricted"
        rules = permissions.rules
        steps = rules.steps()
        may_publish: bool = permissions.may_publish(subject)
        self.client.spend((rules.steps() - steps) * STEP_BYTES)
        return may_publish

    def _mapped(self, subject: bytes) -> bytes:
        """Return `subject` after the account's mappings, or b"" to drop the message."""
        mapper = self.client.account.mapper
        if mapper is None:
            return subject
        steps = mapper.steps
        mapped = mapper.map(subject) or b""
        self.client.spend((mapper.steps - steps) * STEP_BYTES)
        return mapped

    def route_mapped(self, frame: Frame) -> None:
        """Deliver `frame`, which the screens have passed, under its mapped subject."""
        subject = self._subject_of(frame)
        mapped = self._mapped(subject)
        if mapped == subject:
            self._route(frame)
        elif mapped and self._may_go_to(mapped, frame):
            self._route_to(mapped, with_subject(frame, mapped))

    def _may_go_to(self, mapped: bytes, frame: Frame) -> bool:
        """Return whether the client may publish to the subject `mapped`; else send -ERR."""
        refusal = self.broker.rights.refuse_publish(self.permissions, mapped, frame)
        if refusal is not None:
            self.client.send_error(refusal)
        return refusal is None

    def route_apart(self, frame: Frame) -> None:
        """Apply the account's mappings to a frame other than the current one, and deliver it."""
        subject = frame.subject_bytes()
        mapped = self._mapped(subject)
        if mapped == subject:
            self._route_to(subject, frame)
        elif mapped and self._may_go_to(mapped, frame):
            self._route_to(mapped, with_subject(frame, mapped))

    def _route_to(self, subject: bytes, frame: Frame) -> None:
        """Deliver `frame` to the subscriptions that match its `subject`."""
        sublist = self.client.account.sublist
        steps = sublist.steps
        result = sublist.match(subject)
        offers = self.client.router.offers
        taken = self.client.router.route(self.client.account, result, self.client, frame)
        self.client.spend(COMMAND_BYTES + (sublist.steps - steps) * STEP_BYTES)
        self.client.spend((self.client.router.offers - offers) * (frame.end + _DELIVERY_BYTES))
        if taken == 0 and frame.has_reply():
            self._note_unanswered(frame, result)
            if self.no_responders:
                self._send_no_responders(frame, subject)

    def _note_unanswered(self, frame: Frame, result: SubListResult) -> None:
        """Log the account's first request to JetStream for which `result` has no receiver."""
        data, base = frame.data, frame.base
        start, end = base + frame.subject_start, base + frame.subject_end
        if reserved.is_jetstream_request(data, start, end) and not result:
            self.client.spend(_RESERVED_BYTES)
            self.broker.jetstream_missed(self.client.account.name, frame)

    def _send_no_responders(self, frame: Frame, subject: bytes) -> None:
        """Send the client a 503 for `subject`, if it has subscribed to the reply subject."""
        reply = frame.reply_bytes() or b""
        sublist = self.client.account.sublist
        steps = sublist.steps
        listening = cast("tuple[RoutedSubscription, ...]", sublist.match(reply).plain)
        looked_at = 0
        for subscription in listening:
            looked_at += 1
            if subscription.client is self.client:
                headers = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
                answer = compose(reply, b"", None, headers)
                self.client.outbound.append_message(answer, subscription.sid)
                self.client.router.touch(self.client)
                break
        steps = sublist.steps - steps + looked_at
        self.client.spend(_NO_RESPONDERS_BYTES + len(subject) + steps * STEP_BYTES)
