"""The packer: orders come from a stream, and none is lost, whatever happens to an ack."""

import json

import pytest
from orders.packing import Packer


def order(number, quantity=2):
    return json.dumps({"number": number, "item": "tea", "quantity": quantity})


@pytest.fixture
def orders(nats_stream):
    """The stream that keeps the placed orders."""
    stream = nats_stream("ORDERS", "orders.placed", retention="workqueue")
    stream.consumer("packers", ack_wait=30)
    return stream


@pytest.fixture
async def packer(orders, nats_jetstream):
    assert "packers" in orders.consumers
    packer = Packer(nats_jetstream)
    await packer.open()
    return packer


async def test_orders_are_packed_and_gone(packer, orders, nats_client):
    orders.publish("orders.placed", order(1))
    orders.publish("orders.placed", order(2))
    while await packer.pack():
        pass
    await nats_client.flush()
    assert packer.packed == [1, 2]
    assert orders.messages == []


async def test_a_lost_ack_packs_nothing_twice(packer, orders, nats_client, nats_server, nats_clock):
    orders.publish("orders.placed", order(1))
    with nats_server.faults.lose_ack("ORDERS", "packers", nth=1):
        assert await packer.pack()
        await nats_client.flush()
        assert len(orders.messages) == 1
        await nats_clock.elapse(30)
        assert await packer.pack()
        await nats_client.flush()
    assert packer.packed == [1]
    assert orders.messages == []


async def test_an_order_that_does_not_fit_is_given_up(packer, orders, nats_client):
    orders.publish("orders.placed", order(1, quantity=1000))
    assert await packer.pack()
    await nats_client.flush()
    assert (packer.packed, orders.messages) == ([], [])


async def test_the_stream_is_purged_under_the_packer(packer, orders, nats_server):
    orders.publish("orders.placed", order(1))
    nats_server.faults.purge_stream("ORDERS")
    assert not await packer.pack()
