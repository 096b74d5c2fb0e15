"""Publishers that are faster than the disk are not read further, and lose no messages."""

from __future__ import annotations

import asyncio
import json

import midge
from midge.testing import SimulatedDisk

_MESSAGES = 6_000
_PRESSED_BYTES = 256 * 1024
_READ_BYTES = 1024 * 1024  # what a connection may have been given to parse when the gate shuts


async def answer_to(url: str, subject: str, body: bytes) -> dict[str, object]:
    host, port = url.removeprefix("nats://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"CONNECT {}\r\nSUB r 1\r\nPUB %b r %d\r\n%b\r\n" % (
        subject.encode(), len(body), body
    ))  # fmt: skip
    line = b""
    while not line.startswith(b"MSG"):
        line = await reader.readline()
    answer: dict[str, object] = json.loads(await reader.readexactly(int(line.split()[-1])))
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_publisher_without_acks_waits_for_the_disk() -> None:
    disk = SimulatedDisk(1)
    async with midge.Server(port=-1, jetstream=True, disk=disk) as server:
        config = json.dumps({"name": "S", "subjects": ["s"], "storage": "file"}).encode()
        await answer_to(server.url, "$JS.API.STREAM.CREATE.S", config)
        (log,) = {committer.done.__self__ for committer in disk.committers}
        log.pressed_bytes = _PRESSED_BYTES
        disk.latency_s = 0.02
        most = 0
        step = disk.step

        def watched(what: str) -> None:
            nonlocal most
            most = max(most, log.pending_bytes())
            step(what)

        disk.step = watched  # type: ignore[method-assign]
        host, port = server.url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"CONNECT {}\r\n")
        for _ in range(_MESSAGES // 10):
            writer.write(b"PUB s 1000\r\n%b\r\n" % (b"x" * 1000) * 10)
            await writer.drain()
        writer.write(b"PING\r\n")
        while await reader.readline() != b"PONG\r\n":
            pass
        writer.close()
        await writer.wait_closed()
        # The request for a purge is answered only when everything before it is on the disk.
        purged = await answer_to(server.url, "$JS.API.STREAM.PURGE.S", b"")
    assert purged["purged"] == _MESSAGES
    assert _PRESSED_BYTES < most < _PRESSED_BYTES + _READ_BYTES


async def test_small_messages_wait_as_large_ones_do() -> None:
    messages = 150_000  # of 11 bytes on the wire and 72 in the log: above 8 MiB at the end
    disk = SimulatedDisk(1)
    async with midge.Server(port=-1, jetstream=True, disk=disk) as server:
        config = json.dumps({"name": "S", "subjects": ["s"], "storage": "file"}).encode()
        await answer_to(server.url, "$JS.API.STREAM.CREATE.S", config)
        disk.latency_s = 0.3
        host, port = server.url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"CONNECT {}\r\n" + b"PUB s 0\r\n\r\n" * messages + b"PING\r\n")
        while await reader.readline() != b"PONG\r\n":
            pass
        writer.close()
        await writer.wait_closed()
        purged = await answer_to(server.url, "$JS.API.STREAM.PURGE.S", b"")
    assert purged["purged"] == messages
