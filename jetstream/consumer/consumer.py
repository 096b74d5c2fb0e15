"""One consumer: its place in the stream, and the loop that delivers.

`pull.PullConsumer` and `push.PushConsumer` say to whom a message goes; `tracking.Tracking` knows
what was delivered and acknowledged.
"""

from __future__ import annotations

from midge.jetstream import errors
from midge.jetstream.clock import Timer
from midge.jetstream.config.consumer import ConsumerConfig
from midge.jetstream.consumer.ack_subject import AckSubject
from midge.jetstream.consumer.host import ConsumerHost
from midge.jetstream.consumer.log import ConsumerLog
from midge.jetstream.consumer.pace import Pace, pace_of
from midge.jetstream.consumer.start import in_reach, start_of
from midge.jetstream.consumer.tracking import NO_ACKS, Tracking
from midge.jetstream.json.times import ZERO_TIME_NS, Timestamp
from midge.jetstream.store.interface import StoredMessage

MESSAGE_COST = 256
"""What delivering a message takes of a turn besides its bytes: the time of copying so many."""

_SECOND_NS = 1_000_000_000
_STALE = 0xFFFFFFFFFFFFFFFF


class Consumer(Tracking):
    """A consumer of one stream.

    `num_pending` counts the matching messages from `next_seq` to `counted_seq`, all that were
    visible when it was counted last. Up to `last_per_subject_upto` only the last message of each
    subject counts.
    """

    def __init__(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self.filters: tuple[bytes, ...] = ()
        self.headers_only = False
        self.paused_until_ns = 0
        self.created_ns = 0
        self.is_ready = False
        self.num_pending = 0
        self.counted_seq = 0
        self.last_per_subject_upto = 0
        self._ack_subject: AckSubject | None = None  # made late: many consumers wait idle for long
        self._pause_timer: Timer | None = None
        self._pace: Pace | None = None
        self._hold_timer: Timer | None = None
        self._held_seq = 0
        self._turn = 0
        self._is_at_limit = False
        self._removals = host.store.removals - host.known_removals
        super().__init__(host, config, name)

    def follow(self, config: ConsumerConfig) -> None:
        """See `Tracking.follow`."""
        Tracking.follow(self, config)
        self.filters = config.filters()
        self.headers_only = config.headers_only
        until_ns = config.pause_until.ns if config.pause_until is not None else 0
        self.paused_until_ns = in_reach(until_ns)
        self._pace = pace_of(config, self.host, self.store.last_seq, self._pace)

    # Life.

    def keep_state(self) -> None:
        """Have the state stored from now on."""
        self.log = ConsumerLog(self)

    def place_at_start(self) -> None:
        """Stand where the deliver policy says."""
        start = start_of(self.config, self.store, self.host.max_msgs_per_subject)
        self.stand_before(start.seq)
        self.last_per_subject_upto = start.last_per_subject_upto

    def start(self) -> None:
        """Count what is to come, and begin to deliver."""
        self.count_pending()
        if self.pending.first is not None:
            self._arm_ack_timer(self.pending.next_due_ns())
        self._arm_pause_timer()
        self.watch_activity()
        self.signal()

    def stop(self) -> None:
        """End without a word; what was delivered may be restored later."""
        if self.log is not None:
            self.log.stop()
        self.is_closed = True
        self._arm_ack_timer(0)
        for timer in (self._pause_timer, self._hold_timer):
            if timer is not None:
                timer.cancel()
        self._pause_timer = None
        self._hold_timer = None
        self.pending.clear()

    def release(self) -> None:
        """Tell those who wait that the consumer is deleted."""

    def is_push_bound(self) -> bool:
        """Tell whether somebody subscribes to the deliver subject."""
        return False

    def num_waiting(self) -> int:
        """Return how many requests wait."""
        return 0

    def priority_groups(self) -> list[dict[str, str]]:
        """Return what a report says of the priority groups."""
        return []

    def settle_counts(self) -> None:
        """Bring `num_pending` up to date before it is reported."""
        self._recount()

    def is_paused(self) -> bool:
        """Tell whether the consumer is paused now."""
        return self.paused_until_ns > 0 and self.clock.wall_ns() < self.paused_until_ns

    # What the stream tells.

    def stored(self, seq: int) -> None:
        """Take note that a message that matches the filters has become visible."""
        if seq > self.counted_seq:
            self.counted_seq = seq
            if seq >= self.next_seq:
                self.num_pending += 1
        if seq >= self.next_seq and not self.is_ready:
            self.signal()

    def removed(self, seq: int) -> None:
        """See `Tracking.removed`."""
        if self.next_seq <= seq <= self.counted_seq:
            if seq <= self.last_per_subject_upto:
                self._removals = _STALE  # it may not have counted
            else:
                self.num_pending -= 1
        Tracking.removed(self, seq)

    def trimmed(self) -> None:
        """See `Tracking.trimmed`."""
        if self.next_seq < self.store.first_seq:
            self._removals = _STALE
        super().trimmed()

    def purged(self, first_seq: int, *, is_wider: bool) -> None:
        """See `Tracking.purged`."""
        super().purged(first_seq, is_wider=is_wider)
        self._removals = _STALE

    def lowest_seq(self) -> int:
        """Return the first sequence whose removal would concern this consumer."""
        first = self.pending.first
        lowest = self.next_seq if first is None else min(first.seq, self.next_seq)
        return min(lowest, *self.redelivered) if self.redelivered else lowest

    def signal(self) -> None:
        """Ask for a turn, if there is anybody to deliver to."""
        if self.is_ready or self.is_closed or self._hold_timer is not None:
            return
        if self._may_deliver():
            self.is_ready = True
            self.host.ready(self)

    # Delivering.

    def deliver(self, budget: int) -> int:
        """Deliver what takes about `budget` bytes of a turn; return what it took.

        `is_ready` tells afterwards whether there is more; the host has been asked for another turn
        by then.
        """
        spent = 0
        self.is_ready = False
        self._turn += 1
        self._now_ns = self.clock.monotonic_ns()
        self._wall_ns = self.clock.wall_ns()
        self._is_at_limit = False
        self._recount()
        while not self.is_closed and self._may_deliver():
            if spent >= budget:
                self.signal()
                return spent
            message = self._next_message()
            if message is None:
                break
            cost = self._hand_over(message)
            if not cost:
                break
            spent += cost
        if not self.is_closed:
            self._drained()
        return spent

    def _may_deliver(self) -> bool:
        """Tell whether there is anybody to deliver to, and nothing that forbids it."""
        raise NotImplementedError

    def _target(self, size: int) -> bytes | None:
        """Return the subject that a message of this size goes to; None when nobody takes it."""
        raise NotImplementedError

    def _delivered(self, target: bytes, size: int) -> None:
        """Take note that a message has been handed over; `size` is that of what went out."""

    def _not_taken(self, target: bytes) -> None:
        """Take note that nobody took the message that `_target` found a receiver for."""

    def _held_back(self, message: StoredMessage, size: int) -> bool:
        """Tell whether a message must wait: for its time in a replay, or for the rate limit."""
        if self._pace is None:
            return False
        if message.seq == self._held_seq:
            self._held_seq = 0
            return False
        delay_ns = self._pace.delay_ns(message.seq, message.time_ns, size, self._now_ns)
        if delay_ns <= 0:
            return False
        self._held_seq = message.seq
        self._hold_timer = self.clock.call_later(delay_ns / _SECOND_NS, self._release_held)
        return True

    def _release_held(self) -> None:
        self._hold_timer = None
        self.signal()

    def _more_headers(self, headers: bytes) -> bytes:
        """Add to the headers of a message what the consumer has to say with it."""
        return headers

    def _drained(self) -> None:
        """See to those who wait once nothing more can be delivered."""

    def _hand_over(self, message: StoredMessage) -> int:
        """Deliver a message; return what that took of the turn, 0 when nobody took it."""
        deliveries = self._deliveries
        pending = self.num_pending - (deliveries == 1)
        if self._ack_subject is None:
            self._ack_subject = AckSubject(ack_prefix(self.host, self.name))
        reply = self._ack_subject.write(
            deliveries,
            message.seq,
            self.next_consumer_seq,
            message.time_ns,
            pending if pending > 0 else 0,
        )
        headers = message.headers
        payload = message.payload
        if self.headers_only:
            headers = with_header(headers, b"Nats-Msg-Size: %d" % len(payload))
            payload = b""
        size = len(message.subject) + len(reply) + len(headers) + len(payload)
        if self._held_back(message, size):
            self._put_back(message.seq, deliveries, is_first=True)
            return 0
        target = self._target(size)
        if target is None:
            self._put_back(message.seq, deliveries, is_first=False)
            return 0
        headers = self._more_headers(headers)
        if not self.sink.deliver(target, message.subject, reply, headers, payload):
            self._put_back(message.seq, deliveries, is_first=True)
            self._not_taken(target)
            return MESSAGE_COST
        if deliveries == 1:
            self.num_pending -= 1
        self._note_delivery(message.seq, deliveries)
        self._delivered(target, size + len(target) - len(message.subject))
        return size + MESSAGE_COST

    def _note_delivery(self, seq: int, deliveries: int) -> None:
        """Count a delivery, and begin to wait for its ack."""
        consumer_seq = self.next_consumer_seq
        self.next_consumer_seq = consumer_seq + 1
        self.delivered_consumer_seq = consumer_seq
        self.delivered_seq = max(self.delivered_seq, seq)
        self.last_delivery_ns = self._wall_ns
        if self.ack_policy == NO_ACKS:
            self.floor_consumer_seq = consumer_seq
            self.floor_seq = seq
            self.shown_floor_consumer_seq = consumer_seq
            self.shown_floor_seq = max(self.shown_floor_seq, seq)
            if not self.keeps_all:
                self.host.acked(self, seq)
        else:
            self._track(seq, consumer_seq)
        if self.log is not None:
            if self.ack_policy == NO_ACKS:
                self.log.moved()
            else:
                self.log.changed(seq)

    def _put_back(self, seq: int, deliveries: int, is_first: bool) -> None:
        """Undo the choice of a message."""
        if deliveries == 1:
            self.next_seq = seq
            return
        self.redelivered[seq] = self.redelivered.get(seq, 0) - 1
        entry = self.pending.get(seq)
        if entry is None:
            return
        if is_first:
            self.pending.enqueue_first(entry)
        else:
            self.pending.enqueue(entry)

    def _next_message(self) -> StoredMessage | None:
        """Return the message to deliver next, and set `_deliveries`; None when there is none."""
        if self.pending.queued:
            message = self._next_again()
            if message is not None:
                return message
        if self.is_full():
            self._is_at_limit = True
            return None
        self._deliveries = 1
        if self.last_per_subject_upto:
            message = self._next_last()
            if message is not None:
                return message
        visible = self.store.visible_seq
        if self.next_seq > visible:
            return None
        message = self.store.load_next(self.filters, self.next_seq, visible)
        if message is None:
            self.next_seq = visible + 1
            self.num_pending = 0
            self.counted_seq = visible
            return None
        self.next_seq = message.seq + 1
        return message

    def _next_last(self) -> StoredMessage | None:
        """Return the next message that was its subject's last when the consumer was made."""
        upto = self.last_per_subject_upto
        while self.next_seq <= upto:
            seq = self.store.next_last_seq(self.filters, self.next_seq, upto)
            if not seq:
                break
            self.next_seq = seq + 1
            message = self.store.load(seq)
            if message is not None:
                return message
        self.next_seq = max(self.next_seq, upto + 1)
        self.last_per_subject_upto = 0
        return None

    def request(self, reply: bytes, body: bytes) -> None:
        """Take a pull request."""
        raise NotImplementedError

    def touch(self) -> None:
        """Take note that the consumer is in use."""

    # Counting.

    def count_pending(self) -> None:
        """Count the messages to come, exactly."""
        store = self.store
        visible = store.visible_seq
        self._removals = store.removals - self.host.known_removals
        self.counted_seq = visible
        upto = self.last_per_subject_upto
        if self.next_seq > visible:
            self.num_pending = 0
        elif upto:
            count = store.count_pending(self.filters, self.next_seq, True, upto)
            if visible > upto:
                count += store.count_pending(self.filters, upto + 1, False, visible)
            self.num_pending = count
        else:
            self.num_pending = store.count_pending(self.filters, self.next_seq, False, visible)

    def _recount(self) -> None:
        """Count anew if messages that were counted may have gone."""
        if self._removals != self.store.removals - self.host.known_removals:
            self.count_pending()

    # Changing.

    def change(self, config: ConsumerConfig) -> None:
        """Take over a configuration that was checked."""
        old = self.config
        self.follow(config)
        if config.ack_wait_ns != old.ack_wait_ns or config.backoff_ns != old.backoff_ns:
            self.pending.set_waits(config.backoff_ns or [config.ack_wait_ns])
            self._arm_ack_timer(self.pending.next_due_ns())
        if _moment(config.pause_until) != _moment(old.pause_until):
            self._arm_pause_timer()
            self.events.paused(config.pause_until)
        if config.inactive_threshold_ns != old.inactive_threshold_ns:
            self.watch_activity()
        if self.log is not None:
            self.log.save()
        self.signal()

    def watch_activity(self) -> None:
        """Have the consumer deleted once it has not been used for its inactive threshold."""

    def reset(self, seq: int) -> int:
        """Begin anew with the message `seq`, 0 for the one above the ack floor; return which.

        Raises:
            JetStreamError: the deliver policy does not allow it.
        """
        if seq == 0:
            seq = self.floor_seq + 1
        else:
            self._check_reset(seq)
        self.pending.clear()
        self._arm_ack_timer(0)
        self.redelivered.clear()
        self.stand_before(seq)
        self.last_delivery_ns = 0
        self.last_ack_ns = 0
        self.host.moved(self)
        self.count_pending()
        if self.log is not None:
            self.log.save()
        self.signal()
        return seq

    def _check_reset(self, seq: int) -> None:
        config = self.config
        if config.deliver_policy == "by_start_sequence":
            if seq < config.opt_start_seq:
                raise errors.CONSUMER_INVALID_RESET.error(err="below start seq")
        elif config.deliver_policy == "by_start_time":
            assert config.opt_start_time is not None
            if seq < self.store.seq_at_time(in_reach(config.opt_start_time.ns)):
                raise errors.CONSUMER_INVALID_RESET.error(err="below start time")
        elif config.deliver_policy != "all":
            raise errors.CONSUMER_INVALID_RESET.error(err="not allowed")

    # Pausing.

    def _arm_pause_timer(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        if self.is_paused():
            delay_s = (self.paused_until_ns - self.clock.wall_ns()) / _SECOND_NS
            self._pause_timer = self.clock.call_later(delay_s, self._resume)

    def _resume(self) -> None:
        self._pause_timer = None
        if self.is_paused():  # the wall clock was set back
            self._arm_pause_timer()
            return
        self.events.paused(self.config.pause_until)
        self.signal()


def _moment(time: Timestamp | None) -> int:
    return ZERO_TIME_NS if time is None else time.ns


def ack_prefix(host: ConsumerHost, name: bytes) -> bytes:
    """Return what the ack subjects of a consumer begin with."""
    if not host.has_second_acks:
        return b"$JS.ACK.%b.%b." % (host.stream, name)
    domain = (host.domain or "_").encode()
    return b"$JS.ACK.%b.%b.%b.%b." % (domain, host.account_hash.encode(), host.stream, name)


def with_header(headers: bytes, line: bytes) -> bytes:
    """Return a header block with one more line at its end."""
    if not headers:
        return b"NATS/1.0\r\n%b\r\n\r\n" % line
    return b"%b%b\r\n\r\n" % (headers[:-2], line)
