"""Faults of streams, consumers and the disk below them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import nats.errors
import nats.js.errors
import pytest
from nats.js.api import ConsumerConfig

import midge
from midge.protocol.errors import MidgeError
from midge.testing import ManualClock, SettlingClient, SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Shop:
    """A server with a stream of orders, and a client."""

    def __init__(self, server: midge.Server, clock: ManualClock, client: SettlingClient) -> None:
        self.server = server
        self.faults = server.faults
        self.clock = clock
        self.client = client
        self.streams = client.jetstream()

    async def workers(self, **settings: Any) -> Any:
        config = ConsumerConfig(ack_wait=30, **settings)
        return await self.streams.pull_subscribe("orders.>", "workers", config=config)

    async def place(self, *orders: str) -> None:
        for order in orders:
            await self.streams.publish("orders.new", order.encode(), timeout=0.2)

    async def messages(self) -> int:
        state = (await self.streams.stream_info("ORDERS")).state
        return state.messages


@pytest.fixture
def disk() -> SimulatedDisk | None:
    return None


@pytest.fixture
async def shop(disk: SimulatedDisk | None) -> AsyncIterator[Shop]:
    clock = ManualClock()
    async with midge.Server(port=-1, jetstream=True, clock=clock, disk=disk) as server:
        client = await SettlingClient.connected(server.url, name="till", allow_reconnect=False)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        yield Shop(server, clock, client)
        await client.close()


async def test_a_lost_ack_brings_the_message_again(shop: Shop) -> None:
    workers = await shop.workers()
    await shop.place("1")
    with shop.faults.lose_ack("ORDERS", "workers", nth=1) as fault:
        (message,) = await workers.fetch(1, timeout=30)
        await message.ack()
        await shop.client.flush()
        assert fault.hits == 1
        await shop.clock.elapse(30)
        (again,) = await workers.fetch(1, timeout=30)
        assert again.metadata.num_delivered == 2
        await again.ack()
        await shop.client.flush()
    assert (await workers.consumer_info()).num_ack_pending == 0


async def test_a_lost_confirmation_leaves_the_message_stored(shop: Shop) -> None:
    identity = {"Nats-Msg-Id": "1"}
    with shop.faults.lose_confirmation("ORDERS", nth=1) as fault:
        with pytest.raises(nats.errors.TimeoutError):
            await shop.streams.publish("orders.new", b"1", headers=identity, timeout=0.1)
        ack = await shop.streams.publish("orders.new", b"1", headers=identity, timeout=30)
        assert (ack.seq, ack.duplicate, fault.hits) == (1, True, 1)
    await shop.place("2")
    assert await shop.messages() == 2


async def test_refusals_are_no_confirmations(shop: Shop) -> None:
    with shop.faults.lose_confirmation("ORDERS") as fault:
        with pytest.raises(nats.js.errors.APIError):
            await shop.streams.publish(
                "orders.new", b"1", headers={"Nats-Expected-Last-Sequence": "9"}, timeout=30
            )
        assert fault.hits == 0


async def test_redelivery_at_once(shop: Shop) -> None:
    workers = await shop.workers()
    await shop.place("1", "2")
    await workers.fetch(2, timeout=30)
    assert shop.faults.redeliver("ORDERS", "workers", seq=2).hits == 1
    (again,) = await workers.fetch(1, timeout=30)
    assert (again.data, again.metadata.num_delivered) == (b"2", 2)
    assert shop.faults.redeliver("ORDERS", "workers").hits == 2
    assert [one.metadata.num_delivered for one in await workers.fetch(2, timeout=30)] == [2, 3]


async def test_a_purge_under_a_consumer(shop: Shop) -> None:
    workers = await shop.workers()
    await shop.place("1", "2", "3")
    with shop.faults.purge_stream("ORDERS", after_deliveries=2) as fault:
        assert len(await workers.fetch(1, timeout=30)) == 1
        assert await shop.messages() == 3
        assert len(await workers.fetch(1, timeout=30)) == 1
        assert (await shop.messages(), fault.hits) == (0, 1)


async def test_a_consumer_deleted_under_a_request(shop: Shop) -> None:
    inbox = shop.server.subscribe("inbox")
    await shop.workers()
    shop.server.publish(
        "$JS.API.CONSUMER.MSG.NEXT.ORDERS.workers",
        b'{"batch":1,"expires":1000000000}',
        None,
        "inbox",
    )
    shop.faults.delete_consumer("ORDERS", "workers")
    told = await inbox.next(5)
    assert told.headers["Status"] == ["409"]
    assert told.headers["Description"] == ["Consumer Deleted"]
    with pytest.raises(ValueError, match="consumer of ORDERS: it has no consumer, got 'workers'"):
        shop.faults.delete_consumer("ORDERS", "workers")


async def test_a_stream_deleted_after_a_delivery(shop: Shop) -> None:
    workers = await shop.workers()
    await shop.place("1", "2")
    shop.faults.delete_stream("ORDERS", after_deliveries=1)
    await workers.fetch(1, timeout=30)
    with pytest.raises(nats.js.errors.NotFoundError):
        await shop.streams.stream_info("ORDERS")
    with pytest.raises(ValueError, match="there is no stream, got 'ORDERS'"):
        shop.faults.purge_stream("ORDERS")


async def test_a_change_of_leader(shop: Shop) -> None:
    inbox = shop.server.subscribe("inbox")
    advisories = shop.server.subscribe("$JS.EVENT.ADVISORY.*.LEADER_ELECTED.>")
    await shop.workers()
    shop.server.publish(
        "$JS.API.CONSUMER.MSG.NEXT.ORDERS.workers",
        b'{"batch":1,"expires":1000000000}',
        None,
        "inbox",
    )
    assert shop.faults.leader_change("ORDERS").hits == 1
    assert (await inbox.next(5)).headers["Description"] == ["Leadership Change"]
    told = [json.loads((await advisories.next(5)).payload) for _ in range(2)]
    assert [event["stream"] for event in told] == ["ORDERS", "ORDERS"]
    assert told[1]["consumer"] == "workers"


async def test_a_full_store(shop: Shop) -> None:
    with shop.faults.store_full():
        with pytest.raises(nats.js.errors.APIError) as refused:
            await shop.place("1")
        assert refused.value.err_code == 10023
    await shop.place("2")
    assert await shop.messages() == 1


async def test_a_fault_of_the_disk_needs_one(shop: Shop) -> None:
    with pytest.raises(MidgeError, match="SimulatedDisk"):
        shop.faults.slow_disk(1)


async def test_faults_of_streams_need_them() -> None:
    async with midge.Server(port=-1) as server:
        with pytest.raises(MidgeError, match="jetstream=True"):
            server.faults.store_full()
    with pytest.raises(midge.ConfigError, match="jetstream=True"):
        midge.Server(port=-1, disk=SimulatedDisk())


class TestDisk:
    """Faults of the disk."""

    @pytest.fixture
    def disk(self) -> SimulatedDisk:
        return SimulatedDisk(1)

    async def test_a_slow_disk_delays_the_ack_and_not_the_sequence(self, shop: Shop) -> None:
        with shop.faults.slow_disk(2):
            acks = shop.server.subscribe("acks")
            shop.server.publish("orders.new", "1", reply="acks")
            await shop.clock.elapse(1.9)
            assert acks.pending() == 0
            await shop.clock.elapse(0.1)
            assert json.loads((await acks.next(5)).payload)["seq"] == 1

    async def test_a_failed_sync_refuses_and_loses_nothing(
        self, shop: Shop, disk: SimulatedDisk
    ) -> None:
        await shop.place("1")
        with shop.faults.failing_disk() as fault:
            with pytest.raises(nats.js.errors.APIError) as refused:
                await shop.place("2")
            assert (refused.value.err_code, fault.hits) == (10077, 1)
        with pytest.raises(nats.js.errors.APIError):
            await shop.place("3")
        assert await shop.messages() == 1
        async with midge.Server(port=-1, jetstream=True, disk=disk.power_failed()) as again:
            info = await again.request("$JS.API.STREAM.INFO.ORDERS")
            assert json.loads(info.payload)["state"]["messages"] == 1

    async def test_a_full_disk_takes_acks_and_has_room_again(self, shop: Shop) -> None:
        workers = await shop.workers()
        await shop.place("1")
        (message,) = await workers.fetch(1, timeout=30)
        with shop.faults.full_disk():
            with pytest.raises(nats.js.errors.APIError) as refused:
                await shop.place(*["x" * 1000] * 400)
            assert "no room" in str(refused.value)
            await message.ack()
            await shop.client.flush()
            assert (await workers.consumer_info()).num_ack_pending == 0
        await shop.clock.elapse(1)
        await shop.place("2")
