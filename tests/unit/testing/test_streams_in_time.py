"""JetStream on a clock that a test turns: everything falls due at its very moment."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import nats.js.errors
import pytest
from nats.js.api import ConsumerConfig

import midge
from midge.testing import ManualClock, SettlingClient, SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOUR_S = 3600
DAY_S = 24 * HOUR_S


class Scene:
    """A server on a turned clock, and a client."""

    def __init__(self, server: midge.Server, clock: ManualClock, client: SettlingClient) -> None:
        self.server = server
        self.clock = clock
        self.client = client
        self.jetstream = client.jetstream()

    async def messages(self, stream: str = "ORDERS") -> int:
        return (await self.jetstream.stream_info(stream)).state.messages

    async def stream(self, **settings: Any) -> None:
        await self.jetstream.add_stream(name="ORDERS", subjects=["orders.>"], **settings)

    async def consumer(self, **settings: Any) -> Any:
        config = ConsumerConfig(**settings)
        return await self.jetstream.pull_subscribe("orders.>", "workers", config=config)


@asynccontextmanager
async def scene(**settings: Any) -> AsyncIterator[Scene]:
    clock = ManualClock()
    async with midge.Server(port=-1, jetstream=True, clock=clock, **settings) as server:
        client = await SettlingClient.connected(server.client_url(), allow_reconnect=False)
        yield Scene(server, clock, client)
        await client.close()


@pytest.mark.parametrize("has_disk", [False, True], ids=["memory", "disk"])
async def test_a_day_passes_at_once_and_to_the_nanosecond(has_disk: bool) -> None:
    async with scene(disk=SimulatedDisk(1) if has_disk else None) as at:
        await at.stream(max_age=DAY_S)
        await at.jetstream.publish("orders.new", b"1")
        began = time.process_time()
        await at.clock.elapse(DAY_S - 1e-9)
        assert await at.messages() == 1
        await at.clock.elapse(1e-9)
        assert await at.messages() == 0
        assert time.process_time() - began < 5, "a turn of the clock for each second of the day"
        assert at.client.is_connected  # no PING went unanswered meanwhile


async def test_pings_go_by_the_clock_where_they_are_asked_for() -> None:
    async with scene(ping_interval=60) as at:
        at.clock.advance(HOUR_S)
        assert at.server.connections == []


async def test_ack_wait_and_deliveries() -> None:
    async with scene() as at:
        await at.stream()
        orders = await at.consumer(ack_wait=30, max_deliver=2)
        await at.jetstream.publish("orders.new", b"1")
        (first,) = await orders.fetch(1, timeout=30)
        assert first.metadata.num_delivered == 1
        await at.clock.elapse(29.999)
        with pytest.raises(TimeoutError):
            await orders.fetch(1, timeout=0.1)
        await at.clock.elapse(0.001)
        (again,) = await orders.fetch(1, timeout=30)
        assert again.metadata.num_delivered == 2
        await at.clock.elapse(30)
        with pytest.raises(TimeoutError):
            await orders.fetch(1, timeout=0.1)
        assert (await orders.consumer_info()).num_ack_pending == 0  # it was the last delivery


async def test_backoff() -> None:
    async with scene() as at:
        await at.stream()
        orders = await at.consumer(backoff=[1, 60], max_deliver=5)
        await at.jetstream.publish("orders.new", b"1")
        moments = []
        for wait_s in (0, 1, 60, 60):
            await at.clock.elapse(wait_s)
            (message,) = await orders.fetch(1, timeout=30)
            moments.append((at.clock.monotonic(), message.metadata.num_delivered))
        assert moments == [(0, 1), (1, 2), (61, 3), (121, 4)]


async def test_a_delayed_nak() -> None:
    async with scene() as at:
        await at.stream()
        orders = await at.consumer(ack_wait=30)
        await at.jetstream.publish("orders.new", b"1")
        (message,) = await orders.fetch(1, timeout=30)
        await message.nak(delay=HOUR_S)
        await at.client.flush()
        await at.clock.elapse(HOUR_S - 0.001)
        assert (await orders.consumer_info()).num_redelivered == 0
        await at.clock.elapse(0.001)
        (message,) = await orders.fetch(1, timeout=30)
        assert message.metadata.num_delivered == 2


async def test_the_duplicate_window() -> None:
    async with scene() as at:
        await at.stream(duplicate_window=120)
        identity = {"Nats-Msg-Id": "1"}
        acks = [await at.jetstream.publish("orders.new", b"", headers=identity)]
        for wait_s in (119.999, 0.001):
            await at.clock.elapse(wait_s)
            acks.append(await at.jetstream.publish("orders.new", b"", headers=identity))
        assert [(ack.seq, ack.duplicate) for ack in acks] == [(1, None), (1, True), (2, None)]


async def test_the_life_of_one_message_and_its_marker() -> None:
    async with scene() as at:
        await at.stream(allow_msg_ttl=True, subject_delete_marker_ttl=HOUR_S)
        await at.jetstream.publish("orders.new", b"1", headers={"Nats-TTL": "2h"})
        await at.clock.elapse(2 * HOUR_S)
        marker = await at.jetstream.get_last_msg("ORDERS", "orders.new")
        assert marker.headers["Nats-Marker-Reason"] == "MaxAge"
        await at.clock.elapse(HOUR_S)
        assert await at.messages() == 0


async def test_a_schedule() -> None:
    async with scene() as at:
        await at.server.request(
            "$JS.API.STREAM.CREATE.TASKS",
            b'{"name":"TASKS","subjects":["tasks.>","due.>"],"allow_msg_schedules":true}',
        )
        headers = {"Nats-Schedule": "@every 1h", "Nats-Schedule-Target": "due.report"}
        await at.jetstream.publish("tasks.report", b"go", headers=headers)
        due = at.server.subscribe("due.>")
        await at.clock.elapse(DAY_S)
        assert await at.messages("TASKS") == 1 + 24
        due.unsubscribe()


async def test_an_inactive_consumer() -> None:
    async with scene() as at:
        await at.stream()
        orders = await at.consumer(inactive_threshold=300)
        await at.clock.elapse(299.999)
        assert (await orders.consumer_info()).name == "workers"
        await at.clock.elapse(300)
        with pytest.raises(nats.js.errors.NotFoundError):
            await orders.consumer_info()


async def test_times_are_those_of_the_clock_and_repeat() -> None:
    stamps = []
    for _ in range(2):
        async with scene(seed=7) as at:
            await at.stream()
            await at.clock.elapse(0.5)
            await at.jetstream.publish("orders.new", b"1")
            stored = await at.jetstream.get_msg("ORDERS", 1)
            stamps.append(stored.time.isoformat())
    assert stamps == ["2023-11-14T22:13:20.500000+00:00"] * 2


async def test_callbacks_of_the_process_run_between_timers() -> None:
    async with scene() as at:
        await at.stream()
        seen = []

        async def take(message: midge.Message) -> None:
            seen.append(at.clock.monotonic())
            if len(seen) == 3:
                message.respond(b"+ACK")

        at.server.subscribe("work", take)
        await at.server.request(
            "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.pushed",
            b'{"stream_name":"ORDERS","config":{"durable_name":"pushed","deliver_subject":"work",'
            b'"ack_policy":"explicit","ack_wait":60000000000}}',
        )
        await at.jetstream.publish("orders.new", b"1")
        await at.clock.elapse(DAY_S)
        assert seen == [0, 60, 120]


@pytest.mark.parametrize("has_disk", [False, True], ids=["memory", "disk"])
async def test_a_push_consumer_gets_what_comes_after_it(has_disk: bool) -> None:
    async with scene(disk=SimulatedDisk(1) if has_disk else None) as at:
        await at.stream()
        orders = await at.jetstream.subscribe("orders.>")
        await at.jetstream.publish("orders.new", b"1")
        assert (await orders.next_msg(timeout=30)).data == b"1"
