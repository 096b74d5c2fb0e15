"""A server that is killed again and again loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.log_identity import CHECKPOINT
from midge.jetstream.store.real_disk import RealDisk
from tests.durability.history import REFUSED, UNKNOWN, WRITTEN, Write, violations
from tests.durability.publisher import Publisher
from tests.support.processes import Server, midge_command

_CLIENTS = 8
_KEYS = 20
_WRONG_LAST = re.compile(r"wrong last sequence: (\d+)")
_DUPLICATES = 20
_LIFE_ACKED = 110  # messages, and successful compare-and-set writes, that each life has at least
_LIFE_WRITTEN = 55


class Load:
    """Clients' requests to one server after the other, and the answers."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ends = Random(seed)  # apart, because the requests of a life are as many as it has time
        self.acked: dict[bytes, int] = {}
        self.history: list[Write] = []
        self.known = [0] * _KEYS
        self.number = 0
        self.is_stopping = False  # the server, in good order
        self.stops = 0
        self.written = 0  # compare-and-set writes that are known to have succeeded

    def name(self) -> str:
        self.number += 1
        return f"m-{self.number}"

    async def publish(self, client: Publisher) -> None:
        """Publish messages with ids, fifty at a time, until the server is gone."""
        while True:
            names = [self.name() for _ in range(50)]
            answers = [
                client.send("a.x", n.encode(), n, b"Nats-Msg-Id: %b\r\n" % n.encode())
                for n in names
            ]
            for name, answer in zip(names, answers, strict=True):
                ack = json.loads(await answer)
                assert "error" not in ack, ack
                self.acked[name.encode()] = ack["seq"]

    async def compare_and_set(self, client: Publisher) -> None:
        """Write keys where they are thought to be, until the server is gone."""
        while True:
            key = self.random.randrange(_KEYS)
            expected = self.known[key]
            header = b"Nats-Expected-Last-Subject-Sequence: %d\r\n" % expected
            began = time.monotonic()
            outcome, seq = UNKNOWN, 0
            try:
                answer = await client.ask(f"k.{key}", b"x", self.name(), header)
                outcome, seq = self.told(answer)
                self.known[key] = max(self.known[key], seq)
            finally:
                write = Write(key, expected, began, time.monotonic(), outcome, seq)
                self.history.append(write)

    def told(self, answer: Any) -> tuple[str, int]:
        if "error" not in answer:
            self.written += 1
            return WRITTEN, answer["seq"]
        wrong = _WRONG_LAST.search(answer["error"]["description"])
        assert wrong is not None, answer
        return REFUSED, int(wrong[1])

    async def life(self, server: Server) -> None:
        """Check what the life before has left; then work until the server is killed."""
        clients = [await Publisher.connect(server.url) for _ in range(_CLIENTS)]
        for name, subject, kept in (("A", "a.*", -1), ("K", "k.*", 1)):
            config = {"name": name, "subjects": [subject], "max_msgs_per_subject": kept}
            answer = await clients[0].ask(f"$JS.API.STREAM.CREATE.{name}", config, self.name())
            assert "error" not in answer, answer
        await self.check_ids(clients[0])
        work = [self.compare_and_set(client) for client in clients]
        work += [self.publish(client) for client in clients[:3]]
        end = asyncio.create_task(self.end(server, len(self.acked), self.written))
        results = await asyncio.gather(*work, return_exceptions=True)
        await end
        assert all(isinstance(r, asyncio.CancelledError | ConnectionError) for r in results), (
            results
        )
        for client in clients:
            await client.close()

    async def end(self, server: Server, acked: int, written: int) -> None:
        """Kill the server at some time, but not before there is enough to be lost.

        Every third one is asked to stop instead, so that the next one finds a checkpoint.
        """
        await asyncio.sleep(self.ends.uniform(0.05, 0.3))
        while len(self.acked) - acked < _LIFE_ACKED or self.written - written < _LIFE_WRITTEN:
            await asyncio.sleep(0.002)
        self.is_stopping = self.ends.random() < 0.3
        if self.is_stopping:
            server.process.terminate()
        else:
            server.process.kill()

    async def check_ids(self, client: Publisher) -> None:
        """See that the ids of the latest messages are known."""
        for name, seq in list(self.acked.items())[-_DUPLICATES:]:
            header = b"Nats-Msg-Id: %b\r\n" % name
            ack = await client.ask("a.x", name, self.name(), header)
            assert (ack.get("seq"), ack.get("duplicate")) == (seq, True)

    async def check_store(self, path: Path) -> None:
        """Read the store that the last server has left."""
        loop = asyncio.get_running_loop()
        disk = RealDisk(str(path / "jetstream"), loop.add_reader, loop.remove_reader)
        directory = StoreDirectory(disk, lambda: None)
        assert directory.damages == []
        streams = {stream.name: stream for stream in directory.streams()}
        for name, seq in self.acked.items():
            message = streams[b"A"].load(seq)
            assert message is not None, name
            assert message.payload == name
        last: dict[int, int] = {}
        for write in self.history:
            if write.outcome == WRITTEN:
                last[write.key] = max(write.seq, last.get(write.key, 0))
        for key, seq in last.items():
            assert streams[b"K"].last_for_subject(b"k.%d" % key) >= seq
        directory.close()


def run(path: Path, kills: int, seed: int) -> Load:
    load = Load(seed)
    for _ in range(kills):
        with Server(midge_command(), flags=("-js", "-sd", str(path))) as server:
            asyncio.run(load.life(server))
            if load.is_stopping and load.ends.random() < 0.7:  # others are killed at their stop
                assert server.process.wait(60) == 0
                assert (path / "jetstream" / CHECKPOINT).exists()
                load.stops += 1
            with contextlib.suppress(ProcessLookupError):
                server.process.kill()
            server.process.wait()
    asyncio.run(load.check_store(path))
    assert violations(load.history) == []
    return load


@pytest.mark.timeout(300)
def test_ten_kills(tmp_path: Path) -> None:
    load = run(tmp_path, 10, 1)
    assert len(load.acked) >= 10 * _LIFE_ACKED
    assert load.written >= 10 * _LIFE_WRITTEN
    assert any(write.outcome == REFUSED for write in load.history)
    assert load.stops == 5


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_two_hundred_kills(tmp_path: Path) -> None:
    run(tmp_path, 200, 2)
