"""Queue groups with several members, each of them a nats-py client."""

from __future__ import annotations

import asyncio

from nats.aio.client import Client
from nats.aio.msg import Msg

from .conftest import Connect


class Member:
    """One member that keeps what it got."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.got: list[int] = []

    async def join(self, subject: str, group: str) -> None:
        async def keep(message: Msg) -> None:
            self.got.append(int(message.data))

        self.subscription = await self.client.subscribe(subject, queue=group, cb=keep)
        await self.client.flush()


async def _members(connect: Connect, count: int, subject: str, group: str) -> list[Member]:
    members = [Member(await connect()) for _ in range(count)]
    for member in members:
        await member.join(subject, group)
    return members


async def _delivered(members: list[Member], total: int) -> list[int]:
    async with asyncio.timeout(60):
        while sum(len(member.got) for member in members) < total:
            await asyncio.gather(*(member.client.flush() for member in members))
    return sorted(number for member in members for number in member.got)


async def test_each_message_goes_to_one_member(connect: Connect) -> None:
    members = await _members(connect, 4, "q.work", "workers")
    publisher = await connect()
    for i in range(2000):
        await publisher.publish("q.work", b"%d" % i)
    await publisher.flush()
    assert await _delivered(members, 2000) == list(range(2000))
    assert min(len(member.got) for member in members) > 300


async def test_groups_and_plain_subscribers_are_independent(connect: Connect) -> None:
    first = await _members(connect, 2, "q.both", "first")
    second = await _members(connect, 3, "q.*", "second")
    plain = await connect()
    subscription = await plain.subscribe("q.both")
    await plain.flush()
    publisher = await connect()
    for i in range(300):
        await publisher.publish("q.both", b"%d" % i)
    await publisher.flush()
    assert await _delivered(first, 300) == list(range(300))
    assert await _delivered(second, 300) == list(range(300))
    got = [int((await subscription.next_msg(timeout=30)).data) for _ in range(300)]
    assert got == list(range(300))


async def test_nothing_is_lost_when_members_drain(connect: Connect) -> None:
    members = await _members(connect, 4, "q.drain", "drainers")
    publisher = await connect()
    for i in range(1000):
        await publisher.publish("q.drain", b"%d" % i)
        if i in (250, 500, 750):
            await publisher.flush()
            await members[i // 250].subscription.drain()
    await publisher.flush()
    assert await _delivered(members, 1000) == list(range(1000))


async def test_a_member_that_leaves_is_replaced_at_once(connect: Connect) -> None:
    members = await _members(connect, 3, "q.leave", "g")
    await members[0].client.close()
    await members[1].subscription.unsubscribe()
    await members[1].client.flush()
    publisher = await connect()
    for i in range(50):
        await publisher.publish("q.leave", b"%d" % i)
    await publisher.flush()
    assert await _delivered(members[2:], 50) == list(range(50))
