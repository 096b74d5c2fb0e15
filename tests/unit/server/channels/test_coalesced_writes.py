"""Sockets that are ready in one poll of the loop: what they bring a receiver is written at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from midge.server.config.options import Listen, Options, Tls
from midge.server.server import Server
from tests.support.keys import Authority, pem

PUBLISHERS = 40
CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'


class Counting:
    """A transport that counts the writes to the inner one."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.writes = 0

    def write(self, data: bytes | memoryview) -> None:
        self.writes += 1
        self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        size: int = self._transport.get_write_buffer_size()
        return size


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine on either loop."""

    def run(scenario: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(scenario, 30))

    return run


@pytest.fixture(params=["tcp", "tls"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Options:
    if request.param == "tcp":
        return Options(listen=Listen(port=-1))
    certificate, key = Authority().issue("CN=localhost")
    (tmp_path / "cert").write_bytes(pem(certificate))
    (tmp_path / "key").write_bytes(key)
    tls = Tls(cert_file=str(tmp_path / "cert"), key_file=str(tmp_path / "key"), allow_non_tls=True)
    return Options(listen=Listen(port=-1), tls=tls)


@contextlib.asynccontextmanager
async def server_with_receiver(
    options: Options,
) -> AsyncIterator[tuple[Server, asyncio.StreamReader]]:
    """Start a server and subscribe to "a", over TLS if the server has it.

    Both end whatever happens: where warnings are errors, uvloop never closes with a transport open.
    """
    server = Server(options)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.broker.port)
        try:
            await reader.readline()
            if server.options.tls.enabled:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                await writer.start_tls(context)
            writer.write(CONNECT + b"SUB a 1\r\nPING\r\n")
            await reader.readuntil(b"PONG\r\n")
            yield server, reader
        finally:
            writer.close()
    finally:
        await server.stop()


async def publisher(server: Server) -> socket.socket:
    loop = asyncio.get_running_loop()
    client = socket.create_connection(("127.0.0.1", server.broker.port))
    client.setblocking(False)
    client.send(CONNECT + b"PING\r\n")
    answer = b""
    while b"PONG\r\n" not in answer:
        answer += await loop.sock_recv(client, 65536)
    return client


def test_one_write_for_all_that_was_ready(
    run: Callable[[Coroutine[Any, Any, None]], None], options: Options
) -> None:
    async def scenario() -> None:
        async with server_with_receiver(options) as (server, reader):
            (connection,) = server.connections()
            with contextlib.ExitStack() as stack:
                publishers = [
                    stack.enter_context(await publisher(server)) for _ in range(PUBLISHERS)
                ]
                counting = Counting(connection.channel._transport)
                connection.outbound.attach(counting)
                batches = server.broker.router.batches
                for client in publishers:
                    client.send(b"PUB a 1\r\nx\r\n" * 2)
                for _ in range(2 * PUBLISHERS):
                    assert await reader.readline() == b"MSG a 1 1\r\n"
                    assert await reader.readline() == b"x\r\n"
                assert counting.writes <= 3, "one, or a few if the poll saw not all"
                assert server.broker.router.batches >= batches + PUBLISHERS, "each read counts"

    run(scenario())


def test_what_is_dirty_is_written_when_the_server_stops(
    run: Callable[[Coroutine[Any, Any, None]], None], options: Options
) -> None:
    async def scenario() -> None:
        async with server_with_receiver(options) as (server, reader):
            account = server.broker.global_account
            assert server.broker.internal.publish(account, b"a", b"last") == 1
            await server.stop()
            assert await reader.readline() == b"MSG a 1 4\r\n"
            assert await reader.readline() == b"last\r\n"
            assert await reader.read() == b""

    run(scenario())
