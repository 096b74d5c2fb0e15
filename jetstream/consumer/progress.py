"""How far a consumer has come: what is stored of it, and what its log and its host go by."""

from __future__ import annotations

from functools import lru_cache

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.pending import Entry, Pending
from midge.jetstream.environment.clock import Clock
from midge.jetstream.environment.sink import Sink
from midge.jetstream.store.store import Store

_NO_COUNTS: dict[int, int] = {}
"""The delivery counts of every consumer that delivered nothing twice yet; never changed."""


class Progress:
    """The positions of a consumer, the messages that await their acks, and delivery counts.

    `next_seq` is the stream sequence from which the next message is looked for, and
    `next_consumer_seq` the number that the next delivery gets. `redelivered` holds how often
    messages were delivered again, and keeps those that were given up. Up to `last_per_subject_upto`
    only the last message of each subject counts; 0 when all do. Two floors are kept, as in
    nats-server: one decides what a stream may remove, and the one that reports show lags behind
    after messages have been given up. One that `is_taken_up` was found in the store at the start.
    """

    def _begin(
        self, store: Store, sink: Sink, clock: Clock, config: ConsumerConfig, name: bytes
    ) -> None:
        """Begin with nothing delivered: what a constructor does, by a call in C."""
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
        """Have nothing delivered, and the message `seq` next."""
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

        nats-server shows how far a consumer from the start has looked until its first delivery. It
        does not store that, so that a consumer found at a start shows 0.
        """
        if self.delivered_seq or self.delivered_consumer_seq or self.is_taken_up:
            return self.delivered_seq
        return max(self.next_seq, 1) - 1

    def count_again(self, seq: int, count: int) -> None:
        """Note how often a message was delivered again."""
        if not self.redelivered:
            self.redelivered = {}
        self.redelivered[seq] = count

    def show_floor(self) -> None:
        """Have reports show the floor that decides, and all before `next_seq` as delivered."""
        self.shown_floor_consumer_seq = self.floor_consumer_seq
        self.shown_floor_seq = self.floor_seq
        self.delivered_consumer_seq = self.next_consumer_seq - 1
        self.delivered_seq = max(self.next_seq, 1) - 1

    def _shows_more(self) -> bool:
        """Return whether reports show more than decides; nats-server does not go back there."""
        return (
            self.next_consumer_seq <= self.delivered_consumer_seq
            or self.floor_seq < self.shown_floor_seq
        )

    def _move_floor(self, entry: Entry) -> None:
        """Move the floor that decides, after `entry` has been taken out of those pending."""
        if not self.pending.entries:
            self.floor_consumer_seq = self.next_consumer_seq - 1
            self.floor_seq = self.next_seq - 1
        elif entry.consumer_seq == self.floor_consumer_seq + 1:
            after = entry.after
            self.floor_consumer_seq = after.consumer_seq - 1 if after else entry.consumer_seq
            self.floor_seq = after.seq - 1 if after else entry.seq

    def _move_shown_floor(self, entry: Entry) -> None:
        """Move the floor that is shown, after `entry` was acknowledged."""
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
    """Return how long the deliveries of a message wait for its ack; the last wait repeats."""
    return config.backoff_ns or _one_wait(config.ack_wait_ns)


@lru_cache(maxsize=64)
def _one_wait(wait_ns: int) -> list[int]:
    """Return the list of one wait that all consumers of the same ack wait share."""
    return [wait_ns]
