"""A pair of well-behaved clients in a process of their own, which others' misdeeds must not touch.

Run as ``python -m tests.abuse.bystander HOST PORT CONNECT``: one client publishes a numbered
message every few milliseconds, the other measures how long each takes. When standard input is
closed it prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

INTERVAL_S = 0.005
DRAIN_S = 5.0


async def open_client(
    host: str, port: int, connect: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port)
    await reader.readline()
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


async def main(host: str, port: int, connect: str) -> None:
    loop = asyncio.get_running_loop()
    stop = loop.run_in_executor(None, sys.stdin.read)
    sub_reader, sub_writer = await open_client(host, port, connect)
    pub_reader, pub_writer = await open_client(host, port, connect)
    sub_writer.write(b"SUB bystander.x 1\r\nPING\r\n")
    while await sub_reader.readline() != b"PONG\r\n":
        pass
    seen: list[tuple[int, float]] = []
    listening = [
        asyncio.ensure_future(receive(sub_reader, sub_writer, seen)),
        asyncio.ensure_future(receive(pub_reader, pub_writer, seen)),
    ]
    print("ready", flush=True)
    sent = 0
    while not stop.done():
        body = f"{sent} {time.monotonic()}\r\n".encode()
        pub_writer.write(b"PUB bystander.x %d\r\n%b\r\n" % (len(body), body))
        sent += 1
        await asyncio.sleep(INTERVAL_S)
    deadline = time.monotonic() + DRAIN_S
    while len(seen) < sent and time.monotonic() < deadline:
        await asyncio.sleep(INTERVAL_S)
    for task in listening:
        task.cancel()
    in_order = [number for number, _ in seen] == list(range(sent))
    print(json.dumps({"sent": sent, "in_order": in_order, "delays_s": [d for _, d in seen]}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
