"""A stream with a consumer that lives, crashes and recovers, beside what its clients have seen.

A program is a list of steps, made from a seed, so that one that fails can be made shorter. Steps
publish, pull and acknowledge, turn the clock, and have the disk do a part of its work; the power
fails or the process is killed anywhere between them, also in the middle of a write. The
answers to clients decide what may be redelivered:

- A message whose ack was confirmed never does.
- At a settled moment, 100 ms after the last change and with all of it on the disk, everything that
  was delivered or acknowledged is noted. None of it is forgotten later, not even how often.
- No count exceeds the deliveries that there were, and no position is ahead of the stream.
- The consumer knows how many messages are to come, although it delivers some of them before it is
  notified that they are there.
- In the end every message that was durable has been delivered and acknowledged.
- No delivery waits for a read from the disk; pages leave the page cache at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.testing.simulated_disk import SimulatedDisk, Stopped
from tests.simulation.world import WrongState
from tests.support.consumer_rig import Rig, Sent, TurnedClock

Step = tuple[str, int]
Program = list[Step]

ACK_WAIT_S = 10
_SETTLED_S = 0.101
_BODIES = {"ack": b"", "nak": b"-NAK", "term": b"+TERM", "progress": b"+WPI"}
_POLICIES = ("explicit", "explicit", "all", "none")
_RETENTIONS = ("limits", "workqueue", "interest")
_DELIVER_POLICIES = ("all", "new", "last", "last_per_subject", "by_start_sequence")
_FILTERS = ((), (b"a.1",), (b"a.0", b"a.2"))
_CHANCES = {
    "publish": 12,
    "pull": 20,
    "ack": 14,
    "confirm": 14,
    "nak": 4,
    "term": 2,
    "progress": 2,
    "wait": 10,
    "flush": 16,
    "pump": 20,
    "settle": 5,
    "forget": 4,
    "fuse": 3,
    "kill": 2,
    "power": 3,
    "stop": 1,
}


def program(seed: int, steps: int) -> Program:
    """Return the steps of a seed."""
    rng = Random(seed)
    names, weights = list(_CHANCES), list(_CHANCES.values())
    return [(name, rng.randrange(1000)) for name in rng.choices(names, weights, k=steps)]


@dataclass
class Known:
    """How often messages were delivered, by sequence, and which were acknowledged."""

    deliveries: dict[int, int] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)

    def copied(self) -> Known:
        """Return a copy."""
        return Known(dict(self.deliveries), set(self.acked))

    def deliver(self, seq: int, count: int) -> None:
        """Note a delivery."""
        self.deliveries[seq] = max(count, self.deliveries.get(seq, 0))


class Consuming:
    """One stream with one consumer, over their lives.

    `seen` is what clients have seen in all of them, `now` what the server must know in this one
    unless it crashes, and `noted` what a crash must not take away. One that `is_choosy` joins late,
    with filters and a deliver policy of its own, so that some messages are `unwanted`.
    """

    def __init__(self, seed: int, *, is_choosy: bool = False) -> None:
        rng = Random(seed)
        self.retention = "limits" if is_choosy else rng.choice(_RETENTIONS)
        self.policy = "explicit" if self.retention == "workqueue" else rng.choice(_POLICIES)
        self.disk = SimulatedDisk(rng)
        self.clock = TurnedClock()
        self.seen = Known()
        self.now = Known()
        self.noted = Known()
        self.confirmed: set[int] = set()
        self.durable: set[int] = set()
        self.sent: list[Sent] = []
        self.asked: dict[bytes, set[int]] = {}
        self.crashes = 0
        self.visible = 0
        self.filters: tuple[bytes, ...] = ()
        self.unwanted: set[int] = set()
        self.start = 0
        self.directory = StoreDirectory(self.disk, lambda: None)
        self.store: FileStore = self.directory.create_stream(b"$G", b"S", b"{}")
        self._live()
        keys: dict[str, Any] = {"max_ack_pending": rng.choice([-1, 3])}
        if self.policy == "none":
            keys = {"max_ack_pending": 0}
        if is_choosy:
            keys |= self._choose(rng)
        self.rig.create(
            ack_policy=self.policy,
            ack_wait_ns=0 if self.policy == "none" else ACK_WAIT_S * 10**9,
            **keys,
        )
        self.settle(0)

    def _choose(self, rng: Random) -> dict[str, Any]:
        """Store messages, some of them durably, and choose which of them the consumer gets."""
        for _ in range(rng.randrange(30)):
            rng.choice([self.publish, self.publish, self.flush, self.pump])(rng.randrange(1000))
        policy, last = rng.choice(_DELIVER_POLICIES), self.store.last_seq
        self.filters = rng.choice(_FILTERS[policy == "last_per_subject" :])
        self.start = start = rng.randrange(1, 40) if policy == "by_start_sequence" else 0
        matching = [seq for seq in range(1, last + 1) if self.is_wanted(seq)]
        lasts = {self.store.subject_of(seq): seq for seq in matching}
        wanted = {
            "all": matching,
            "new": [],
            "last": matching[-1:],
            "last_per_subject": list(lasts.values()),
            "by_start_sequence": matching,
        }[policy]
        self.unwanted = set(range(1, last + 1)).difference(wanted) | set(range(1, start))
        return {
            "deliver_policy": policy,
            "opt_start_seq": start,
            "filter_subjects": [subject.decode() for subject in self.filters],
        }

    def is_wanted(self, seq: int) -> bool:
        """Return whether a message that is in the stream is for the consumer."""
        subject = self.store.subject_of(seq)
        is_matching = not self.filters or subject in self.filters
        return subject is not None and is_matching and seq not in self.unwanted

    @property
    def consumer(self) -> Consumer:
        """Return the consumer."""
        found = self.rig.consumers.get(b"C")
        if found is None:
            raise WrongState("the consumer is gone")
        return found

    def run(self, steps: Program) -> None:
        """Take the steps, and then read all that is left.

        Raises:
            WrongState: something was forgotten, invented or lost.
        """
        for name, number in steps:
            try:
                getattr(self, name)(number)
            except Stopped:
                self.crash(number)
        self.disk.stop_at = -1
        self.finish()

    # Lives.

    def _live(self) -> None:
        self.clock = TurnedClockAt(self.clock.now_ns)
        self.rig = Rig(store=self.store, clock=self.clock, retention=self.retention, storage="file")
        self.sent.clear()
        self.asked.clear()

    def crash(self, number: int) -> None:
        """Lose the process, or the power, and recover; that may take several attempts."""
        self.crashes += 1
        self.disk = self.disk.power_failed() if number % 2 else self.disk.killed()
        self.recover()

    def recover(self) -> None:
        """Begin another life, and look at what it begins with."""
        self.directory = StoreDirectory(self.disk, lambda: None)
        streams = list(self.directory.streams())
        if not streams:
            raise WrongState("the stream is gone")
        (self.store,) = streams
        self.disk.cold_reads = 0
        self.visible = self.store.visible_seq
        self.durable.update(range(1, self.visible + 1))  # also messages that were never announced
        self.now = self.noted.copied()
        self._live()
        self.rig.consumers.restore()
        self.rig.run()
        self.check_recovered()

    def check_recovered(self) -> None:
        """See that no position is ahead of the stream, and that no message is lost."""
        acks, last = self.consumer.acks, max(self.store.last_seq, self.start - 1)
        if acks.floor_seq > last or acks.next_seq > last + 1:
            raise WrongState(f"floor {acks.floor_seq}, next {acks.next_seq} of {last}")
        for seq in self.durable - self.seen.acked:
            if not self.store.exists(seq) and self.policy != "none":
                raise WrongState(f"message {seq}, not acknowledged, is gone")

    # Steps.

    def publish(self, number: int) -> None:
        """Store a message or two."""
        for _ in range(1 + number % 2):
            self.store.append(b"a.%d" % (number % 3), b"", b"x" * (number % 50), number + 1)

    def pull(self, number: int) -> None:
        """Ask for some messages."""
        self.rig.pull(self.consumer, b'{"batch":%d,"no_wait":true}' % (1 + number % 3))
        self.take()

    def ack(self, number: int) -> None:
        """Acknowledge a delivery of this life."""
        self._answer(number, "ack", b"")

    def confirm(self, number: int) -> None:
        """Acknowledge one and ask for the confirmation."""
        reply = b"R.%d" % len(self.asked)
        if self.sent:
            self.asked[reply] = self._settled_by(self.sent[number % len(self.sent)])
        self._answer(number, "ack", reply)

    def nak(self, number: int) -> None:
        """Ask for a message again."""
        self._answer(number, "nak", b"")

    def term(self, number: int) -> None:
        """Give a message up."""
        self._answer(number, "term", b"")

    def progress(self, number: int) -> None:
        """Ask for more time."""
        self._answer(number, "progress", b"")

    def _answer(self, number: int, kind: str, reply: bytes) -> None:
        if not self.sent or self.policy == "none":
            return
        delivery = self.sent[number % len(self.sent)]
        if kind in {"ack", "term"}:
            self._note_settled(delivery)
        self.rig.ack(self.consumer, delivery, _BODIES[kind], reply)
        self.take()

    def _settled_by(self, delivery: Sent) -> set[int]:
        """Return what an ack of a delivery acknowledges."""
        _, seq, consumer_seq, _ = delivery.numbers
        if self.policy == "explicit":
            return {seq}
        if self.policy == "none" or consumer_seq <= self.consumer.acks.floor_consumer_seq:
            # nats-server confirms such an ack of an earlier delivery, too, and settles nothing.
            return set()
        return {one for one in self.seen.deliveries if one <= seq}

    def _note_settled(self, delivery: Sent) -> None:
        settled = self._settled_by(delivery)
        self.seen.acked |= settled
        self.now.acked |= settled

    def wait(self, number: int) -> None:
        """Turn the clock: by milliseconds, or beyond the ack wait."""
        self.rig.advance(ACK_WAIT_S + 0.01 if number % 10 == 0 else number % 100 / 1000)
        self.take()

    def flush(self, _: int) -> None:
        """Pass the open group to the disk."""
        self.directory.flush()

    def pump(self, number: int) -> None:
        """Complete a write of the disk, and a read; a notification may come much later."""
        self.disk.pump()
        self.disk.pump_fetch()
        self.durable.update(range(self.visible + 1, self.store.visible_seq + 1))
        if number % 3:
            self.show()
        else:
            self.rig.run()
            self.take()

    def settle(self, _: int) -> None:
        """Write everything, and record the state that must not be lost any more.

        A request that waited for the disk is served meanwhile, which may be forgotten.
        """
        before = self.now.copied()
        self.rig.advance(_SETTLED_S)
        self.take()
        self.rig.advance(0)
        for _ in range(100):
            self.directory.flush()
            if not self.disk.pump():
                break
            self.show()
        self.take()
        self.show()
        self.check_pending()
        self.noted = before

    def check_pending(self) -> None:
        """See that the messages to come are counted right, unless they were removed uncounted."""
        acks = self.consumer.acks
        acks.recount()
        coming = range(max(acks.next_seq, 1), self.store.visible_seq + 1)
        count = sum(self.is_wanted(seq) for seq in coming)
        if acks.num_pending != count:
            raise WrongState(f"{acks.num_pending} messages are to come instead of {count}")

    def forget(self, _: int) -> None:
        """Leave nothing in the page cache."""
        if not self.disk.fetches:  # otherwise fetched pages would be dropped again
            self.disk.drop_pages()

    def fuse(self, number: int) -> None:
        """Stop the machine within the next operations of the disk."""
        self.disk.stop_at = self.disk.steps + number % 12

    def kill(self, _: int) -> None:
        """Kill the process."""
        self.crash(0)

    def power(self, _: int) -> None:
        """Fail the power."""
        self.crash(1)

    def stop(self, _: int) -> None:
        """Stop in order, and begin again: nothing is forgotten."""
        self.disk.stop_at = -1
        self.rig.consumers.stop()
        self.directory.close()
        self.take()
        self.noted = self.now.copied()
        self.disk = self.disk.killed()
        self.recover()

    def show(self) -> None:
        """Notify the consumer of the messages that have become visible."""
        while self.visible < self.store.visible_seq:
            self.visible += 1
            self.durable.add(self.visible)
            subject = self.store.subject_of(self.visible)
            if subject is not None:
                self.rig.consumers.stored(self.visible, subject)
        self.rig.run()
        self.take()

    # What clients see.

    def take(self) -> None:
        """Check the sent messages."""
        for one in self.rig.taken():
            if one.to in self.asked:
                self.confirmed |= self.asked[one.to]
                self.noted.acked |= self.asked[one.to]
            elif one.reply:
                self.delivered(one)

    def delivered(self, one: Sent) -> None:
        """Look at a delivery."""
        count, seq = one.numbers[:2]
        known = self.noted.deliveries.get(seq, 0)
        if seq in self.unwanted or (self.filters and one.subject not in self.filters):
            raise WrongState(f"message {seq} is delivered, which is not wanted")
        if seq not in self.durable:
            raise WrongState(f"message {seq} is delivered before it is durable")
        if seq in self.confirmed:
            raise WrongState(f"message {seq}, whose ack was confirmed, is delivered again")
        if seq in self.noted.acked:
            raise WrongState(f"message {seq}, acknowledged for long, is delivered again")
        if self.policy == "none" and known:
            raise WrongState(f"message {seq}, delivered for long, is delivered again")
        if count <= known:
            raise WrongState(f"message {seq} is delivered for the {count}th time after {known}")
        if count > self.seen.deliveries.get(seq, 0) + 1:
            raise WrongState(f"message {seq} is delivered for the {count}th time already")
        self.seen.deliver(seq, count)
        self.now.deliver(seq, count)
        self.sent.append(one)

    def finish(self) -> None:
        """Read and acknowledge all that is left; see that nothing is missing."""
        self.settle(0)
        for _ in range(200):
            self.sent.clear()
            self.pull(2)
            while self.disk.pump_fetch():
                self.rig.run()
                self.take()
            for one in list(self.sent):
                self._note_settled(one)
                self.rig.ack(self.consumer, one)
            if not self.sent and not self.consumer.acks.pending.entries:
                break
            self.rig.advance(1)
        self.settle(0)
        if self.disk.cold_reads:
            raise WrongState(f"{self.disk.cold_reads} reads waited for the disk")
        missing = {seq for seq in self.durable if self.is_wanted(seq)} - (
            set(self.seen.deliveries) if self.policy == "none" else self.seen.acked
        )
        if missing:
            raise WrongState(f"messages {sorted(missing)} were never delivered")
        if self.retention == "workqueue" and self.store.messages:
            raise WrongState(f"{self.store.messages} acknowledged messages are left")


class TurnedClockAt(TurnedClock):
    """A clock that begins at a given time: the end of the life before."""

    def __init__(self, now_ns: int) -> None:
        super().__init__()
        self.now_ns = now_ns


def failure(seed: int, steps: Program, *, is_choosy: bool = False) -> str:
    """Return the fault after a program, or "" for none."""
    try:
        Consuming(seed, is_choosy=is_choosy).run(steps)
    except WrongState as wrong:
        return str(wrong)
    return ""


def shrunk(steps: Program, fails: Callable[[Program], object]) -> Program:
    """Return a program that still fails, and does not without any single one of its steps."""
    size = max(len(steps) // 2, 1)
    while True:
        at = 0
        while at < len(steps):
            without = steps[:at] + steps[at + size :]
            if fails(without):
                steps = without
            else:
                at += size
        if size == 1:
            return steps
        size //= 2
