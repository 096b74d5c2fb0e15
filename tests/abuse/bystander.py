"""A pair of well-behaved clients in a process of their own, which others' misdeeds must not touch.

Run as ``python -m tests.abuse.bystander HOST PORT CONNECT [--tls|--ws]``: one client publishes a
numbered message every few milliseconds, the other measures how long each takes. The same goes, at
the same time, through a process that does nothing but echo: so long does the machine take by
itself. The first part, before ``ready`` is printed, is for comparison. When standard input is
closed it prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import struct
import sys
import time
from typing import Protocol

INTERVAL_S = 0.005
COMPARISON_S = 0.3
DRAIN_S = 5.0


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
    reader: asyncio.StreamReader, writer: Writer, seen: list[tuple[int, float]]
) -> None:
    while line := await reader.readline():
        if line == b"PING\r\n":
            writer.write(b"PONG\r\n")
        elif line.startswith(b"MSG bystander.x "):
            number, sent = (await reader.readline()).split()
            seen.append((int(number), time.monotonic() - float(sent)))


async def receive_echo(reader: asyncio.StreamReader, delays_s: list[float]) -> None:
    while line := await reader.readline():
        delays_s.append(time.monotonic() - float(line))


def start_echo() -> socket.socket:
    """Start a process that echoes its input; it ends with this one."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        while data := theirs.recv(4096):
            theirs.sendall(data)
        os._exit(0)
    theirs.close()
    return ours


def without_checks() -> ssl.SSLContext:
    """A client's context for a server whose certificate was made for the test."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def main(
    echo: socket.socket,
    host: str,
    port: int,
    connect: str,
    tls: ssl.SSLContext | None,
    *,
    by_websocket: bool,
) -> None:
    loop = asyncio.get_running_loop()
    sub_reader, sub_writer = await open_client(host, port, connect, tls, by_websocket)
    pub_reader, pub_writer = await open_client(host, port, connect, tls, by_websocket)
    echo_reader, echo_writer = await asyncio.open_connection(sock=echo)
    sub_writer.write(b"SUB bystander.x 1\r\nPING\r\n")
    while await sub_reader.readline() != b"PONG\r\n":
        pass
    seen: list[tuple[int, float]] = []
    echo_delays_s: list[float] = []
    listening = [
        asyncio.ensure_future(receive(sub_reader, sub_writer, seen)),
        asyncio.ensure_future(receive(pub_reader, pub_writer, seen)),
        asyncio.ensure_future(receive_echo(echo_reader, echo_delays_s)),
    ]
    begun = time.monotonic()
    sent = compared = 0
    stop: asyncio.Future[str] | None = None
    while stop is None or not stop.done():
        body = f"{sent} {time.monotonic()}\r\n".encode()
        pub_writer.write(b"PUB bystander.x %d\r\n%b\r\n" % (len(body), body))
        echo_writer.write(f"{time.monotonic()}\n".encode())
        sent += 1
        await asyncio.sleep(INTERVAL_S)
        if stop is None and time.monotonic() - begun > COMPARISON_S:
            compared = sent
            stop = loop.run_in_executor(None, sys.stdin.read)
            print("ready", flush=True)
    deadline = time.monotonic() + DRAIN_S
    while len(seen) < sent and time.monotonic() < deadline:
        await asyncio.sleep(INTERVAL_S)
    for task in (*listening, *unframing):
        task.cancel()
    report = {
        "sent": sent,
        "in_order": [number for number, _ in seen] == list(range(sent)),
        "before_s": [delay for number, delay in seen if number < compared],
        "during_s": [delay for number, delay in seen if number >= compared],
        "echo_s": echo_delays_s[compared:],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(
        main(
            start_echo(),
            sys.argv[1],
            int(sys.argv[2]),
            sys.argv[3],
            without_checks() if sys.argv[4:] == ["--tls"] else None,
            by_websocket=sys.argv[4:] == ["--ws"],
        )
    )
