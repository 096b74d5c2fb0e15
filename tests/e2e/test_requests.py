"""Requests, replies, and no-responders."""

from __future__ import annotations

import asyncio

import nats.errors
import pytest
from nats.aio.msg import Msg

from .conftest import Connect


async def _answer(message: Msg) -> None:
    await message.respond(message.data[::-1])


async def test_a_request_gets_its_reply(connect: Connect) -> None:
    service, client = await connect(), await connect()
    await service.subscribe("rq.echo", cb=_answer)
    await service.flush()
    assert (await client.request("rq.echo", b"abc", timeout=30)).data == b"cba"


async def test_requests_in_parallel_get_their_own_replies(connect: Connect) -> None:
    services = [await connect() for _ in range(3)]
    for service in services:
        await service.subscribe("rq.many", queue="services", cb=_answer)
        await service.flush()
    client = await connect()
    replies = await asyncio.gather(
        *(client.request("rq.many", b"%05d" % i, timeout=30) for i in range(500))
    )
    assert [reply.data for reply in replies] == [(b"%05d" % i)[::-1] for i in range(500)]


async def test_old_style_requests_use_auto_unsubscribe(connect: Connect) -> None:
    service, client = await connect(), await connect()
    await service.subscribe("rq.old", cb=_answer)
    await service.flush()
    for _ in range(10):
        reply = await client.request("rq.old", b"ab", timeout=30, old_style=True)
        assert reply.data == b"ba"


async def test_headers_travel_with_request_and_reply(connect: Connect) -> None:
    service, client = await connect(), await connect()

    async def answer(message: Msg) -> None:
        assert message.headers is not None
        await service.publish(message.reply, b"", headers={"Seen": message.headers["Ask"]})

    await service.subscribe("rq.headers", cb=answer)
    await service.flush()
    reply = await client.request("rq.headers", b"", timeout=30, headers={"Ask": "why"})
    assert reply.headers == {"Seen": "why"}


async def test_no_responders_fails_at_once(connect: Connect) -> None:
    client = await connect()
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("rq.nobody", b"", timeout=30)


async def test_no_responders_after_the_service_has_left(connect: Connect) -> None:
    service, client = await connect(), await connect()
    subscription = await service.subscribe("rq.gone", cb=_answer)
    await service.flush()
    await client.request("rq.gone", b"x", timeout=30)
    await subscription.unsubscribe()
    await service.flush()
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("rq.gone", b"x", timeout=30)


async def test_a_silent_service_is_a_time_out(connect: Connect) -> None:
    service, client = await connect(), await connect()
    await service.subscribe("rq.silent")
    await service.flush()
    with pytest.raises(nats.errors.TimeoutError):
        await client.request("rq.silent", b"", timeout=0.2)
