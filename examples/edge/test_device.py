"""The device while its hub is there, away, and while an answer is lost: each reading comes once."""

import asyncio
import contextlib

import pytest
from device import Device


@pytest.fixture
async def device(tmp_path):
    async with Device("cellar", tmp_path / "store") as device:
        yield device


@contextlib.asynccontextmanager
async def forwarding(device, url):
    task = asyncio.create_task(device.forward(url))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def emptied(device):
    async with asyncio.timeout(60):
        while await device.waiting():
            await asyncio.sleep(0.01)


async def test_readings_wait_for_the_hub(device, nats_stream, nats_url):
    hub = nats_stream("READINGS", "readings.>")
    for value in (20.5, 21.0):
        await device.read(value)
    assert await device.waiting() == 2
    async with forwarding(device, nats_url):
        await emptied(device)
    assert [message.text for message in hub.messages] == ["20.5", "21.0"]


async def test_a_hub_that_loses_power(device, nats_stream, nats_url, nats_server):
    hub = nats_stream("READINGS", "readings.>")
    async with forwarding(device, nats_url):
        with nats_server.faults.restart("readings.*", nth=3, power_failure=True) as fault:
            for value in range(5):
                await device.read(value)
            await emptied(device)
    assert fault.hits == 1
    assert [message.text for message in hub.messages] == ["0", "1", "2", "3", "4"]


async def test_a_lost_confirmation_stores_nothing_twice(device, nats_stream, nats_url, nats_server):
    hub = nats_stream("READINGS", "readings.>")
    with nats_server.faults.lose_confirmation("READINGS", nth=1):
        async with forwarding(device, nats_url):
            await device.read(20.5)
            await emptied(device)
    assert [message.text for message in hub.messages] == ["20.5"]


async def test_readings_survive_the_device(tmp_path, nats_stream, nats_url):
    hub = nats_stream("READINGS", "readings.>")
    async with Device("cellar", tmp_path / "store") as device:
        await device.read(20.5)
    async with Device("cellar", tmp_path / "store") as device, forwarding(device, nats_url):
        await emptied(device)
    assert [message.text for message in hub.messages] == ["20.5"]
