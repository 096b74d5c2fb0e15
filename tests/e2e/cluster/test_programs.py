"""Random programs of clients in a cluster of two midges and a nats-server, judged by an oracle."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import NoRespondersError

from tests.support.clusters import Cluster, settle
from tests.support.leafnodes import Inbox

SUBJECTS = ("a.b", "a.c", "d")
PATTERNS = ("a.b", "a.*", ">", "d")
STEPS_SHORT, STEPS_LONG = 40, 2000


class Held:
    """A subscription, and what has come to it."""

    def __init__(self, pattern: str, group: str) -> None:
        self.pattern = pattern
        self.group = group
        self.inbox = Inbox()
        self.subscription: Subscription

    def wants(self, subject: str) -> bool:
        """Whether a message to `subject` concerns it."""
        ours, theirs = self.pattern.split("."), subject.split(".")
        if ours[-1] == ">":
            return theirs[: len(ours) - 1] == ours[:-1]
        return len(ours) == len(theirs) and all(
            one in {"*", other} for one, other in zip(ours, theirs, strict=True)
        )


class Program:
    """What clients of all servers have subscribed to; each step settles interest first."""

    def __init__(self, clients: list[Client], random: Random) -> None:
        self.clients = clients
        self.random = random
        self.held: list[Held] = []
        self.count = 0
        self.is_settled = True

    async def step(self) -> None:
        """Subscribe, unsubscribe or publish."""
        choice = self.random.random()
        if choice < 0.3 and len(self.held) < 12:
            await self.subscribe()
        elif choice < 0.45 and self.held:
            held = self.held.pop(self.random.randrange(len(self.held)))
            await held.subscription.unsubscribe()
            self.is_settled = False
        else:
            await self.publish()

    async def subscribe(self) -> None:
        held = Held(self.random.choice(PATTERNS), self.random.choice(("", "", "g", "h")))
        client = self.random.choice(self.clients)
        held.subscription = await client.subscribe(held.pattern, held.group, held.inbox.take)
        self.held.append(held)
        self.is_settled = False

    async def publish(self) -> None:
        """Publish, and compare what has come with what must."""
        if not self.is_settled:
            await settle(self.clients)
            self.is_settled = True
        for one in self.held:
            one.inbox.messages.clear()
        subject, client = self.random.choice(SUBJECTS), self.random.choice(self.clients)
        data = [b"%d" % (self.count + i) for i in range(5)]
        self.count += len(data)
        for one in data:
            await client.publish(subject, one)
        await client.flush()
        await settle(self.clients)
        interested = [one for one in self.held if one.wants(subject)]
        for one in self.held:
            came = [came for came in one.inbox.messages if not came.subject.startswith("probe.")]
            one.inbox.messages = came
            if one not in interested:
                assert came == []
            elif not one.group:
                assert one.inbox.data == data, "plain ones get all, once and in order"
            else:
                assert one.inbox.data == sorted(one.inbox.data, key=int), "in order"
        for group in ("g", "h"):
            members = [one for one in interested if one.group == group]
            got = Counter(data for one in members for data in one.inbox.data)
            assert got == Counter(data if members else ()), "one member gets each message"
        if not interested:
            with pytest.raises(NoRespondersError):
                await client.request(subject, b"", timeout=10)


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, STEPS_SHORT), pytest.param(2, STEPS_LONG, marks=pytest.mark.full)]
)
async def test_random_programs(seed: int, steps: int) -> None:
    async with Cluster("midge", "real", "midge") as cluster:
        program = Program(await cluster.clients(), Random(seed))
        for _ in range(steps):
            await program.step()
            await asyncio.sleep(0)
        assert program.count
