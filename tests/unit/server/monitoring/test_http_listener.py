"""Monitoring's HTTP connections: how many there may be, and how idle and slow."""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from msgspec import structs

from midge.server.broker.broker import Broker
from midge.server.clock import LoopClock
from midge.server.config.options import Listen, Monitoring, Options, Tls
from midge.server.listeners.sockets import listen
from midge.server.monitoring import http_listener
from midge.server.monitoring.http import Monitor
from midge.server.monitoring.http_listener import OUTSIDE_PER_CONNECTION
from midge.server.monitoring.state import State
from midge.server.server import Server
from tests.support.keys import Authority, pem

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
HUGE = b"x" * (8 << 20)
LARGE = b"x" * (160 << 10)  # more than the system takes at once, and less than a transport holds

Serve = Callable[..., Awaitable["Running"]]


class Running:
    """Monitoring alone, and sockets to it."""

    def __init__(self, url: str, monitor: Monitor | None = None) -> None:
        self.url = url
        self._monitor = monitor
        self.go_on = asyncio.Event()
        self._host, _, self._port = url.split("//")[1].partition(":")
        self.writers: list[asyncio.StreamWriter] = []

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        self.writers.append(writer)
        return reader, writer

    async def dial_small(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect with buffers that take little, to read no more than is asked for."""
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, (self._host, int(self._port)))
        reader, writer = await asyncio.open_connection(sock=small, limit=4096)
        self.writers.append(writer)
        return reader, writer

    @property
    def connections(self) -> list[http_listener.HttpConnection]:
        assert self._monitor is not None
        assert self._monitor._listener is not None
        return list(self._monitor._listener._open)

    @property
    def limit_hits(self) -> Counter[str]:
        assert self._monitor is not None
        return self._monitor.state.broker.limit_hits

    async def wait(self, _request: web.Request) -> web.Response:
        """Be a page that is made once `go_on` is set."""
        await self.go_on.wait()
        return web.Response()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start monitoring that serves two more pages, `/huge` and `/wait`."""
    stack = contextlib.AsyncExitStack()

    async def start(**settings: Any) -> Running:
        options = Options(monitoring=Monitoring(http_port=-1, **settings))
        monitor = Monitor(State(Broker(options, LoopClock(), Random(0))))
        bound, (host, port) = listen("127.0.0.1", 0, 128)
        running = Running(f"http://{host}:{port}", monitor)
        monitor.add_page("/huge", huge)
        monitor.add_page("/large", large)
        monitor.add_page("/wait", running.wait)
        await monitor.start(bound)
        stack.push_async_callback(monitor.stop)
        stack.callback(lambda: [writer.close() for writer in running.writers])
        return running

    async with stack:
        yield start


async def huge(_request: web.Request) -> web.Response:
    return web.Response(body=HUGE)


async def large(_request: web.Request) -> web.Response:
    return web.Response(body=LARGE)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Read until the server has closed; return the input."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            got += piece
    return got


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Ask for a page over a connection that stays."""
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return await reader.readexactly(size)


async def test_a_silent_connection_is_ended(serve: Serve) -> None:
    running = await serve(idle_timeout_s=0.05)
    reader, _ = await running.dial()
    assert await ended(reader) == b""


async def test_half_a_request_gets_no_more_time(serve: Serve) -> None:
    running = await serve(idle_timeout_s=0.2)
    reader, writer = await running.dial()

    async def trickle() -> None:
        writer.write(b"GET /varz HTTP/1.1\r\n")
        while True:
            writer.write(b"X: y\r\n")
            await asyncio.sleep(0.02)

    trickling = asyncio.ensure_future(trickle())
    assert await ended(reader) == b""
    trickling.cancel()


async def test_each_answer_gives_time_for_another_request(serve: Serve) -> None:
    running = await serve(idle_timeout_s=0.6)
    reader, writer = await running.dial()
    for _ in range(4):
        assert await asked(reader, writer) == b'{"status":"ok"}'
        await asyncio.sleep(0.2)
    assert await ended(reader) == b""


async def test_the_longest_idle_make_room_for_who_asks(serve: Serve) -> None:
    running = await serve(max_connections=10)
    used = [await running.dial() for _ in range(10)]
    for one in used:
        assert await asked(*one) == b'{"status":"ok"}'
    assert await asked(*used[0]) == b'{"status":"ok"}'  # which makes it the least idle
    assert await asked(*await running.dial()) == b'{"status":"ok"}'
    assert await ended(used[1][0]) == b""
    assert await asked(*used[0]) == b'{"status":"ok"}'
    assert len(running.connections) == 10
    assert running.limit_hits["monitoring_connections"] == 1


async def test_of_those_without_a_request_the_oldest_make_room(serve: Serve) -> None:
    running = await serve(max_connections=10)
    used = await running.dial()
    assert await asked(*used) == b'{"status":"ok"}'
    idle = [await running.dial() for _ in range(1000)]
    assert await asked(*await running.dial()) == b'{"status":"ok"}'
    for reader, _ in idle[: 1000 - 10 * OUTSIDE_PER_CONNECTION - 10]:
        assert await ended(reader) == b""
    assert await asked(*used) == b'{"status":"ok"}', "they take the place of nobody who has asked"
    assert running.limit_hits["monitoring_connections"] >= 900


async def test_half_requests_delay_no_whole_one(serve: Serve) -> None:
    running = await serve()

    async def whole_s() -> float:
        began = asyncio.get_running_loop().time()
        assert await asked(*await running.dial()) == b'{"status":"ok"}'
        return asyncio.get_running_loop().time() - began

    alone_s = await whole_s()
    for _ in range(400):
        _, writer = await running.dial()
        writer.write(REQUEST[:-2])
    assert await whole_s() < 0.1 + 10 * alone_s


async def test_a_request_that_comes_in_parts_is_answered(serve: Serve) -> None:
    running = await serve(max_connections=2)
    reader, writer = await running.dial()
    for byte in REQUEST:
        writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert await reader.readuntil(b'"ok"}')
    reader, writer = await running.dial()
    writer.write(REQUEST * 3)
    for _ in range(3):
        assert await reader.readuntil(b'"ok"}')


async def test_when_nobody_is_idle_others_wait(serve: Serve) -> None:
    running = await serve(max_connections=2)
    for _ in range(2):
        _, writer = await running.dial()
        writer.write(REQUEST.replace(b"/healthz", b"/wait"))
    while [one.is_idle for one in running.connections] != [False, False]:
        await asyncio.sleep(0.001)
    others = [await running.dial() for _ in range(8)]
    for _, writer in others:
        writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    while running.limit_hits["monitoring_connections"] < 3:
        await asyncio.sleep(0.001)
    assert len(running.connections) == 2
    running.go_on.set()
    for reader, _ in others:
        assert (await ended(reader)).endswith(b'{"status":"ok"}')


async def test_who_still_reads_does_not_make_room(serve: Serve) -> None:
    running = await serve(max_connections=1)
    reader, writer = await running.dial_small()
    writer.write(REQUEST.replace(b"/healthz", b"/large"))
    while not any(one.is_idle and one.unread_bytes for one in running.connections):
        await asyncio.sleep(0.001)
    another = await running.dial()
    another[1].write(REQUEST)
    while not running.limit_hits["monitoring_connections"]:
        await asyncio.sleep(0.001)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert await reader.readexactly(len(LARGE)) == LARGE
    assert await another[0].readuntil(b"}")


@pytest.mark.parametrize("pace_bytes", [0, 1])
async def test_a_client_that_hardly_reads_is_cut_off(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, pace_bytes: int
) -> None:
    monkeypatch.setattr(http_listener, "CHECK_EVERY_S", 0.1)
    monkeypatch.setattr(http_listener, "SLOWEST_BYTES_PER_S", 100 << 20)
    running = await serve()
    reader, writer = await running.dial_small()
    writer.write(REQUEST.replace(b"/healthz", b"/huge"))
    got = await reader.read(1)
    while running.connections:
        got += await reader.read(pace_bytes)
        await asyncio.sleep(0.005)
    assert len(got + await ended(reader)) < len(HUGE)


async def test_a_client_that_reads_steadily_gets_a_long_answer_whole(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "CHECK_EVERY_S", 0.3)
    monkeypatch.setattr(http_listener, "SLOWEST_BYTES_PER_S", 1)
    running = await serve(idle_timeout_s=0.1)
    reader, writer = await running.dial_small()
    writer.write(REQUEST.replace(b"/healthz", b"/huge"))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    left = len(HUGE)
    started = asyncio.get_running_loop().time()
    while left:
        is_begin = left > len(HUGE) - (1 << 20)
        piece = await reader.read(1 << 14 if is_begin else 1 << 20)
        assert piece
        left -= len(piece)
        if is_begin:
            await asyncio.sleep(0.01)
    assert asyncio.get_running_loop().time() - started > 0.6, "nobody looked twice"


@contextlib.asynccontextmanager
async def https(tls: Tls) -> AsyncIterator[Server]:
    server = Server(Options(listen=Listen(port=-1), monitoring=Monitoring(https_port=-1), tls=tls))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class TestHttps:
    @staticmethod
    def table(directory: Path, authority: Authority, **more: Any) -> Tls:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate, key = authority.issue("CN=server", [address])
        (directory / "cert.pem").write_bytes(pem(certificate))
        (directory / "key.pem").write_bytes(key)
        (directory / "ca.pem").write_bytes(authority.pem)
        cert, key_file = str(directory / "cert.pem"), str(directory / "key.pem")
        return Tls(cert_file=cert, key_file=key_file, ca_file=str(directory / "ca.pem"), **more)

    @staticmethod
    async def get(url: str, authority: Authority) -> int:
        trusted = ssl.create_default_context(cadata=authority.pem.decode())
        connector = aiohttp.TCPConnector(ssl=trusted)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url + "/varz") as answer,
        ):
            return (await answer.json())["https_port"]  # type: ignore[no-any-return]

    @pytest.mark.parametrize("verify", [False, True])
    async def test_pages_need_no_client_certificate(self, tmp_path: Path, verify: bool) -> None:
        authority = Authority()
        async with https(self.table(tmp_path, authority, verify=verify)) as server:
            (url,) = server.urls()["monitoring"]
            assert url.startswith("https://127.0.0.1:")
            assert await self.get(url, authority) == int(url.rpartition(":")[2])

    async def test_a_reload_changes_the_certificate(self, tmp_path: Path) -> None:
        before, after = Authority("before"), Authority("after")
        async with https(self.table(tmp_path, before)) as server:
            (url,) = server.urls()["monitoring"]
            assert await self.get(url, before)
            await server.reload(structs.replace(server.options, tls=self.table(tmp_path, after)))
            assert await self.get(url, after)
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await self.get(url, before)

    @pytest.mark.parametrize("sent", [b"", REQUEST, b"\x16\x03\x01"])
    async def test_a_handshake_that_does_not_come_is_cut(self, tmp_path: Path, sent: bytes) -> None:
        async with https(self.table(tmp_path, Authority(), timeout_s=0.1)) as server:
            running = Running(server.urls()["monitoring"][0])
            reader, writer = await running.dial()
            writer.write(sent)
            await ended(reader)
            writer.close()
