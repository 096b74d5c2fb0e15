"""Restarts of a server under test: by a test, by a fault, and by a power failure."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

import midge
from midge.testing import ManualClock, SettlingClient, SimulatedDisk
from tests.unit.testing.test_plugin import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WAIT_S = 60


@contextlib.asynccontextmanager
async def a_client(
    server: midge.Server,
) -> AsyncIterator[tuple[SettlingClient, asyncio.Queue[str]]]:
    """Connect a client; the queue gets `lost` and `back`."""
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def lost() -> None:
        seen.put_nowait("lost")

    async def back() -> None:
        seen.put_nowait("back")

    client = await SettlingClient.connected(
        server.client_url(),
        disconnected_cb=lost,
        reconnected_cb=back,
        reconnect_time_wait=0,
        max_reconnect_attempts=-1,
    )
    yield client, seen
    await client.close()


async def both(seen: asyncio.Queue[str]) -> list[str]:
    return [await asyncio.wait_for(seen.get(), WAIT_S) for _ in range(2)]


@pytest.mark.parametrize("power_failure", [False, True])
async def test_ports_and_acknowledged_messages_stay(power_failure: bool) -> None:
    disk = SimulatedDisk(7)
    async with midge.Server(
        port=-1,
        http_port=-1,
        websocket={"port": -1, "no_tls": True},
        leafnodes={"port": -1},
        user="u",
        password="p",
        jetstream=True,
        disk=disk,
    ) as server:
        urls = server.url, server.leafnode_url, server._core.urls()
        async with a_client(server) as (client, seen):
            streams = client.jetstream()
            await streams.add_stream(name="ORDERS", subjects=["orders.>"])
            for item in (b"tea", b"coffee"):
                await streams.publish("orders.new", item)
            first_id = client.connected_server_version and client._server_info["server_id"]
            await server.restart(power_failure=power_failure)
            assert await both(seen) == ["lost", "back"]
            assert client._server_info["server_id"] != first_id
            assert (await streams.stream_info("ORDERS")).state.messages == 2
            assert (await streams.publish("orders.new", b"cake")).seq == 3
        assert (server.url, server.leafnode_url, server._core.urls()) == urls
        assert server.disk is disk
        assert sorted(urls[2]) == ["leafnodes", "monitoring", "nats", "websocket"]


async def test_a_power_failure_loses_what_was_not_synced() -> None:
    """A message whose sync is under way has no acknowledgement, and the client gets none later."""
    clock = ManualClock()
    lost = 0
    for seed in range(8):
        disk = SimulatedDisk(seed)
        async with midge.Server(port=-1, jetstream=True, clock=clock, disk=disk) as server:
            stream = await server.jetstream.add_stream("ORDERS", ["orders.>"])
            await stream.publish("orders.new", "kept")
            server.faults.slow_disk(3600)
            waiting = asyncio.ensure_future(stream.publish("orders.new", "in flight"))
            await asyncio.sleep(0)
            await server.restart(power_failure=True)
            with pytest.raises(midge.MidgeError, match="has ended"):
                await waiting
            texts = [one.text async for one in server.jetstream.stream("ORDERS").messages()]
            assert texts[0] == "kept"
            lost += len(texts) == 1
    assert lost > 0


async def test_a_clock_of_a_test_passes_the_down_time() -> None:
    clock = ManualClock()
    async with midge.Server(port=-1, jetstream=True, clock=clock, disk=SimulatedDisk()) as server:
        stream = await server.jetstream.add_stream("ORDERS", ["orders.>"], max_age=10)
        await stream.publish("orders.new", "tea")
        await server.restart(down_s=11)
        assert clock.monotonic() == 11
        await clock.elapse(1)
        assert (await server.jetstream.stream("ORDERS").state()).messages == 0


async def test_a_fault_restarts_at_a_message() -> None:
    async with (
        midge.Server(port=-1, jetstream=True, disk=SimulatedDisk()) as server,
        a_client(server) as (client, seen),
    ):
        streams = client.jetstream()
        await streams.add_stream(name="ORDERS", subjects=["orders.>"])
        fault = server.faults.restart("orders.*", nth=2, power_failure=True)
        await streams.publish("orders.new", b"tea")
        assert fault.hits == 0
        await client.publish("orders.new", b"lost")
        assert await both(seen) == ["lost", "back"]
        assert fault.hits == 1
        assert (await streams.stream_info("ORDERS")).state.messages == 1
        fault.end()


async def test_what_cannot_restart() -> None:
    async with midge.Server(port=-1, jetstream=True) as server:
        with pytest.raises(midge.MidgeError, match=r"needs a simulated disk: midge\.Server"):
            await server.restart(power_failure=True)
        with pytest.raises(midge.MidgeError, match="simulated"):
            server.faults.restart(power_failure=True)
        assert server.publish("a") == 0
    with pytest.raises(midge.MidgeError, match="not running"):
        await server.restart()


async def test_a_server_that_is_down_can_be_stopped() -> None:
    server = await midge.Server(port=-1).start()
    assert server.faults.restart(down_s=3600).hits == 1
    for _ in range(100):
        await asyncio.sleep(0)
    with pytest.raises(midge.MidgeError, match="the server is down; it restarts"):
        server.publish("a")
    await server.stop()


def test_a_server_in_a_thread() -> None:
    before = threading.active_count()
    with midge.run_in_thread(port=-1) as server:
        url = server.url
        server.restart(0.01)
        assert (server.url, server.publish("a")) == (url, 0)
        server.faults.restart()
    assert threading.active_count() == before


def test_with_names_async_with() -> None:
    with pytest.raises(TypeError, match="use `async with midge"), midge.Server(port=-1):
        pass


PLUGIN = """
async def test_it(nats_server, nats_jetstream, nats_stream, nats_capture, nats_disk):
    orders = nats_stream("ORDERS", "orders.>")
    await nats_jetstream.publish("orders.new", b"tea")
    nats_server.restart(power_failure=True)
    assert nats_server.call(lambda server: server.disk) is nats_disk
    assert orders.publish("orders.new", "coffee") == 2
    nats_capture.assert_stored("orders.*", count=2)
    nats_capture.assert_published("orders.*", count=2)
    assert [message.text for message in orders.messages] == ["tea", "coffee"]

def test_down_at_the_end(nats_server):
    nats_server.faults.restart(down_s=3600)

def test_stopped(nats_server, nats_capture):
    nats_server.publish("a")
    nats_server.stop()
    nats_capture.assert_published("a")

async def test_failing(nats_client, nats_server):
    await nats_client.publish("orders.created", b"1")
    await nats_client.flush()
    nats_server.stop()
    assert not nats_server.is_running, "stopped"
    raise RuntimeError("after stop")

import pytest

@pytest.fixture
def untidy(nats_server):
    yield
    nats_server.publish("a")
    nats_server.stop()
    raise RuntimeError("in the teardown")

async def test_untidy(untidy, nats_client):
    await nats_client.publish("orders.late", b"1")
    await nats_client.flush()
"""


def test_the_plugin(tmp_path: Path, root: Path) -> None:
    shown = run(tmp_path, root, PLUGIN, "-o", "asyncio_mode=auto")
    assert "1 failed, 4 passed, 1 error" in shown, shown
    failed = shown.partition("_ test_failing _")[2]
    assert "-> PUB orders.created 1" in failed.partition("NATS trace")[2], failed
    untidy = shown.partition("ERROR at teardown of test_untidy")[2].partition("____ test_f")[0]
    assert "-> PUB orders.late 1" in untidy.partition("NATS trace")[2], untidy
