"""The way in without TLS: all at once, which nothing cuts short, on either event loop."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
import uvloop

from midge.server.broker.broker import Broker
from midge.server.clients.connection import Connection
from midge.server.clock import LoopClock
from midge.server.config.options import Options
from midge.server.listeners.tcp import Listener
from tests.support.raw import Raw

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

TIMEOUT_S = 60.0


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine function on a loop of each kind."""

    def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(scene(), TIMEOUT_S))

    return run


class Entrance:
    """A broker and its listener on a free port; `url` leads there."""

    def __init__(self) -> None:
        self.broker = Broker(Options(), LoopClock(), Random(1))
        self.listener = Listener(self.broker)
        self.address = self.listener.open("127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self.address[1]}"

    def when_one_is_made(self, action: Callable[[], None]) -> None:
        """Do `action` as soon as a connection has been accepted and before it has a transport."""
        make = self.broker.make_connection

        def make_and_act(*arguments: Any) -> Any:
            asyncio.get_running_loop().call_soon(action)
            return make(*arguments)

        self.broker.make_connection = make_and_act  # type: ignore[method-assign]

    async def serve_one_and_close(self) -> None:
        """Connect and disconnect a single client; then end."""
        client = await Raw.open(self.url)
        await client.connect()
        assert len(self.broker.clients) == 1
        await client.close()
        await self.broker.emptied()
        await self.close()

    async def close(self) -> None:
        """End all there is, and see the last transport go."""
        self.listener.close()
        self.broker.abort_all()
        await self.broker.emptied()
        self.broker.close()


def test_who_was_accepted_as_the_listener_closed_is_served(run: Run) -> None:
    async def scene() -> None:
        entrance = Entrance()
        entrance.when_one_is_made(entrance.listener.close)
        await entrance.serve_one_and_close()

    run(scene)


def test_who_was_gone_before_info_leaves_nothing_behind(run: Run) -> None:
    async def scene() -> None:
        entrance = Entrance()
        hasty = socket.create_connection(entrance.address)
        hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        hasty.close()  # with a reset
        await entrance.serve_one_and_close()

    run(scene)


def test_info_waits_for_the_timers_and_not_for_the_transport(run: Run) -> None:
    async def scene() -> None:
        entrance = Entrance()
        accepted: list[tuple[socket.socket, Connection]] = []
        entrance.listener._hand_over = (  # type: ignore[method-assign]
            lambda sock, connection, _context: accepted.append((sock, connection))
        )
        reader, writer = await asyncio.open_connection(*entrance.address)
        assert (await reader.readline()).startswith(b"INFO ")
        ((sock, connection),) = accepted
        assert connection.channel.keepalive.has_started
        connection.channel.send_ping()
        assert await reader.readline() == b"PING\r\n"
        connection.channel.end_stale()
        assert await reader.read() == b"-ERR 'Stale Connection'\r\n"
        sock.close()
        writer.close()
        await entrance.close()

    run(scene)


def test_small_answers_are_not_held_back(run: Run) -> None:
    async def scene() -> None:
        entrance = Entrance()
        client = await Raw.open(entrance.url)
        await client.connect()
        (connection,) = entrance.broker.clients.values()
        transport = connection.channel._transport  # only its socket shows it
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await client.close()
        await entrance.close()

    run(scene)


def test_a_connection_in_plain_text_costs_no_task(run: Run) -> None:
    async def scene() -> None:
        entrance = Entrance()
        loop = asyncio.get_running_loop()
        begun: list[str] = []

        def note(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
            begun.append(work.__qualname__)
            return asyncio.Task(work, loop=loop, **options)

        with socket.create_connection(entrance.address) as sock:
            loop.set_task_factory(note)
            readable = asyncio.Event()
            loop.add_reader(sock, readable.set)
            await readable.wait()
            loop.remove_reader(sock)
            assert sock.recv(5) == b"INFO "
            assert begun == []
        loop.set_task_factory(None)
        await entrance.close()

    run(scene)
