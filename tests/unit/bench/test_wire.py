"""What a raw client socket reads: all up to a PONG, wherever a read ends."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench import frames, wire

MESSAGES = frames.msg(b"load", b"1", b"x" * 16) * 3
STREAM = MESSAGES + wire.PONG
TIMEOUT_S = 60.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return a client and a server of which each send is one read of the other."""
    client, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(TIMEOUT_S)
    with closing(client), closing(server):
        yield client, server


def drained(pair: tuple[socket.socket, socket.socket], *reads: bytes) -> tuple[int, bytes]:
    """Return what `drain` counts when these `reads` come, and what it leaves."""
    client, server = pair
    for data in (*reads, b"the rest"):
        server.send(data)
    count = wire.drain(client)
    return count, client.recv(100)


@pytest.mark.parametrize("cut", range(1, len(STREAM)))
def test_drain_counts_what_comes_before_the_pong(
    pair: tuple[socket.socket, socket.socket], cut: int
) -> None:
    assert drained(pair, STREAM[:cut], STREAM[cut:]) == (len(MESSAGES), b"the rest")


@pytest.mark.parametrize("cut", range(len(STREAM), len(STREAM) + len(wire.PING) + 1))
def test_a_ping_of_the_server_right_behind_the_pong_does_not_hide_it(
    pair: tuple[socket.socket, socket.socket], cut: int
) -> None:
    both = STREAM + wire.PING
    reads = [data for data in (both[:cut], both[cut:]) if data]
    count, rest = drained(pair, *reads)
    assert count == len(MESSAGES)
    # A PING that comes later is left, whole, for the next read.
    assert rest == (wire.PING if cut == len(STREAM) else b"the rest")


def test_a_ping_of_the_server_before_the_pong_counts(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    assert drained(pair, wire.PING + wire.PONG) == (len(wire.PING), b"the rest")


def test_drain_tells_that_the_server_has_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    server.send(MESSAGES)
    server.shutdown(socket.SHUT_WR)
    with pytest.raises(wire.WireError, match="closed the connection"):
        wire.drain(client)
