"""Publishing from within the server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.clients.observer import Observer
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.jetstream.delivery import Producer
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.role import Role
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from tests.support.transports import Transport


class Receiver(Client):
    """A client that may be far behind; it records the publishers that wait for it."""

    def __init__(self, account: Account) -> None:
        super().__init__(5, account, ChunkPool())
        self.wire = Transport()
        self.outbound.attach(self.wire)
        self.waiting: dict[Client, None] = {}

    def checked(self, subscription, publisher, frame) -> Frame | None:
        publisher.pause_for(self)
        return frame

    def held_publishers(self) -> dict[Client, None]:
        return self.waiting


class Soon:
    """Functions to be called in the next turn of a loop."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def __call__(self, function: Callable[[], None]) -> None:
        self.due.append(function)

    def turn(self) -> int:
        """Call the due functions; return their number."""
        due, self.due = self.due, []
        for function in due:
            function()
        return len(due)


@pytest.fixture
def soon() -> Soon:
    return Soon()


@pytest.fixture
def account() -> Account:
    return Account("A")


@pytest.fixture
def internal(soon: Soon) -> InternalPublisher:
    return InternalPublisher(Router(soon=soon))


def receiver(account: Account, subject: bytes = b"a") -> Receiver:
    client = Receiver(account)
    account.add(RoutedSubscription(subject, None, b"1", client))
    return client


def test_what_is_published_in_a_turn_is_written_once(
    internal: InternalPublisher, account: Account, soon: Soon
) -> None:
    client = receiver(account)
    assert internal.publish(account, b"a", b"1") == 1
    assert internal.publish(account, b"a", b"2", b"r", b"NATS/1.0\r\n\r\n") == 1
    assert internal.publish(account, b"b", b"3") == 0
    assert client.wire.written == b""
    assert soon.turn() == 1
    assert client.wire.written == b"MSG a 1 1\r\n1\r\nHMSG a 1 r 12 13\r\nNATS/1.0\r\n\r\n2\r\n"
    assert soon.turn() == 0


def test_without_a_loop_it_is_written_at_once(account: Account) -> None:
    internal = InternalPublisher(Router())
    client = receiver(account)
    internal.publish(account, b"a", b"1")
    assert client.wire.written == b"MSG a 1 1\r\n1\r\n"


def test_mappings_apply_only_when_asked_for(internal: InternalPublisher, account: Account) -> None:
    class Doubled:
        def map(self, subject: bytes) -> bytes | None:
            return None if subject == b"dropped" else b"mapped." + subject

    account.mapper = Doubled()
    receiver(account, b"mapped.a")
    assert internal.publish(account, b"a", b"") == 0
    assert internal.publish(account, b"a", b"", is_mapped=True) == 1
    assert internal.publish(account, b"dropped", b"", is_mapped=True) == 0


class Seeing(Observer):
    """Records the publisher of each message."""

    def __init__(self) -> None:
        self.seen: list[tuple[Client | None, bytes]] = []

    def message_routed(self, account, publisher, frame, plain, queued) -> None:
        self.seen.append((publisher, frame.subject_bytes()))


def test_observers_see_what_nobody_hears(internal: InternalPublisher, account: Account) -> None:
    internal.router.observer = seeing = Seeing()
    producer = Producer(account, Role.JETSTREAM)
    internal.publish(account, b"a", b"")
    internal.publish(account, b"b", b"", publisher=producer)
    assert seeing.seen == [(None, b"a"), (producer, b"b")]


def test_a_frame_is_routed_as_it_lies(
    internal: InternalPublisher, account: Account, soon: Soon
) -> None:
    """The subject that is matched need not be the one that is written."""
    client = receiver(account, b"deliver.to")
    result = account.sublist.match(b"deliver.to")
    assert internal.route_frame(account, result, compose(b"orders.new", b"1"), None) == 1
    soon.turn()
    assert client.wire.written == b"MSG orders.new 1 1\r\n1\r\n"


def test_a_producer_waits_for_a_receiver_that_is_behind(
    internal: InternalPublisher, account: Account
) -> None:
    client, other = receiver(account), receiver(account)
    client.deliver_checks = other.deliver_checks = 32
    producer = Producer(account, Role.JETSTREAM)
    released: list[str] = []
    producer.released = lambda: released.append("released")
    internal.publish(account, b"a", b"", publisher=producer)
    held_by = producer.held_by
    assert held_by in (client, other)
    assert [*client.waiting, *other.waiting] == [producer]
    producer.release()
    assert (producer.held_by, released) == (None, ["released"])
    producer.release()
    assert released == ["released"]


def test_a_producer_is_no_client_of_its_account(account: Account) -> None:
    producer = Producer(account, Role.SYSTEM)
    assert (producer.cid, producer.role, account.clients) == (0, Role.SYSTEM, set())
    assert Receiver(account).role == Role.CLIENT
