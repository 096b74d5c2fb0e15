"""The three programs together, each test on a server of its own."""

import asyncio
import json
import subprocess
import sys

import nats.errors
import pytest
from orders.billing import make_broker
from orders.desk import Desk

TEA = json.dumps({"item": "tea", "quantity": 2}).encode()


@pytest.fixture
async def desk(nats_client):
    """The order desk at work, with the client of the test."""
    desk = Desk(nats_client)
    await desk.open()
    return desk


@pytest.mark.usefixtures("desk")
async def test_an_order_is_placed(nats_client, nats_capture):
    answer = await nats_client.request("orders.place", TEA, timeout=5)
    assert json.loads(answer.data) == {"number": 1, "item": "tea", "quantity": 2}
    nats_capture.assert_published("orders.placed", count=1, payload=answer.data)


@pytest.mark.usefixtures("desk")
async def test_a_wrong_order_is_refused(nats_client, nats_capture):
    answer = await nats_client.request("orders.place", b'{"quantity": 0}', timeout=5)
    assert "quantity" in json.loads(answer.data)["error"]
    nats_capture.assert_nothing_published("orders.placed")


@pytest.mark.usefixtures("desk")
async def test_an_invoice_follows(nats_client, nats_url):
    invoices = await nats_client.subscribe("invoices.written")
    broker = make_broker(nats_url)
    await broker.start()
    await nats_client.request("orders.place", TEA, timeout=5)
    assert json.loads((await invoices.next_msg(timeout=5)).data) == {"order": 1, "amount": 6}
    await broker.stop()


@pytest.mark.usefixtures("desk")
async def test_the_script_reports(nats_client, nats_url):
    await nats_client.request("orders.place", TEA, timeout=5)
    command = [sys.executable, "-m", "orders.report", nats_url]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "1 orders, 2 pieces\n"


async def test_nobody_at_the_desk(nats_client):
    with pytest.raises(nats.errors.NoRespondersError):
        await nats_client.request("orders.place", TEA, timeout=5)


@pytest.mark.usefixtures("desk")
async def test_a_lost_answer_is_a_time_out(nats_client, nats_server):
    with nats_server.faults.drop("_INBOX.>"), pytest.raises(nats.errors.TimeoutError):
        await nats_client.request("orders.place", TEA, timeout=0.2)


@pytest.mark.parametrize("number", range(200))
async def test_two_hundred_servers(nats_client, number):
    answers = await nats_client.subscribe(f"n.{number}")
    await nats_client.publish(f"n.{number}", b"x")
    assert (await answers.next_msg(timeout=5)).data == b"x"
