"""Turns of consumers: a request for one message needs none, unless others wait."""

from __future__ import annotations

import random

import pytest

from midge.jetstream.config.consumer_config import Allowance, ConsumerConfig
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.consumer_set import ConsumerSet
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.turns import Turns
from midge.server.channels.fair_turns import FairTurns
from midge.server.jetstream.delivery import Deliveries
from midge.server.jetstream.receiver import ProducersTurn
from midge.server.routing.account import Account
from midge.server.routing.router import Router
from tests.support.consumer_rig import CollectingSink, TurnedClock


class WritingSink(CollectingSink):
    """Has what it delivers written soon, as the sink of an account does; each takes `takes_ns`."""

    def __init__(self, router: Router, clock: TurnedClock) -> None:
        super().__init__()
        self._router = router
        self._clock = clock
        self.takes_ns = 0

    def deliver(self, *message: bytes) -> bool:  # type: ignore[override]
        self._router.flush_soon()
        self._clock.now_ns += self.takes_ns
        return super().deliver(*message)


class Place:
    """A memory stream of ten messages, and consumers that take turns."""

    def __init__(self) -> None:
        self.clock = TurnedClock()
        self.store = MemoryStore()
        for _ in range(10):
            self.store.append(b"a", b"", b"x", 1)
        turns = FairTurns(self.clock)  # type: ignore[arg-type]
        self.soon: list[object] = []
        self.router = Router(soon=self.soon.append)
        self.sink = WritingSink(self.router, self.clock)
        deliveries = Deliveries(
            turns,
            Account("A"),
            ProducersTurn(),
            self.router,
            self.clock,  # type: ignore[arg-type]
        )
        config = StreamConfig(name="S", subjects=["a"], num_replicas=1, storage="memory")
        around = Surroundings(self.sink, self.clock, random.Random(1), ready=deliveries.ready)
        around.turns = Turns()
        self.consumers = ConsumerSet(config, self.store, around, self.store.remove)

    def create(self, name: str) -> Consumer:
        config = ConsumerConfig(name=name, durable_name=name, ack_policy="explicit")
        return self.consumers.create(config, "", Allowance())

    def delivered(self) -> list[tuple[bytes, int]]:
        """Return the receivers of messages since the last call, and the sequences."""
        sent = [(one.to, one.numbers[1]) for one in self.sink.sent if one.reply]
        self.sink.sent.clear()
        return sent


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_request_for_one_message_is_served_at_once(place: Place) -> None:
    consumer = place.create("C")
    consumer.request(b"_INBOX.1", b"1")
    consumer.request(b"_INBOX.2", b"")
    assert place.delivered() == [(b"_INBOX.1", 1), (b"_INBOX.2", 2)]
    assert consumer.receivers.num_waiting() == 0


def test_a_request_for_more_waits_for_its_turn(place: Place) -> None:
    consumer = place.create("C")
    consumer.request(b"_INBOX.1", b"2")
    assert place.delivered() == []
    place.clock.advance(0)
    assert place.delivered() == [(b"_INBOX.1", 1), (b"_INBOX.1", 2)]


def test_a_request_behind_another_waits_with_it(place: Place) -> None:
    consumer = place.create("C")
    consumer.request(b"_INBOX.1", b"2")
    consumer.request(b"_INBOX.2", b"1")
    assert place.delivered() == []
    place.clock.advance(0)
    assert place.delivered() == [(b"_INBOX.1", 1), (b"_INBOX.2", 2), (b"_INBOX.1", 3)]


def test_a_request_waits_while_another_consumer_does(place: Place) -> None:
    first, second = place.create("C"), place.create("D")
    first.request(b"_INBOX.1", b"2")
    second.request(b"_INBOX.2", b"1")
    assert place.delivered() == []
    place.clock.advance(0)
    assert place.delivered() == [(b"_INBOX.1", 1), (b"_INBOX.1", 2), (b"_INBOX.2", 1)]


def test_a_request_for_one_waits_for_a_message_to_come(place: Place) -> None:
    consumer = place.create("C")
    for _ in range(10):
        consumer.request(b"_INBOX.1", b"1")
    assert len(place.delivered()) == 10
    consumer.request(b"_INBOX.1", b"1")
    assert place.delivered() == []
    assert consumer.receivers.num_waiting() == 1
    place.consumers.stored(place.store.append(b"a", b"", b"x", 1), b"a")
    place.clock.advance(0)
    assert place.delivered() == [(b"_INBOX.1", 11)]


def test_what_a_turn_delivers_is_written_at_its_end(place: Place) -> None:
    batches = place.router.batches
    place.create("C").request(b"_INBOX.1", b"2")
    place.clock.advance(0)
    assert len(place.delivered()) == 2
    assert (place.soon, place.router.batches) == ([], batches + 1)


def test_a_turn_leaves_the_writing_to_a_flush_that_is_due(place: Place) -> None:
    place.router.flush_soon()
    place.create("C").request(b"_INBOX.1", b"2")
    place.clock.advance(0)
    assert len(place.delivered()) == 2
    assert (len(place.soon), place.router.batches) == (1, 0)


def test_a_turn_ends_when_it_has_taken_long(place: Place) -> None:
    place.sink.takes_ns = 1_000_000
    order = [b"%d" % number for number in range(8)]
    for name in order:
        place.create(name.decode()).request(name, b"2")
    turns = []
    while len(turns) < 8 and sum(map(len, turns)) < 8:
        place.clock.advance(0)
        turns.append([to for to, sequence in place.delivered() if sequence == 2])
    assert turns == [order[:4], order[4:]], "the first, and others for 5 ms more"
