"""How long the loop is busy at a stretch while a stream of a million messages is worked on."""

from __future__ import annotations

import asyncio
import json
import mmap
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from midge.protocol import client_side
from tests.abuse.watched_server import LONGEST
from tests.support.processes import Server

COUNT = 1_000_000
STEP = 20_000
ENDS = (b"NATS/1.0 204", b"NATS/1.0 404")
HELD_S = 0.03
"""20 ms of processor time on a machine of its own; half as much more beside other work on it."""

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


class Client:
    """A connection; `held_s` is the longest stretch of the loop since `reset`."""

    def __init__(self, reader: Any, writer: Any, shared: mmap.mmap) -> None:
        self._reader = reader
        self.writer = writer
        self._shared = shared
        self._frames = client_side.FrameReader()
        self._waiting: list[client_side.ReceivedMessage] = []

    async def message(self) -> client_side.ReceivedMessage:
        while not self._waiting:
            async with asyncio.timeout(60):
                data = await self._reader.read(1 << 18)
            assert data, "the server closed the connection"
            self._waiting = list(self._frames.feed(data))
            if any(verb == b"PING" for verb, _ in self._frames.controls):
                self.writer.write(client_side.PONG)
            self._frames.controls.clear()
        return self._waiting.pop(0)

    async def request(self, subject: str, payload: bytes = b"") -> client_side.ReceivedMessage:
        self.writer.write(client_side.publish_frame(subject.encode(), b"r", b"", payload))
        while (message := await self.message()).sid != b"1":
            pass
        return message

    async def api(self, subject: str, **body: Any) -> dict[str, Any]:
        payload = json.dumps(body).encode() if body else b""
        answer: dict[str, Any] = json.loads(
            (await self.request("$JS.API." + subject, payload)).payload
        )
        assert "error" not in answer, answer
        return answer

    async def direct(self, subject: str, **body: Any) -> None:
        """Ask for messages, and wait for what ends them."""
        message = await self.request("$JS.API." + subject, json.dumps(body).encode())
        while message.sid != b"1" or not bytes(message.headers).startswith(ENDS):
            message = await self.message()

    def reset(self) -> None:
        LONGEST.pack_into(self._shared, 0, 0.0)

    async def held_s(self) -> float:
        """Return the longest stretch, including work after an answer."""
        for _ in range(20):
            await asyncio.sleep(0.02)
            await self.api("INFO")
        longest: float = LONGEST.unpack_from(self._shared)[0]
        return longest

    async def fill(self, name: str, storage: str, **keys: Any) -> dict[str, Any]:
        config = {"name": name, "subjects": [f"{name}.>"], "storage": storage, **keys}
        await self.api(f"STREAM.CREATE.{name}", **config)
        for base in range(0, COUNT, STEP):
            lines = (
                b"PUB %b.%d.%d 4\r\nbody\r\n" % (name.encode(), i % 2, i * 7919 % COUNT)
                for i in range(base, base + STEP)
            )
            self.writer.write(b"".join(lines))
            await self.writer.drain()
        while (await self.api(f"STREAM.INFO.{name}"))["state"]["messages"] < COUNT:
            await asyncio.sleep(0.05)
        return config


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    watched = tmp_path / "watched"
    watched.write_bytes(bytes(LONGEST.size))
    command = [sys.executable, "-m", "tests.abuse.watched_server", str(watched)]
    server = Server(command, f'jetstream {{ store_dir: "{tmp_path}/store" }}')
    try:
        await asyncio.to_thread(server.wait_ready)
        with watched.open("r+b") as file:
            shared = mmap.mmap(file.fileno(), LONGEST.size)
        reader, writer = await asyncio.open_connection(*server.address(), limit=1 << 24)
        await reader.readline()
        writer.write(
            client_side.connect_line({"headers": True, "no_responders": True, "verbose": False})
        )
        writer.write(b"SUB r 1\r\nSUB to 2\r\n")
        yield Client(reader, writer, shared)
        writer.close()
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_nobody_waits_long(client: Client, storage: str) -> None:
    client.reset()
    config = await client.fill("S", storage, allow_direct=True)
    held = {"filling": await client.held_s()}
    consumer = {"stream_name": "S", "config": {"durable_name": "C", "filter_subject": "S.*.5"}}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("STREAM.INFO.S", {"subjects_filter": ">"}),
        ("STREAM.INFO.S", {"subjects_filter": "S.1.*", "offset": 200_000}),
        ("CONSUMER.CREATE.S.C", consumer),
        ("CONSUMER.DELETE.S.C", {}),
        ("STREAM.UPDATE.S", {**config, "allow_msg_ttl": True}),
        ("DIRECT.GET.S", {"seq": 1, "batch": 100_000}),
        ("DIRECT.GET.S", {"next_by_subj": "S.*.x"}),
        ("DIRECT.GET.S", {"last_by_subj": "S.*.y"}),
        ("DIRECT.GET.S", {"multi_last": ["S.*.z"]}),
        ("STREAM.PURGE.S", {"filter": "S.*.7"}),
        ("STREAM.PURGE.S", {"filter": "S.1.>", "keep": 400_000}),
        ("STREAM.INFO.S", {"deleted_details": True}),
    ]
    for subject, body in steps:
        client.reset()
        if subject.startswith("DIRECT"):
            await client.direct(subject, **body)
        else:
            await client.api(subject, **body)
        held[f"{subject} {list(body)}"] = await client.held_s()
    client.reset()
    archive, answer = await backed_up(client)
    held["snapshot"] = await client.held_s()
    client.reset()
    await client.api("STREAM.DELETE.S")
    held["delete"] = await client.held_s()
    client.reset()
    await restored(client, archive, answer)
    held["restore"] = await client.held_s()
    client.reset()
    await client.api("STREAM.PURGE.S")
    held["purge"] = await client.held_s()
    assert {name: round(s * 1000, 1) for name, s in held.items() if s > HELD_S} == {}


async def backed_up(client: Client) -> tuple[list[bytes], dict[str, Any]]:
    """Return the chunks of a backup, and the answer that it began with."""
    answer = await client.api("STREAM.SNAPSHOT.S", deliver_subject="to", chunk_size=1 << 17)
    chunks = []
    while (chunk := await client.message()).payload:
        chunks.append(bytes(chunk.payload))
        if chunk.reply:
            client.writer.write(client_side.publish_frame(bytes(chunk.reply), b"", b"", b""))
    return chunks, answer


async def restored(client: Client, chunks: list[bytes], answer: dict[str, Any]) -> None:
    """Send a backup to be restored."""
    body = {"config": answer["config"], "state": answer["state"]}
    to = (await client.api("STREAM.RESTORE.S", **body))["deliver_subject"]
    for chunk in [*chunks, b""]:
        last = await client.request(to, chunk)
    assert "error" not in json.loads(last.payload)
