"""Subscriptions and connections that end: auto-unsubscribe, drain, restart of the server."""

from __future__ import annotations

import asyncio

import nats.errors
import pytest
from nats.aio.msg import Msg

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command

from .conftest import Connect


async def test_auto_unsubscribe(connect: Connect) -> None:
    subscriber, publisher = await connect(), await connect()
    subscription = await subscriber.subscribe("lt.auto")
    await subscription.unsubscribe(limit=3)
    await subscriber.flush()
    for i in range(10):
        await publisher.publish("lt.auto", b"%d" % i)
    await publisher.flush()
    received = [(await subscription.next_msg(timeout=30)).data for _ in range(3)]
    assert received == [b"0", b"1", b"2"]
    await subscriber.flush()
    with pytest.raises(nats.errors.Error):
        await subscription.next_msg(timeout=0.2)


async def test_auto_unsubscribe_ends_the_interest(connect: Connect) -> None:
    service, client = await connect(), await connect()

    async def answer(message: Msg) -> None:
        await message.respond(b"once")

    subscription = await service.subscribe("lt.once", cb=answer)
    await subscription.unsubscribe(limit=1)
    await service.flush()
    assert (await client.request("lt.once", timeout=30)).data == b"once"
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("lt.once", timeout=30)


async def test_draining_a_connection_handles_what_was_sent(connect: Connect) -> None:
    subscriber, publisher = await connect(), await connect()
    received: list[int] = []
    started = asyncio.Event()

    async def slowly(message: Msg) -> None:
        started.set()
        await asyncio.sleep(0)
        received.append(int(message.data))

    await subscriber.subscribe("lt.drain", cb=slowly)
    await subscriber.flush()
    for i in range(500):
        await publisher.publish("lt.drain", b"%d" % i)
    await publisher.flush()
    await started.wait()
    await subscriber.drain()
    assert received == list(range(500))
    assert subscriber.is_closed


async def test_a_drained_publisher_has_sent_everything(connect: Connect) -> None:
    subscriber, publisher = await connect(), await connect()
    subscription = await subscriber.subscribe("lt.last")
    await subscriber.flush()
    for i in range(100):
        await publisher.publish("lt.last", b"%d" % i)
    await publisher.drain()
    received = [int((await subscription.next_msg(timeout=30)).data) for _ in range(100)]
    assert received == list(range(100))


async def test_clients_reconnect_after_a_restart() -> None:
    first = Server(midge_command()).wait_ready()
    _, port = first.address()
    reconnected = asyncio.Event()
    disconnected = asyncio.Event()

    async def on_reconnect() -> None:
        reconnected.set()

    async def on_disconnect() -> None:
        disconnected.set()

    async def on_error(error: Exception) -> None:
        """Refused attempts while the server is away are expected."""

    client = await SettlingClient.connected(
        first.url,
        reconnect_time_wait=0.05,
        max_reconnect_attempts=-1,
        reconnected_cb=on_reconnect,
        disconnected_cb=on_disconnect,
        error_cb=on_error,
    )
    try:
        subscription = await client.subscribe("lt.again")
        await client.publish("lt.again", b"before")
        assert (await subscription.next_msg(timeout=30)).data == b"before"
        assert await asyncio.to_thread(first.stop) == 0
        await asyncio.wait_for(disconnected.wait(), timeout=30)
        second = Server(midge_command(), port=port)
        try:
            await asyncio.to_thread(second.wait_ready)
            await asyncio.wait_for(reconnected.wait(), timeout=30)
            await client.publish("lt.again", b"after")
            assert (await subscription.next_msg(timeout=30)).data == b"after"
        finally:
            await client.close()
            await asyncio.to_thread(second.stop)
    finally:
        await client.close()
        await asyncio.to_thread(first.stop)


async def test_a_stopped_server_delivers_what_it_had_accepted() -> None:
    server = Server(midge_command()).wait_ready()
    try:
        reader, writer = await asyncio.open_connection(*server.address())
        writer.write(b'CONNECT {"verbose":false}\r\nSUB lt.stop 1\r\nPING\r\n')
        await reader.readuntil(b"PONG\r\n")
        publisher = await SettlingClient.connected(server.url, allow_reconnect=False)
        for _ in range(200):
            await publisher.publish("lt.stop", bytes(5000))
        await publisher.drain()
        assert await asyncio.to_thread(server.stop) == 0
        assert (await reader.read()).count(b"MSG lt.stop 1 5000\r\n") == 200
        writer.close()
    finally:
        await asyncio.to_thread(server.stop)
