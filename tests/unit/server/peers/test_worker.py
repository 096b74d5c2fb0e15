"""What crosses between two workers, and what becomes of it when things change meanwhile."""

from __future__ import annotations

from random import Random
from unittest.mock import Mock

import pytest

from midge.server.broker.broker import Broker
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.server.jetstream.account_sink import only_link
from midge.server.jetstream.ingest import StreamSubscription
from midge.server.peers.ledger import Ledger
from midge.server.peers.worker import worker_link
from midge.server.peers.worker_interest import Numbers, WorkerAnnouncer
from midge.server.routing.client import Client
from midge.server.routing.message_observer import MessageObserver
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.subscription import RoutedSubscription
from midge.testing import ManualClock
from tests.support.jetstream_account import AccountRig
from tests.support.transports import Transport


class Peer:
    """A client of one broker; `says` returns what it is sent."""

    def __init__(self, broker: Broker) -> None:
        self.connection: Connection = broker.make_connection(("127.0.0.1", 1))
        self.transport = Transport()
        self.connection.channel.connection_made(self.transport)
        self.says(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')

    def says(self, data: bytes) -> bytes:
        self.connection.channel.feed(data)
        return self.takes()

    def takes(self) -> bytes:
        return self.transport.take()


class Ends:
    """Two workers: `publisher` is a client of the one, `subscriber` and `other` of the other."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self.here = Broker(Options(), self._clock, Random(1))
        self.there = Broker(Options(), self._clock, Random(2))
        numbers = Numbers(lambda: True)
        ledger = Ledger(None, numbers)
        ledger.account_made(self.there.global_account)
        self.out = worker_link(self.here, 1000, 1, Mock(), {})
        self.into = worker_link(self.there, 1000, 0, Mock(), numbers.receivers)
        self._out, self._into = Transport(), Transport()
        for link, transport in ((self.out, self._out), (self.into, self._into)):
            link.channel.connection_made(transport)
            link.start()
        told = WorkerAnnouncer(self.into, self.there.turns, lambda: None)
        ledger.join(told)
        self.publisher = Peer(self.here)
        self.subscriber, self.other = Peer(self.there), Peer(self.there)

    def tell(self) -> bytes:
        """Pass the other worker's announcements to the publisher's worker; return the lines."""
        self.there.router.flush()
        told = self._into.take()
        self.out.channel.feed(told)
        return told

    def publish(self, lines: bytes) -> bytes:
        """Publish, and return the bytes in transit."""
        assert self.publisher.says(lines) == b""
        while self.publisher.connection.channel.parser.halted:
            self._clock.advance(0.0)  # until its turns have come
        return self._out.take()

    def arrive(self, crossing: bytes, cut: int = 1 << 30) -> bytes:
        """Deliver it in pieces of `cut` bytes; return the subscriber's messages."""
        for start in range(0, len(crossing), cut):
            self.into.channel.feed(crossing[start : start + cut])
            while self.into.channel.parser.halted:
                self._clock.advance(0.0)
        return self.subscriber.takes()


@pytest.fixture
def ends() -> Ends:
    return Ends()


LINES = b"".join(b"PUB a.%d %d\r\n%b\r\n" % (i % 7, i, b"x" * i) for i in range(60))
MESSAGES = b"".join(b"MSG a.%d 77 %d\r\n%b\r\n" % (i % 7, i, b"x" * i) for i in range(60))


@pytest.mark.parametrize("cut", [1 << 30, 1, 19, 1000])
def test_what_one_subscription_gets_crosses_as_one_block(ends: Ends, cut: int) -> None:
    ends.subscriber.says(b"SUB a.* 77\r\n")
    assert ends.tell() == b"NS+ $G a.* 1 77\r\n"
    crossing = ends.publish(LINES)
    assert crossing.startswith(b"A+ $G\r\nBLK ")
    assert crossing.count(b"BLK ") == 1
    assert b"PUB" not in crossing
    assert ends.arrive(crossing, cut) == MESSAGES
    client = ends.subscriber.connection
    assert (client.out_messages, client.out_bytes) == (60, sum(range(60)))
    assert (ends.into.in_messages, ends.into.in_bytes) == (60, sum(range(60)))
    assert ends.out.out_messages == 60


def test_blocks_of_several_subscriptions_take_turns(ends: Ends) -> None:
    ends.subscriber.says(b"SUB a.0 1\r\nSUB a.1 2\r\nSUB b 3\r\n")
    ends.tell()
    lines = [b"a.%d" % (i // 3 % 2) if i % 5 else b"b" for i in range(40)]
    crossing = ends.publish(
        b"".join(b"PUB %b 1\r\n%c\r\n" % (one, 65 + i) for i, one in enumerate(lines))
    )
    sids = {b"a.0": 1, b"a.1": 2, b"b": 3}
    assert ends.arrive(crossing) == b"".join(
        b"MSG %b %d 1\r\n%c\r\n" % (one, sids[one], 65 + i) for i, one in enumerate(lines)
    )


@pytest.mark.parametrize(("size", "count"), [(0, 1000), (300, 500), (65_480, 2), (200_000, 2)])
def test_blocks_fit_into_chunks(ends: Ends, size: int, count: int) -> None:
    ends.subscriber.says(b"SUB a 1\r\n")
    ends.tell()
    body = b"%d\r\n%b\r\n" % (size, b"y" * size)
    crossing = ends.publish((b"PUB a " + body) * count)
    assert ends.arrive(crossing, 256 * 1024) == (b"MSG a 1 " + body) * count
    assert ends.subscriber.connection.out_messages == count


def test_replies_and_headers_cross_as_lines_and_in_order(ends: Ends) -> None:
    ends.subscriber.says(b"SUB a 1\r\n")
    ends.tell()
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    sizes = b"%d %d\r\n%bx\r\n" % (len(header), len(header) + 1, header)
    crossing = ends.publish(
        b"PUB a 1\r\n1\r\nPUB a r 1\r\n2\r\nHPUB a " + sizes + b"PUB a 1\r\n4\r\n"
    )
    assert crossing.count(b"BLK ") == 2
    assert ends.arrive(crossing) == (
        b"MSG a 1 1\r\n1\r\nMSG a 1 r 1\r\n2\r\nHMSG a 1 " + sizes + b"MSG a 1 1\r\n4\r\n"
    )


@pytest.mark.parametrize("cut", [1 << 30, 1, 19, 1000])
def test_messages_that_arrive_in_pieces_stay_in_their_account(ends: Ends, cut: int) -> None:
    ends.subscriber.says(b"SUB a.* 1\r\n")
    ends.other.says(b"SUB a.* 1\r\n")
    ends.tell()
    account = ends.there.account("OTHER")
    stranger = Client(1, account, ChunkPool())
    account.add(RoutedSubscription(b">", None, b"1", stranger))
    ends.into.channel.feed(b"RS+ OTHER x\r\n")
    crossing = ends.publish(LINES + LINES.replace(b" ", b" reply ").replace(b"PUB reply", b"PUB"))
    assert crossing.count(b"PUB a.") == 120
    assert ends.arrive(crossing, cut).count(b"MSG a.") == 120
    assert ends.other.takes().count(b"MSG a.") == 120
    assert stranger.out_messages == 0


THREE = b"PUB a 1\r\nx\r\nPUB a 2\r\nyy\r\nPUB a 0\r\n\r\n"
GOT = b"MSG a %d 1\r\nx\r\nMSG a %d 2\r\nyy\r\nMSG a %d 0\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "got"),
    [
        (b"UNSUB 1\r\n", b""),
        (b"UNSUB 1\r\nSUB a 2\r\n", GOT % (2, 2, 2)),
        (b"SUB a 2\r\nUNSUB 1\r\n", GOT % (2, 2, 2)),
        (b"SUB > 3\r\nUNSUB 1\r\n", GOT % (3, 3, 3)),
        (b"UNSUB 1 2\r\n", b"MSG a 1 1\r\nx\r\nMSG a 1 2\r\nyy\r\n"),
    ],
)
def test_what_is_on_its_way_goes_to_those_who_want_it_now(
    ends: Ends, said: bytes, got: bytes
) -> None:
    ends.subscriber.says(b"SUB a 1\r\n")
    ends.tell()
    crossing = ends.publish(THREE)
    assert ends.subscriber.says(said) == b""
    assert ends.arrive(crossing) == got


def test_a_second_subscription_ends_the_blocks_and_both_get_all(ends: Ends) -> None:
    ends.subscriber.says(b"SUB a 1\r\n")
    ends.tell()
    crossing = ends.publish(THREE)
    ends.other.says(b"SUB a 9\r\n")
    assert ends.arrive(crossing) == GOT % (1, 1, 1)
    assert ends.other.takes() == GOT % (9, 9, 9)
    assert ends.tell() == b"RS+ $G a\r\n"
    crossing = ends.publish(THREE)
    assert crossing == THREE
    assert ends.arrive(crossing) == GOT % (1, 1, 1)
    assert ends.other.takes() == GOT % (9, 9, 9)


def test_overlapping_subscriptions_get_a_message_each_once(ends: Ends) -> None:
    ends.subscriber.says(b"SUB a 1\r\nSUB * 2\r\n")
    ends.other.says(b"SUB a 8 \r\n")
    ends.other.says(b"UNSUB 8\r\nSUB b g 9\r\n")
    ends.tell()
    crossing = ends.publish(b"PUB a 1\r\nx\r\nPUB c 1\r\ny\r\nPUB b 1\r\nz\r\n")
    got = ends.arrive(crossing)
    parts = sorted(got.replace(b"MSG", b"|MSG").split(b"|")[1:])
    assert parts == [
        b"MSG a 1 1\r\nx\r\n", b"MSG a 2 1\r\nx\r\n", b"MSG b 2 1\r\nz\r\n", b"MSG c 2 1\r\ny\r\n"
    ]  # fmt: skip
    assert ends.other.takes() == b"MSG b 9 1\r\nz\r\n"


class Watching(MessageObserver):
    """Counts messages."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def sees_runs(self) -> bool:
        return False

    def message_routed(self, account, publisher, frame, plain, queued) -> None:  # type: ignore[no-untyped-def]
        self.seen.append(frame.payload_bytes())


def test_an_observer_sees_the_messages_of_blocks(ends: Ends) -> None:
    ends.subscriber.says(b"SUB a 1\r\n")
    ends.tell()
    crossing = ends.publish(THREE)
    observer = ends.there.router.observer = Watching()
    assert ends.arrive(crossing) == GOT % (1, 1, 1)
    assert observer.seen == [b"x", b"yy", b""]


def test_a_client_that_has_left_gets_nothing(ends: Ends) -> None:
    ends.subscriber.says(b"SUB a 1\r\n")
    ends.tell()
    crossing = ends.publish(THREE)
    ends.subscriber.connection.channel.connection_lost(None)
    assert ends.arrive(crossing) == b""
    assert ends.tell() == b"RS- $G a\r\n"
    assert ends.publish(THREE) == b""


@pytest.mark.parametrize("line", [b"BLOC" + bytes(16), b"NS+ $G a 1\r\n", b"NS+ $G a 1 2 3\r\n"])
def test_what_is_no_block_breaks_the_link(ends: Ends, line: bytes) -> None:
    ends.into.end.on_peer_error = Mock()
    ends.into.channel.feed(line)
    assert ends.into.reason is not None


@pytest.mark.parametrize("size", [0, 9, 100, 12_345, 70_000])
def test_what_the_server_sends_itself_crosses_in_blocks_without_a_frame(
    ends: Ends, size: int
) -> None:
    ends.subscriber.says(b"SUB inbox.* 7\r\n")
    ends.tell()
    payload = b"x" * size
    for i in range(3):
        subject = b"inbox.%d" % i
        link = only_link(ends.here.global_account.sublist.match(subject))
        assert link is not None
        assert link.forward_parts(subject, payload)
    ends.here.router.flush()
    crossing = ends.publish(b"PUB inbox.last 2\r\nok\r\n")
    assert (ends.out.out_messages, ends.out.out_bytes) == (4, 3 * size + 2)
    lines = [b"MSG inbox.%d 7 %d\r\n%b\r\n" % (i, size, payload) for i in range(3)]
    assert ends.arrive(crossing, 16_000) == b"".join(lines) + b"MSG inbox.last 7 2\r\nok\r\n"


def test_no_single_link_leads_to_receivers_in_both_workers(ends: Ends) -> None:
    ends.subscriber.says(b"SUB inbox.* 7\r\n")
    ends.tell()
    ends.publisher.says(b"SUB inbox.1 1\r\n")
    assert only_link(ends.here.global_account.sublist.match(b"inbox.1")) is None
    assert only_link(ends.here.global_account.sublist.match(b"inbox.2")) is not None


@pytest.mark.parametrize("cut", [1 << 30, 30, 1000])
def test_lines_for_a_stream_of_the_other_worker_are_stored_many_at_once(
    ends: Ends, cut: int
) -> None:
    stream = AccountRig().create(subjects=["a.>"])
    subscription = StreamSubscription(b"a.>", stream)
    ends.there.global_account.add(subscription)
    ends.tell()
    ends.arrive(ends.publish(LINES))
    parser = ends.into.channel.parser
    assert parser.taker is subscription.lines
    ends.arrive(ends.publish(LINES))
    ends.arrive(ends.publish(b"PUB a.x re 1\r\n?\r\n" + LINES), cut)
    assert (ends.into.in_messages, ends.into.in_bytes) == (181, 3 * sum(range(60)) + 1)
    assert subscription.delivered == stream.store.last_seq == 181
    ends.subscriber.says(b"SUB a.0 5\r\n")
    ends.tell()
    assert ends.arrive(ends.publish(LINES)).count(b"MSG a.0 5 ") == 9
    assert stream.store.last_seq == 241
