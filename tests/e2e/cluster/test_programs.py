"""Random programs of clients in a cluster of two midges and a nats-server, judged by an oracle."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from random import Random

import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import NoRespondersError

from tests.support.clusters import Cluster, settle
from tests.support.leafnodes import Inbox
from tests.support.raw import Raw

SUBJECTS = ("a.b", "a.c", "d")
PATTERNS = ("a.b", "a.*", ">", "d")
STEPS_SHORT, STEPS_LONG = 40, 2000
HASTY_SHORT, HASTY_LONG = 400, 4000
HASTY_PATTERNS = (b"a.b", b"a.*", b"a.>", b"d")
HASTY_SUBJECTS = (b"a.b", b"a.c", b"d", b"q.a.b", b"q.a.c", b"q.d")


class Held:
    """A subscription, and its messages."""

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
        """Publish, and compare the deliveries with the expected ones."""
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
                await client.request(subject, b"", timeout=30)


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


class Hasty:
    """A program that waits for no interest: what then holds is that nothing comes twice or late.

    Queue groups have subjects of their own. A message whose members at a server have just left goes
    on to another one, also in a nats-server, and plain subscriptions there would get it again.
    `ended` has, by connection and sid, how much the connection had received when its UNSUB was
    known to have been taken.
    """

    def __init__(self, clients: list[Raw], random: Random) -> None:
        self.clients = clients
        self.random = random
        self.groups: dict[bytes, bytes] = {}
        self.open: list[tuple[int, bytes]] = []
        self.ended: dict[tuple[int, bytes], int] = {}
        self.sent = 0

    async def step(self) -> None:
        """Subscribe, unsubscribe or publish."""
        choice = self.random.random()
        if choice < 0.2 and len(self.open) < 15:
            sid, group = b"%d" % (len(self.groups) + 1), self.random.choice((b"", b"", b"g", b"h"))
            at, pattern = (
                self.random.randrange(len(self.clients)),
                self.random.choice(HASTY_PATTERNS),
            )
            self.groups[sid] = group
            self.open.append((at, sid))
            start = b"q." if group else b""
            self.clients[at].send(b" ".join([b"SUB", start + pattern, group, sid]))
        elif choice < 0.35 and self.open:
            at, sid = self.open.pop(self.random.randrange(len(self.open)))
            await self.clients[at].ask(b"UNSUB " + sid)
            self.ended[at, sid] = len(self.clients[at].received)
        else:
            at, subject = (
                self.random.randrange(len(self.clients)),
                self.random.choice(HASTY_SUBJECTS),
            )
            for _ in range(5):
                self.sent += 1
                body = b"%d:%d" % (at, self.sent)
                self.clients[at].send(b"PUB %b %d\r\n%b" % (subject, len(body), body))

    async def judge(self) -> int:
        """Check everything that has come; return how much it is."""
        came: list[tuple[bytes, bytes]] = []
        for at, client in enumerate(self.clients):
            for position, sid, body in messages(client.received):
                came.append((sid, body))
                assert position < self.ended.get((at, sid), position + 1), "after UNSUB and PONG"
        plain = [(sid, body) for sid, body in came if not self.groups[sid]]
        grouped = [(self.groups[sid], body) for sid, body in came if self.groups[sid]]
        assert max(Counter(plain).values()) == max(Counter(grouped).values()) == 1, "never twice"
        last: dict[tuple[bytes, bytes], int] = {}
        for sid, body in plain:
            publisher, _, number = body.partition(b":")
            assert last.get((sid, publisher), 0) < int(number), "in the order of each publisher"
            last[sid, publisher] = int(number)
        return len(came)


def messages(received: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return where each message in `received` is, its sid and its payload."""
    found = re.finditer(rb"MSG \S+ (\d+) \d+\r\n(\S+)\r\n", received)
    return [(one.start(), one[1], one[2]) for one in found]


@pytest.mark.parametrize("steps", [HASTY_SHORT, pytest.param(HASTY_LONG, marks=pytest.mark.full)])
async def test_without_waiting_nothing_comes_twice_late_or_out_of_order(steps: int) -> None:
    async with Cluster("midge", "real", "midge") as cluster:
        await cluster.clients()
        raws = [await Raw.open(server.url) for server in cluster.servers]
        try:
            for raw in raws:
                await raw.connect(protocol=1)
            program = Hasty(raws, Random(steps))
            for number in range(steps):
                await program.step()
                if number % 50 == 0:
                    for raw in raws:
                        await raw.ask()
            for _ in range(3):
                for raw in raws:
                    await raw.ask()
            assert await program.judge() > steps
        finally:
            for raw in raws:
                await raw.close()
