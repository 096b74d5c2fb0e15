"""One consumer: its start and end, and its count of pending messages.

`delivering.Delivering` has the loop that delivers, and `tracking.Tracking` the deliveries and their
acks; `pull.PullConsumer` and `push.PushConsumer` choose the receivers.
"""

from __future__ import annotations

from midge.jetstream import errors
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.consumer.delivering import Delivering
from midge.jetstream.consumer.host import ConsumerHost
from midge.jetstream.consumer.log import ConsumerLog
from midge.jetstream.consumer.pace import pace_of
from midge.jetstream.consumer.progress import waits_of
from midge.jetstream.consumer.start import in_reach, start_of
from midge.jetstream.consumer.tracking import Tracking
from midge.jetstream.environment.clock import Timer
from midge.jetstream.json.times import ZERO_TIME_NS, Timestamp
from midge.sublist.subscription import Subscription

_SECOND_NS = 1_000_000_000
_STALE = 0xFFFFFFFFFFFFFFFF


_LOOKED_THROUGH = 32  # redelivered messages that are searched for the first of them


class FilterSubscription(Subscription):
    """One filter of a consumer as a subscription, matched against the stream's messages.

    Those of one consumer form a chain by `before`, which takes less memory than a list of them.
    """

    __slots__ = ("before", "owner")

    def __init__(self, subject: bytes, owner: Consumer, before: FilterSubscription | None) -> None:
        Subscription.__init__(self, subject)
        self.owner = owner
        self.before = before

    def owned_by(self) -> Consumer:
        """Return the consumer."""
        return self.owner


class Consumer(Delivering):
    """A consumer of one stream.

    `num_pending` counts the matching messages from `next_seq` to `counted_seq`, all that were
    visible when it was counted last. `enrolled` is for the set that the consumer is in.
    """

    def _begin_consumer(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self.enrolled: FilterSubscription | None = None
        self.paused_until_ns = 0
        self._pause_timer: Timer | None = None
        self._removals = host.store.removals - host.known_removals
        self._begin_delivering(host, config, name)

    def follow(self, config: ConsumerConfig) -> None:
        """See `Tracking.follow`."""
        Delivering.follow(self, config)
        self.filters = config.filters()
        self.headers_only = config.headers_only
        until = config.pause_until
        self.paused_until_ns = 0 if until is None else in_reach(until.ns)
        if self._pace is not None or config.rate_limit_bps or config.replay_policy != "instant":
            self._pace = pace_of(config, self.host, self.store.last_seq, self._pace)

    # Life.

    def keep_state(self) -> None:
        """Store the state from now on."""
        self.log = ConsumerLog(self)

    def place_at_start(self) -> None:
        """Stand where the deliver policy says."""
        start = start_of(self.config, self.store, self.host.max_msgs_per_subject)
        self.stand_before(start.seq)
        self.last_per_subject_upto = start.last_per_subject_upto

    def start(self) -> None:
        """Count the pending messages, and begin to deliver."""
        self.count_pending()
        if self.pending.first is not None:
            self._arm_ack_timer(self.pending.next_due_ns())
        self._arm_pause_timer()
        self.watch_activity()
        if self.num_pending > 0 or self.pending.first is not None:
            self.signal()  # otherwise `stored` is called for the next matching message

    def stop(self) -> None:
        """Stop without a status or advisory; the state may be restored later."""
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
        """Answer waiting requests, as the consumer is deleted."""

    def is_push_bound(self) -> bool:
        """Return whether the deliver subject has a subscriber."""
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
        """Return whether the consumer is paused now."""
        return self.paused_until_ns > 0 and self.clock.wall_ns() < self.paused_until_ns

    # What the stream tells.

    def stored(self, seq: int) -> None:
        """Count a matching message that has become visible, and deliver it."""
        if seq > self.counted_seq:
            self.counted_seq = seq
            if seq >= self.next_seq:
                if self.num_pending == 0 and self._is_counted():
                    self._passed_seq = seq  # nothing before it matches
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

    def trimmed(self, before_seq: int, most: int) -> bool:
        """See `Tracking.trimmed`."""
        if self.next_seq < self.store.first_seq:
            self._removals = _STALE
        return super().trimmed(before_seq, most)

    def purged(self, first_seq: int, gone_seq: int, *, is_wider: bool) -> None:
        """See `Tracking.purged`."""
        super().purged(first_seq, gone_seq, is_wider=is_wider)
        self._removals = _STALE

    def disk_answered(self) -> None:
        """Called when the messages that waited for the disk are durable or lost."""

    def lowest_seq(self) -> int:
        """Return a sequence up to which no removal concerns this consumer.

        Where many messages have been delivered again, the next removal may concern it.
        """
        first = self.pending.first
        lowest = self.next_seq if first is None else min(first.seq, self.next_seq)
        if not self.redelivered:
            return lowest
        if len(self.redelivered) > _LOOKED_THROUGH:
            return min(lowest, self.store.first_seq)
        return min(lowest, *self.redelivered)

    def signal(self) -> None:
        """Ask for a turn if there is a receiver."""
        if self.is_ready or self.is_closed or self._hold_timer is not None:
            return
        if self._may_deliver():
            self.is_ready = True
            self.host.ready(self)

    def touch(self) -> None:
        """Restart the time of inactivity."""

    # Counting.

    def count_pending(self) -> None:
        """Count the messages to come, exactly."""
        store = self.store
        visible = store.visible_seq
        self._removals = store.removals - self.host.known_removals
        self.counted_seq = visible
        self._passed_seq = 0
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

    def _is_more_coming(self) -> bool:
        """Return whether a matching message is being written to the disk."""
        store = self.store
        visible = store.visible_seq
        if visible >= store.last_seq:
            return False
        return store.next_seq(self.filters, max(self.next_seq, visible + 1)) > 0

    def _count_coming(self) -> int:
        """Return the number of matching messages that are being written to the disk."""
        store = self.store
        visible = store.visible_seq
        if visible >= store.last_seq:
            return 0
        return store.count_pending(self.filters, max(self.next_seq, visible + 1))

    def _recount(self) -> None:
        """Count again if counted messages may have been removed."""
        if not self._is_counted():
            self.count_pending()

    def _is_counted(self) -> bool:
        """Return whether all that was counted is there."""
        return self._removals == self.store.removals - self.host.known_removals

    # Changing.

    def change(self, config: ConsumerConfig) -> None:
        """Take over a configuration that was checked."""
        old = self.config
        self.follow(config)
        if config.ack_wait_ns != old.ack_wait_ns or config.backoff_ns != old.backoff_ns:
            self.pending.set_waits(waits_of(config))
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
        """Schedule the consumer's deletion after its inactive threshold without use."""

    def reset(self, seq: int) -> int:
        """Continue with the message `seq`, or after the ack floor if it is 0; return the sequence.

        Raises:
            JetStreamError: the deliver policy does not allow it.
        """
        if seq == 0:
            seq = self.floor_seq + 1
        else:
            self._check_reset(seq)
        self.pending.clear(self.clock.call_later)
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
        if seq > SEQ_MAX:
            raise errors.CONSUMER_INVALID_RESET.error(err=f"above {SEQ_MAX}")
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
