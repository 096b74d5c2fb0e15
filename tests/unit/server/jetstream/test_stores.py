"""Stores of recovered streams follow their configurations."""

from __future__ import annotations

import asyncio
from random import Random

from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.store.interface import GroupListener
from midge.server.clock import LoopClock
from midge.server.jetstream.stores import ASYNC, FileStores
from midge.testing.simulated_disk import SimulatedDisk


async def test_ids_are_kept_as_long_as_the_window_says() -> None:
    loop = asyncio.get_running_loop()
    stores = FileStores(SimulatedDisk(Random(1)), loop, LoopClock(), GroupListener(), 0)
    config = StreamConfig(name="S", duplicate_window_ns=5_000, persist_mode=ASYNC)
    store = stores.make("$G", config)
    stores.adopt(store, config)
    assert store.dedup_window_ns == 5_000
    assert store.is_async
    stores.close()
