"""Readers are called once for each arrival of input."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from midge.protocol.frame import compose
from midge.server.channels.ready_sockets import Readable, ReadySockets
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from tests.support.transports import Transport

Scene = Callable[["World"], Coroutine[Any, Any, None]]


class Reader(Readable):
    """One end of a connection, which records its calls and reads nothing by itself."""

    def __init__(self, world: World) -> None:
        self.socket, self.peer = socket.socketpair()
        self.socket.setblocking(False)
        self.told: list[bool] = []
        self.then: Callable[[], None] = bool
        world.sockets.watch(self.socket.fileno(), self)

    def on_readable(self, is_ending: bool) -> None:
        self.told.append(is_ending)
        self.then()

    def close(self) -> None:
        self.socket.close()
        self.peer.close()


class World:
    """The ready sockets of the running loop."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.router = Router(soon=self.soon.append)
        self.sockets = ReadySockets(asyncio.get_running_loop(), self.router)
        self.readers: list[Reader] = []

    def reader(self) -> Reader:
        self.readers.append(Reader(self))
        return self.readers[-1]

    async def turns(self) -> None:
        await asyncio.sleep(0.005)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Scene], None]:
    async def scene_of(scene: Scene) -> None:
        world = World()
        try:
            await scene(world)
        finally:
            world.sockets.close()
            for reader in world.readers:
                reader.close()

    def run(scene: Scene) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(scene_of(scene), 10))

    return run


def test_what_comes_is_told_once(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        reader = world.reader()
        await world.turns()
        assert reader.told == []
        reader.peer.send(b"x")
        await world.turns()
        assert reader.told == [False]
        reader.peer.send(b"y")
        await world.turns()
        assert reader.told == [False, False]

    run(scene)


def test_what_is_there_already_is_told(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        reader = world.reader()
        world.sockets.forget(reader.socket.fileno())
        reader.peer.send(b"x")
        await world.turns()
        assert reader.told == []
        world.sockets.watch(reader.socket.fileno(), reader)
        await world.turns()
        assert reader.told == [False]

    run(scene)


def test_who_has_left_something_asks_to_be_told_again(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        reader = world.reader()
        reader.peer.send(b"x")
        await world.turns()
        world.sockets.look_again(reader.socket.fileno())
        await world.turns()
        assert reader.told == [False, False]
        reader.socket.recv(1)
        world.sockets.look_again(reader.socket.fileno())
        await world.turns()
        assert reader.told == [False, False]

    run(scene)


def test_the_end_is_told_with_what_came_before_it(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        reader = world.reader()
        reader.peer.send(b"x")
        reader.peer.shutdown(socket.SHUT_WR)
        await world.turns()
        assert reader.told == [True]
        world.sockets.look_again(reader.socket.fileno())
        await world.turns()
        assert reader.told == [True, True]

    run(scene)


def test_who_is_forgotten_meanwhile_is_not_told(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        first, second = world.reader(), world.reader()
        first.then = lambda: world.sockets.forget(second.socket.fileno())
        second.then = lambda: world.sockets.forget(first.socket.fileno())
        first.peer.send(b"x")
        second.peer.send(b"x")
        await world.turns()
        assert len(first.told) + len(second.told) == 1

    run(scene)


def test_what_all_have_caused_is_written_once_at_the_end(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        account = Account("A")
        receiver = Client(1, account, ChunkPool())
        transport = Transport()
        receiver.outbound.attach(transport)
        account.add(RoutedSubscription(b"a", None, b"1", receiver))
        written: list[bytes] = []

        def publish() -> None:
            result = account.sublist.match(b"a")
            world.router.route(account, result, None, compose(b"a", b"x"))
            written.append(bytes(transport.written))

        readers = [world.reader() for _ in range(3)]
        for reader in readers:
            reader.then = publish
            reader.peer.send(b"x")
        await world.turns()
        assert written == [b""] * 3
        assert transport.written == b"MSG a 1 1\r\nx\r\n" * 3
        assert world.soon == []

    run(scene)


def test_more_than_one_call_tells_are_told_in_the_next(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        readers = [world.reader() for _ in range(300)]
        for reader in readers:
            reader.peer.send(b"x")
        for _ in range(100):  # on a busy machine some sockets are ready in a later turn
            await world.turns()
            if all(reader.told for reader in readers):
                break
        assert all(reader.told == [False] for reader in readers)

    run(scene)


def test_a_reader_may_close_it(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        readers = [world.reader() for _ in range(3)]
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, what: faults.append(what))

        def close() -> None:
            world.sockets.close()
            for reader in readers:
                world.sockets.forget(reader.socket.fileno())

        for reader in readers:
            reader.then = close
            reader.peer.send(b"x")
        await world.turns()
        assert [len(reader.told) for reader in readers].count(1) == 1
        assert faults == []

    run(scene)


def test_once_it_is_closed_nobody_is_told(run: Callable[[Scene], None]) -> None:
    async def scene(world: World) -> None:
        reader = world.reader()
        world.sockets.close()
        reader.peer.send(b"x")
        await world.turns()
        world.sockets.forget(reader.socket.fileno())
        assert reader.told == []

    run(scene)
