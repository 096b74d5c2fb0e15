"""Tasks through the embedded server, with a worker in the same loop."""

import asyncio

import pytest
from taskiq.api import run_receiver_task
from tasks import make_broker

import midge


@pytest.fixture
async def broker(tmp_path):
    async with midge.Server(port=-1, jetstream=tmp_path / "store") as server:
        broker = make_broker(server.url)
        await broker.startup()
        worker = asyncio.create_task(run_receiver_task(broker))
        yield broker
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await broker.shutdown()


async def test_a_result(broker):
    task = await broker.find_task("total").kiq([3, 4])
    assert (await task.wait_result(timeout=30)).return_value == 7


async def test_a_failure(broker):
    task = await broker.find_task("total").kiq([])
    result = await task.wait_result(timeout=30)
    assert (result.is_err, str(result.error)) == (True, "nothing to pay")
