"""Random programs of clients on both sides of a link, judged by a model, with links that break."""

from __future__ import annotations

import random
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from midge.sublist.subjects import matches
from tests.support.leafnodes import Pair, settle

PAIRS = [("real", "midge"), ("midge", "real")]
PATTERNS = ("t.a", "t.b", "t.a.b", "t.*", "t.>", "t.*.b", "t.a.>")
SUBJECTS = ("t.a", "t.b", "t.a.b", "t.c.b", "t.a.c", "t.d.e.f")
GROUPS = (None, None, "g", "h")
SIDES = ("hub", "leaf")
CLIENTS = 3


class Subscription:
    """A subscription of the program, and what has come to it since the last judgement."""

    def __init__(self, side: str, client: Client, pattern: str, group: str | None) -> None:
        self.side = side
        self.client = client
        self.pattern = pattern
        self.group = group
        self.got: list[bytes] = []
        self.handle: Any = None

    async def open(self) -> None:
        self.handle = await self.client.subscribe(
            self.pattern, queue=self.group or "", cb=self._take
        )

    async def _take(self, message: Msg) -> None:
        self.got.append(message.data)
        if message.reply:
            await message.respond(b"re: " + message.data)

    def takes(self, subject: str) -> bool:
        return matches(subject.encode(), self.pattern.encode())

    def __repr__(self) -> str:
        return f"<{self.side} {self.pattern} {self.group} {self.got}>"


class Program:
    """One random program over `pair`, and its model."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.random = random.Random(seed)
        self.clients: dict[str, list[Client]] = {side: [] for side in SIDES}
        self.open: list[Subscription] = []
        self.number = 0

    async def start(self) -> None:
        for side in SIDES:
            for _ in range(CLIENTS):
                await self.connect(side)

    async def connect(self, side: str) -> None:
        client = await (self.pair.at_hub() if side == "hub" else self.pair.at_leaf())
        self.clients[side].append(client)

    async def settled(self) -> None:
        """Wait until each server knows what all clients of the other one have subscribed to."""
        for near, far in (("hub", "leaf"), ("leaf", "hub")):
            for client in self.clients[near]:
                await client.flush()
            await settle(self.clients[near][0], self.clients[far][0])

    async def step(self) -> None:
        """Do one thing: change something, or send a message and judge what became of it."""
        kind = self.random.choices(
            (self.subscribe, self.unsubscribe, self.replace, self.publish, self.request),
            (30, 15, 4, 40, 15),
        )[0]
        await kind()

    async def subscribe(self) -> None:
        side = self.random.choice(SIDES)
        client = self.random.choice(self.clients[side])
        pattern, group = self.random.choice(PATTERNS), self.random.choice(GROUPS)
        made = Subscription(side, client, pattern, group)
        await made.open()
        self.open.append(made)

    async def unsubscribe(self) -> None:
        if self.open:
            gone = self.open.pop(self.random.randrange(len(self.open)))
            await gone.handle.unsubscribe()

    async def replace(self) -> None:
        """Have a client leave, with all its subscriptions, and another one come."""
        side = self.random.choice(SIDES)
        client = self.clients[side].pop()
        self.open = [one for one in self.open if one.client is not client]
        await client.close()
        await self.connect(side)

    async def publish(self) -> None:
        await self.settled()
        side, subject = self.random.choice(SIDES), self.random.choice(SUBJECTS)
        publisher = self.random.choice(self.clients[side])
        data = self.next()
        await publisher.publish(subject, data)
        await publisher.flush()
        await self.arrived(side, publisher)
        self.judge(side, subject, data)

    async def request(self) -> None:
        await self.settled()
        side, subject = self.random.choice(SIDES), self.random.choice(SUBJECTS)
        publisher = self.random.choice(self.clients[side])
        data = self.next()
        if any(one.takes(subject) for one in self.open):
            reply = await publisher.request(subject, data, timeout=10)
            assert reply.data == b"re: " + data
        else:
            with pytest.raises(NoRespondersError):
                await publisher.request(subject, data, timeout=10)
        await self.arrived(side, publisher)
        self.judge(side, subject, data)

    def next(self) -> bytes:
        self.number += 1
        return b"%d" % self.number

    async def arrived(self, side: str, publisher: Client) -> None:
        """Wait until what `publisher` has sent is with all who get it."""
        other = "leaf" if side == "hub" else "hub"
        await settle(self.clients[other][0], publisher)
        for client in self.clients["hub"] + self.clients["leaf"]:
            await client.flush()

    def judge(self, side: str, subject: str, data: bytes) -> None:
        """Compare what has come with what the model says."""
        groups: dict[str, list[Subscription]] = {}
        for one in self.open:
            if one.group is None:
                expected = [data] if one.takes(subject) else []
                assert one.got == expected, (subject, side, one, self.open)
            elif one.takes(subject):
                groups.setdefault(one.group, []).append(one)
            else:
                assert one.got == [], (subject, side, one, self.open)
        for members in groups.values():
            taken = [one for one in members if one.got]
            assert [one.got for one in taken] == [[data]], (subject, side, self.open)
            if any(one.side == side for one in members):
                assert taken[0].side == side, (subject, side, self.open)
        for one in self.open:
            one.got = []


@pytest.mark.parametrize(("hub", "leaf"), PAIRS)
@pytest.mark.parametrize("steps", [40, pytest.param(2_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
async def test_every_message_gets_where_it_should_and_once(hub: str, leaf: str, steps: int) -> None:
    async with Pair(hub, leaf) as pair:
        program = Program(pair, seed=steps)
        await program.start()
        for _ in range(steps):
            await program.step()


@pytest.mark.parametrize(
    ("hub", "leaf", "rounds"),
    [
        ("real", "midge", 2),
        pytest.param("real", "midge", 100, marks=pytest.mark.full),
        pytest.param("midge", "real", 100, marks=pytest.mark.full),
    ],
)
@pytest.mark.timeout(600)
async def test_a_link_that_breaks_again_and_again_comes_back_whole(
    hub: str, leaf: str, rounds: int
) -> None:
    async with Pair(hub, leaf, is_wired=True) as pair:
        program = Program(pair, seed=rounds)
        await program.start()
        for number in range(rounds):
            for _ in range(5):
                await program.step()
            if number % 2:
                pair.wire.pause()
                await program.subscribe()
                await program.unsubscribe()
                pair.wire.resume()
            else:
                pair.wire.cut()
                for _ in range(3):
                    await program.subscribe()
                await program.unsubscribe()
                pair.wire.mend()
            await program.publish()
            await program.request()
