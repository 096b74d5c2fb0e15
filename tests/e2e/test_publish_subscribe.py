"""Unmodified nats-py clients publish and subscribe through midge."""

from __future__ import annotations

import asyncio
import os

import nats.errors
import pytest
from nats.aio.msg import Msg

from .conftest import Connect


async def test_a_message_reaches_a_subscriber(connect: Connect) -> None:
    publisher, subscriber = await connect(), await connect()
    subscription = await subscriber.subscribe("ps.one")
    await subscriber.flush()
    await publisher.publish("ps.one", b"payload", reply="ps.reply")
    message = await subscription.next_msg(timeout=30)
    assert (message.subject, message.data, message.reply) == ("ps.one", b"payload", "ps.reply")


async def test_messages_keep_their_order(connect: Connect) -> None:
    publisher, subscriber = await connect(), await connect()
    subscription = await subscriber.subscribe("ps.order.*")
    await subscriber.flush()
    for i in range(5000):
        await publisher.publish(f"ps.order.{i % 7}", b"%d" % i)
    await publisher.flush()
    received = [int((await subscription.next_msg(timeout=30)).data) for _ in range(5000)]
    assert received == list(range(5000))


async def test_every_subscriber_gets_a_copy(connect: Connect) -> None:
    publisher = await connect()
    subscribers = [await connect() for _ in range(10)]
    subscriptions = [await each.subscribe("ps.fan") for each in subscribers]
    await asyncio.gather(*(each.flush() for each in subscribers))
    await publisher.publish("ps.fan", b"x")
    messages = await asyncio.gather(*(each.next_msg(timeout=30) for each in subscriptions))
    assert [message.data for message in messages] == [b"x"] * 10


@pytest.mark.parametrize(
    ("pattern", "heard"),
    [
        ("w.*", ["w.a", "w.b"]),
        ("w.*.c", ["w.a.c"]),
        ("w.>", ["w.a", "w.b", "w.a.c", "w.a.c.d"]),
        ("*.a.>", ["w.a.c", "w.a.c.d"]),
        ("w.a", ["w.a"]),
    ],
)
async def test_wildcards(connect: Connect, pattern: str, heard: list[str]) -> None:
    client = await connect()
    subscription = await client.subscribe(pattern)
    end = await client.subscribe("end.of.wildcards")
    for subject in ("w", "w.a", "w.b", "w.a.c", "w.a.c.d", "end.of.wildcards"):
        await client.publish(subject)
    await end.next_msg(timeout=30)
    received = [(await subscription.next_msg(timeout=30)).subject for _ in heard]
    assert received == heard
    assert subscription.pending_msgs == 0


async def test_headers_arrive_unchanged(connect: Connect) -> None:
    client = await connect()
    subscription = await client.subscribe("ps.headers")
    headers = {"Trace-Id": "1", "case-KEPT": "välue", "Empty": ""}
    await client.publish("ps.headers", b"body", headers=headers)
    message = await subscription.next_msg(timeout=30)
    assert message.headers == headers
    assert message.data == b"body"


async def test_headers_are_stripped_for_a_client_without_them(connect: Connect) -> None:
    publisher, subscriber = await connect(), await connect()
    subscriber.options["headers"] = False
    subscription = await subscriber.subscribe("ps.bare")
    await subscriber.flush()
    await publisher.publish("ps.bare", b"body", headers={"K": "v"})
    assert (await subscription.next_msg(timeout=30)).data == b"body"


@pytest.mark.parametrize("size", [0, 1, 4095, 65_536, 1_048_576])
async def test_payload_of_any_size_up_to_the_limit(connect: Connect, size: int) -> None:
    publisher, subscriber = await connect(), await connect()
    subscription = await subscriber.subscribe("ps.size")
    await subscriber.flush()
    payload = os.urandom(size)
    for _ in range(3):
        await publisher.publish("ps.size", payload)
    for _ in range(3):
        assert (await subscription.next_msg(timeout=30)).data == payload


async def test_payload_beyond_the_limit_is_refused_by_the_client(connect: Connect) -> None:
    client = await connect()
    assert client.max_payload == 1_048_576
    with pytest.raises(nats.errors.MaxPayloadError):
        await client.publish("ps.size", bytes(1_048_577))


async def test_no_echo(connect: Connect) -> None:
    quiet, other = await connect(no_echo=True), await connect()
    subscription = await quiet.subscribe("ps.echo")
    await quiet.flush()
    await quiet.publish("ps.echo", b"own")
    await quiet.flush()
    await other.publish("ps.echo", b"other")
    assert (await subscription.next_msg(timeout=30)).data == b"other"


async def test_two_hundred_clients(connect: Connect) -> None:
    everyone = await asyncio.gather(*(connect() for _ in range(200)))
    counts = [0] * len(everyone)
    all_heard = asyncio.Event()

    async def subscribe(index: int) -> None:
        async def heard(message: Msg) -> None:
            counts[index] += 1
            if sum(counts) == len(everyone) * len(everyone):
                all_heard.set()

        await everyone[index].subscribe("ps.crowd", cb=heard)
        await everyone[index].flush()

    await asyncio.gather(*(subscribe(index) for index in range(len(everyone))))
    await asyncio.gather(*(client.publish("ps.crowd", b"hello") for client in everyone))
    await asyncio.wait_for(all_heard.wait(), timeout=30)
    assert counts == [200] * 200
