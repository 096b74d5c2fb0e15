"""A pair of well-behaved clients in a process of their own, which others' misdeeds must not touch.

Run as ``python -m tests.abuse.bystander HOST PORT CONNECT [--tls]``: one client publishes a
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
import sys
import time

INTERVAL_S = 0.005
COMPARISON_S = 0.3
DRAIN_S = 5.0


async def open_client(
    host: str, port: int, connect: str, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port)
    await reader.readline()
    if tls is not None:
        # A fresh stream, for StreamWriter.start_tls leaves the reader on the old transport.
        raw = writer.get_extra_info("socket").dup()
        writer.transport.abort()
        reader, writer = await asyncio.open_connection(sock=raw, ssl=tls, server_hostname="")
    writer.write(f"CONNECT {connect}\r\nPING\r\n".encode())
    while await reader.readline() != b"PONG\r\n":
        pass
    return reader, writer


async def receive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: list[tuple[int, float]]
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
    """Start a process that sends back what comes; it ends with this one."""
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
    echo: socket.socket, host: str, port: int, connect: str, tls: ssl.SSLContext | None
) -> None:
    loop = asyncio.get_running_loop()
    sub_reader, sub_writer = await open_client(host, port, connect, tls)
    pub_reader, pub_writer = await open_client(host, port, connect, tls)
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
    for task in listening:
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
        )
    )
