"""What `/metrics` says of streams and consumers, by name and in all."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import midge
from midge.server.config.options import Monitoring, Options
from midge.server.monitoring.metrics import Metrics


async def values(server: midge.Server) -> dict[str, float]:
    """Return the lines of the page about JetStream."""
    state: Any = server._core._state
    metrics = Metrics(state)
    lines = (metrics.page() + await metrics.by_name()).decode().splitlines()
    wanted = ("midge_jetstream", "midge_stream", "midge_consumer")
    pairs = (line.rpartition(" ") for line in lines if line.startswith(wanted))
    return {name: float(value) for name, _, value in pairs}


@pytest.fixture
async def server() -> Any:
    options = Options(monitoring=Monitoring(max_jetstream_series=2))
    async with midge.Server(options, port=-1, jetstream=True) as server:
        yield server


async def test_streams_and_consumers_by_name(server: midge.Server) -> None:
    js = server.jetstream
    stream = await js.add_stream("ORDERS", ["orders.*"])
    for number in range(5):
        await stream.publish(f"orders.{number % 2}", b"12345")
    config = {"durable_name": "billing", "ack_policy": "explicit"}
    body = {"stream_name": "ORDERS", "config": config}
    await js.call("CONSUMER.CREATE.ORDERS.billing", body)
    async with stream.consume("billing") as messages:
        await messages.next()
    body = {"stream_name": "ORDERS", "config": {"name": "passing", "inactive_threshold": 10**10}}
    await js.call("CONSUMER.CREATE.ORDERS.passing", body)
    found = await values(server)
    labels = '{account="$G",stream="ORDERS"}'
    assert found[f"midge_stream_messages{labels}"] == 5
    assert found[f"midge_stream_subjects{labels}"] == 2
    assert found[f"midge_stream_consumers{labels}"] == 2
    assert found[f"midge_stream_last_sequence{labels}"] == 5
    labels = '{account="$G",stream="ORDERS",consumer="billing"}'
    delivered = found[f"midge_consumer_delivered{labels}"]
    assert delivered >= 1
    assert found[f"midge_consumer_lag_messages{labels}"] == 5 - delivered
    assert found["midge_jetstream_consumers"] == 2
    assert not any("passing" in name for name in found)
    assert found['midge_jetstream_api_requests_total{account="$G"}'] >= 3


async def test_the_number_of_series_is_bounded(server: midge.Server) -> None:
    for number in range(5):
        await server.jetstream.add_stream(f"S{number}", [f"s{number}"])
    found = await values(server)
    listed = {name for name in found if name.startswith("midge_stream_messages")}
    assert listed == {f'midge_stream_messages{{account="$G",stream="S{n}"}}' for n in range(2)}
    assert found['midge_jetstream_series_left_out{kind="streams"}'] == 3
    assert found["midge_jetstream_streams"] == 5


async def test_a_server_without_jetstream_says_nothing_of_it() -> None:
    async with midge.Server(port=-1) as server:
        assert await values(server) == {}


async def test_the_whole_page_can_be_parsed(server: midge.Server) -> None:
    await server.jetstream.add_stream("S", ["s"])
    state: Any = server._core._state
    metrics = Metrics(state)
    text = (metrics.page() + await metrics.by_name()).decode()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert families["midge_stream_messages"].samples[0].labels == {"account": "$G", "stream": "S"}
