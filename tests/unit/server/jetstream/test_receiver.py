"""A client gets from the store what the router would write for it, byte by byte."""

from __future__ import annotations

import pytest

from midge.jetstream.environment.sink import Receiver
from midge.jetstream.store.interface import MessageView
from midge.jetstream.store.memory_store import MemoryStore
from midge.server.clients.observer import Observer
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.jetstream.account_sink import AccountSink, Interest
from midge.server.jetstream.receiver import MessageLine, single, write
from midge.server.routing import slow_path
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from tests.support.transports import Transport

REPLY = b"$JS.ACK.S.C.1.2.3.4.5"
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


class Listening(Client):
    """A client; `wire` has the output to it."""

    def __init__(self, account: Account) -> None:
        super().__init__(1, account, ChunkPool())
        self.wire = Transport()
        self.outbound.attach(self.wire)
        self.room = True
        self.publishers: list[Client | None] = []

    def has_room(self, publisher: Client | None) -> bool:
        self.publishers.append(publisher)
        return self.room


class Place:
    """An account with a sink, and a store with one message."""

    def __init__(self, payload: bytes = b"hello", headers: bytes = b"") -> None:
        self.account = Account("A")
        self.router = Router()
        publisher = InternalPublisher(self.router)
        self.sink = AccountSink(self.account, publisher, Interest(self.account))
        store = MemoryStore()
        store.append(b"orders.new", headers, payload, 1)
        self.store = store  # whose memory the view shows
        self.view = MessageView()
        assert store.show_next((), 1, 1, self.view)

    def subscribe(self, subject: bytes = b"inbox", queue: bytes | None = None) -> Listening:
        client = Listening(self.account)
        assert self.account.add(RoutedSubscription(subject, queue, b"17", client)) is None
        return client

    def receiver(self) -> Receiver:
        found = self.sink.receiver(b"inbox")
        assert found is not None
        assert found.subject_size == len(b"inbox")
        return found


@pytest.mark.parametrize("headers", [b"", HEADERS])
@pytest.mark.parametrize("payload", [b"", b"hello", b"x" * 200_000])
def test_what_is_written_is_what_the_router_writes(payload: bytes, headers: bytes) -> None:
    place = Place(payload, headers)
    client = place.subscribe()
    receiver = place.receiver()
    assert receiver.is_open(place.view)
    receiver.take(place.view, bytearray(REPLY + b".more"), len(REPLY))
    place.router.flush()
    direct, counted = client.wire.take(), (client.out_messages, client.out_bytes)
    message = place.view.copied()
    assert place.sink.deliver(b"inbox", message.subject, REPLY, message.headers, message.payload)
    place.router.flush()
    assert direct == client.wire.take()
    assert direct.startswith((b"HMSG " if headers else b"MSG ") + b"orders.new 17 " + REPLY)
    assert (client.out_messages, client.out_bytes) == tuple(2 * count for count in counted)


def test_only_a_single_client_is_written_to() -> None:
    place = Place()
    assert place.sink.receiver(b"inbox") is None
    place.subscribe(queue=b"group")
    assert place.sink.receiver(b"inbox") is None
    place = Place()
    place.subscribe()
    place.subscribe(b"*")
    assert place.sink.receiver(b"inbox") is None
    place = Place()
    place.account.add(RoutedSubscription(b"inbox"))
    assert place.sink.receiver(b"inbox") is None


def test_a_subscription_that_ends_by_itself_is_not() -> None:
    place = Place()
    subscription = RoutedSubscription(b"inbox", None, b"1", Listening(place.account))
    subscription.max_messages = 2
    place.account.add(subscription)
    assert place.sink.receiver(b"inbox") is None


def test_a_change_of_interest_ends_it() -> None:
    place = Place()
    place.subscribe()
    receiver = place.receiver()
    place.subscribe(b"other")
    assert not receiver.is_current()
    assert not receiver.is_open(place.view)
    assert place.receiver().is_open(place.view)


def test_a_client_that_needs_a_closer_look_is_left_to_the_router() -> None:
    place = Place()
    client = place.subscribe()
    receiver = place.receiver()
    for checks in (slow_path.CLOSED, slow_path.DENIED_SUBJECTS, slow_path.INTERCEPTED):
        client.deliver_checks = checks
        assert not receiver.is_open(place.view)
    client.deliver_checks = slow_path.NO_HEADERS
    assert receiver.is_open(place.view)
    with_headers = Place(headers=HEADERS)
    assert not receiver.is_open(with_headers.view)


def test_what_has_no_headers_is_written_to_a_client_that_cannot_read_them() -> None:
    place = Place()
    client = place.subscribe()
    client.deliver_checks = slow_path.NO_HEADERS
    subscription = single(place.account.sublist.match(b"inbox"))
    assert subscription is not None
    router = place.router
    line = MessageLine()
    assert write(subscription, router, line, b"inbox", b"", b"", b"body")
    assert not write(subscription, router, line, b"inbox", b"", HEADERS, b"body")
    client.deliver_checks |= slow_path.INTERCEPTED
    assert not write(subscription, router, line, b"inbox", b"", b"", b"body")


def test_a_client_that_is_behind_may_hold_the_producer() -> None:
    place = Place()
    client = place.subscribe()
    receiver = place.receiver()
    client.deliver_checks = slow_path.BEHIND
    producer = Client(0, place.account, ChunkPool())
    place.sink.turn.producer = producer
    assert receiver.is_open(place.view)
    client.room = False
    assert not receiver.is_open(place.view)
    assert client.publishers == [producer, producer]


def test_an_observer_sees_deliveries_by_the_router() -> None:
    place = Place()
    place.subscribe()
    receiver = place.receiver()
    place.router.observer = Observer()
    assert not receiver.is_open(place.view)


@pytest.mark.parametrize("payload", [b"", b"hello", b"x" * 70_000])
@pytest.mark.parametrize("headers", [b"", HEADERS])
@pytest.mark.parametrize("reply", [b"", b"back"])
def test_what_is_sent_is_what_the_router_writes(
    reply: bytes, headers: bytes, payload: bytes
) -> None:
    place = Place()
    client = place.subscribe()
    written = []
    for observer in (None, Observer()):  # with one, everything is routed
        place.router.observer = observer
        offers, before = place.router.offers, (client.out_messages, client.out_bytes)
        assert place.sink.send(b"inbox", reply, headers, payload) == 1
        place.router.flush()
        counted = (client.out_messages - before[0], client.out_bytes - before[1])
        written.append((client.wire.take(), place.router.offers - offers, counted))
    assert written[0] == written[1]
    assert written[0][1:] == (1, (1, len(headers) + len(payload)))


@pytest.mark.parametrize("payload", [b"", b"hello", b"x" * 70_000])
@pytest.mark.parametrize("head", [b"", b"NATS/1.0\r\nB: c\r\n\r\n", b"x" * 1000])
def test_what_is_sent_from_the_store_is_what_the_router_writes(head: bytes, payload: bytes) -> None:
    place = Place(payload, HEADERS)  # whose own headers are not sent
    client = place.subscribe()
    written = []
    for observer in (None, Observer()):
        place.router.observer = observer
        offers, before = place.router.offers, (client.out_messages, client.out_bytes)
        block = bytearray(head + b"more")
        assert place.sink.send_stored(b"inbox", block, len(head), place.view) == 1
        place.router.flush()
        counted = (client.out_messages - before[0], client.out_bytes - before[1])
        written.append((client.wire.take(), place.router.offers - offers, counted))
    assert written[0] == written[1]
    assert written[0][0].endswith(b"\r\n%b%b\r\n" % (head, payload))
    assert written[0][1:] == (1, (1, len(head) + len(payload)))
    place.subscribe(b">")
    assert place.sink.send_stored(b"inbox", bytearray(head), len(head), place.view) == 2
    assert place.sink.send_stored(b"out", bytearray(head), len(head), place.view) == 1


def test_what_is_sent_to_several_or_for_the_last_time_is_routed() -> None:
    place = Place()
    assert place.sink.send(b"inbox", b"", b"", b"x") == 0
    several = [place.subscribe(), place.subscribe(b">")]
    assert place.sink.send(b"inbox", b"", b"", b"x") == 2
    place.router.flush()
    assert [one.wire.take() for one in several] == [b"MSG inbox 17 1\r\nx\r\n"] * 2
    place = Place()
    subscription = RoutedSubscription(b"inbox", None, b"1", client := Listening(place.account))
    subscription.max_messages = 1
    client.finished = place.account.remove  # type: ignore[method-assign, assignment]
    place.account.add(subscription)
    assert [place.sink.send(b"inbox", b"", b"", b"x") for _ in range(2)] == [1, 0]


class Interrupting(Transport):
    """Sends something else from inside a write, as what a transport calls back may do."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.others = 0

    def write(self, data: bytes | memoryview) -> None:
        super().write(data)
        if not self.others:
            self.others += 1
            assert self.place.sink.send(b"elsewhere.far.away", b"", b"", b"other") == 1


def test_a_message_sent_while_another_is_written_does_not_spoil_it() -> None:
    place = Place()
    client = place.subscribe()
    wire = Interrupting(place)
    client.outbound.attach(wire)
    other = place.subscribe(b"elsewhere.>")
    large = b"x" * 50_000
    for _ in range(2):  # the second one makes the chunk of the first be written
        assert place.sink.send(b"inbox", b"", b"", large) == 1
    place.router.flush()
    assert wire.others == 1
    assert wire.take() == b"MSG inbox 17 50000\r\n%b\r\n" % large * 2
    assert other.wire.take() == b"MSG elsewhere.far.away 17 5\r\nother\r\n"
