"""A flood is written in groups of some MiB that leave the page cache: they also outlive a kill."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.real_disk import RealDisk
from tests.durability.calls import Call, read_calls
from tests.durability.judging import check_images, early
from tests.durability.preloading import preloaded
from tests.durability.publisher import Publisher
from tests.support.processes import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="preloading is Linux's")

_WINDOW = 256
_LIFE_ACKED = 320  # 10 MiB at least
_SYNC_MS = 20  # long enough for a MiB to come meanwhile


def body(number: int) -> bytes:
    """A marker, and 32 KiB that belong to no other: a window of them fills several large groups."""
    return b"<m-%07d>" % number + b"%07d," % number * 4096


class Flood:
    """The messages published to one server after the other, and their acknowledged sequences."""

    def __init__(self, seed: int) -> None:
        self.acked: dict[int, int] = {}
        self._random = Random(seed)
        self._numbers = itertools.count(1)

    async def until_killed(self, server: Server) -> None:
        """Publish as fast as the server takes it, and kill it in the middle."""
        client = await Publisher.connect(server.url)
        config = {"name": "F", "subjects": ["f.*"], "storage": "file"}
        answer = await client.ask("$JS.API.STREAM.CREATE.F", config, "s-1")
        assert "error" not in answer, answer
        publishing = asyncio.create_task(self._publish(client))
        enough = len(self.acked) + _LIFE_ACKED + self._random.randrange(_WINDOW)
        while len(self.acked) < enough and not publishing.done():
            await asyncio.sleep(0.001)
        server.process.kill()
        await publishing
        await client.close()
        assert len(self.acked) >= enough

    async def _publish(self, client: Publisher) -> None:
        room = asyncio.Semaphore(_WINDOW)
        while not client.task.done():
            await room.acquire()
            number = next(self._numbers)
            answer = client.send(f"f.{number % 3}", body(number), f"m-{number:07d}")
            answer.add_done_callback(partial(self._told, room, number))

    def _told(self, room: asyncio.Semaphore, number: int, answer: asyncio.Future[bytes]) -> None:
        room.release()
        if not answer.cancelled():
            self.acked[number] = json.loads(answer.result())["seq"]

    def check_store(self, path: Path) -> None:
        """See that everything acknowledged is in the store that the last server has left."""
        disk = RealDisk(str(path / "jetstream"), lambda *_: None, lambda _: None)
        directory = StoreDirectory(disk, lambda: None)
        assert directory.damages == []
        (stream,) = directory.streams()
        for number, seq in self.acked.items():
            message = stream.load(seq)
            assert message is not None, number
            assert message.payload == body(number)
        directory.close()


def lives(shim: Path, path: Path, count: int, seed: int) -> Iterator[list[Call]]:
    """Kill servers in the middle of a flood; yield what each of them did."""
    flood = Flood(seed)
    for _ in range(count):
        with preloaded(shim, path / "calls", path / "store", sync_ms=_SYNC_MS) as server:
            asyncio.run(flood.until_killed(server))
            server.process.wait()
        calls = list(read_calls(path / "calls"))
        (path / "calls").unlink()
        assert any(call.kind == "P" for call in calls)
        acked, too_early = early(calls)
        assert acked >= _LIFE_ACKED
        assert too_early == []
        yield calls
    flood.check_store(path / "store")


def test_kills_in_the_middle_of_large_groups(shim: Path, tmp_path: Path) -> None:
    for seed, calls in enumerate(lives(shim, tmp_path, 2, 1)):
        if seed == 0:
            check_images(calls, 5, seed)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_forty_kills_in_the_middle_of_large_groups(shim: Path, tmp_path: Path) -> None:
    for seed, calls in enumerate(lives(shim, tmp_path, 40, 2)):
        if seed == 0:
            check_images(calls, 100, seed)
