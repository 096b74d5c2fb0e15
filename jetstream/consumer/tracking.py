"""A consumer's delivered messages: those awaiting an ack, due for redelivery, or settled.

The rules are nats-server's; `progress.Progress` has the positions and floors.
"""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer import acks
from midge.jetstream.consumer.ack_subject import AckNumbers
from midge.jetstream.consumer.events import ConsumerEvents
from midge.jetstream.consumer.host import ConsumerHost
from midge.jetstream.consumer.log import ConsumerLog
from midge.jetstream.consumer.pending import Entry
from midge.jetstream.consumer.progress import Progress
from midge.jetstream.environment.clock import Timer
from midge.jetstream.environment.ticks import ticks_of
from midge.jetstream.store.interface import StoredMessage

_ACK_TIMER_SLACK_NS = 1_000_000  # messages that fall due within it are seen to together
_SECOND_NS = 1_000_000_000

_DUE_AT_ONCE = 10_000
"""Messages that fall due together and are queued in one turn: 3 ms."""

# Work, in items of 10 ns; see `Store.work`.
_SETTLED_WORK = 200  # with an advisory
_ACKED_WORK = 10
_NAKED_WORK = 200

NO_ACKS = 0
ACK_ALL = 1
ACK_EXPLICIT = 2
ACK_FLOW_CONTROL = 3
ACK_POLICIES = {
    "none": NO_ACKS,
    "all": ACK_ALL,
    "explicit": ACK_EXPLICIT,
    "flow_control": ACK_FLOW_CONTROL,
}

_NO_ACKS = NO_ACKS  # C numbers where this is compiled
_ACK_ALL = ACK_ALL
_ACK_EXPLICIT = ACK_EXPLICIT
_ACK = acks.ACK
_GONE = "Unacknowledged message was deleted"


class Tracking(Progress):
    """The deliveries of a consumer and their acks; subclasses ask for turns, and deliver."""

    def _begin_tracking(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self._begin(host.store, host.sink, host.clock, config, name)
        self.host = host
        self._ticks = ticks_of(host.clock)
        self.log: ConsumerLog | None = None
        self.is_closed = False
        self._ack_timer: Timer | None = None
        self._ack_timer_ns = 0
        self._deliveries = 1
        self._now_ns = 0
        self._wall_ns = 0
        self.follow(config)

    def follow(self, config: ConsumerConfig) -> None:
        """Take over from the configuration what deliveries look at."""
        self.config = config
        self.ack_policy = ACK_POLICIES[config.ack_policy]
        self.ack_wait_ns = config.ack_wait_ns
        self.has_flow_control = config.flow_control
        self.keeps_all = self.host.retention == "limits"
        self.max_deliver = max(config.max_deliver, 0)
        self.max_ack_pending = config.max_ack_pending
        self._samples = bool(config.sample_freq)

    @property
    def events(self) -> ConsumerEvents:
        """The events of this consumer; the object is made on demand."""
        return ConsumerEvents(self.host, self.name)

    def takes_acks(self) -> bool:
        """Return whether messages are acknowledged to ack subjects."""
        return self.ack_policy == _ACK_EXPLICIT or self.ack_policy == _ACK_ALL

    def num_redelivered(self) -> int:
        """Return how many messages are known that were delivered more than once."""
        return 0 if self.max_deliver == 1 else len(self.redelivered)

    # What the stream tells.

    def removed(self, seq: int) -> None:
        """Note that a message that matches the filters has been removed."""
        entry = self.pending.get(seq)
        if entry is not None:
            count = self._delivery_count(seq)
            self._terminate(seq, entry.consumer_seq, count, _GONE, b"")
        elif self.redelivered and self.redelivered.pop(seq, None) is not None and self.log:
            self.log.changed(seq)

    def trimmed(self, before_seq: int, most: int) -> bool:
        """Settle up to `most` pending messages that have gone; return True if more are left.

        The messages below `before_seq` had gone when this was called last.
        """
        first_seq = self.store.first_seq
        entry = self.pending.first
        left = most
        while entry is not None and entry.seq < first_seq and left > 0:
            count = self._delivery_count(entry.seq)
            self._terminate(entry.seq, entry.consumer_seq, count, _GONE, b"")
            entry = self.pending.first
            left -= 1
        self.store.work += (most - left) * _SETTLED_WORK
        if self.redelivered:
            self._forget_counts(before_seq, first_seq)
        return entry is not None and entry.seq < first_seq

    def _forget_counts(self, before_seq: int, first_seq: int) -> None:
        """Forget how often messages from `before_seq` to before `first_seq` were delivered."""
        counts = self.redelivered
        gone: list[int]
        if first_seq - before_seq < len(counts):
            gone = [seq for seq in range(before_seq, first_seq) if seq in counts]
            self.store.work += first_seq - before_seq
        else:
            gone = [seq for seq in counts if seq < first_seq]
            self.store.work += len(counts)
        for seq in gone:
            del counts[seq]
            if self.log is not None:
                self.log.changed(seq)

    def purged(self, first_seq: int, gone_seq: int, *, is_wider: bool) -> None:
        """Handle a purge that has removed all messages of its subjects below `first_seq`.

        With `is_wider`, messages of other subjects may be left there. `gone_seq` is the purged
        message if it was the only one; it is terminated at the end, as nats-server does.
        """
        gone = self.pending.get(gone_seq) if gone_seq else None
        deliveries = self._delivery_count(gone_seq)
        self.next_seq = max(self.next_seq, first_seq)
        if self.floor_seq < first_seq:
            self.floor_seq = first_seq - 1
            if self._drop_all_purged(is_wider):
                self.last_ack_ns = self.clock.wall_ns()
        if not self.pending.entries:
            self.redelivered.clear()
            self.floor_consumer_seq = self.next_consumer_seq - 1
            self.floor_seq = self.next_seq - 1
        if self.pending.queued:
            self._stop_purged()
        if not self._shows_more():
            self.show_floor()
        if self.log is not None:
            self.log.save()
        if gone is not None:
            self._terminate(gone_seq, gone.consumer_seq, deliveries, _GONE, b"")

    def forget(self, entry: Entry) -> None:
        """Forget a message that was found to be gone when the state was restored."""
        self.pending.remove(entry)
        self.redelivered.pop(entry.seq, None)
        self._move_floor(entry)
        self._move_shown_floor(entry)
        if self.log is not None:
            self.log.changed(entry.seq)

    def _drop_all_purged(self, is_wider: bool) -> bool:
        """Forget those up to the floor, and with `is_wider` others that have gone; True if any."""
        count = len(self.pending.entries)
        entry = self.pending.last
        if entry is not None and entry.seq <= self.floor_seq:
            # All have gone: the floors end behind the last one, whatever the others did.
            self.pending.clear(self.clock.call_later)
            self._move_purged_floor(entry)
            return True
        entry = self.pending.first
        while entry is not None:
            after = entry.after
            if entry.seq <= self.floor_seq or (is_wider and not self.store.exists(entry.seq)):
                self.pending.remove(entry)
                if self.redelivered:
                    self.redelivered.pop(entry.seq, None)
                self._move_purged_floor(entry)
            entry = after
        return len(self.pending.entries) < count

    def _stop_purged(self) -> None:
        """Take removed messages out of the queue."""
        entry = self.pending.first
        while entry is not None:
            if self.pending.is_queued(entry) and not self.store.exists(entry.seq):
                self.pending.stop_waiting(entry)
            entry = entry.after

    def _move_purged_floor(self, entry: Entry) -> None:
        """Move the floors, after a message that was purged has been taken out of those pending."""
        if entry.consumer_seq > self.floor_consumer_seq:
            self.floor_consumer_seq = entry.consumer_seq
            self.next_consumer_seq = max(self.next_consumer_seq, entry.consumer_seq)
        if self.ack_policy == _ACK_EXPLICIT:
            self._move_shown_floor(entry)
        elif entry.consumer_seq > self.shown_floor_consumer_seq:
            self.shown_floor_consumer_seq = entry.consumer_seq
            self.shown_floor_seq = entry.seq

    # Waiting for acks.

    def is_full(self) -> bool:
        """Return whether as many messages await their acks as may."""
        return 0 < self.max_ack_pending <= len(self.pending.entries)

    def _track(self, seq: int, consumer_seq: int) -> None:
        """Begin to wait for the ack of a message."""
        pending = self.pending
        entry = pending.last
        entry = None if entry is None or entry.seq < seq else pending.get(seq)
        if entry is None:
            entry = pending.add(seq, consumer_seq)
        if self.ack_wait_ns == 0:
            entry.sent_ns = self._now_ns
            return
        again = self.redelivered.get(seq, 0) if self.redelivered else 0
        due_ns = pending.wait(entry, self._now_ns, again if again > 0 else 0)
        if self._ack_timer_ns == 0 or due_ns < self._ack_timer_ns:
            self._arm_ack_timer(due_ns)

    def _next_again(self) -> StoredMessage | None:
        """Take the next message to be delivered again out of the queue.

        None for one that has been delivered too often and is given up, or is there no more.
        """
        entry = self.pending.take_queued()
        if entry is None:
            return None
        seq = entry.seq
        again = self.redelivered.get(seq, 0) + 1
        self.count_again(seq, again)
        deliveries = again + 1
        if 0 < self.max_deliver < deliveries:
            self.events.max_deliveries(seq, deliveries - 1)  # once: nothing waits for it any more
            self._give_up(seq)
            return None
        message = self.store.load(seq)
        if message is None:
            self.count_again(seq, again - 1)
            self._terminate(seq, entry.consumer_seq, again, _GONE, b"")
            return None
        self._deliveries = deliveries
        return message

    def _delivery_count(self, seq: int) -> int:
        return max(1, self.redelivered.get(seq, 0))

    def _arm_ack_timer(self, due_ns: int) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        self._ack_timer_ns = due_ns
        if due_ns:
            delay_ns = due_ns - self.clock.monotonic_ns()
            if not self.clock.is_exact:
                delay_ns += _ACK_TIMER_SLACK_NS
            delay_s = max(delay_ns, 0) / _SECOND_NS
            self._ack_timer = self.clock.call_later(delay_s, self._check_pending)

    def _check_pending(self) -> None:
        """Queue the messages that have not been acknowledged in time."""
        self._ack_timer = None
        now_ns = self.clock.monotonic_ns()
        # The timer goes off again for the rest, which is due.
        for entry in self.pending.take_due(now_ns, _DUE_AT_ONCE):
            if not self._has_max_deliveries(entry.seq):
                self.pending.enqueue(entry)
        self._arm_ack_timer(self.pending.next_due_ns())
        if self.pending.queued:
            self.signal()

    def _has_max_deliveries(self, seq: int) -> bool:
        """Return whether a message must not be delivered again; if so it is given up."""
        if not self.max_deliver:
            return False
        count = self._delivery_count(seq)
        if count < self.max_deliver:
            return False
        self.events.max_deliveries(seq, count)  # more than the limit only after it was lowered
        was_full = self.is_full()
        self._give_up(seq)
        self.count_again(seq, count)
        if was_full:
            self.signal()
        return True

    def _give_up(self, seq: int) -> None:
        """Wait no more for the ack of a message; the floor that is shown stays where it is."""
        entry = self.pending.get(seq)
        if entry is None:
            return
        self.pending.remove(entry)
        self.last_delivery_ns = self.clock.wall_ns()
        self._move_floor(entry)
        if self.log is not None:
            self.log.changed(seq)

    # Acks.

    def ack(self, subject: bytes, reply: bytes, body: bytes) -> None:
        """Take an ack: its subject, its own reply subject if any, and its payload."""
        if self.is_closed:
            return
        self.touch()
        numbers = AckNumbers()
        numbers.read(subject)
        seq = numbers.seq
        kind = _ACK if not body or body == b"+ACK" else acks.kind_of(body)
        answers = seq != 0
        if kind == _ACK:
            self._settle_answered(numbers, reply)
            return
        if kind == acks.NEXT:
            self._settle(seq, numbers.consumer_seq, numbers.deliveries, b"", True)
            self.request(reply, acks.next_request(body))
            return
        if kind == acks.NAK:
            self._nak(seq, numbers.consumer_seq, numbers.deliveries, body)
        elif kind == acks.PROGRESS:
            self._progress(seq)
        elif kind == acks.TERM:
            reason = acks.term_reason(body)
            consumer_seq = numbers.consumer_seq
            answers = self._terminate(seq, consumer_seq, numbers.deliveries, reason, reply)
        if answers and reply:
            self._answer(reply)

    def ack_plainly(self, numbers: AckNumbers, reply: bytes) -> None:
        """Take an ack that says no more than that, with the numbers of its subject."""
        if not self.is_closed:
            self.touch()
            self._settle_answered(numbers, reply)

    def _settle_answered(self, numbers: AckNumbers, reply: bytes) -> None:
        answers = self._settle(
            numbers.seq, numbers.consumer_seq, numbers.deliveries, reply, self._samples
        )
        if answers and reply:
            self._answer(reply)

    def _answer(self, reply: bytes) -> None:
        """Confirm an ack once it is durable."""
        if self.log is None:
            self.sink.send(reply, b"", b"", b"")
        else:
            self.log.confirm(reply)

    def _settle(
        self, seq: int, consumer_seq: int, deliveries: int, reply: bytes, samples: bool
    ) -> bool:
        """Take an ack; return whether the caller is to confirm it."""
        if seq >= self.next_seq and not self.has_flow_control:
            return False
        was_full = self.is_full()
        if self.ack_policy == _ACK_EXPLICIT:
            self._settle_one(seq, consumer_seq, deliveries, samples)
            others = None
        elif self.ack_policy == _NO_ACKS:
            return not self.keeps_all
        else:
            if consumer_seq <= self.floor_consumer_seq or seq <= self.floor_seq:
                return True
            others = self._settle_upto(seq, consumer_seq)
        self.last_ack_ns = self._ticks.wall_ns()
        if self.keeps_all:
            if reply:
                self._answer(reply)
        else:
            self.host.acked(seq)
            if others:
                self.host.acked_many(others)
        if was_full:
            self.signal()
        return not self.keeps_all

    def _settle_one(self, seq: int, consumer_seq: int, deliveries: int, samples: bool) -> None:
        entry = self.pending.first
        if entry is None or entry.seq != seq:
            entry = self.pending.get(seq)
        if entry is not None:
            if samples and self._samples:
                self._sample(entry, consumer_seq, deliveries)
            self.pending.remove(entry)
            self._move_floor(entry)
            self._move_shown_floor(entry)
            if self.log is not None:
                self.log.changed(seq)
        is_forgotten = bool(self.redelivered) and self.redelivered.pop(seq, None) is not None
        if is_forgotten and self.log is not None:
            self.log.changed(seq)

    def _settle_upto(self, seq: int, consumer_seq: int) -> list[int]:
        """Settle all up to a message; return the others among them."""
        self.floor_consumer_seq = consumer_seq
        self.floor_seq = seq
        if consumer_seq > self.shown_floor_consumer_seq and self.pending.get(seq) is not None:
            self.shown_floor_consumer_seq = consumer_seq
            self.shown_floor_seq = seq
        others = []
        entry = self.pending.first
        while entry is not None and entry.seq <= seq:
            self.pending.remove(entry)
            if self.redelivered:
                self.redelivered.pop(entry.seq, None)
            if entry.seq != seq:
                others.append(entry.seq)
            entry = self.pending.first
        self.store.work += len(others) * _ACKED_WORK
        if self.log is not None:
            self.log.changed_all(seq, others)
        return others

    def _sample(self, entry: Entry, consumer_seq: int, deliveries: int) -> None:
        """Report an ack of one delivery, if it is one of those to report."""
        frequency = self.config.sampling()
        if frequency >= 100 or (0 < frequency >= int(self.host.random() * 100)):
            ack_time_ns = self.clock.monotonic_ns() - entry.sent_ns
            self.events.acked(entry.seq, consumer_seq, deliveries, ack_time_ns)

    def _nak(self, seq: int, consumer_seq: int, deliveries: int, body: bytes) -> None:
        """Redeliver a message, at once or after a delay."""
        if not self.floor_consumer_seq < consumer_seq <= self.next_consumer_seq:
            return
        entry = self.pending.get(seq)
        if entry is None:
            return
        self.store.work += _NAKED_WORK
        self.events.naked(seq, consumer_seq, deliveries)
        delay_ns = acks.nak_delay_ns(body)
        if delay_ns is not None:
            self._nak_later(entry, delay_ns)
            return
        if not self.pending.is_queued(entry):
            self.pending.enqueue(entry)
        self.signal()

    def _nak_later(self, entry: Entry, delay_ns: int) -> None:
        # nats-server moves the delivery back so that the plain ack wait ends with the delay. With
        # backoff, the wait that then applies may be longer than that.
        sent_ns = self.clock.monotonic_ns() - self.ack_wait_ns + delay_ns
        again = max(self.redelivered.get(entry.seq, 0), 0)
        due_ns = sent_ns + self.pending.wait_ns(again)
        entry.sent_ns = sent_ns
        self.last_delivery_ns = self.clock.wall_ns()
        if self.log is not None:
            self.log.changed(entry.seq)
        self.pending.wait_until(entry, due_ns)
        if self._ack_timer_ns == 0 or due_ns < self._ack_timer_ns:
            self._arm_ack_timer(due_ns)

    def _progress(self, seq: int) -> None:
        """Restart the ack wait of a message."""
        entry = self.pending.get(seq)
        if entry is None:
            return
        self.last_delivery_ns = self.clock.wall_ns()
        if self.log is not None:
            self.log.changed(seq)
        now_ns = self.clock.monotonic_ns()
        if self.pending.is_queued(entry) or self.ack_wait_ns == 0:
            entry.sent_ns = now_ns
            return
        due_ns = self.pending.wait(entry, now_ns, max(self.redelivered.get(seq, 0), 0))
        if self._ack_timer_ns == 0 or due_ns < self._ack_timer_ns:
            self._arm_ack_timer(due_ns)

    def _terminate(
        self, seq: int, consumer_seq: int, deliveries: int, reason: str, reply: bytes
    ) -> bool:
        """Settle a message that is not wanted any more, and tell so."""
        answers = self._settle(seq, consumer_seq, deliveries, reply, False)
        self.events.terminated(seq, consumer_seq, deliveries, reason)
        return answers

    def needs_ack(self, seq: int) -> bool:
        """Return whether the stream must keep a message that matches the filters."""
        if seq > self.floor_seq:
            if self.ack_policy != _ACK_EXPLICIT or seq >= self.next_seq:
                return True
            if self.pending.get(seq) is not None:
                return True
        return seq in self.redelivered

    def signal(self) -> None:
        """Ask for a turn to deliver in."""
        raise NotImplementedError

    def request(self, reply: bytes, body: bytes) -> None:
        """Take a pull request, which may come with an ack."""
        raise NotImplementedError

    def touch(self) -> None:
        """Restart the time of inactivity."""
