"""Random programs of clients at servers that leaf node links join, judged by a model."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable, Mapping
from itertools import permutations
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from midge.sublist.subjects import matches
from tests.support.leafnodes import settle

Connect = Callable[[], Awaitable[Client]]

PATTERNS = ("t.a", "t.b", "t.a.b", "t.*", "t.>", "t.*.b", "t.a.>")
SUBJECTS = ("t.a", "t.b", "t.a.b", "t.c.b", "t.a.c", "t.d.e.f")
GROUPS = (None, None, "g", "h")
CLIENTS = 3


class Subscription:
    """A subscription of the program, and its messages since the last judgement."""

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
    """One random program of clients at several servers, and its model.

    `connect` has, by the name of a side, what connects a client to its server. What a member there
    gets comes from another side only if its own has none.
    """

    def __init__(self, connect: Mapping[str, Connect], seed: int) -> None:
        self.random = random.Random(seed)
        self.clients: dict[str, list[Client]] = {side: [] for side in connect}
        self._connect = connect
        self.open: list[Subscription] = []
        self.number = 0

    async def start(self) -> None:
        for side in self.clients:
            for _ in range(CLIENTS):
                await self.connect(side)

    async def connect(self, side: str) -> None:
        self.clients[side].append(await self._connect[side]())

    async def settled(self) -> None:
        """Wait until each server knows what all clients of the others have subscribed to."""
        for near, far in permutations(self.clients, 2):
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
        side = self.random.choice(list(self.clients))
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
        """Close a client, with all its subscriptions, and connect another one."""
        side = self.random.choice(list(self.clients))
        client = self.clients[side].pop()
        self.open = [one for one in self.open if one.client is not client]
        await client.close()
        await self.connect(side)

    async def publish(self) -> None:
        await self.settled()
        side, subject = self.random.choice(list(self.clients)), self.random.choice(SUBJECTS)
        publisher = self.random.choice(self.clients[side])
        data = self.next()
        await publisher.publish(subject, data)
        await publisher.flush()
        await self.arrived(side, publisher)
        self.judge(side, subject, data)

    async def request(self) -> None:
        await self.settled()
        side, subject = self.random.choice(list(self.clients)), self.random.choice(SUBJECTS)
        publisher = self.random.choice(self.clients[side])
        data = self.next()
        if any(one.takes(subject) for one in self.open):
            reply = await publisher.request(subject, data, timeout=30)
            assert reply.data == b"re: " + data
        else:
            with pytest.raises(NoRespondersError):
                await publisher.request(subject, data, timeout=30)
        await self.arrived(side, publisher)
        self.judge(side, subject, data)

    def next(self) -> bytes:
        self.number += 1
        return b"%d" % self.number

    async def arrived(self, side: str, publisher: Client) -> None:
        """Wait until all receivers have the messages of `publisher`."""
        for other, clients in self.clients.items():
            if other != side:
                await settle(clients[0], publisher)
        for client in itertools.chain(*self.clients.values()):
            await client.flush()

    def judge(self, side: str, subject: str, data: bytes) -> None:
        """Compare the deliveries with the model's."""
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
