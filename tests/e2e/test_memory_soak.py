"""Crowds of every kind come and go; after the second the server's memory stays where it is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.keys import Authority, pem
from tests.support.processes import Server, midge_command

ROUNDS = 6
CROWD = 80
"""Clients of each kind that are there at a time."""

AT_ONCE = 20
SUBSCRIPTIONS = 200_000
MARGIN_BYTES = 3 << 19
"""How far pools vary, three times; a heap that is never trimmed grows by 2.3 MiB meanwhile."""

SETTLE_S = 12.0
"""Two looks of the server at how many have gone, and some more."""

PLAIN = "websocket { listen: 127.0.0.1:-1, no_tls: true }\n"
TLS = '{ cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem", timeout: 30 }\n'
ENCRYPTED = f"tls {TLS}websocket {{ listen: 127.0.0.1:-1, tls {TLS} }}\n"

CONNECT = b'CONNECT {"verbose":false}\r\n'
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
RESET = struct.pack("ii", 1, 0)

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Come = Callable[[Server, ssl.SSLContext | None], Awaitable[Stream]]
Go = Callable[[asyncio.StreamWriter], None]

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def without_checks() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def until(reader: asyncio.StreamReader, end: bytes) -> None:
    while end not in await reader.readuntil(b"\n"):
        pass


async def client(server: Server, context: ssl.SSLContext | None) -> Stream:
    reader, writer = await asyncio.open_connection(*server.address())
    await until(reader, b"INFO")
    if context is not None:
        await writer.start_tls(context)
    writer.write(CONNECT + b"SUB a.> 1\r\nPING\r\n")
    await until(reader, b"PONG")
    return reader, writer


async def websocket(server: Server, context: ssl.SSLContext | None) -> Stream:
    reader, writer = await asyncio.open_connection(*server.address("websocket"), ssl=context)
    line = CONNECT + b"SUB b.> 1\r\nPING\r\n"
    writer.write(UPGRADE + bytes((0x82, 0x80 | len(line))) + bytes(4) + line)
    await until(reader, b"PONG")
    return reader, writer


async def stranger(server: Server, context: ssl.SSLContext | None) -> Stream:
    """Come without a word, or with one that is no TLS."""
    reader, writer = await asyncio.open_connection(*server.address())
    await until(reader, b"INFO")
    if context is not None:
        writer.write(b"\xff\x00" * 500)
    return reader, writer


def leave(writer: asyncio.StreamWriter) -> None:
    writer.close()


def leave_within_a_command(writer: asyncio.StreamWriter) -> None:
    writer.write(b"PUB a 60000\r\n" + b"x" * 30_000)
    writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


VISITS: tuple[tuple[Come, Go], ...] = (
    (client, leave),
    (client, reset),
    (client, leave_within_a_command),
    (websocket, leave),
    (websocket, reset),
    (stranger, leave),
)


async def crowd(server: Server, context: ssl.SSLContext | None) -> None:
    """Connect clients of all kinds, keep them connected together, and close them."""
    places = asyncio.Semaphore(AT_ONCE)

    async def come(how: Come) -> Stream:
        async with places:
            return await how(server, context)

    for how, go in VISITS:
        streams = await asyncio.gather(*(come(how) for _ in range(CROWD)))
        for _, writer in streams:
            go(writer)
        for _, writer in streams:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def resident_bytes(server: Server) -> int:
    pages = Path(f"/proc/{server.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


async def settled(server: Server, most: int) -> int:
    """Return the resident memory once it is at most `most`, or will not be."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_S
    while (size := resident_bytes(server)) > most and loop.time() < deadline:
        await asyncio.sleep(0.2)
    return size


@contextlib.asynccontextmanager
async def holder(server: Server, context: ssl.SSLContext | None, count: int) -> AsyncIterator[None]:
    """Hold `count` subscriptions meanwhile."""
    reader, writer = await client(server, context)
    for first in range(0, count, 10_000):
        lines = (b"SUB held.%d.%d %d\r\n" % (n % 100, n, n) for n in range(first, first + 10_000))
        writer.write(b"".join(lines) + b"PING\r\n")
        await until(reader, b"PONG")
    yield
    writer.close()


@pytest.mark.parametrize("count", [0, SUBSCRIPTIONS], ids=["small", "large"])
@pytest.mark.parametrize("config", [PLAIN, ENCRYPTED], ids=["plain", "encrypted"])
async def test_memory_is_flat_after_the_second_crowd(config: str, count: int) -> None:
    certificate, key = Authority().issue("CN=localhost")
    files = {"cert.pem": pem(certificate), "key.pem": key}
    context = without_checks() if config == ENCRYPTED else None
    with Server(midge_command(), "max_closed_clients: 50\n" + config, files=files) as server:
        async with holder(server, context, count):
            sizes: list[int] = []
            for _ in range(ROUNDS):
                await crowd(server, context)
                sizes.append(await settled(server, sizes[1] if len(sizes) > 1 else 0))
        print("MiB after each:", *(f"{size / (1 << 20):.1f}" for size in sizes))
        assert max(sizes[2:]) - sizes[1] < MARGIN_BYTES
        assert "Traceback" not in server.log
