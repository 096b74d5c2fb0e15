"""The positions of a consumer: its deliveries, and its two ack floors.

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
  more: `needs_ack` in tracking.py.
- Acks below it are stale, and have no effect.
- A reset without a sequence continues behind it.

The shown floor is the one in CONSUMER.INFO and in backups. It exists because nats-server's report
differs: when a message has reached `max_deliver`, the deciding floor passes it, but the floor in
the report stays below it until an ack leaves no message pending. `show_floor` makes both equal
after a purge, as nats-server does.

A purge moves both floors over the purged messages. A stream that a crash has cut back to an earlier
message cuts its consumers' positions as well (`state.py`). Everything here is stored: the positions
with each save, and between two saves the messages that were settled above the floor.
"""

from __future__ import annotations

from functools import lru_cache

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.pending import Entry, Pending
from midge.jetstream.environment.clock import Clock
from midge.jetstream.environment.sink import Sink
from midge.jetstream.store.store import Store

_NO_COUNTS: dict[int, int] = {}
"""The delivery counts of every consumer without redeliveries; never changed."""


class Progress:
    """The positions of a consumer, the messages that await their acks, and delivery counts.

    The search for the next message begins at `next_seq`, and the next delivery gets the number
    `next_consumer_seq`. `redelivered` has the number of redeliveries by sequence, also of messages
    that have reached `max_deliver`. Up to `last_per_subject_upto` only the last message of each
    subject counts; 0 when all do. `is_taken_up` is True for a consumer recovered at the start.
    """

    def _begin(
        self, store: Store, sink: Sink, clock: Clock, config: ConsumerConfig, name: bytes
    ) -> None:
        """Initialize without deliveries; in place of a constructor, because this call is in C."""
        self.store = store
        self.sink = sink
        self.clock = clock
        self.config = config
        self.name = name
        self.created_ns = 0
        self.ack_wait_ns = config.ack_wait_ns
        self.last_delivery_ns = 0
        self.last_ack_ns = 0
        self.pending = Pending(waits_of(config))
        self.redelivered = _NO_COUNTS
        self.last_per_subject_upto = 0
        self.is_taken_up = False
        self.stand_before(0)

    def stand_before(self, seq: int) -> None:
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

    def _shows_more(self) -> bool:
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


def waits_of(config: ConsumerConfig) -> list[int]:
    """Return the ack waits of a message's deliveries in order; the last one repeats."""
    return config.backoff_ns or _one_wait(config.ack_wait_ns)


@lru_cache(maxsize=64)
def _one_wait(wait_ns: int) -> list[int]:
    """Return the list of one wait, which all consumers with the same ack wait share."""
    return [wait_ns]
