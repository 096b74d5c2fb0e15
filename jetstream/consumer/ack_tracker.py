"""A consumer's delivered messages: those awaiting an ack, due for redelivery, or settled.

The rules are nats-server's; `position.Position` has the positions and floors.
"""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer import acks
from midge.jetstream.consumer.ack_subject import AckNumbers
from midge.jetstream.consumer.consumer_events import ConsumerEvents
from midge.jetstream.consumer.consumer_host import ConsumerHost
from midge.jetstream.consumer.consumer_log import ConsumerLog
from midge.jetstream.consumer.pending import Entry
from midge.jetstream.consumer.position import Position
from midge.jetstream.environment.clock import LONGEST_NS
from midge.jetstream.store.interface import LoadedMessage

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


class AckTracker(Position):
    """The deliveries of a consumer and their acks.

    `deliveries` says how often the chosen message has been delivered, with the delivery to come.
    `log` stores the state; it is None for a consumer in memory. The caller sets the timer for
    `pending.next_due_ns()`, and starts a turn of deliveries when messages are queued or `is_full`
    has ended.
    """

    def __init__(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        Position.__init__(self, host, config, name)
        self.log: ConsumerLog | None = None
        self.deliveries = 1
        self.follow(config)

    def follow(self, config: ConsumerConfig) -> None:
        """Follow a change of the configuration, except for waits that are under way."""
        self.config = config
        self.filters = config.filters()
        self.ack_policy = ACK_POLICIES[config.ack_policy]
        self.keeps_all = self.host.retention == "limits"
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
        return 0 if self.config.max_deliver == 1 else len(self.redelivered)

    # Messages that are removed.

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
        first_seq = self.host.store.first_seq
        if self.next_seq < first_seq:
            self.mark_stale()
        entry = self.pending.first
        left = most
        while entry is not None and entry.seq < first_seq and left > 0:
            count = self._delivery_count(entry.seq)
            self._terminate(entry.seq, entry.consumer_seq, count, _GONE, b"")
            entry = self.pending.first
            left -= 1
        self.host.store.work += (most - left) * _SETTLED_WORK
        if self.redelivered:
            self._forget_counts(before_seq, first_seq)
        return entry is not None and entry.seq < first_seq

    def _forget_counts(self, before_seq: int, first_seq: int) -> None:
        """Forget how often messages from `before_seq` to before `first_seq` were delivered."""
        counts = self.redelivered
        gone: list[int]
        if first_seq - before_seq < len(counts):
            gone = [seq for seq in range(before_seq, first_seq) if seq in counts]
            self.host.store.work += first_seq - before_seq
        else:
            gone = [seq for seq in counts if seq < first_seq]
            self.host.store.work += len(counts)
        for seq in gone:
            del counts[seq]
            if self.log is not None:
                self.log.changed(seq)

    def purged(self, first_seq: int, gone_seq: int, *, is_wider: bool) -> None:
        """Handle a purge that has removed all messages of its subjects below `first_seq`.

        With `is_wider`, messages of other subjects may be left there. `gone_seq` is the purged
        message if it was the only one; it is terminated at the end, as nats-server does.
        """
        self.mark_stale()
        gone = self.pending.get(gone_seq) if gone_seq else None
        deliveries = self._delivery_count(gone_seq)
        self.next_seq = max(self.next_seq, first_seq)
        if self.floor_seq < first_seq:
            self.floor_seq = first_seq - 1
            if self._drop_all_purged(is_wider):
                self.last_ack_ns = self.host.clock.wall_ns()
        if not self.pending.entries:
            self.redelivered.clear()
            self.floor_consumer_seq = self.next_consumer_seq - 1
            self.floor_seq = self.next_seq - 1
        if self.pending.queued:
            self._stop_purged()
        if not self.shows_more():
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
            self.pending.clear(self.host.clock.call_later)
            self._move_purged_floor(entry)
            return True
        entry = self.pending.first
        while entry is not None:
            after = entry.after
            if entry.seq <= self.floor_seq or (is_wider and not self.host.store.exists(entry.seq)):
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
            if self.pending.is_queued(entry) and not self.host.store.exists(entry.seq):
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
        return 0 < self.config.max_ack_pending <= len(self.pending.entries)

    def _track(self, seq: int, consumer_seq: int) -> int:
        """Begin to wait for the ack of a message; return when it falls due, 0 for never."""
        pending = self.pending
        entry = pending.last
        entry = None if entry is None or entry.seq < seq else pending.get(seq)
        if entry is None:
            entry = pending.add(seq, consumer_seq)
        now_ns = self.host.now_ns
        if self.config.ack_wait_ns == 0:
            entry.sent_ns = now_ns
            return 0
        again = self.redelivered.get(seq, 0) if self.redelivered else 0
        return pending.wait(entry, now_ns, again if again > 0 else 0)

    def delivered(self, seq: int) -> int:
        """Count a delivery, and begin to wait for its ack; return when that falls due, or 0."""
        consumer_seq = self.next_consumer_seq
        self.next_consumer_seq = consumer_seq + 1
        self.delivered_consumer_seq = consumer_seq
        self.delivered_seq = max(self.delivered_seq, seq)
        self.last_delivery_ns = self.host.wall_ns
        if self.ack_policy != _NO_ACKS:
            due_ns = self._track(seq, consumer_seq)
            if self.log is not None:
                self.log.changed(seq)
            return due_ns
        self.floor_consumer_seq = consumer_seq
        self.floor_seq = seq
        self.shown_floor_consumer_seq = consumer_seq
        self.shown_floor_seq = max(self.shown_floor_seq, seq)
        if not self.keeps_all:
            self.host.acked(seq, None)
        if self.log is not None:
            self.log.moved()
        return 0

    def put_back(self, seq: int, deliveries: int, *, is_first: bool) -> None:
        """Undo the choice of a message for its delivery number `deliveries`."""
        if deliveries == 1:
            self.next_seq = seq
            return
        again = self.redelivered.get(seq, 0) - 1
        if again > 0:
            self.count_again(seq, again)
        else:
            self.redelivered.pop(seq, None)
        entry = self.pending.get(seq)
        if entry is None:
            return
        if is_first:
            self.pending.enqueue_first(entry)
        else:
            self.pending.enqueue(entry)

    def next_again(self) -> LoadedMessage | None:
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
        if 0 < self.config.max_deliver < deliveries:
            self.events.max_deliveries(seq, deliveries - 1)  # once: nothing waits for it any more
            self._give_up(seq)
            return None
        message = self.host.store.load(seq)
        if message is None:
            self.count_again(seq, again - 1)
            self._terminate(seq, entry.consumer_seq, again, _GONE, b"")
            return None
        self.deliveries = deliveries
        return message

    def _delivery_count(self, seq: int) -> int:
        return max(1, self.redelivered.get(seq, 0))

    def queue_due(self, now_ns: int) -> None:
        """Queue messages that have not been acknowledged in time, not all of very many."""
        for entry in self.pending.take_due(now_ns, _DUE_AT_ONCE):
            if not self._has_max_deliveries(entry.seq):
                self.pending.enqueue(entry)

    def queue_all(self) -> None:
        """Queue everything pending."""
        entry = self.pending.first
        while entry is not None:
            after = entry.after
            if not self.pending.is_queued(entry) and not self._has_max_deliveries(entry.seq):
                self.pending.enqueue(entry)
            entry = after

    def last_due_ns(self) -> int:
        """Return when the last of the pending messages is to be acknowledged; 0 for none."""
        due_ns = 0
        entry = self.pending.first
        while entry is not None:
            again = max(self.redelivered.get(entry.seq, 0), 0)
            due_ns = max(due_ns, entry.sent_ns + self.pending.wait_ns(again))
            entry = entry.after
        return due_ns

    def _has_max_deliveries(self, seq: int) -> bool:
        """Return whether a message must not be delivered again; if so it is given up."""
        most = self.config.max_deliver
        count = self._delivery_count(seq)
        if most <= 0 or count < most:
            return False
        self.events.max_deliveries(seq, count)  # more than the limit only after it was lowered
        self._give_up(seq)
        self.count_again(seq, count)
        return True

    def _give_up(self, seq: int) -> None:
        """Wait no more for the ack of a message; the floor that is shown stays where it is."""
        entry = self.pending.get(seq)
        if entry is None:
            return
        self.pending.remove(entry)
        self.last_delivery_ns = self.host.clock.wall_ns()
        self._move_floor(entry)
        if self.log is not None:
            self.log.changed(seq)

    # Acks.

    def take(self, numbers: AckNumbers, reply: bytes, body: bytes) -> int:
        """Take any ack, and answer it; return its kind."""
        seq = numbers.seq
        kind = _ACK if not body or body == b"+ACK" else acks.kind_of(body)
        answers = seq != 0
        if kind == _ACK:
            self.take_plain(numbers, reply)
            return kind
        if kind == acks.NEXT:
            self.settle(seq, numbers.consumer_seq, numbers.deliveries, b"", True)
            return kind
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
        return kind

    def take_plain(self, numbers: AckNumbers, reply: bytes) -> None:
        """Take an ack that says no more than that, with the numbers of its subject."""
        answers = self.settle(
            numbers.seq, numbers.consumer_seq, numbers.deliveries, reply, self._samples
        )
        if answers and reply:
            self._answer(reply)

    def _answer(self, reply: bytes) -> None:
        """Confirm an ack once it is durable."""
        if self.log is None:
            self.host.sink.send(reply, b"", b"", b"")
        else:
            self.log.confirm(reply)

    def settle(
        self, seq: int, consumer_seq: int, deliveries: int, reply: bytes, samples: bool
    ) -> bool:
        """Take an ack; return whether the caller is to confirm it."""
        if seq >= self.next_seq and not self.config.flow_control:
            return False
        if self.ack_policy == _ACK_EXPLICIT:
            self._settle_one(seq, consumer_seq, deliveries, samples)
            others = None
        elif self.ack_policy == _NO_ACKS:
            return not self.keeps_all
        else:
            if consumer_seq <= self.floor_consumer_seq or seq <= self.floor_seq:
                return True
            others = self._settle_upto(seq, consumer_seq)
        self.last_ack_ns = self.host.ticks.wall_ns()
        if self.keeps_all:
            if reply:
                self._answer(reply)
        else:
            self.host.acked(seq, others)
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
        self.host.store.work += len(others) * _ACKED_WORK
        if self.log is not None:
            self.log.changed_all(seq, others)
        return others

    def _sample(self, entry: Entry, consumer_seq: int, deliveries: int) -> None:
        """Report an ack of one delivery, if it is one of those to report."""
        frequency = self.config.sampling()
        if frequency >= 100 or (0 < frequency >= int(self.host.around.random.random() * 100)):
            ack_time_ns = self.host.clock.monotonic_ns() - entry.sent_ns
            self.events.acked(entry.seq, consumer_seq, deliveries, ack_time_ns)

    def _nak(self, seq: int, consumer_seq: int, deliveries: int, body: bytes) -> None:
        """Redeliver a message, at once or after a delay."""
        if not self.floor_consumer_seq < consumer_seq <= self.next_consumer_seq:
            return
        entry = self.pending.get(seq)
        if entry is None:
            return
        self.host.store.work += _NAKED_WORK
        self.events.naked(seq, consumer_seq, deliveries)
        delay_ns = acks.nak_delay_ns(body)
        if delay_ns is not None:
            self._nak_later(entry, delay_ns)
            return
        if not self.pending.is_queued(entry):
            self.pending.enqueue(entry)

    def _nak_later(self, entry: Entry, delay_ns: int) -> None:
        # nats-server moves the delivery back so that the plain ack wait ends with the delay. With
        # backoff, the wait that then applies may be longer than that.
        delay_ns = max(min(delay_ns, LONGEST_NS), -LONGEST_NS)
        delay_ns -= min(self.config.ack_wait_ns, LONGEST_NS)
        sent_ns = self.host.clock.monotonic_ns() + delay_ns
        again = max(self.redelivered.get(entry.seq, 0), 0)
        due_ns = sent_ns + self.pending.wait_ns(again)
        entry.sent_ns = sent_ns
        self.last_delivery_ns = self.host.clock.wall_ns()
        if self.log is not None:
            self.log.changed(entry.seq)
        self.pending.wait_until(entry, due_ns)

    def _progress(self, seq: int) -> None:
        """Restart the ack wait of a message."""
        entry = self.pending.get(seq)
        if entry is None:
            return
        self.last_delivery_ns = self.host.clock.wall_ns()
        if self.log is not None:
            self.log.changed(seq)
        now_ns = self.host.clock.monotonic_ns()
        if self.pending.is_queued(entry) or self.config.ack_wait_ns == 0:
            entry.sent_ns = now_ns
        else:
            self.pending.wait(entry, now_ns, max(self.redelivered.get(seq, 0), 0))

    def _terminate(
        self, seq: int, consumer_seq: int, deliveries: int, reason: str, reply: bytes
    ) -> bool:
        """Settle a message that is not wanted any more, and report that."""
        answers = self.settle(seq, consumer_seq, deliveries, reply, False)
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
