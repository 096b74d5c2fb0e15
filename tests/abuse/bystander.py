"""A pair of well-behaved clients in a process of their own, which others' misdeeds must not touch.

Run as ``python -m tests.abuse.bystander HOST PORT CONNECT PID [--tls|--ws]``: one client publishes
a numbered message every few milliseconds, the other measures how long each takes. A delay is the
processor time that the main thread of the server, process PID, used meanwhile, without the time for
which this process waited for a processor: so other processes of a loaded machine do not count. The
first part is over when ``ready`` is printed. When standard input is closed, it prints what it saw
as JSON.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
import sys
import time
from typing import NamedTuple, Protocol

from tests.support.scheduling import ran_s, waited_s

INTERVAL_S = 0.005
COMPARISON_S = 0.3
DRAIN_S = 60.0


class Moment(NamedTuple):
    """When something was, by three clocks: the server's, that of our waits, and the wall's."""

    ran_s: float
    waited_s: float
    time_s: float


def now(pid: int) -> Moment:
    return Moment(ran_s(pid), waited_s(), time.monotonic())


class Arrival(NamedTuple):
    """A message that arrived, and how long it took in the server's time and by the wall clock."""

    number: int
    delay_s: float
    wall_s: float


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Writer(Protocol):
    """The half of a connection that is written to."""

    def write(self, data: bytes) -> None:
        """Send `data`."""


class FrameWriter:
    """Writes each piece as one binary frame, masked with zeros."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        size = len(data)
        long = size >= 126
        head = struct.pack("!BBH", 0x82, 0xFE, size) if long else bytes((0x82, 0x80 | size))
        self._writer.write(head + bytes(4) + data)


async def unframe(reader: asyncio.StreamReader, plain: asyncio.StreamReader) -> None:
    """Pass the contents of the server's frames to `plain`, to their end."""
    try:
        while True:
            opcode, size = await reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await reader.readexactly(2), "big")
            elif size == 127:
                size = int.from_bytes(await reader.readexactly(8), "big")
            data = await reader.readexactly(size)
            if opcode & 15 < 8:
                plain.feed_data(data)
    except (asyncio.IncompleteReadError, ConnectionError):
        plain.feed_eof()


async def open_websocket(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[asyncio.StreamReader, FrameWriter]:
    """Turn a connection into one of a WebSocket."""
    writer.write(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    plain = asyncio.StreamReader()
    unframing.append(asyncio.ensure_future(unframe(reader, plain)))
    return plain, FrameWriter(writer)


unframing: list[asyncio.Future[None]] = []


async def open_client(
    host: str, port: int, connect: str, tls: ssl.SSLContext | None, by_websocket: bool
) -> tuple[asyncio.StreamReader, Writer]:
    reader, writer = await asyncio.open_connection(host, port)
    if by_websocket:
        plain, framed = await open_websocket(reader, writer)
        return plain, await introduced(plain, framed, connect)
    await reader.readline()
    if tls is not None:
        # A fresh stream, for StreamWriter.start_tls leaves the reader on the old transport.
        raw = writer.get_extra_info("socket").dup()
        writer.transport.abort()
        reader, writer = await asyncio.open_connection(sock=raw, ssl=tls, server_hostname="")
    return reader, await introduced(reader, writer, connect)


async def introduced(reader: asyncio.StreamReader, writer: Writer, connect: str) -> Writer:
    """Send CONNECT by `writer`, and return it once the server has taken it."""
    writer.write(f"CONNECT {connect}\r\nPING\r\n".encode())
    while await reader.readline() != b"PONG\r\n":
        pass
    return writer


async def receive(
    reader: asyncio.StreamReader, writer: Writer, sent: list[Moment], seen: list[Arrival], pid: int
) -> None:
    while line := await reader.readline():
        if line == b"PING\r\n":
            writer.write(b"PONG\r\n")
        elif line.startswith(b"MSG bystander.x "):
            number = int((await reader.readline()).split()[1])
            before, here = sent[number], now(pid)
            delay_s = here.ran_s - before.ran_s - (here.waited_s - before.waited_s)
            seen.append(Arrival(number, delay_s, here.time_s - before.time_s))


def without_checks() -> ssl.SSLContext:
    """A client's context for a server whose certificate was made for the test."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def main(
    host: str, port: int, connect: str, pid: int, tls: ssl.SSLContext | None, *, by_websocket: bool
) -> None:
    loop = asyncio.get_running_loop()
    sub_reader, sub_writer = await open_client(host, port, connect, tls, by_websocket)
    pub_reader, pub_writer = await open_client(host, port, connect, tls, by_websocket)
    sub_writer.write(b"SUB bystander.x 1\r\nPING\r\n")
    while await sub_reader.readline() != b"PONG\r\n":
        pass
    sent: list[Moment] = []
    seen: list[Arrival] = []
    listening = [
        asyncio.ensure_future(receive(sub_reader, sub_writer, sent, seen, pid)),
        asyncio.ensure_future(receive(pub_reader, pub_writer, sent, seen, pid)),
    ]
    begun = time.monotonic()
    compared = 0
    stop: asyncio.Future[str] | None = None
    while stop is None or not stop.done():
        body = b"number %d\r\n" % len(sent)
        sent.append(now(pid))
        pub_writer.write(b"PUB bystander.x %d\r\n%b\r\n" % (len(body), body))
        await asyncio.sleep(INTERVAL_S)
        if stop is None and time.monotonic() - begun > COMPARISON_S:
            compared = len(sent)
            stop = loop.run_in_executor(None, sys.stdin.read)
            print("ready", flush=True)
    deadline = time.monotonic() + DRAIN_S
    while len(seen) < len(sent) and time.monotonic() < deadline:
        await asyncio.sleep(INTERVAL_S)
    for task in (*listening, *unframing):
        task.cancel()
    during = [each for each in seen if each.number >= compared]
    report = {
        "sent": len(sent),
        "in_order": [each.number for each in seen] == list(range(len(sent))),
        "delays_s": [each.delay_s for each in during],
        "wall_s": [each.wall_s for each in during],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(
        main(
            sys.argv[1],
            int(sys.argv[2]),
            sys.argv[3],
            int(sys.argv[4]),
            without_checks() if sys.argv[5:] == ["--tls"] else None,
            by_websocket=sys.argv[5:] == ["--ws"],
        )
    )
