"""Bytes that come and go over a plain socket, on either event loop, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
import uvloop

from midge.server.broker.broker import Broker
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.clock import LoopClock
from midge.server.config.options import Options
from midge.server.listeners.tcp import Listener

Scene = Callable[["Entrance"], Coroutine[Any, Any, None]]

TIMEOUT_S = 60.0
RESET = struct.pack("ii", 1, 0)
CONNECT = b'CONNECT {"verbose":false}\r\n'
CROWD = 400
MOST_IN_A_TURN = 256
"""Sockets that are read in one call from the loop."""

BLOCK = b"x" * 60_000
BLOCKS = 200
"""Together more than what the buffers of a loopback connection take."""


class Entrance:
    """A broker, its listener on a free port, and the faults reported to the loop."""

    def __init__(self) -> None:
        self.broker = Broker(Options(), LoopClock(), Random(1))
        self.listener = Listener(self.broker)
        self.address = self.listener.open("127.0.0.1", 0)
        self.faults: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: self.faults.append(context["exception"])
        )

    async def client(self, *, receive_bytes: int = 0) -> tuple[socket.socket, Connection]:
        """Return a blocking socket that is through with CONNECT, and the server's side of it."""
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.settimeout(TIMEOUT_S)
        sock.connect(self.address)
        sock.sendall(CONNECT + b"PING\r\n")
        loop = asyncio.get_running_loop()
        got = b""
        while b"PONG\r\n" not in got:
            got += await loop.run_in_executor(None, sock.recv, 4096)
        return sock, list(self.broker.clients.values())[-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.001)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Scene], None]:
    """Run a coroutine function on a loop of each kind, with an entrance that is closed after it."""

    async def scene_of(scene: Scene) -> None:
        entrance = Entrance()
        await scene(entrance)
        entrance.listener.close()
        entrance.broker.abort_all()
        await entrance.broker.emptied()
        entrance.broker.close()

    def run(scene: Scene) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(scene_of(scene), TIMEOUT_S))

    return run


def test_a_reset_behind_the_last_bytes_is_noticed_at_once(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        sock, connection = await entrance.client()
        sock.sendall(b"PUB a 1\r\nx\r\n")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        sock.close()
        time.sleep(0.05)  # noqa: ASYNC251 - the loop is to find both at once
        await entrance.until(lambda: connection.reason is not None)
        assert connection.in_messages in {0, 1}  # a reset may lose earlier input
        await entrance.broker.emptied()
        assert entrance.faults == []

    run(scene)


async def reset_a_crowd(entrance: Entrance) -> None:
    """Reset many clients at once, and check that they end turn by turn."""
    clients = [await entrance.client() for _ in range(CROWD)]
    loop = asyncio.get_running_loop()
    ended = [0]

    def turn() -> None:
        ended.append(sum(connection.reason is not None for _, connection in clients))
        if ended[-1] < CROWD:
            loop.call_soon(turn)

    for sock, _ in clients:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        sock.close()
    loop.call_soon(turn)
    await entrance.until(lambda: ended[-1] == CROWD)
    assert max(b - a for a, b in itertools.pairwise(ended)) <= MOST_IN_A_TURN
    assert all(connection.reason is ClosedReason.READ_ERROR for _, connection in clients)
    await entrance.broker.emptied()


def test_a_crowd_that_is_reset_at_once_ends_in_turns(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        for _ in range(2):  # the second crowd gets the descriptors of the first
            await reset_a_crowd(entrance)
        assert entrance.faults == []

    run(scene)


def test_what_a_slow_reader_did_not_take_follows_in_order(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        sock, connection = await entrance.client(receive_bytes=4096)
        connection.channel.keepalive.stop()  # a PING may stand between any two
        line = b"-%07d" % 0
        for number in range(BLOCKS):
            connection.send(b"%08d" % number + BLOCK)
        assert connection.outbound.behind
        loop = asyncio.get_running_loop()
        total = BLOCKS * (len(line) + len(BLOCK))
        got = bytearray()
        while len(got) < total:
            got += await loop.run_in_executor(None, sock.recv, 1 << 20)
        assert got == b"".join(b"%08d" % number + BLOCK for number in range(BLOCKS))
        await entrance.until(lambda: not connection.outbound.behind)
        sock.close()

    run(scene)


def test_nothing_is_read_while_reading_is_paused(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        sock, connection = await entrance.client()
        transport = connection.channel._transport
        transport.pause_reading()
        sock.sendall(b"PUB a 1\r\nx\r\n")
        await asyncio.sleep(0.02)
        assert connection.in_messages == 0
        transport.resume_reading()
        await entrance.until(lambda: connection.in_messages == 1)
        sock.close()

    run(scene)


def test_a_pause_that_ends_before_something_comes_changes_nothing(
    run: Callable[[Scene], None],
) -> None:
    async def scene(entrance: Entrance) -> None:
        sock, connection = await entrance.client()
        transport = connection.channel._transport
        transport.pause_reading()
        transport.resume_reading()
        sock.sendall(b"PUB a 1\r\nx\r\n")
        await entrance.until(lambda: connection.in_messages == 1)
        sock.close()

    run(scene)


@pytest.mark.parametrize("is_paused", [False, True])
def test_the_end_that_comes_with_the_last_bytes_is_noticed(
    run: Callable[[Scene], None], is_paused: bool
) -> None:
    async def scene(entrance: Entrance) -> None:
        sock, connection = await entrance.client()
        transport = connection.channel._transport
        if is_paused:
            transport.pause_reading()
        sock.sendall(b"PUB a 1\r\nx\r\n")
        sock.close()
        if is_paused:
            await asyncio.sleep(0.02)
            assert connection.in_messages == 0
            transport.resume_reading()
        await entrance.until(lambda: connection.reason is not None)
        assert connection.in_messages == 1
        assert connection.reason is ClosedReason.CLIENT_CLOSED

    run(scene)


def test_what_is_left_when_others_have_their_turn_is_read_after_it(
    run: Callable[[Scene], None],
) -> None:
    async def scene(entrance: Entrance) -> None:
        sock, connection = await entrance.client()
        line = b"PUB a 60000\r\n%b\r\n" % BLOCK
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, sock.sendall, line * BLOCKS)
        await entrance.until(lambda: connection.in_messages == BLOCKS)
        sock.close()

    run(scene)


def test_who_has_closed_its_side_still_gets_its_answers(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        sock, _connection = await entrance.client()
        sock.sendall(b"SUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n")
        sock.shutdown(socket.SHUT_WR)
        loop = asyncio.get_running_loop()
        got = b""
        while piece := await loop.run_in_executor(None, sock.recv, 4096):
            got += piece
        assert got == b"MSG a 1 1\r\nx\r\nPONG\r\n"
        sock.close()

    run(scene)


def test_a_fault_while_reading_ends_the_connection_and_is_told(
    run: Callable[[Scene], None],
) -> None:
    async def scene(entrance: Entrance) -> None:
        fault = ValueError("of the server itself")

        def fail(*_arguments: object) -> None:
            raise fault

        sock, connection = await entrance.client()
        entrance.broker.protocol_error = fail  # type: ignore[method-assign]
        sock.sendall(b"NONSENSE\r\n")
        await entrance.broker.emptied()
        assert entrance.faults == [fault]
        assert connection.reason is ClosedReason.READ_ERROR
        sock.close()

    run(scene)


def test_a_close_waits_until_all_is_written_and_an_abort_does_not(
    run: Callable[[Scene], None],
) -> None:
    async def scene(entrance: Entrance) -> None:
        loop = asyncio.get_running_loop()
        for is_orderly in (True, False):
            sock, connection = await entrance.client(receive_bytes=4096)
            for _ in range(BLOCKS):
                connection.send(BLOCK)
            transport = connection.channel._transport
            if is_orderly:
                connection.close(ClosedReason.CLIENT_CLOSED)
            else:
                connection.channel.abort()
            assert transport.is_closing()
            size = 0
            try:
                while piece := await loop.run_in_executor(None, sock.recv, 1 << 20):
                    size += len(piece)
            except ConnectionResetError:
                assert not is_orderly
            assert (size == BLOCKS * len(BLOCK)) == is_orderly
            sock.close()

    run(scene)
