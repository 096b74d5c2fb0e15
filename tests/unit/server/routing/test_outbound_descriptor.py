"""Outbound that writes to a plain socket itself: order, full sockets, broken ones, and the end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from random import Random

import pytest

from midge.protocol.frame import compose
from midge.protocol.link import BLOCK_VERB
from midge.server.broker.broker import Broker
from midge.server.config.options import Options
from midge.server.peers.outbound import LinkOutbound
from midge.server.routing.outbound import CHUNK_BYTES, ChunkPool, Outbound
from midge.testing import ManualClock
from tests.support.transports import Transport


class Keeping:
    """A transport that keeps what it is given, until it is drained into the socket."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.writes = 0

    def write(self, data: bytes | memoryview) -> None:
        self.writes += 1
        self.kept += data

    def get_write_buffer_size(self) -> int:
        return len(self.kept)


class World:
    """An Outbound on one end of a pair of sockets."""

    def __init__(self, kind: type[Outbound] = Outbound) -> None:
        self.near, self.far = socket.socketpair()
        for end in (self.near, self.far):
            end.setblocking(False)
        self.transport = Keeping()
        self.outbound = kind(ChunkPool())
        self.outbound.attach(self.transport, self.near.fileno())

    def arrived(self) -> bytes:
        """Return the input of the other end."""
        data = b""
        while True:
            try:
                piece = self.far.recv(1 << 20)
            except BlockingIOError:
                return data
            if not piece:
                return data
            data += piece

    def close(self) -> None:
        self.near.close()
        self.far.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_what_the_socket_takes_does_not_go_through_the_transport(world: World) -> None:
    for i in range(3):
        world.outbound.append(b"%d," % i)
        world.outbound.flush()
    assert world.arrived() == b"0,1,2,"
    assert (world.transport.writes, world.outbound.pending_bytes()) == (0, 0)


def test_the_head_of_a_block_is_filled_in_before_the_socket_gets_it() -> None:
    world = World(LinkOutbound)
    assert isinstance(world.outbound, LinkOutbound)
    world.outbound.append_in_block(compose(b"a", b"xy"), 7, b"1")
    world.outbound.flush()
    arrived = world.arrived()
    world.close()
    line = b"MSG a 1 2\r\nxy\r\n"
    numbers = (7, 1, len(line), 2)
    assert arrived == BLOCK_VERB + b"".join(n.to_bytes(4, "little") for n in numbers) + line


def test_a_full_chunk_is_filled_again(world: World) -> None:
    piece = b"0123456789" * (CHUNK_BYTES // 20)
    for _ in range(3):
        world.outbound.append(piece)
    world.outbound.flush()
    assert world.arrived() == piece * 3
    assert world.transport.writes == 0


def test_what_a_full_socket_leaves_goes_through_the_transport_in_order(world: World) -> None:
    sent = arrived = b""
    number = 0
    while not world.outbound.behind:
        piece = b"%08d" % number * 1000
        sent += piece
        number += 1
        world.outbound.append(piece)
        world.outbound.flush()
    assert world.transport.writes == 1
    for _ in range(100):  # while it is behind, all of this waits
        piece = b"%08d" % number * 1000
        sent += piece
        number += 1
        world.outbound.append(piece)
        world.outbound.flush()
    assert world.transport.writes == 1
    assert world.outbound.pending_bytes() >= 100 * 8000
    while world.outbound.behind:
        arrived += world.arrived()
        count = world.near.send(world.transport.kept)
        del world.transport.kept[:count]
        if not world.transport.kept:
            world.outbound.caught_up()
    arrived += world.arrived()
    writes = world.transport.writes
    world.outbound.append(b"end")
    world.outbound.flush()
    assert arrived + world.arrived() == sent + b"end"
    assert world.transport.writes == writes, "it has caught up"


def test_a_broken_socket_is_left_to_the_transport(world: World) -> None:
    world.far.close()
    world.outbound.append(b"lost")
    world.outbound.flush()
    assert bytes(world.transport.kept) == b"lost"


def test_after_the_end_nothing_is_written_to_what_has_the_number_next(world: World) -> None:
    world.outbound.append(b"last words")
    world.outbound.finish()
    assert bytes(world.transport.kept) == b"last words"
    world.outbound.append(b"too late")
    world.outbound.flush()
    assert world.arrived() == b""


def test_another_transport_gets_all_by_itself(world: World) -> None:
    other = Keeping()
    world.outbound.attach(other)
    world.outbound.append(b"other")
    world.outbound.flush()
    assert (bytes(other.kept), world.arrived()) == (b"other", b"")


def test_a_connection_writes_to_the_socket_that_it_was_greeted_on(world: World) -> None:
    broker = Broker(Options(), ManualClock(), Random(1))
    connection = broker.make_connection(("127.0.0.1", 1))
    connection.channel.greet(world.near, b"INFO {}\r\n")
    transport = Transport()
    connection.channel.connection_made(transport)
    connection.channel.feed(b'CONNECT {"verbose":false}\r\nPING\r\n')
    assert world.arrived() == b"INFO {}\r\nPONG\r\n"
    assert transport.take() == b""
    connection.channel.connection_lost(None)
    assert world.arrived() == b""
