"""When output is written: once for all that is read in one turn of the loop, unless it is much."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from midge.protocol.frame import compose
from midge.server.broker.broker import Broker
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.config.options import Limits, Options
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import CHUNK_BYTES, ChunkPool
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.testing import ManualClock
from tests.support.transports import Transport

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
MIB = 1 << 20


class Soon:
    """Functions to be called at the end of this turn of a loop."""

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


class Socket(Transport):
    """A transport that counts writes, and keeps its output while it is `full`."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.full = False
        self.kept = 0
        self.aborted = False

    def write(self, data: bytes | memoryview) -> None:
        self.writes += 1
        if self.full:
            self.kept += len(data)
        else:
            super().write(data)

    def get_write_buffer_size(self) -> int:
        return self.kept

    def abort(self) -> None:
        self.aborted = True


class Receiver(Client):
    """A client that records the checks of its socket."""

    def __init__(self, account: Account, pool: ChunkPool) -> None:
        super().__init__(len(account.sublist), account, pool)
        self.socket = Socket()
        self.outbound.attach(self.socket)
        self.flushes = 0
        account.add(RoutedSubscription(b"a.%d" % self.cid, None, b"1", self))

    def flushed(self) -> None:
        self.flushes += 1


class World:
    """A router with receivers, each of a subject of its own."""

    def __init__(self, receivers: int = 1) -> None:
        self.soon = Soon()
        self.router = Router(soon=self.soon)
        self.account = Account("A")
        pool = ChunkPool()
        self.receivers = [Receiver(self.account, pool) for _ in range(receivers)]

    def publish(self, receiver: int = 0, payload: bytes = b"x") -> None:
        subject = b"a.%d" % receiver
        result = self.account.sublist.match(subject)
        self.router.route(self.account, result, None, compose(subject, payload))

    def writes(self) -> int:
        return sum(receiver.socket.writes for receiver in self.receivers)

    def read(self, receiver: int = 0) -> None:
        """Read a socket that publishes one message."""
        self.router.begin_batch()
        self.publish(receiver)
        self.router.end_batch(100)

    def lone_turns(self) -> None:
        """Go through as many turns with one read each as make it likely that it stays so."""
        for _ in range(4):
            self.read()
            assert self.soon.turn() == 1


def test_all_that_is_read_in_a_turn_is_one_write() -> None:
    world = World(2)
    for _ in range(5):
        world.publish(0)
        world.publish(1)
        world.router.end_batch(100)
    assert (world.writes(), len(world.soon.due)) == (0, 1)
    assert world.router.batches == 5
    world.soon.turn()
    assert world.writes() == 2
    assert world.receivers[0].socket.written == b"MSG a.0 1 1\r\nx\r\n" * 5
    assert [receiver.flushes for receiver in world.receivers] == [1, 1]
    assert world.soon.turn() == 0


def test_the_next_turn_has_a_flush_of_its_own() -> None:
    world = World()
    for turn in range(3):
        world.publish()
        world.router.end_batch(100)
        assert world.soon.turn() == 1
        assert world.writes() == turn + 1


def test_a_postponed_flush_needs_no_turn_of_its_own() -> None:
    world = World()
    assert world.router.postpone()
    assert not world.router.postpone()
    world.publish()
    assert (world.writes(), len(world.soon.due)) == (0, 0)
    world.router.flush_postponed()
    assert world.writes() == 1
    world.publish()
    assert not world.router.postpone(), "one is due anyway"
    assert world.soon.turn() == 1
    assert world.writes() == 2


def test_a_postponed_flush_says_nothing_of_how_many_sockets_are_ready() -> None:
    world = World()
    for _ in range(4):
        world.read()
        assert world.soon.turn() == 1
        assert world.router.postpone()
        world.router.flush_postponed()
    world.read()
    assert (world.writes(), len(world.soon.due)) == (5, 0)


def test_without_a_loop_nothing_is_postponed() -> None:
    assert not Router().postpone()


def test_many_chunks_are_written_at_once() -> None:
    world = World(65)
    for receiver in range(64):
        world.publish(receiver)
        world.router.end_batch(100)
    assert world.writes() == 0
    world.publish(64)
    assert world.writes() == 0, "a batch is not cut"
    world.router.end_batch(100)
    assert world.writes() == 65
    world.publish(0)
    world.router.end_batch(100)
    assert world.writes() == 65
    world.soon.turn()
    assert world.writes() == 66


def test_after_much_has_been_read_it_is_written_at_once() -> None:
    world = World()
    for _ in range(4):
        world.publish()
        world.router.end_batch(MIB // 4)
    assert world.writes() == 0
    world.publish()
    world.router.end_batch(1)
    assert world.writes() == 1
    world.publish()
    world.router.end_batch(MIB // 2)
    assert world.writes() == 1


def test_a_receiver_whose_socket_is_full_is_looked_at_at_once() -> None:
    world = World()
    (receiver,) = world.receivers
    receiver.socket.full = True
    world.publish(payload=bytes(CHUNK_BYTES // 2))
    assert (receiver.flushes, receiver.outbound.behind) == (0, False)
    world.publish(payload=bytes(CHUNK_BYTES // 2))
    assert (receiver.flushes, receiver.outbound.behind) == (1, True)


def test_what_a_flush_could_not_write_is_written_in_the_next_turn() -> None:
    world = World(3)
    broken = world.receivers[0].socket

    def fail(data: memoryview) -> None:
        del broken.write  # type: ignore[method-assign]
        raise OSError("broken")

    broken.write = fail  # type: ignore[method-assign]
    for receiver in range(3):
        world.publish(receiver)
    with pytest.raises(OSError, match="broken"):
        world.soon.turn()
    assert world.soon.turn() == 1
    assert [receiver.socket.writes for receiver in world.receivers[1:]] == [1, 1]


def test_what_a_flush_could_not_write_comes_before_what_was_appended_meanwhile() -> None:
    world = World(4)
    order: list[int] = []

    def writes(number: int) -> None:
        socket = world.receivers[number].socket
        write = socket.write

        def noted(data: bytes | memoryview) -> None:
            order.append(number)
            if order == [0]:
                world.publish(3)
                world.publish(0)
                raise OSError("broken")
            write(data)

        socket.write = noted  # type: ignore[method-assign]

    for receiver in range(4):
        writes(receiver)
    for receiver in range(3):
        world.publish(receiver)
    with pytest.raises(OSError, match="broken"):
        world.soon.turn()
    assert world.soon.turn() == 1
    assert order == [0, 1, 2, 3, 0]
    world.publish(2)
    world.publish(1)
    world.soon.turn()
    assert order[5:] == [2, 1]


def test_where_one_socket_at_a_time_is_ready_its_read_ends_with_a_write() -> None:
    world = World()
    world.lone_turns()
    for count in range(5, 13):
        world.read()
        assert (world.writes(), world.soon.due) == (count, [])
    assert world.receivers[0].flushes == world.writes()


def test_what_is_flushed_within_such_a_read_waits_for_its_end() -> None:
    world = World()
    world.lone_turns()
    world.router.begin_batch()
    world.publish()
    assert world.writes() == 4
    world.router.end_batch(100)
    assert world.writes() == 5


def test_outside_of_such_a_read_the_turn_ends_with_a_flush_as_ever() -> None:
    world = World()
    world.lone_turns()
    world.publish()
    assert world.writes() == 4
    assert world.soon.turn() == 1
    assert world.writes() == 5


def test_sockets_without_a_receiver_in_common_are_written_to_at_the_end_of_each_read() -> None:
    world = World(2)
    for count in range(1, 5):
        world.read(0)
        world.read(1)
        assert world.soon.turn() == 1
        assert world.writes() == 2 * count
    for count in range(9, 9 + 16):
        world.read(count % 2)
        assert (world.writes(), world.soon.due) == (count, [])


def test_after_some_reads_it_is_seen_again_whether_receivers_are_shared() -> None:
    world = World()
    world.lone_turns()
    for _ in range(8):
        world.read()
    assert world.writes() == 12
    world.read()
    world.read()
    assert world.writes() == 12
    assert world.soon.turn() == 1
    assert world.writes() == 13
    for _ in range(4):
        world.read()
        assert world.soon.turn() == 1, "two shared a receiver a moment ago"
    world.read()
    assert world.soon.due == []


def test_two_sockets_with_a_receiver_in_common_share_its_writes() -> None:
    world = World(3)
    for _ in range(10):
        world.read(0)
        world.read(1)
        world.read(0)
        assert world.soon.turn() == 1
    assert world.writes() == 20


def test_a_read_that_adds_fewer_receivers_than_the_first_shares_some_with_it() -> None:
    world = World(3)
    for _ in range(10):
        world.router.begin_batch()
        world.publish(0)
        world.publish(1)
        world.router.end_batch(100)
        world.router.begin_batch()
        world.publish(1)
        world.publish(2)
        world.router.end_batch(100)
        assert world.soon.turn() == 1
    assert world.writes() == 30


def test_a_read_without_output_says_nothing_of_receivers() -> None:
    world = World()
    for _ in range(4):
        world.router.begin_batch()
        world.router.end_batch(100)
        world.read()
        assert world.soon.turn() == 1
    world.read()
    assert world.soon.due == []


def test_a_fault_in_a_lone_read_leaves_nothing_unwritten() -> None:
    server = Server()
    _, socket = server.receiver()
    publisher, _ = server.connect()
    for _ in range(4):
        publisher.channel.feed(b"PUB a 1\r\n1\r\n")
        server.soon.turn()
    socket.take()
    server.broker.traces = None  # so that a message that asks for a trace is a fault
    traced = b"HPUB a 31 31\r\nNATS/1.0\r\nNats-Trace-Dest:b\r\n\r\n\r\n"
    with pytest.raises(AttributeError):
        publisher.channel.feed(b"PUB a 1\r\n2\r\n" + traced)
    assert socket.written == b"MSG a 1 1\r\n2\r\n"
    assert server.soon.due == []


class Server:
    """A broker whose connections are read by hand."""

    def __init__(self, **limits: int) -> None:
        self.soon = Soon()
        self.clock = ManualClock()
        self.broker = Broker(Options(limits=Limits(**limits)), self.clock, Random(1), self.soon)

    def connect(self) -> tuple[Connection, Socket]:
        connection = self.broker.make_connection(("127.0.0.1", 1))
        socket = Socket()
        connection.channel.connection_made(socket)
        connection.channel.feed(CONNECT)
        self.soon.turn()
        socket.take()
        return connection, socket

    def receiver(self) -> tuple[Connection, Socket]:
        connection, socket = self.connect()
        connection.channel.feed(b"SUB a 1\r\n")
        return connection, socket


def test_a_thousand_publishers_and_one_receiver_that_reads_nothing() -> None:
    """All are ready in one poll: the output waiting for the receiver is still bounded."""
    limit = 8 * MIB
    server = Server(max_pending_bytes=limit)
    receiver, socket = server.receiver()
    socket.full = True
    publishers = [server.connect() for _ in range(1000)]
    read = b"PUB a 1000\r\n%b\r\n" % bytes(1000) * 16
    rounds = 0
    while receiver.reason is None and rounds < 10:
        rounds += 1
        for publisher, publishing in publishers:
            if publishing.is_reading and receiver.reason is None:
                publisher.channel.feed(read)
                assert receiver.outbound.pending_bytes() <= limit + 2 * len(read)
        server.clock.advance(0)  # the turns of those whose last one was used up
        server.soon.turn()
    assert receiver.reason is ClosedReason.SLOW_CONSUMER_PENDING
    assert socket.aborted
    assert server.broker.stalled_clients > 0
    assert all(publisher.reason is None for publisher, _ in publishers)


def test_what_is_dirty_is_written_when_its_connection_closes() -> None:
    server = Server()
    receiver, socket = server.receiver()
    publisher, _ = server.connect()
    publisher.channel.feed(b"PUB a 1\r\n1\r\nPUB a 1\r\n2\r\n")
    assert socket.written == b""
    receiver.close(ClosedReason.SERVER_SHUTDOWN)
    assert socket.written == b"MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\n"
    server.soon.turn()
    assert socket.writes == 1


def test_what_a_client_sent_before_its_end_is_written() -> None:
    server = Server()
    _, socket = server.receiver()
    publisher, _ = server.connect()
    publisher.channel.feed(b"PUB a 1\r\n1\r\n")
    publisher.channel.eof_received()
    publisher.channel.connection_lost(None)
    server.soon.turn()
    assert socket.written == b"MSG a 1 1\r\n1\r\n"


def test_a_client_that_has_gone_is_no_harm_to_the_flush() -> None:
    server = Server()
    receiver, _ = server.receiver()
    _, other = server.receiver()
    publisher, _ = server.connect()
    publisher.channel.feed(b"PUB a 1\r\n1\r\n")
    receiver.channel.connection_lost(ConnectionResetError())
    server.soon.turn()
    assert other.written == b"MSG a 1 1\r\n1\r\n"
    assert receiver.outbound.pending_bytes() == 0
