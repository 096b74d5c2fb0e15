"""A consumer against a model: delivered, pending and redelivered messages, and the floors.

The model is plain: a list of the stream's messages, and for each delivered one how often it was
delivered and when it falls due. One pull request of one message at a time; acks of one message or
of all messages up to one. `test_priority_model.py` has several waiting requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.json.times import Timestamp
from tests.support.consumer_rig import Rig, Sent

SECOND_NS = 1_000_000_000
ACK_WAIT_NS = 10 * SECOND_NS
BACKOFF_S = (2, 5, 9)
SUBJECTS = ("a.1", "a.2", "a.3.x")
KINDS = (
    ("limits", "explicit"),
    ("limits", "explicit"),
    ("limits", "all"),
    ("workqueue", "explicit"),
    ("interest", "explicit"),
    ("interest", "all"),
)
"""Retention of the stream, and ack policy."""

FILTERS: tuple[tuple[str, ...], ...] = ((), ("a.1",), ("a.*",), ("a.1", "a.3.>"))


def takes(filters: tuple[str, ...], subject: str) -> bool:
    if not filters:
        return True
    return any(
        one == subject
        or (one == "a.*" and subject.count(".") == 1)
        or (one == "a.3.>" and subject.startswith("a.3."))
        for one in filters
    )


@dataclass
class Waiting:
    """A delivered message: its first delivery, and when it falls due; None once it is queued."""

    consumer_seq: int
    due_ns: int | None


@dataclass
class Model:
    """What a consumer should know."""

    filters: tuple[str, ...]
    max_deliver: int
    max_ack_pending: int
    acks_all: bool = False
    retention: str = "limits"
    waits_ns: tuple[int, ...] = (ACK_WAIT_NS,)
    paused_until_ns: int = 0
    stream: dict[int, str] = field(default_factory=dict)
    last_seq: int = 0
    next_seq: int = 1
    deliveries: int = 0
    pending: dict[int, Waiting] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)
    queue: list[int] = field(default_factory=list)
    floor: tuple[int, int] = (0, 0)
    now_ns: int = 0

    def publish(self, subject: str) -> None:
        self.last_seq += 1
        self.stream[self.last_seq] = subject

    def matching(self) -> list[int]:
        return [
            seq
            for seq, subject in self.stream.items()
            if seq >= self.next_seq and takes(self.filters, subject)
        ]

    def pull(self) -> tuple[int, int, int, int] | None:
        """Return deliveries, sequence, consumer sequence and pending of each delivery."""
        if not self.queue and not self.matching():
            return None  # answered at once, without a look at the stream
        if self.now_ns < self.paused_until_ns:
            return None
        while self.queue:
            seq = self.queue.pop(0)
            self.again[seq] = self.again.get(seq, 0) + 1
            if 0 < self.max_deliver < self.again[seq] + 1:
                self.settle(seq)
                continue
            return self.deliver(seq, self.again[seq] + 1)
        if 0 < self.max_ack_pending <= len(self.pending):
            return None
        found = self.matching()
        if not found:
            self.next_seq = max(self.next_seq, self.last_seq + 1)
            return None
        self.next_seq = found[0] + 1
        return self.deliver(found[0], 1)

    def deliver(self, seq: int, count: int) -> tuple[int, int, int, int]:
        self.deliveries += 1
        due_ns = self.now_ns + self.wait_ns(seq)
        if seq in self.pending:
            self.pending[seq].due_ns = due_ns
        else:
            self.pending[seq] = Waiting(self.deliveries, due_ns)
        return count, seq, self.deliveries, len(self.matching())

    def wait_ns(self, seq: int) -> int:
        """Return how long the ack of a message is waited for, by how often it came again."""
        return self.waits_ns[min(self.again.get(seq, 0), len(self.waits_ns) - 1)]

    def settle(self, seq: int) -> None:
        """Take a message out of those pending, and move the floor if it was the first."""
        first = min(self.pending)
        del self.pending[seq]
        if seq in self.queue:
            self.queue.remove(seq)
        if not self.pending:
            self.floor = (self.deliveries, self.next_seq - 1)
        elif seq == first:
            first = min(self.pending)
            self.floor = (self.pending[first].consumer_seq - 1, first - 1)

    def ack(self, seq: int, consumer_seq: int) -> None:
        if seq >= self.next_seq:
            return
        if self.acks_all:
            if consumer_seq <= self.floor[0] or seq <= self.floor[1]:
                return
            self.floor = (consumer_seq, seq)
            settled = [one for one in self.pending if one <= seq]
        else:
            settled = [one for one in self.pending if one == seq]
            if settled:
                self.settle(seq)
            self.again.pop(seq, None)
        for one in settled:
            self.pending.pop(one, None)
            self.again.pop(one, None)
            if one in self.queue:
                self.queue.remove(one)
        if self.retention != "limits":
            self.drop_unneeded({*settled, seq})

    def drop_unneeded(self, seqs: set[int]) -> None:
        """Remove of the stream what the consumer does not need any more."""
        for seq in seqs & self.stream.keys():
            if not (takes(self.filters, self.stream[seq]) and self.needs(seq)):
                del self.stream[seq]

    def needs(self, seq: int) -> bool:
        """Return whether a stream that drops acknowledged messages has to keep a message."""
        if seq in self.again:
            return True
        if seq <= self.floor[1]:
            return False
        return self.acks_all or seq >= self.next_seq or seq in self.pending

    def remove(self, seq: int) -> None:
        del self.stream[seq]
        if seq in self.pending:
            self.ack(seq, self.pending[seq].consumer_seq)
        else:
            self.again.pop(seq, None)

    def purge(self) -> None:
        """Remove all messages from the stream."""
        self.stream.clear()
        self.next_seq = max(self.next_seq, self.last_seq + 1)
        self.pending.clear()
        self.queue.clear()
        self.again.clear()
        self.floor = (self.deliveries, self.next_seq - 1)

    def reset(self, seq: int) -> None:
        """Start over with `seq`, 0 for the message above the floor."""
        self.next_seq = seq or self.floor[1] + 1
        self.floor = (0, self.next_seq - 1)
        self.deliveries = 0
        self.pending.clear()
        self.queue.clear()
        self.again.clear()
        if self.retention == "interest":
            self.drop_unneeded({one for one in self.stream if one <= self.floor[1]})

    def expire(self, now_ns: int) -> None:
        self.now_ns = now_ns
        due = [seq for seq, one in self.pending.items() if one.due_ns and one.due_ns <= now_ns]
        for seq in sorted(due):
            count = max(1, self.again.get(seq, 0))
            if 0 < self.max_deliver <= count:
                self.settle(seq)
                self.again[seq] = count
                continue
            self.pending[seq].due_ns = None
            self.queue.append(seq)


class Machine(RuleBasedStateMachine):
    """Does the same to a consumer and to its model."""

    sent = Bundle("sent")

    @initialize(
        filters=st.sampled_from(FILTERS),
        max_deliver=st.sampled_from([-1, 1, 2, 3]),
        max_ack_pending=st.sampled_from([-1, 1, 3]),
        kind=st.sampled_from(KINDS),
        has_backoff=st.booleans(),
    )
    def begin(
        self,
        filters: tuple[str, ...],
        max_deliver: int,
        max_ack_pending: int,
        kind: tuple[str, str],
        has_backoff: bool,
    ) -> None:
        retention, ack_policy = kind
        waits_ns = [one * SECOND_NS for one in BACKOFF_S] if has_backoff else [ACK_WAIT_NS]
        max_deliver = -1 if has_backoff and max_deliver < len(BACKOFF_S) else max_deliver
        self.rig = Rig(retention=retention)
        consumer = self.rig.create(
            filter_subjects=list(filters),
            max_deliver=max_deliver,
            max_ack_pending=max_ack_pending,
            ack_policy=ack_policy,
            ack_wait_ns=waits_ns[0],
            backoff_ns=waits_ns if has_backoff else [],
        )
        assert isinstance(consumer.receivers, PullRequests)
        self.consumer = consumer
        self.model = Model(
            filters,
            max(max_deliver, 0),
            max_ack_pending,
            acks_all=ack_policy == "all",
            retention=retention,
            waits_ns=tuple(waits_ns),
        )

    @rule(subject=st.sampled_from(SUBJECTS))
    def publish(self, subject: str) -> None:
        self.rig.publish(subject)
        self.model.publish(subject)

    @rule(target=sent)
    def pull(self) -> Sent | None:
        self.rig.pull(self.consumer, '{"batch":1,"no_wait":true}')
        expected = self.model.pull()
        found = [one for one in self.rig.taken() if one.reply]
        assert [one.numbers for one in found] == ([expected] if expected else [])
        self.consumer.receivers.queue.clear()
        return found[0] if found else None

    @rule(delivery=sent)
    def ack(self, delivery: Sent | None) -> None:
        if delivery is not None:
            self.rig.ack(self.consumer, delivery)
            self.model.ack(*delivery.numbers[1:3])

    @rule(delivery=sent)
    def term(self, delivery: Sent | None) -> None:
        if delivery is not None:
            self.rig.ack(self.consumer, delivery, b"+TERM")
            self.model.ack(*delivery.numbers[1:3])

    @rule(delivery=sent, delay_s=st.sampled_from([0, 3, 20]))
    def nak(self, delivery: Sent | None, delay_s: int) -> None:
        if delivery is None:
            return
        body = b"-NAK %ds" % delay_s if delay_s else b"-NAK"
        self.rig.ack(self.consumer, delivery, body)
        _, seq, consumer_seq, _ = delivery.numbers
        waiting = self.model.pending.get(seq)
        if waiting is None or not self.model.floor[0] < consumer_seq <= self.model.deliveries + 1:
            return
        if delay_s:
            if seq in self.model.queue:
                self.model.queue.remove(seq)
            begun_ns = self.model.now_ns + delay_s * SECOND_NS - self.model.waits_ns[0]
            waiting.due_ns = begun_ns + self.model.wait_ns(seq)
        elif seq not in self.model.queue:
            waiting.due_ns = None
            self.model.queue.append(seq)

    @rule(delivery=sent)
    def progress(self, delivery: Sent | None) -> None:
        if delivery is None:
            return
        self.rig.ack(self.consumer, delivery, b"+WPI")
        waiting = self.model.pending.get(delivery.numbers[1])
        if waiting is not None and waiting.due_ns is not None:
            waiting.due_ns = self.model.now_ns + self.model.wait_ns(delivery.numbers[1])

    @rule(seconds=st.sampled_from([0, 4]))
    def pause(self, seconds: int) -> None:
        config = self.consumer.config.copy()
        until_ns = self.rig.clock.wall_ns() + seconds * SECOND_NS
        config.pause_until = Timestamp(until_ns) if seconds else None
        self.consumer.change(config)
        self.model.paused_until_ns = self.model.now_ns + seconds * SECOND_NS if seconds else 0

    @rule(seq=st.integers(min_value=0, max_value=6))
    def reset(self, seq: int) -> None:
        self.rig.consumers.reset(self.consumer, seq)
        self.model.reset(seq)

    @rule()
    def purge(self) -> None:
        self.rig.store.purge()
        self.rig.consumers.purged()
        self.rig.run()
        self.model.purge()

    @rule(seconds=st.integers(min_value=1, max_value=12))
    def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            self.rig.advance(1)
            # The consumer checks for due messages a millisecond late, and this is a whole second.
            self.rig.advance(0.002)
            self.model.expire(self.rig.clock.now_ns)

    @precondition(lambda self: self.model.stream)
    @rule(draw=st.integers(min_value=0, max_value=1000))
    def remove(self, draw: int) -> None:
        seqs = sorted(self.model.stream)
        seq = seqs[draw % len(seqs)]
        self.rig.remove(seq)
        self.model.remove(seq)

    @invariant()
    def same_state(self) -> None:
        if not hasattr(self, "model"):
            return
        model, acks = self.model, self.consumer.acks
        assert sorted(acks.pending.entries) == sorted(model.pending)
        assert {k: v for k, v in acks.redelivered.items() if v} == {
            k: v for k, v in model.again.items() if v
        }
        assert (acks.floor_consumer_seq, acks.floor_seq) == model.floor
        assert acks.pending.queued == len(model.queue)
        assert self.rig.info(self.consumer)["num_pending"] == len(model.matching())
        order = [one.seq for one in sorted(acks.pending.entries.values(), key=_consumer_seq)]
        assert order == sorted(order)


def _consumer_seq(entry: object) -> int:
    return entry.consumer_seq  # type: ignore[attr-defined,no-any-return]


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestConsumerModel = Machine.TestCase
