"""One consumer: its start and end, its changes, and what it does with acks and removed messages.

A consumer has three parts, each of which knows only the parts before it:

- `acks` (ack_tracker.py) has its position in the stream and the deliveries that await their acks.
- The loop of `deliverer.Deliverer` chooses the next message.
- `receivers` chooses its receiver: a pull request (pull.py), or the deliver subject (push.py).

`consumer_set.ConsumerSet` puts them together and notifies them of what happens in the stream.
"""

from __future__ import annotations

from midge.jetstream import errors
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.consumer import acks as ack_kinds
from midge.jetstream.consumer.ack_subject import AckNumbers
from midge.jetstream.consumer.consumer_events import ConsumerEvents
from midge.jetstream.consumer.consumer_host import ConsumerHost
from midge.jetstream.consumer.consumer_log import ConsumerLog
from midge.jetstream.consumer.deliverer import Deliverer, pace_of
from midge.jetstream.consumer.position import in_reach, start_of, waits_of
from midge.jetstream.consumer.receivers import NO_RECEIVERS
from midge.jetstream.environment.clock import LONGEST_NS, Timer
from midge.jetstream.json.times import ZERO_TIME_NS, Timestamp
from midge.sublist.subscription import Subscription

_NEXT = ack_kinds.NEXT  # C numbers where this is compiled
_NAK = ack_kinds.NAK
_PROGRESS = ack_kinds.PROGRESS
_SECOND_NS = 1_000_000_000
_MILLISECOND_NS = 1_000_000
_INT64_MAX = (1 << 63) - 1

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


class Consumer(Deliverer):
    """A consumer of one stream; `enrolled` is for the set that the consumer is in."""

    def __init__(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        Deliverer.__init__(self, host, config, name)
        self.enrolled: FilterSubscription | None = None
        self._pause_timer: Timer | None = None
        self.last_active_ns = 0
        self._threshold_ns = 0
        self._inactive_timer: Timer | None = None
        self.follow(config)

    @property
    def name(self) -> bytes:
        """The name of the consumer."""
        return self.acks.name

    @property
    def config(self) -> ConsumerConfig:
        """The configuration, which must not be changed."""
        return self.acks.config

    @property
    def events(self) -> ConsumerEvents:
        """The events of this consumer; the object is made on demand."""
        return self.acks.events

    def follow(self, config: ConsumerConfig) -> None:
        """Follow a change of the configuration, or of the stream's."""
        self.receivers.follow(config)
        self.acks.follow(config)
        self.headers_only = config.headers_only
        until = config.pause_until
        self.paused_until_ns = 0 if until is None else in_reach(until.ns)
        if self._pace is not None or config.rate_limit_bps or config.replay_policy != "instant":
            self._pace = pace_of(config, self.host, self.host.store.last_seq, self._pace)

    # Life.

    def keep_state(self) -> None:
        """Store the state from now on."""
        self.acks.log = ConsumerLog(self.acks)

    def save(self) -> None:
        """Store the whole state, if it is kept."""
        if self.acks.log is not None:
            self.acks.log.save()

    def place_at_start(self) -> None:
        """Stand where the deliver policy says."""
        start = start_of(self.acks.config, self.host.store, self.host.max_msgs_per_subject)
        self.acks.reset_to(start.seq)
        self.acks.last_per_subject_upto = start.last_per_subject_upto

    def start(self) -> None:
        """Count the pending messages, and begin to deliver."""
        acks = self.acks
        self.receivers.start()
        acks.count_pending()
        self.watch_acks()
        self._arm_pause_timer()
        self._watch_activity()
        if acks.num_pending > 0 or acks.pending.first is not None:
            self.signal()  # otherwise `stored` is called for the next matching message

    def stop(self) -> None:
        """Stop without a status or advisory; the state may be restored later."""
        log, self.acks.log = self.acks.log, None
        if log is not None:
            log.stop()
        self.is_closed = True
        self._arm_ack_timer(0)
        for timer in (self._pause_timer, self._hold_timer, self._inactive_timer):
            if timer is not None:
                timer.cancel()
        self._pause_timer = None
        self._hold_timer = None
        self._inactive_timer = None
        self.receivers.stop()
        self.receivers = NO_RECEIVERS
        self.acks.pending.clear()

    def end(self) -> None:
        """Stop for good: answer waiting requests, and store nothing of the state."""
        self.receivers.release()
        if self.acks.log is not None:
            self.acks.log.drop()
        self.stop()

    # Messages stored and removed.

    def stored(self, seq: int) -> None:
        """Count a matching message that has become visible, and deliver it."""
        if self.acks.stored(seq) and not self.is_ready:
            self.signal()

    def removed(self, seq: int) -> None:
        """Note that a message that matches the filters has been removed."""
        acks = self.acks
        was_full = acks.is_full()
        acks.uncount(seq)
        acks.removed(seq)
        if was_full:
            self._signal_room()

    def trimmed(self, before_seq: int, most: int) -> bool:
        """See `AckTracker.trimmed`."""
        acks = self.acks
        was_full = acks.is_full()
        has_more = acks.trimmed(before_seq, most)
        if was_full:
            self._signal_room()
        return has_more

    def _signal_room(self) -> None:
        """Ask for a turn, but not before the message that has made room is announced."""
        store = self.host.store
        if store.visible_seq < store.last_seq and not self.is_ready:
            store.barrier(self.signal)
        else:
            self.signal()

    def purged(self, first_seq: int, gone_seq: int, *, is_wider: bool) -> None:
        """See `AckTracker.purged`; as on nats-server, the room that it makes starts no turn."""
        self.acks.purged(first_seq, gone_seq, is_wider=is_wider)

    def lowest_seq(self) -> int:
        """Return a sequence up to which no removal concerns this consumer.

        Where many messages have been delivered again, the next removal may concern it.
        """
        acks = self.acks
        first = acks.pending.first
        lowest = acks.next_seq if first is None else min(first.seq, acks.next_seq)
        if not acks.redelivered:
            return lowest
        if len(acks.redelivered) > _LOOKED_THROUGH:
            return min(lowest, self.host.store.first_seq)
        return min(lowest, *acks.redelivered)

    # Requests and acks.

    def request(self, reply: bytes, body: bytes) -> None:
        """Take a pull request; one without a reply subject is ignored."""
        if reply and not self.is_closed:
            self.receivers.request(reply, body)

    def ack(self, subject: bytes, reply: bytes, body: bytes) -> None:
        """Take an ack: its subject, its own reply subject if any, and its payload."""
        if self.is_closed:
            return
        self.touch()
        numbers = AckNumbers()
        numbers.read(subject)
        was_full = self.acks.is_full()
        kind = self.acks.take(numbers, reply, body)
        if kind == _NAK or kind == _PROGRESS:
            self.watch_acks()
        if was_full or kind == _NAK:
            self.signal()
        if kind == _NEXT:
            self.request(reply, ack_kinds.next_request(body))

    def ack_plainly(self, numbers: AckNumbers, reply: bytes) -> None:
        """Take an ack that says no more than that, with the numbers of its subject."""
        if self.is_closed:
            return
        self.touch()
        was_full = self.acks.is_full()
        self.acks.take_plain(numbers, reply)
        if was_full:
            self.signal()

    # Inactivity.

    def touch(self) -> None:
        """Restart the time of inactivity."""
        if self._threshold_ns:
            self.last_active_ns = self.host.ticks.monotonic_ns()

    def _watch_activity(self) -> None:
        """Schedule the consumer's deletion after its inactive threshold without use."""
        if self._inactive_timer is not None:
            self._inactive_timer.cancel()
            self._inactive_timer = None
        config = self.acks.config
        threshold_ns = max(min(config.inactive_threshold_ns, LONGEST_NS), 0)
        # nats-server adds 0.1 to 1 s, so that consumers made together do not go together.
        if threshold_ns and config.is_pull() and not self.host.clock.is_exact:
            threshold_ns += (100 + int(self.host.around.random.random() * 900)) * _MILLISECOND_NS
        self._threshold_ns = threshold_ns
        if threshold_ns:
            self.last_active_ns = self.host.clock.monotonic_ns()
            self._look_again(threshold_ns)

    def _look_again(self, delay_ns: int) -> None:
        delay_s = delay_ns / _SECOND_NS
        self._inactive_timer = self.host.clock.call_later(delay_s, self._check_activity)

    def _check_activity(self) -> None:
        """Delete the consumer unless it was used, or its receivers are."""
        self._inactive_timer = None
        now_ns = self.host.clock.monotonic_ns()
        used_ns = self.last_active_ns
        if now_ns - used_ns >= self._threshold_ns:
            used_ns = max(used_ns, self.receivers.used_until_ns(now_ns))
        delay_ns = used_ns + self._threshold_ns - now_ns
        if delay_ns > 0:
            self._look_again(delay_ns)
        else:
            self.host.expired(self.acks.name)

    # Changing.

    def change(self, config: ConsumerConfig) -> None:
        """Take over a configuration that was checked."""
        old = self.acks.config
        self.follow(config)
        if config.ack_wait_ns != old.ack_wait_ns or config.backoff_ns != old.backoff_ns:
            self.acks.pending.set_waits(waits_of(config))
            self._arm_ack_timer(self.acks.pending.next_due_ns())
        if _moment(config.pause_until) != _moment(old.pause_until):
            self._arm_pause_timer()
            self.events.paused(config.pause_until)
        if config.inactive_threshold_ns != old.inactive_threshold_ns:
            self._watch_activity()
        self.save()
        self.signal()

    def reset(self, seq: int) -> int:
        """Continue with the message `seq`, or after the ack floor if it is 0; return the sequence.

        Raises:
            JetStreamError: the deliver policy does not allow it.
        """
        acks = self.acks
        if seq == 0:
            seq = acks.floor_seq + 1
        else:
            self._check_reset(seq)
        acks.pending.clear(self.host.clock.call_later)
        self._arm_ack_timer(0)
        acks.redelivered.clear()
        acks.reset_to(seq)
        acks.last_delivery_ns = 0
        acks.last_ack_ns = 0
        acks.count_pending()
        self.save()
        self.signal()
        return seq

    def _check_reset(self, seq: int) -> None:
        config = self.acks.config
        if seq > SEQ_MAX:
            raise errors.CONSUMER_INVALID_RESET.error(err=f"above {SEQ_MAX}")
        if config.deliver_policy == "by_start_sequence":
            if seq < config.opt_start_seq:
                raise errors.CONSUMER_INVALID_RESET.error(err="below start seq")
        elif config.deliver_policy == "by_start_time":
            assert config.opt_start_time is not None
            if seq < self.host.store.seq_at_time(in_reach(config.opt_start_time.ns)):
                raise errors.CONSUMER_INVALID_RESET.error(err="below start time")
        elif config.deliver_policy != "all":
            raise errors.CONSUMER_INVALID_RESET.error(err="not allowed")

    # Pausing.

    def pause_remaining_ns(self) -> int:
        """Return how long a paused consumer stays so; as in Go, that has 64 bits."""
        until = self.acks.config.pause_until
        assert until is not None
        return min(until.ns - self.host.clock.wall_ns(), _INT64_MAX)

    def _arm_pause_timer(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        if self.is_paused():
            delay_s = (self.paused_until_ns - self.host.clock.wall_ns()) / _SECOND_NS
            self._pause_timer = self.host.clock.call_later(delay_s, self._resume)

    def _resume(self) -> None:
        self._pause_timer = None
        if self.is_paused():  # the wall clock was set back
            self._arm_pause_timer()
            return
        self.events.paused(self.config.pause_until)
        self.signal()


def _moment(time: Timestamp | None) -> int:
    return ZERO_TIME_NS if time is None else time.ns
