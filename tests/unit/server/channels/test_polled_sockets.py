"""A client that is waited for without sleep within a call of the loop, and everything beside it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine
from random import Random
from statistics import median
from typing import Any

import pytest
import uvloop

from midge.server.broker.broker import Broker
from midge.server.channels.busy_poll import BusyPoll
from midge.server.clients.connection import Connection
from midge.server.clock import LoopClock
from midge.server.config.options import Options
from midge.server.listeners.tcp import Listener
from midge.server.process.tuning import descriptor_of, due_of

Scene = Callable[["Entrance"], Coroutine[Any, Any, None]]

TIMEOUT_S = 60.0
RESET = struct.pack("ii", 1, 0)
TRIALS = 256 + 2 * 64


class Poll(BusyPoll):
    """Counts how often it stays in a call of the loop."""

    stayed = 0

    def stays(self) -> bool:
        does = super().stays()
        self.stayed += does
        return does


class Client:
    """A blocking socket that is through with CONNECT."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ask(b'CONNECT {"verbose":false}\r\nPING\r\n')

    def ask(self, lines: bytes = b"PING\r\n", times: int = 1) -> bytes:
        """Send `lines` so often, each time after the PONG for those before."""
        got = b""
        for _ in range(times):
            self.socket.sendall(lines)
            got = b""
            while b"PONG\r\n" not in got:  # the server's own early PING may follow
                got += self.socket.recv(4096)
        return got


class Entrance:
    """A broker that polls after reads, as soon as they are alone, and its listener."""

    def __init__(self) -> None:
        self.broker = Broker(Options(), LoopClock(), Random(1))
        loop = asyncio.get_running_loop()
        self.poll = Poll(
            loop.call_soon,
            descriptor_of(loop),
            1_000,
            lambda: 0.0,
            self.broker.read_ready,
            due_of(loop),
        )
        self.broker.busy_poll = self.poll
        self.listener = Listener(self.broker)
        self.address = self.listener.open("127.0.0.1", 0)
        self.clients: list[Client] = []
        self.faults: list[BaseException] = []
        loop.set_exception_handler(lambda _loop, what: self.faults.append(what["exception"]))

    async def polled(self) -> tuple[Client, Connection]:
        """Return a client that is being polled."""
        client = await asyncio.to_thread(Client, self.address)
        self.clients.append(client)
        while not self.poll.stayed:  # while others keep the machine busy, trials end in vain
            await asyncio.to_thread(client.ask, times=TRIALS)
        return client, list(self.broker.clients.values())[-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.001)


@pytest.fixture
def run() -> Callable[[Scene], None]:
    async def scene_of(scene: Scene) -> None:
        entrance = Entrance()
        try:
            await scene(entrance)
        finally:
            for client in entrance.clients:
                client.socket.close()
        entrance.listener.close()
        entrance.broker.abort_all()
        await entrance.broker.emptied()
        entrance.broker.close()
        assert entrance.faults == []

    def run(scene: Scene) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(scene_of(scene), TIMEOUT_S))

    return run


def test_one_that_asks_again_is_answered_within_a_call(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        client, connection = await entrance.polled()
        before = entrance.poll.stayed
        while entrance.poll.stayed < before + 500:
            await asyncio.to_thread(client.ask, b"SUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n", 10)
        assert connection.in_messages >= 10

    run(scene)


def test_a_loop_that_can_not_tell_what_is_due_polls_in_its_turn() -> None:
    async def scene() -> None:
        entrance = Entrance()
        client = await asyncio.to_thread(Client, entrance.address)
        await asyncio.to_thread(client.ask, times=3 * TRIALS)
        assert entrance.poll.stayed == 0
        client.socket.close()
        entrance.listener.close()
        await entrance.broker.emptied()
        entrance.broker.close()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(asyncio.wait_for(scene(), TIMEOUT_S))


@pytest.mark.parametrize("last", [b"", b"PUB a 1\r\nx\r\n"], ids=["nothing", "a message"])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_peer_that_leaves_while_it_is_polled(
    run: Callable[[Scene], None], how: str, last: bytes
) -> None:
    def leave(client: Client) -> bytes:
        client.ask(times=100)
        if last:
            client.socket.sendall(last)
        if how == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if how != "half":
            client.socket.close()
            return b""
        client.socket.shutdown(socket.SHUT_WR)
        return client.socket.recv(4096)

    async def scene(entrance: Entrance) -> None:
        client, connection = await entrance.polled()
        assert await asyncio.to_thread(leave, client) == b""
        await entrance.until(lambda: not entrance.broker.clients)
        assert connection.in_messages == (last != b"" and how != "reset") or how == "reset"

    run(scene)


def test_a_pause_and_an_end_from_here_while_it_is_polled(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        client, connection = await entrance.polled()
        for _ in range(20):
            answered = asyncio.ensure_future(asyncio.to_thread(client.ask, times=50))
            while not answered.done():
                connection.channel.reading.hold_back()
                await asyncio.sleep(0.002)
                connection.channel.reading.release()
                await asyncio.sleep(0)
        ended = asyncio.ensure_future(asyncio.to_thread(_ask_until_the_end, client))
        await asyncio.sleep(0.02)
        entrance.broker.abort_all()
        await ended

    run(scene)


def _ask_until_the_end(client: Client) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            client.socket.sendall(b"PING\r\n")
            if not client.socket.recv(4096):
                return


def test_an_error_of_the_protocol_ends_it_while_it_is_polled(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        client, _ = await entrance.polled()

        def break_it() -> bytes:
            client.ask(times=100)
            client.socket.sendall(b"BAD\r\n")
            return client.socket.recv(4096)

        assert (await asyncio.to_thread(break_it)).startswith(b"-ERR 'Unknown Protocol")
        await entrance.until(lambda: not entrance.broker.clients)

    run(scene)


def test_a_large_message_in_pieces_while_it_is_polled(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        client, connection = await entrance.polled()
        payload = bytes(300_000)

        def publish() -> bytes:
            client.ask(b"SUB big 1\r\nPING\r\n")
            for _ in range(20):
                client.ask(times=20)
                client.socket.sendall(b"PUB big 300000\r\n")
                time.sleep(0.001)
                client.socket.sendall(payload + b"\r\n")
                time.sleep(0.001)
                client.ask()
            return client.ask()

        await asyncio.to_thread(publish)
        assert connection.in_messages == 20

    run(scene)


class Asking:
    """A polled client that asks again and again, in a thread, until the block ends."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._is_over.is_set():
            self._client.ask()

    async def __aenter__(self) -> None:
        self._thread.start()

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()
        await asyncio.to_thread(self._thread.join)


def test_others_are_served_as_soon(run: Callable[[Scene], None]) -> None:
    """A crowd that comes, and one that asks now and then."""

    async def scene(entrance: Entrance) -> None:
        client, _ = await entrance.polled()

        def visit() -> float:
            began = time.monotonic()
            other = Client(entrance.address)
            other.ask(times=3)
            other.socket.close()
            return time.monotonic() - began

        alone = [await asyncio.to_thread(visit) for _ in range(40)]
        async with Asking(client):
            beside = [await asyncio.to_thread(visit) for _ in range(40)]
        assert median(beside) < 0.05 + 4 * median(alone)
        await entrance.until(lambda: len(entrance.broker.clients) == 1)

    run(scene)


def test_timers_keep_time(run: Callable[[Scene], None]) -> None:
    async def scene(entrance: Entrance) -> None:
        client, _ = await entrance.polled()
        loop = asyncio.get_running_loop()
        late: list[float] = []
        async with Asking(client):
            for _ in range(60):
                at = time.monotonic() + 0.005
                await asyncio.sleep(0.005)
                late.append(time.monotonic() - at)
        soon: list[float] = []
        async with Asking(client):
            for _ in range(60):
                began = time.monotonic()
                called = loop.create_future()
                loop.call_soon(called.set_result, None)
                await called
                soon.append(time.monotonic() - began)
        assert median(late) < 0.01
        assert median(soon) < 0.01

    run(scene)
