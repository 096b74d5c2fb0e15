"""The web service against a real NATS server in the test process."""

import pytest
from httpx import ASGITransport, AsyncClient
from service import app, connected


@pytest.fixture
async def web(nats_url, monkeypatch):
    monkeypatch.setenv("NATS_URL", nats_url)
    async with (
        connected(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://web") as client,
    ):
        yield client


async def test_an_order_is_announced(web, nats_capture):
    answer = await web.post("/orders", json={"item": "tea", "quantity": 2})
    assert answer.status_code == 202
    await nats_capture.wait_published("orders.placed", count=1, json={"item": "tea", "quantity": 2})


async def test_a_price(web, nats_server):
    nats_server.subscribe("prices.*", lambda message: message.respond('{"price": 3}'))
    assert (await web.get("/prices/tea")).json() == {"price": 3}


async def test_without_a_price_service(web):
    assert (await web.get("/prices/tea")).status_code == 503


async def test_a_wrong_order_is_not_announced(web, nats_capture):
    assert (await web.post("/orders", json={"quantity": 2})).status_code == 422
    await nats_capture.wait_nothing_published("orders.>")
