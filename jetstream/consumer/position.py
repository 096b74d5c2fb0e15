"""The positions of a consumer: where it begins, its deliveries, and its two ack floors.

A position is a pair of numbers. The stream sequence names a message. The consumer sequence numbers
the deliveries: 1, 2, 3, … and a new number for each redelivery. `next_seq` and `next_consumer_seq`
are the pair for the next delivery.

The ack floor is the pair below which everything is settled, so that a consumer stores one pair and
its pending messages instead of every ack. Take a consumer that has delivered the messages 3, 5 and
9, which are all that match its filter, as deliveries 1, 2 and 3:

    event       pending     floor (stream, consumer)
    start       3 5 9       0, 0
    ack of 5    3 9         0, 0    message 3 is still pending
    ack of 3    9           8, 2    up to just before the next pending message
    ack of 9                9, 3    none is pending: up to the last delivery

So the floor moves only when the acknowledged message has the consumer sequence just above it, and
then up to just before the next pending one. Each pending message has the consumer sequence of its
first delivery (pending.py), so a redelivery does not hold the floor back any further.

Ack policies. `explicit` works as above. With `all`, an ack moves the floor to its message at once
and settles all messages before it. With `none` the floor follows each delivery.

The deciding floor, `floor_seq` and `floor_consumer_seq`, has three uses:

- A stream with interest or work queue retention removes a message when no consumer needs it any
  more: `needs_ack` in ack_tracker.py.
- Acks below it are stale, and have no effect.
- A reset without a sequence continues behind it.

The shown floor is the one in CONSUMER.INFO and in backups. It exists because nats-server's report
differs: when a message has reached `max_deliver`, the deciding floor passes it, but the floor in
the report stays below it until an ack leaves no message pending. `show_floor` makes both equal
after a purge, as nats-server does.

A purge moves both floors over the purged messages. A stream that a crash has cut back to an earlier
message cuts its consumers' positions as well (`stored_state.py`). Everything here is stored: the
positions with each save, and between two saves the messages that were settled above the floor.
"""

from __future__ import annotations

from functools import lru_cache

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.consumer_host import ConsumerHost
from midge.jetstream.consumer.pending import Entry, Pending
from midge.jetstream.environment.clock import LONGEST_NS
from midge.jetstream.store.store import Store

_STALE = 0xFFFFFFFFFFFFFFFF

_NO_COUNTS: dict[int, int] = {}
"""The delivery counts of every consumer that has none; never changed."""

_LATEST_NS = (1 << 63) - 1  # in the year 2262; a request may name the years 1 to 9999


class Position:
    """The position of a consumer in its stream, with the delivered and the pending messages.

    `pending` has the messages that await their acks. `redelivered` counts the deliveries of
    messages after the first one, also of messages that have reached `max_deliver`.

    `num_pending` counts the matching messages from `next_seq` to `counted_seq`, all that were
    visible when it was counted last; those from `next_seq` on and before `passed_seq` do not match.
    A message above `counted_seq` may be delivered already: then it is never counted.
    Up to `last_per_subject_upto` only the last message of each subject counts, also those that are
    not visible yet; 0 when all do.
    `is_taken_up` is True for a consumer recovered at the start.
    """

    def __init__(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self.host = host
        self.config = config
        self.name = name
        self.filters: tuple[bytes, ...] = ()
        self.created_ns = 0
        self.last_delivery_ns = 0
        self.last_ack_ns = 0
        self.pending = Pending(waits_of(config))
        self.redelivered = _NO_COUNTS
        self.num_pending = 0
        self.counted_seq = 0
        self.passed_seq = 0
        self.removals = host.store.removals - host.known_removals
        self.last_per_subject_upto = 0
        self.is_taken_up = False
        self.reset_to(0)

    def reset_to(self, seq: int) -> None:
        """Reset all positions to no deliveries, with `seq` as the next message."""
        self.next_seq = seq
        self.next_consumer_seq = 1
        self.floor_seq = seq - 1 if seq else 0
        self.floor_consumer_seq = 0
        self.shown_floor_seq = self.floor_seq
        self.shown_floor_consumer_seq = 0
        self.delivered_seq = self.floor_seq
        self.delivered_consumer_seq = 0

    def reported_seq(self) -> int:
        """Return the delivered stream sequence that reports show.

        Until the first delivery nats-server shows the position of the consumer's search. It does
        not store that position, so a consumer recovered at a start shows 0.
        """
        if self.delivered_seq or self.delivered_consumer_seq or self.is_taken_up:
            return self.delivered_seq
        return max(self.next_seq, 1) - 1

    def count_again(self, seq: int, count: int) -> None:
        """Record the number of redeliveries of a message."""
        if not self.redelivered:
            self.redelivered = {}
        self.redelivered[seq] = count

    def show_floor(self) -> None:
        """Set the shown floor to the deciding one, and all before `next_seq` as delivered."""
        self.shown_floor_consumer_seq = self.floor_consumer_seq
        self.shown_floor_seq = self.floor_seq
        self.delivered_consumer_seq = self.next_consumer_seq - 1
        self.delivered_seq = max(self.next_seq, 1) - 1

    def shows_more(self) -> bool:
        """Return whether reports are ahead of the deciding positions, where they never go back."""
        return (
            self.next_consumer_seq <= self.delivered_consumer_seq
            or self.floor_seq < self.shown_floor_seq
        )

    def _move_floor(self, entry: Entry) -> None:
        """Move the deciding floor, after `entry` has been removed from the pending messages."""
        if not self.pending.entries:
            self.floor_consumer_seq = self.next_consumer_seq - 1
            self.floor_seq = self.next_seq - 1
        elif entry.consumer_seq == self.floor_consumer_seq + 1:
            after = entry.after
            self.floor_consumer_seq = after.consumer_seq - 1 if after else entry.consumer_seq
            self.floor_seq = after.seq - 1 if after else entry.seq

    def _move_shown_floor(self, entry: Entry) -> None:
        """Move the shown floor, after `entry` was acknowledged."""
        if entry.consumer_seq <= self.shown_floor_consumer_seq:
            return
        if not self.pending.entries:
            self.shown_floor_consumer_seq = self.delivered_consumer_seq
            self.shown_floor_seq = self.delivered_seq
        elif entry.consumer_seq == self.shown_floor_consumer_seq + 1:
            after = entry.after
            self.shown_floor_consumer_seq = after.consumer_seq - 1 if after else entry.consumer_seq
            self.shown_floor_seq = after.seq - 1 if after else entry.seq

    # The messages to come.

    def stored(self, seq: int) -> bool:
        """Count a matching message that has become visible; return whether it is to come."""
        if seq > self.counted_seq:
            self.counted_seq = seq
            if seq >= self.next_seq:
                if self.num_pending == 0 and self._is_counted():
                    self.passed_seq = seq  # nothing before it matches
                self.num_pending += 1
        return seq >= self.next_seq

    def uncount(self, seq: int) -> None:
        """Subtract a matching message that has been removed."""
        if self.next_seq <= seq <= self.counted_seq:
            if seq <= self.last_per_subject_upto:
                self.mark_stale()  # it may not have counted
            else:
                self.num_pending -= 1

    def mark_stale(self) -> None:
        """Make `recount` count again, because an unknown number of messages has been removed."""
        self.removals = _STALE

    def count_pending(self) -> None:
        """Count the messages to come, exactly."""
        store = self.host.store
        visible = store.visible_seq
        self.removals = store.removals - self.host.known_removals
        upto = self.last_per_subject_upto
        self.counted_seq = max(visible, upto)
        self.passed_seq = 0
        if self.next_seq > self.counted_seq:
            self.num_pending = 0
        elif upto:
            count = store.count_pending(self.filters, self.next_seq, True, upto)
            if visible > upto:
                count += store.count_pending(self.filters, upto + 1, False, visible)
            self.num_pending = count
        else:
            self.num_pending = store.count_pending(self.filters, self.next_seq, False, visible)

    def recount(self) -> None:
        """Count again if counted messages may have been removed."""
        if not self._is_counted():
            self.count_pending()

    def _is_counted(self) -> bool:
        """Return whether all that was counted is there."""
        return self.removals == self.host.store.removals - self.host.known_removals

    def is_more_coming(self) -> bool:
        """Return whether a matching message is being written to the disk."""
        store = self.host.store
        visible = store.visible_seq
        if visible >= store.last_seq:
            return False
        return store.next_seq(self.filters, max(self.next_seq, visible + 1)) > 0

    def count_coming(self) -> int:
        """Return the number of matching messages that are being written to the disk."""
        store = self.host.store
        visible = store.visible_seq
        if visible >= store.last_seq:
            return 0
        return store.count_pending(self.filters, max(self.next_seq, visible + 1))


def waits_of(config: ConsumerConfig) -> list[int]:
    """Return the ack waits of a message's deliveries in order; the last one repeats."""
    if config.backoff_ns:
        return [min(wait_ns, LONGEST_NS) for wait_ns in config.backoff_ns]
    return _one_wait(min(config.ack_wait_ns, LONGEST_NS))


@lru_cache(maxsize=64)
def _one_wait(wait_ns: int) -> list[int]:
    """Return the list of one wait, which all consumers with the same ack wait share."""
    return [wait_ns]


class Start:
    """The first sequence to look at.

    Up to `last_per_subject_upto` only the last message of each subject is delivered; 0 when all
    are.
    """

    __slots__ = ("last_per_subject_upto", "seq")

    def __init__(self, seq: int, last_per_subject_upto: int = 0) -> None:
        self.seq = seq
        self.last_per_subject_upto = last_per_subject_upto


def start_of(config: ConsumerConfig, store: Store, max_msgs_per_subject: int) -> Start:
    """Return where a new consumer begins, by its deliver policy."""
    start = _chosen(config, store, max_msgs_per_subject)
    first, last = store.first_seq, store.last_seq
    if first == 0 and config.opt_start_seq == 0:
        return Start(1)  # a stream that never held a message
    seq = max(start.seq, first)
    if start.seq > last and config.opt_start_seq == 0:
        seq = last + 1
    return start if seq == start.seq else Start(seq, start.last_per_subject_upto)


def _chosen(config: ConsumerConfig, store: Store, max_msgs_per_subject: int) -> Start:
    policy = config.deliver_policy
    if config.opt_start_seq:
        return Start(config.opt_start_seq)
    if policy == "all":
        return Start(store.first_seq)
    if policy == "last":
        return Start(_last(config.filters(), store))
    if policy == "last_per_subject":
        return _last_per_subject(config.filters(), store, max_msgs_per_subject)
    if config.opt_start_time is not None:
        return Start(_at_time(config, store))
    return Start(store.last_seq + 1)


def _last(filters: tuple[bytes, ...], store: Store) -> int:
    if not filters:
        return store.last_seq
    return max(store.last_matching(one) for one in filters)


def _last_per_subject(filters: tuple[bytes, ...], store: Store, max_msgs_per_subject: int) -> Start:
    if max_msgs_per_subject == 1:
        return Start(store.first_seq)  # every message is its subject's last
    seq = store.next_last_seq(filters, store.first_seq, store.last_seq) if store.messages else 0
    return Start(seq, store.last_seq) if seq else Start(store.last_seq)


def _at_time(config: ConsumerConfig, store: Store) -> int:
    """Return the first sequence from the start time on; go ahead to the first that matches."""
    assert config.opt_start_time is not None
    seq = store.seq_at_time(in_reach(config.opt_start_time.ns))
    nearest = store.last_seq
    for one in config.filters():
        first = store.next_seq((one,), store.first_seq)
        if seq <= first < nearest:
            nearest = first
    return nearest if config.filters() and seq < nearest < store.last_seq else seq


def in_reach(time_ns: int) -> int:
    """Return the moment nearest to `time_ns` that messages can be stored at."""
    return min(max(time_ns, 0), _LATEST_NS)
