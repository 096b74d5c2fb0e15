"""The packer with lost acks and restarts of the server: each order is packed once."""

import asyncio
import json

import pytest
from service import make_broker


def order(number, quantity=2):
    return json.dumps({"number": number, "quantity": quantity})


@pytest.fixture
async def packer(nats_url, nats_stream):
    stream = nats_stream("ORDERS", "orders.>")
    broker = make_broker(nats_url)
    async with broker:
        await broker.start()
        yield stream


async def test_an_order_is_packed(packer, nats_capture):
    packer.publish("orders.placed", order(1))
    await nats_capture.wait_stored("orders.packed", count=1, json={"number": 1, "quantity": 2})


async def test_a_lost_ack_packs_nothing_twice(packer, nats_server, nats_capture, nats_clock):
    with nats_server.faults.lose_ack("ORDERS", "packers", nth=1) as fault:
        packer.publish("orders.placed", order(1))
        async with asyncio.timeout(60):
            while not fault.hits:
                await asyncio.sleep(0.01)
        await nats_clock.elapse(30)  # the ack wait: the order comes again
        await nats_capture.wait_published("$JS.ACK.ORDERS.packers.>", timeout_s=30)
    nats_capture.assert_stored("orders.packed", count=1)


async def test_a_large_order_is_refused(packer, nats_capture):
    packer.publish("orders.placed", order(1, quantity=1000))
    await nats_capture.wait_published("$JS.ACK.ORDERS.packers.>", payload="+TERM", timeout_s=30)
    nats_capture.assert_nothing_stored("orders.packed")
