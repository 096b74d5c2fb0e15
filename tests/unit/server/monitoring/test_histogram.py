"""Histograms in `/metrics`: their buckets, late timers of the event loop, and syncs of a store."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

import midge
from midge.server.histogram import Histogram
from midge.testing import SettlingClient

if TYPE_CHECKING:
    from pathlib import Path


def test_buckets_are_cumulative() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value)
    assert histogram.buckets() == [("0.1", 2), ("1.0", 3), ("+Inf", 4)]
    assert histogram.total == 7.65


async def read(server: midge.Server) -> dict[str, Any]:
    """Return the samples without labels, and the buckets by `name le`."""
    (url,) = server._core.urls()["monitoring"]
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        text = await answer.text()
    return {
        f"{one.name} {one.labels['le']}" if "le" in one.labels else one.name: one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if set(one.labels) <= {"le"}
    }


async def test_syncs_and_open_files(tmp_path: Path) -> None:
    async with midge.Server(port=-1, http_port=-1, jetstream=tmp_path) as server:
        orders = await server.jetstream.add_stream("ORDERS", ["orders.>"])
        before = (await read(server))["midge_sync_seconds_count"]
        for _ in range(5):
            await orders.publish("orders.new", "tea")
        found = await read(server)
        assert found["midge_sync_seconds_count"] >= before + 5
        assert found["midge_sync_seconds_sum"] > 0
        assert found["midge_open_files"] > 5


async def test_sizes_of_messages() -> None:
    async with midge.Server(port=-1, http_port=-1, jetstream=True) as server:
        await server.jetstream.add_stream("ORDERS", ["orders"])
        client = await SettlingClient.connected(server.url)
        sizes = (0, 1, 16, 17, 64, 65, 65_536, 65_537)
        for size in sizes:
            await client.publish("nobody", bytes(size))
        for _ in range(100):  # taken in one loop by the stream
            await client.publish("orders", bytes(200))
        await client.flush()
        found = await read(server)
        await client.close()
    name = "midge_message_size_bytes"
    shown = {bound: found[f"{name}_bucket {bound}"] for bound in ("16", "64", "256", "65536")}
    assert shown == {"16": 3, "64": 5, "256": 106, "65536": 107}
    assert found[f"{name}_count"] == found[f"{name}_bucket +Inf"] == 108
    assert found[f"{name}_sum"] == sum(sizes) + 20_000


async def test_the_recorder(tmp_path: Path) -> None:
    async with midge.Server(
        port=-1, http_port=-1, recorder_directory=str(tmp_path), recorder_roll_age_s=0.05
    ) as server:
        client = await SettlingClient.connected(server.url)
        await client.publish("orders", b"tea")
        await client.flush()
        found = await read(server)
        async with asyncio.timeout(60):
            while not found["midge_recorder_written_rows_total"]:
                await asyncio.sleep(0.05)
                found = await read(server)
        await client.close()
    assert found["midge_recorder_segments_total"] >= 1
    assert found["midge_recorder_lost_rows_total"] == found["midge_recorder_errors_total"] == 0
    assert found["midge_recorder_dropped_rows_total"] == 0


def late(found: dict[str, Any]) -> float:
    """Return the number of measurements above 0.1 s."""
    name = "midge_loop_delay_seconds"
    return float(found[f"{name}_count"] - found[f"{name}_bucket 0.1"])


async def test_a_blocked_loop_is_counted() -> None:
    async with midge.Server(port=-1, http_port=-1) as server:
        found = await read(server)
        async with asyncio.timeout(60):
            while found["midge_loop_delay_seconds_count"] < 1:
                await asyncio.sleep(0.05)
                found = await read(server)
        before = late(found)
        time.sleep(0.9)  # noqa: ASYNC251 - it blocks the loop on purpose, for more than a period
        async with asyncio.timeout(60):
            while late(found) == before:
                await asyncio.sleep(0.05)
                found = await read(server)


async def test_no_cost_without_monitoring(tmp_path: Path) -> None:
    async with midge.Server(port=-1, jetstream=tmp_path) as server:
        await (await server.jetstream.add_stream("ORDERS", ["orders"])).publish("orders", "tea")
        engine = server.jetstream_engine
        assert engine is not None
        assert engine.sync_seconds.total == 0
