"""Streams, consumers, key-value and objects through nats.py, in memory and in files."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DeliverPolicy, StorageType, StreamConfig
from nats.js.errors import BadRequestError, KeyNotFoundError, NotFoundError

import midge


@pytest.fixture(params=["memory", "file"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[midge.Server]:
    """Serve with JetStream: all in memory, or in a directory."""
    where = True if request.param == "memory" else str(tmp_path)
    async with midge.Server(port=-1, jetstream=where) as server:
        yield server


@pytest.fixture
async def client(server: midge.Server) -> AsyncIterator[Client]:
    client = await nats.connect(server.url)
    yield client
    await client.close()


@pytest.fixture
def js(client: Client) -> JetStreamContext:
    return client.jetstream(timeout=30)


async def test_published_messages_are_acknowledged_and_numbered(js: JetStreamContext) -> None:
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    acks = [await js.publish(f"orders.{n}", b"%d" % n) for n in range(3)]
    assert [(ack.stream, ack.seq) for ack in acks] == [("ORDERS", n) for n in (1, 2, 3)]
    info = await js.stream_info("ORDERS")
    assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (3, 1, 3)
    assert (await js.get_msg("ORDERS", 2)).data == b"1"


async def test_many_are_acknowledged_in_order(js: JetStreamContext) -> None:
    await js.add_stream(name="S", subjects=["s"])
    futures = [await js.publish_async("s", b"%d" % n) for n in range(2000)]
    seqs = [(await future).seq for future in futures]
    assert seqs == list(range(1, 2001))


async def test_a_pull_consumer_gets_all_once(js: JetStreamContext) -> None:
    await js.add_stream(name="S", subjects=["s"])
    for n in range(10):
        await js.publish("s", b"%d" % n)
    subscription = await js.pull_subscribe("s", durable="D")
    messages = await subscription.fetch(10, timeout=30)
    assert [message.data for message in messages] == [b"%d" % n for n in range(10)]
    for message in messages:
        await message.ack_sync()
    info = await subscription.consumer_info()
    assert (info.num_ack_pending, info.num_pending, info.ack_floor.stream_seq) == (0, 0, 10)
    with pytest.raises(NatsTimeoutError):
        await subscription.fetch(1, timeout=0.2)


async def test_a_push_consumer_gets_what_comes(js: JetStreamContext) -> None:
    await js.add_stream(name="S", subjects=["s"])
    subscription = await js.subscribe("s")
    await js.publish("s", b"hello")
    message = await subscription.next_msg(timeout=30)
    assert message.data == b"hello"
    await message.ack()


async def test_an_ordered_consumer_reads_from_the_start(js: JetStreamContext) -> None:
    await js.add_stream(name="S", subjects=["s"])
    for n in range(500):
        await js.publish("s", b"%d" % n)
    subscription = await js.subscribe("s", ordered_consumer=True)
    got = [(await subscription.next_msg(timeout=30)).data for _ in range(500)]
    assert got == [b"%d" % n for n in range(500)]


@pytest.mark.parametrize(
    "change",
    [lambda t: t[:-1], lambda t: [*t, "x"], lambda t: t[:5], lambda t: [*t[:4], "1"]],
    ids=["too-few", "too-many", "one-number", "another-number"],
)
async def test_an_ack_subject_of_another_length_confirms_nothing(
    js: JetStreamContext, change: Callable[[list[str]], list[str]]
) -> None:
    await js.add_stream(name="ACKS", subjects=["acks"])
    await js.publish("acks", b"x")
    subscription = await js.pull_subscribe("acks", "durable")
    (message,) = await subscription.fetch(1)
    with pytest.raises(NoRespondersError):
        await js._nc.request(".".join(change(message.reply.split("."))), b"+ACK", timeout=10)
    assert (await js.consumer_info("ACKS", "durable")).num_ack_pending == 1
    await js._nc.request(message.reply, b"+ACK", timeout=10)
    assert (await js.consumer_info("ACKS", "durable")).num_ack_pending == 0


async def test_what_is_not_acknowledged_comes_again(js: JetStreamContext) -> None:
    await js.add_stream(name="S", subjects=["s"])
    await js.publish("s", b"x")
    config = ConsumerConfig(ack_wait=0.2)
    subscription = await js.pull_subscribe("s", durable="D", config=config)
    first = (await subscription.fetch(1, timeout=30))[0]
    second = (await subscription.fetch(1, timeout=30))[0]
    assert (first.metadata.num_delivered, second.metadata.num_delivered) == (1, 2)
    assert first.metadata.sequence.stream == second.metadata.sequence.stream == 1


async def test_key_value(js: JetStreamContext) -> None:
    bucket = await js.create_key_value(bucket="B", history=5)
    assert await bucket.put("a", b"1") == 1
    assert await bucket.put("a", b"2") == 2
    assert (await bucket.get("a")).value == b"2"
    await bucket.delete("a")
    with pytest.raises(KeyNotFoundError):
        await bucket.get("a")
    await bucket.create("b", b"3")
    assert sorted(await bucket.keys()) == ["b"]
    watcher = await bucket.watchall()
    entries = []
    while (entry := await watcher.updates(timeout=30)) is not None:
        entries.append((entry.key, entry.operation))
    assert entries == [("a", "DEL"), ("b", None)]


async def test_objects(js: JetStreamContext) -> None:
    store = await js.create_object_store("O")
    data = bytes(range(256)) * 4096
    await store.put("big", data)
    assert (await store.get("big")).data == data
    await store.delete("big")
    with pytest.raises(NotFoundError):
        await store.get("big")


async def test_refusals_say_why(js: JetStreamContext) -> None:
    await js.add_stream(name="S", subjects=["s"])
    with pytest.raises(BadRequestError, match="subjects overlap with an existing stream"):
        await js.add_stream(name="T", subjects=["s"])
    with pytest.raises(NotFoundError, match="stream not found"):
        await js.stream_info("NOPE")


async def test_direct_get_and_last_per_subject(js: JetStreamContext) -> None:
    await js.add_stream(StreamConfig(name="S", subjects=["s.*"], allow_direct=True))
    for n in range(6):
        await js.publish(f"s.{n % 2}", b"%d" % n)
    assert (await js.get_last_msg("S", "s.0", direct=True)).data == b"4"
    config = ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT)
    subscription = await js.subscribe("s.*", config=config)
    got = [(await subscription.next_msg(timeout=30)).data for _ in range(2)]
    assert got == [b"4", b"5"]


async def test_streams_outlive_the_server(tmp_path: Path) -> None:
    for run in range(3):
        async with midge.Server(port=-1, jetstream=str(tmp_path)) as server:
            client = await nats.connect(server.url)
            js = client.jetstream(timeout=30)
            if run == 0:
                await js.add_stream(name="S", subjects=["s"])
                await js.add_stream(name="M", subjects=["m"], storage=StorageType.MEMORY)
                await js.publish("m", b"gone")
            subscription = await js.pull_subscribe("s", durable="D")
            await js.publish("s", b"%d" % run)
            message = (await subscription.fetch(1, timeout=30))[0]
            assert message.data == b"%d" % run
            await message.ack_sync()
            assert (await js.stream_info("S")).state.messages == run + 1
            if run:
                with pytest.raises(NotFoundError):
                    await js.stream_info("M")
            await client.close()
            await asyncio.sleep(0)
