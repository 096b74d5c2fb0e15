"""The loop that delivers a consumer's messages, one by one or as a run, and its pace.

Most messages are copied by `sink.Receiver` from the store's memory into the output, without an
object for each. The loop reads and routes the others: redeliveries, messages that wait for their
time, messages with added headers, and messages for receivers that need further checks.

`Pace` is the pace at which messages were stored, or a number of bits a second.
"""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.ack_subject import AckSubject
from midge.jetstream.consumer.ack_tracker import AckTracker
from midge.jetstream.consumer.consumer_host import ConsumerHost
from midge.jetstream.consumer.receivers import NO_RECEIVERS, Receivers
from midge.jetstream.environment.clock import Timer
from midge.jetstream.headers import add_lines
from midge.jetstream.store.interface import LoadedMessage

MESSAGE_COST = 256
"""Fixed cost of a delivery in a turn's budget, besides the message's bytes, in the time to copy one
byte."""

_MESSAGE_COST = MESSAGE_COST  # a C number where this is compiled
_ACK_TIMER_SLACK_NS = 1_000_000  # messages that fall due within it are queued together
_LEAST_GAP_NS = 1_000_000  # a shorter gap is not waited for
_SECOND_NS = 1_000_000_000


class Pace:
    """The rate limit and the replay of one consumer.

    A bucket of `burst_bytes` fills at the rate limit, 0 for none; a message takes its bytes from
    the bucket, which may leave a debt to wait for. Messages up to `replay_upto`, 0 for none, come
    in the time in which they were stored.
    """

    __slots__ = (
        "_bytes",
        "_last_time_ns",
        "_seen_ns",
        "burst_bytes",
        "rate_limit_bps",
        "replay_upto",
    )

    def __init__(self, rate_limit_bps: int, burst_bytes: int, replay_upto: int) -> None:
        self.rate_limit_bps = rate_limit_bps
        self.burst_bytes = burst_bytes
        self.replay_upto = replay_upto
        self._bytes = float(burst_bytes)
        self._seen_ns = 0
        self._last_time_ns = 0

    def delay_ns(self, seq: int, time_ns: int, size: int, now_ns: int) -> int:
        """Return how long to wait before a message may go, and count it as gone then."""
        gap_ns = 0
        if self.replay_upto:
            if self._last_time_ns:
                gap_ns = time_ns - self._last_time_ns
            self._last_time_ns = time_ns
            if seq >= self.replay_upto:
                self.replay_upto = 0
            if gap_ns <= _LEAST_GAP_NS:
                gap_ns = 0
        if not self.rate_limit_bps:
            return gap_ns
        return max(gap_ns, self._debt_ns(size, now_ns + gap_ns) + gap_ns)

    def _debt_ns(self, size: int, now_ns: int) -> int:
        bytes_per_s = self.rate_limit_bps // 8
        if bytes_per_s == 0:
            return 0
        if self._seen_ns and now_ns > self._seen_ns:
            filled = (now_ns - self._seen_ns) * bytes_per_s / _SECOND_NS
            self._bytes = min(self._bytes + filled, float(self.burst_bytes))
        self._seen_ns = max(now_ns, self._seen_ns)
        self._bytes -= size
        return 0 if self._bytes >= 0 else int(-self._bytes * _SECOND_NS / bytes_per_s)


def pace_of(
    config: ConsumerConfig, host: ConsumerHost, last_seq: int, present: Pace | None
) -> Pace | None:
    """Return the pace that a configuration asks for, `present` if it is that; None for none."""
    if not config.rate_limit_bps and config.replay_policy == "instant":
        return None
    if present is not None and present.rate_limit_bps == config.rate_limit_bps:
        return present
    burst = host.max_msg_size if host.max_msg_size > 0 else host.around.max_payload
    upto = last_seq if config.replay_policy == "original" else 0
    return Pace(config.rate_limit_bps, burst, present.replay_upto if present else upto)


class Deliverer:
    """Delivers the messages from `acks.next_seq` on, and those to be redelivered, to `receivers`.

    `is_ready` is True while the host has been asked for a turn; `asks_for_one` as well if that is
    for a single message, which can also be delivered at once.
    """

    def __init__(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self.host = host
        self.acks = AckTracker(host, config, name)
        self.receivers: Receivers = NO_RECEIVERS
        self.headers_only = False
        self.is_ready = False
        self.asks_for_one = False
        self.is_closed = False
        self._was_fetched = False
        self.is_fetching = False
        self._is_at_limit = False
        self.paused_until_ns = 0
        self._ack_subject: AckSubject | None = None  # made late: many consumers wait idle for long
        self._pace: Pace | None = None
        self._hold_timer: Timer | None = None
        self._held_seq = 0
        self._ack_timer: Timer | None = None
        self._ack_timer_ns = 0

    def signal(self) -> None:
        """Ask for a turn if there is a receiver."""
        if self.is_ready or self.is_closed or self._hold_timer is not None:
            return
        if self._may_deliver():
            self.is_ready = True
            self.host.ready(self)

    def fetched(self) -> None:
        """Called when the message that the last turn waited for has been fetched."""
        self._was_fetched = True
        self.signal()
        if not self.is_ready:  # its receiver has gone
            self._forget_fetch()

    def is_paused(self) -> bool:
        """Return whether the consumer is paused now."""
        return self.paused_until_ns > 0 and self.host.clock.wall_ns() < self.paused_until_ns

    def _may_deliver(self) -> bool:
        """Return whether there may be a receiver, and delivering is allowed."""
        return self.receivers.is_open() and not (self.paused_until_ns and self.is_paused())

    def deliver(self, budget: int) -> int:
        """Deliver what takes about `budget` bytes of a turn; return what it took.

        `is_ready` says afterwards whether there is more; the host has been asked for another turn
        by then.
        """
        spent = 0
        self.is_ready = False
        self.host.begin_turn()
        self._is_at_limit = False
        self.is_fetching = False
        self.acks.recount()
        receivers = self.receivers
        while not self.is_closed and not self.is_fetching and self._may_deliver():
            if spent >= budget:
                receivers.end_turn(is_drained=False, is_at_end=False)
                self.signal()
                return spent
            cost = self._deliver_run(budget - spent)
            if not cost and not self.is_fetching:
                cost = self._deliver_next()
            if not cost:
                break
            spent += cost
        receivers.end_turn(is_drained=not self.is_closed, is_at_end=not self._is_at_limit)
        if self._was_fetched:
            self._forget_fetch()
        return spent

    def _forget_fetch(self) -> None:
        """Forget that a message was fetched: it has been read, or will be much later."""
        self._was_fetched = False
        self.host.store.medium.forget_fetch(self)

    def _deliver_run(self, budget: int) -> int:
        """Deliver messages straight from the store, for about `budget` bytes; return the cost.

        It ends before a message that `_deliver_next` has to handle; 0 if that is the first one.
        """
        acks = self.acks
        if self.headers_only or acks.last_per_subject_upto or self._pace is not None:
            return 0
        host = self.host
        view = host.view
        ack = self._acks()
        receivers = self.receivers
        visible = host.store.visible_seq
        spent = 0
        while spent < budget and not acks.pending.queued and not acks.is_full():
            if acks.next_seq > visible:
                break
            start = acks.passed_seq if acks.passed_seq > acks.next_seq else acks.next_seq
            found = host.store.try_next(acks.filters, start, visible, view, self)
            if found <= 0:
                self.is_fetching = found < 0
                break
            seq = view.seq
            receiver = receivers.next_receiver(view)
            if receiver is None:
                acks.passed_seq = seq
                break
            acks.next_seq = seq + 1
            if seq <= acks.counted_seq:
                acks.num_pending -= 1
            pending = acks.num_pending
            ack.compose(1, seq, acks.next_consumer_seq, view.time_ns, pending if pending > 0 else 0)
            size = view.size() + ack.end
            more = receiver.subject_size - (view.subject_end - view.subject_start)
            receiver.take(view, ack.text, ack.end)
            self._note_delivery(seq)
            receivers.delivered(size + more, is_taken=True)
            spent += size + _MESSAGE_COST
            if self.is_closed or not self._may_deliver():
                break
        return spent

    def _acks(self) -> AckSubject:
        """Return what composes the ack subjects."""
        if self._ack_subject is None:
            self._ack_subject = AckSubject(self.host.subject_of(b"ACK", self.acks.name))
        return self._ack_subject

    def _deliver_next(self) -> int:
        """Deliver one message; return its cost in bytes, 0 if there is none or it was not taken."""
        message = self._next_message()
        if message is None:
            return 0
        acks = self.acks
        deliveries = acks.deliveries
        is_counted = deliveries == 1 and message.seq <= acks.counted_seq
        pending = acks.num_pending - is_counted
        ack = self._acks()
        ack.compose(
            deliveries,
            message.seq,
            acks.next_consumer_seq,
            message.time_ns,
            pending if pending > 0 else 0,
        )
        reply = ack.copied()
        headers = message.headers
        payload = message.payload
        if self.headers_only:
            headers = add_lines(headers, b"Nats-Msg-Size: %d\r\n" % len(payload))
            payload = b""
        size = len(message.subject) + len(reply) + len(headers) + len(payload)
        if self._held_back(message, size):
            acks.put_back(message.seq, deliveries, is_first=True)
            return 0
        receivers = self.receivers
        subject = receivers.next_subject(size)
        if subject is None:
            acks.put_back(message.seq, deliveries, is_first=False)
            return 0
        if receivers.header_line:
            headers = add_lines(headers, receivers.header_line)
        if not self.host.sink.deliver(subject, message.subject, reply, headers, payload):
            acks.put_back(message.seq, deliveries, is_first=True)
            receivers.delivered(0, is_taken=False)
            return _MESSAGE_COST
        if is_counted:
            acks.num_pending -= 1
        self._note_delivery(message.seq)
        receivers.delivered(size + len(subject) - len(message.subject), is_taken=True)
        return size + _MESSAGE_COST

    def _note_delivery(self, seq: int) -> None:
        """Count a delivery, and begin to wait for its ack."""
        due_ns = self.acks.delivered(seq)
        if due_ns and (self._ack_timer_ns == 0 or due_ns < self._ack_timer_ns):
            self._arm_ack_timer(due_ns)

    def _held_back(self, message: LoadedMessage, size: int) -> bool:
        """Return whether a message must wait: for its time in a replay, or for the rate limit."""
        if self._pace is None:
            return False
        if message.seq == self._held_seq:
            self._held_seq = 0
            return False
        delay_ns = self._pace.delay_ns(message.seq, message.time_ns, size, self.host.now_ns)
        if delay_ns <= 0:
            return False
        self._held_seq = message.seq
        delay_s = delay_ns / _SECOND_NS
        self._hold_timer = self.host.clock.call_later(delay_s, self._release_held)
        return True

    def _release_held(self) -> None:
        self._hold_timer = None
        self.signal()

    # The choice of a message.

    def _next_message(self) -> LoadedMessage | None:
        """Return the message to deliver next, or None, and set `acks.deliveries`."""
        acks = self.acks
        while acks.pending.queued:
            if not self._is_cached(acks.pending.next_queued()):
                return None
            message = acks.next_again()
            if message is not None:
                return message
        if acks.is_full():
            self._is_at_limit = True
            return None
        acks.deliveries = 1
        if acks.last_per_subject_upto:
            message = self._next_last()
            if message is not None or acks.last_per_subject_upto:
                return message
        store = self.host.store
        visible = store.visible_seq
        if acks.next_seq > visible:
            return None
        start = acks.passed_seq if acks.passed_seq > acks.next_seq else acks.next_seq
        seq = store.next_seq(acks.filters, start, visible)
        if seq and not self._is_cached(seq):
            return None
        message = store.load(seq) if seq else None
        if message is None:
            acks.next_seq = visible + 1
            acks.num_pending = 0
            acks.counted_seq = visible
            return None
        acks.next_seq = message.seq + 1
        return message

    def _is_cached(self, seq: int) -> bool:
        """Return whether a message can be read at once; otherwise this turn ends, for another."""
        self.is_fetching = not self.host.store.is_cached(seq, self)
        return not self.is_fetching

    def _next_last(self) -> LoadedMessage | None:
        """Return the next message that was its subject's last when the consumer was made."""
        acks = self.acks
        store = self.host.store
        upto = acks.last_per_subject_upto
        while acks.next_seq <= upto:
            seq = store.next_last_seq(acks.filters, acks.next_seq, upto)
            if not seq:
                break
            if seq > store.visible_seq or not self._is_cached(seq):
                return None
            acks.next_seq = seq + 1
            message = store.load(seq)
            if message is not None:
                return message
        acks.next_seq = max(acks.next_seq, upto + 1)
        acks.last_per_subject_upto = 0
        return None

    # Messages that fall due for redelivery.

    def watch_acks(self) -> None:
        """Set the timer for the first message that falls due."""
        due_ns = self.acks.pending.next_due_ns()
        if due_ns and (self._ack_timer_ns == 0 or due_ns < self._ack_timer_ns):
            self._arm_ack_timer(due_ns)

    def _arm_ack_timer(self, due_ns: int) -> None:
        """Set the timer to a time, or cancel it for 0."""
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        self._ack_timer_ns = due_ns
        if due_ns:
            clock = self.host.clock
            delay_ns = due_ns - clock.monotonic_ns()
            if not clock.is_exact:
                delay_ns += _ACK_TIMER_SLACK_NS
            delay_s = max(delay_ns, 0) / _SECOND_NS
            self._ack_timer = clock.call_later(delay_s, self._acks_due)

    def _acks_due(self) -> None:
        """Queue the messages that have not been acknowledged in time."""
        self._ack_timer = None
        acks = self.acks
        was_full = acks.is_full()
        acks.queue_due(self.host.clock.monotonic_ns())
        self._arm_ack_timer(acks.pending.next_due_ns())  # goes off again for the rest, which is due
        if was_full or acks.pending.queued:
            self.signal()
