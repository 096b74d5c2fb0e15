"""Stores of recovered streams follow their configurations, and a full disk is reported."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.store.interface import GroupListener, StoreFullError
from midge.server.clock import LoopClock
from midge.server.jetstream.stores import ASYNC, FileStores
from midge.testing.clock import ManualClock
from midge.testing.simulated_disk import SimulatedDisk


async def test_ids_are_kept_as_long_as_the_window_says() -> None:
    loop = asyncio.get_running_loop()
    stores = FileStores(SimulatedDisk(Random(1)), loop, LoopClock(), GroupListener(), 0)
    config = StreamConfig(name="S", duplicate_window_ns=5_000, persist_mode=ASYNC)
    store = stores.make("$G", config)
    stores.adopt(store, config)
    assert store.records.dedup_window_ns == 5_000
    assert store.is_async
    stores.close()


async def test_a_full_disk_is_logged_once_and_so_is_that_there_is_room_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "midge")
    disk = SimulatedDisk(Random(1))
    clock = ManualClock()
    stores = FileStores(disk, asyncio.get_running_loop(), clock, GroupListener(), 0)
    store = stores.make("$G", StreamConfig(name="S"))

    def publish() -> bool:
        try:
            store.append(b"a", b"", bytes(5_000), 1)
        except StoreFullError:
            return False
        return True

    def told() -> list[str]:
        clock.advance(1.5)
        disk.pump()
        names = [line.split()[0] for line in caplog.messages]
        caplog.clear()
        return [name for name in names if name.startswith("jetstream_disk_")]

    disk.free = 100_000
    assert told() == []
    while publish():
        pass
    assert told() == ["jetstream_disk_full"]
    assert not publish()
    assert told() == told() == []
    disk.free = 100_000_000
    assert told() == []  # no publish has needed room
    assert publish()
    assert told() == ["jetstream_disk_has_room"]
    assert publish()
    assert told() == []
    stores.close()


async def test_nothing_is_done_after_the_end() -> None:
    loop = asyncio.get_running_loop()
    failures: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    disk, clock = SimulatedDisk(Random(1)), ManualClock()
    stores = FileStores(disk, loop, clock, GroupListener(), 0)
    store = stores.make("$G", StreamConfig(name="S"))
    store.append(b"a", b"", b"x", 1)
    stores.close()  # with something to write, which asks for further ticks
    assert stores._timer is None
    await asyncio.sleep(0)
    assert failures == []
