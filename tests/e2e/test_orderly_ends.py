"""Input before an orderly close is handled, though the transport is lost at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import pytest
import uvloop

from midge.server.config.options import Tls
from tests.abuse.bystander import without_checks
from tests.e2e.test_reference_cycles import CONNECT, TIMEOUT_S, Client, Serving, certificate

tls = pytest.fixture(scope="module")(certificate)

MESSAGES = 1000
OWN_SUBSCRIPTIONS = 3000
LOOPS = pytest.mark.parametrize(
    "make_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"]
)


class Tlsed:
    """A TLS client over a bare socket, so that records and their end go out in one write."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, TIMEOUT_S)
        info = b""
        while not info.endswith(b"\r\n"):
            info += self._socket.recv(4096)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = without_checks().wrap_bio(self._incoming, self._outgoing)
        self._until(self._tls.do_handshake)

    def _until(self, step: Callable[[], object]) -> object:
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                self.flush()
                self._incoming.write(self._socket.recv(65536))
            else:
                self.flush()
                return done

    def flush(self) -> None:
        self._socket.sendall(self._outgoing.read())

    def read_to(self, wanted: bytes) -> None:
        got = b""
        while wanted not in got:
            piece = self._until(lambda: self._tls.read(65536))
            assert isinstance(piece, bytes)
            got += piece

    def write(self, data: bytes) -> None:
        self._tls.write(data)

    def end(self) -> None:
        """Send close_notify behind all earlier data, and close."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.flush()
        self._socket.close()


@LOOPS
@pytest.mark.parametrize("with_turn", [False, True], ids=["at_once", "with_a_turn_between"])
@pytest.mark.parametrize("size", [1, 400])
def test_all_arrives_that_came_before_close_notify(
    with_turn: bool, size: int, tls: Tls, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    def visit(address: tuple[str, int]) -> list[bytes]:
        receiver = Client("tls", address).open()
        receiver.say(CONNECT + b"SUB gone 1\r\nPING\r\n")
        receiver.until(b"PONG")
        publisher = Tlsed(address)
        own = b"".join(b"SUB gone own%d\r\n" % i for i in range(OWN_SUBSCRIPTIONS))
        publisher.write(CONNECT.replace(b"{", b'{"echo":false,') + own + b"PING\r\n")
        publisher.read_to(b"PONG")
        for number in range(MESSAGES):
            body = (b"%d" % number).ljust(size, b".") if size > 1 else b"."
            publisher.write(b"PUB gone %d\r\n%b\r\n" % (len(body), body))
        if with_turn:
            publisher.flush()
        publisher.end()
        got = b""
        while got.count(b"MSG gone") < MESSAGES and (piece := receiver.socket.recv(65536)):
            got += piece
        receiver.socket.close()
        return [line.rstrip(b".") for line in got.split(b"\r\n")[1::2]]

    async def scene() -> None:
        serving = Serving("tls", tls)
        await serving.server.start()
        broker = serving.server.broker
        own = len(broker.global_account.sublist)
        loop = asyncio.get_running_loop()
        address = ("127.0.0.1", broker.port)
        bodies = await loop.run_in_executor(None, visit, address)
        await serving.emptied()
        assert not broker.finishing
        assert len(broker.global_account.sublist) == own
        await serving.server.stop()
        if size > 1:
            assert bodies[:MESSAGES] == [b"%d" % number for number in range(MESSAGES)]

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scene())


@pytest.mark.parametrize("kind", ["ws", "wss"])
def test_all_arrives_that_came_before_a_close_frame(kind: str, tls: Tls) -> None:
    def visit(address: tuple[str, int]) -> int:
        receiver, publisher = (Client(kind, address).open() for _ in range(2))
        receiver.say(CONNECT + b"SUB gone 1\r\nPING\r\n")
        receiver.until(b"PONG")
        publisher.say(CONNECT.replace(b"{", b'{"echo":false,'))
        for first in range(0, OWN_SUBSCRIPTIONS, 1000):
            publisher.say(b"".join(b"SUB gone %d\r\n" % i for i in range(first, first + 1000)))
        publisher.say(b"PUB gone 1\r\nx\r\n" * MESSAGES)
        publisher.say(b"\x03\xe8", 8)
        publisher.leave()
        got = b""
        while got.count(b"MSG gone") < MESSAGES and (piece := receiver.socket.recv(65536)):
            got += piece
        receiver.socket.close()
        return got.count(b"MSG gone")

    async def scene() -> None:
        serving = Serving(kind, tls)
        await serving.server.start()
        url = serving.server.urls()["websocket"][0]
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, visit, address) == MESSAGES
        await serving.emptied()
        await serving.server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())
