"""A stream's consumers without a server: a clock that is turned, and a sink that collects."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from midge.jetstream.config.consumer_config import Allowance, ConsumerConfig
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.consumer_set import ConsumerSet
from midge.jetstream.consumer.info import info_of, written_report
from midge.jetstream.environment.sink import Receiver, Sink
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.json.encode import encode
from midge.jetstream.store.interface import MessageView
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.store import Store
from midge.jetstream.store.turns import Turns

SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS


class Call:
    """A call to come."""

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None


class TurnedClock:
    """Time that passes when `advance` is called; `is_exact` as of JetStream's clocks."""

    is_exact = False

    def __init__(self) -> None:
        self.now_ns = 0
        self._calls: list[tuple[int, int, Call]] = []
        self._made = 0

    def wall_ns(self) -> int:
        return START_NS + self.now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns + 1

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Call:
        call = Call(callback, arguments)
        self._made += 1
        due_ns = self.now_ns + round(delay_s * SECOND_NS)
        heapq.heappush(self._calls, (due_ns, self._made, call))
        return call

    def advance(self, seconds: float, after_each: Callable[[], object] = lambda: None) -> None:
        """Advance the clock, and make the calls that fall due in order."""
        end_ns = self.now_ns + round(seconds * SECOND_NS)
        while self._calls and self._calls[0][0] <= end_ns:
            due_ns, _, call = heapq.heappop(self._calls)
            self.now_ns = max(self.now_ns, due_ns)
            if call.callback is not None:
                call.callback(*call.arguments)
                after_each()
        self.now_ns = max(self.now_ns, end_ns)  # a call may take time

    def waiting(self) -> int:
        """Return how many calls are still to be made."""
        return sum(call.callback is not None for _, _, call in self._calls)


class Sent(NamedTuple):
    """A message that went out: `to` is the subject that it was routed by."""

    to: bytes
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def status(self) -> bytes:
        """The status line of a message without a subject of the stream."""
        return self.headers.partition(b"\r\n")[0].removeprefix(b"NATS/1.0 ")

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """Deliveries, stream sequence, consumer sequence and pending of a delivery."""
        tokens = self.reply.split(b".")
        deliveries, seq, consumer_seq, _, pending = (int(one) for one in tokens[-5:])
        return deliveries, seq, consumer_seq, pending


class CollectingReceiver(Receiver):
    """Keeps the messages delivered directly from the store, as its sink keeps the rest."""

    def __init__(self, sink: CollectingSink, subject: bytes) -> None:
        super().__init__(len(subject))
        self.sink = sink
        self.subject = subject

    def is_current(self) -> bool:
        return self.subject not in self.sink.without_interest

    def is_open(self, message: MessageView) -> bool:
        return self.is_current()

    def take(self, message: MessageView, reply: bytearray, reply_end: int) -> None:
        copied = message.copied()
        self.sink.direct += 1
        self.sink.deliver(
            self.subject, copied.subject, bytes(reply[:reply_end]), copied.headers, copied.payload
        )


class CollectingSink(Sink):
    """Keeps sent messages. All subjects have interest except those in `without_interest`.

    `direct` counts the messages that came directly from the store; while `has_receivers` is false,
    none do.
    """

    has_receivers = True

    def __init__(self) -> None:
        self.direct = 0
        self.sent: list[Sent] = []
        self.without_interest: set[bytes] = set()
        self.interest_prefixes: tuple[bytes, ...] = (b"_INBOX.", b"deliver")
        self.watchers: list[tuple[bytes, Callable[[bool], object]]] = []

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        self.sent.append(Sent(subject, subject, reply, headers, payload))
        return 1

    def deliver(
        self,
        deliver_subject: bytes,
        message_subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        if deliver_subject in self.without_interest:
            return False
        self.sent.append(Sent(deliver_subject, message_subject, reply, headers, payload))
        return True

    def receiver(self, subject: bytes) -> Receiver | None:
        if subject in self.without_interest or not self.has_receivers:
            return None
        return CollectingReceiver(self, subject)

    def has_interest(self, subject: bytes) -> bool:
        return subject not in self.without_interest and subject.startswith(self.interest_prefixes)

    def is_subscribed(self, subject: bytes, group: bytes) -> bool:
        return self.has_interest(subject)

    def watch_interest(
        self, subject: bytes, changed: Callable[[bool], object], group: bytes
    ) -> object:
        token = (subject, changed)
        self.watchers.append(token)
        return token

    def unwatch_interest(self, token: object) -> None:
        self.watchers = [one for one in self.watchers if one is not token]

    def set_interest(self, subject: bytes, *, is_there: bool) -> None:
        """Add or remove a subject's subscriber."""
        (self.without_interest.discard if is_there else self.without_interest.add)(subject)
        for watched, changed in list(self.watchers):
            if watched == subject:
                changed(is_there)


class Rig:
    """One memory stream ``S`` and its consumers."""

    def __init__(
        self, *, store: Store | None = None, clock: TurnedClock | None = None, **stream: Any
    ) -> None:
        self.clock = clock or TurnedClock()
        self.sink = CollectingSink()
        self.store = store or MemoryStore()
        self.config = StreamConfig(name="S", subjects=["a.>"], num_replicas=1, storage="memory")
        for key, value in stream.items():
            setattr(self.config, key, value)
        self.turns: list[Consumer] = []
        around = Surroundings(self.sink, self.clock, random.Random(1), ready=self.turns.append)
        around.turns = Turns()
        self.consumers = ConsumerSet(self.config, self.store, around, self.store.remove)

    def publish(self, *subjects: str, payload: bytes = b"x", headers: bytes = b"") -> None:
        """Store messages, one for each subject, and let consumers deliver."""
        for subject in subjects:
            name = subject.encode()
            seq = self.store.append(name, headers, payload, self.clock.wall_ns())
            self.consumers.stored(seq, name)
        self.run()

    def create(
        self, name: str = "C", action: str = "", *, is_durable: bool = True, **keys: Any
    ) -> Consumer:
        """Make a durable consumer, with explicit acks unless `keys` say otherwise."""
        config = ConsumerConfig(name=name, ack_policy="explicit")
        config.durable_name = name if is_durable else ""
        for key, value in keys.items():
            setattr(config, key, value)
        consumer = self.consumers.create(config, action, Allowance())
        self.run()
        return consumer

    def remove(self, seq: int) -> None:
        """Remove a message as MSG.DELETE does."""
        subject = self.store.subject_of(seq)
        assert subject is not None
        self.store.remove(seq)
        self.consumers.removed(seq, subject)
        self.run()

    def run(self, budget: int = 1 << 20) -> None:
        """Return all requests for turns one after another."""
        while self.turns:
            self.turns.pop(0).deliver(budget)

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.clock.advance(seconds, self.run)

    def pull(self, consumer: Consumer, body: bytes | str = b"", reply: bytes = b"_INBOX.1") -> None:
        """Send a pull request."""
        consumer.request(reply, body.encode() if isinstance(body, str) else body)
        self.run()

    def ack(self, consumer: Consumer, sent: Sent, body: bytes = b"", reply: bytes = b"") -> None:
        """Acknowledge a delivery."""
        consumer.ack(sent.reply, reply, body)
        self.run()

    def taken(self) -> list[Sent]:
        """Return the messages sent since the last call."""
        sent, self.sink.sent = self.sink.sent, []
        return sent

    def info(self, consumer: Consumer) -> dict[str, Any]:
        """Return a consumer's report."""
        info = info_of(consumer, with_versions=True)
        written = written_report(consumer, b"{")
        assert written is None or written == encode(info)
        return info

    def floors(self, consumer: Consumer) -> tuple[int, ...]:
        """Return delivered and ack floor of a report: consumer and stream sequence of each."""
        info = self.info(consumer)
        pairs = (info["delivered"], info["ack_floor"])
        return tuple(pair[key] for pair in pairs for key in ("consumer_seq", "stream_seq"))
