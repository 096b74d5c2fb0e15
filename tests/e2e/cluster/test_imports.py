"""Streams that accounts import, over routes: both servers announce and carry them alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import NoRespondersError

from midge.testing import SettlingClient
from tests.support.clusters import (
    IMPORTING_ACCOUNTS,
    IMPORTING_USERS,
    Cluster,
    Peer,
    clustered,
    settle,
)
from tests.support.leafnodes import Inbox, until
from tests.support.processes import Server

SUBSCRIPTIONS = (
    *(("im", "imp.a.b", ""), ("im", "imp.>", "q"), ("im", "imp.>", "q"), ("im", ">", "")),
    *(("im", "*.a", ""), ("im", "imp.*.b", ""), ("im", "other", ""), ("jm", "pre.ex.a.b", "q")),
    *(("jm", "*.ex.>", "q"), ("jm", "pre.ex.b.b", ""), ("ex", "ex.>", ""), ("ex", "ex.a.b", "q")),
)
TOLD = (
    *("ex.a.b", "ex.> q 1", "ex.> q 2", "ex.>"),
    *("ex.a", "ex.*.b", None, "ex.a.b q 1"),
    *("ex.a.* q 1", None, None, "ex.a.b q 2"),
)
TOLD_AT_THE_END = (
    *("-ex.a.b", "+ex.> q 1", "-ex.> q", None),
    *("-ex.a", "-ex.*.b", None, "+ex.a.b q 1"),
    *("-ex.a.* q", None, "-ex.>", "-ex.a.b q"),
)


@pytest.fixture(scope="module", params=["real", "midge"])
def server(request: pytest.FixtureRequest):
    with clustered(request.param, IMPORTING_ACCOUNTS) as server:
        yield server


@pytest.fixture
async def clients(server: Server) -> AsyncIterator[dict[str, Client]]:
    """A client of each account."""
    found = {
        name: await SettlingClient.connected(server.url, user=name, password="p")
        for name in IMPORTING_USERS
    }
    yield found
    for client in found.values():
        await client.close()


@pytest.fixture
async def joined(server: Server) -> AsyncIterator[Peer]:
    """A peer that takes part."""
    peer = await Peer.join(server)
    await peer.settle()
    yield peer
    await peer.close()


async def told(peer: Peer) -> list[str]:
    """Return the announced interest of the exporter."""
    start = ("RS+ EX ", "RS- EX ")
    return [line[2:].replace(" EX ", "") for line in await peer.settle() if line.startswith(start)]


async def test_what_importers_want_is_told_as_the_exporters(
    joined: Peer, clients: dict[str, Client]
) -> None:
    held: list[Subscription] = []
    for (name, subject, queue), expected in zip(SUBSCRIPTIONS, TOLD, strict=True):
        held.append(await clients[name].subscribe(subject, queue))
        await clients[name].flush()
        assert await told(joined) == ([] if expected is None else [f"+{expected}"]), subject
    for one, change, (name, _, _) in zip(held, TOLD_AT_THE_END, SUBSCRIPTIONS, strict=True):
        await one.unsubscribe()
        await clients[name].flush()
        assert await told(joined) == ([] if change is None else [change]), one.subject


async def test_the_groups_of_all_accounts_are_one(joined: Peer, clients: dict[str, Client]) -> None:
    plain, members = Inbox(), [Inbox(), Inbox(), Inbox()]
    await clients["im"].subscribe("imp.a.x", cb=plain.take)
    for name, subject, inbox in zip(
        IMPORTING_USERS, ("ex.a.x", "imp.>", "*.ex.>"), members, strict=True
    ):
        await clients[name].subscribe(subject, "q", cb=inbox.take)
        await clients[name].flush()
    await joined.settle()
    joined.say("RMSG EX ex.a.x 1", "1", "RMSG EX ex.a.x | q 1", "2", "RMSG IM imp.a.x | q 1", "3")
    await joined.settle()
    await plain.has(b"1", b"2", b"3")
    for client in clients.values():
        await client.flush()
    assert sorted(data for inbox in members for data in inbox.data) == [b"2", b"3"]
    for _ in range(100):
        await clients["ex"].publish("ex.a.x", b"")
    await until(lambda: len(plain.messages) == 103)
    for client in clients.values():
        await client.flush()
    counts = [len(inbox.messages) for inbox in members]
    assert sum(counts) == 102
    assert min(counts) >= 5, counts


async def test_interest_of_importers_elsewhere_is_no_receiver(
    joined: Peer, clients: dict[str, Client]
) -> None:
    joined.say("RS+ IM imp.x")
    await joined.settle()
    with pytest.raises(NoRespondersError):
        await clients["ex"].request("ex.x", b"", timeout=30)
    joined.say("RS+ EX ex.x")
    await joined.settle()
    await clients["ex"].publish("ex.x", b"once")
    await clients["ex"].flush()
    assert await joined.settle() == ["RMSG EX ex.x 4", "once"]


@pytest.mark.parametrize("kinds", [("midge", "real"), ("midge", "midge")])
async def test_importers_on_several_servers_get_each_message_once(kinds: tuple[str, ...]) -> None:
    async with Cluster(*kinds, config=IMPORTING_ACCOUNTS) as cluster:
        of = {name: await cluster.clients(user=name, password="p") for name in IMPORTING_USERS}
        plain = {(name, i): Inbox() for name in ("im", "jm") for i in range(len(kinds))}
        members = [Inbox() for _ in range(2 * len(kinds))]
        for (name, i), inbox in plain.items():
            await of[name][i].subscribe({"im": "imp.a.*", "jm": "pre.>"}[name], cb=inbox.take)
        for i in range(len(kinds)):
            await of["im"][i].subscribe("imp.>", "q", cb=members[2 * i].take)
            await of["jm"][i].subscribe("*.ex.a.x", "q", cb=members[2 * i + 1].take)
        for clients in of.values():
            await settle(clients)
        data = [b"%d" % i for i in range(40)]
        for publisher in of["ex"]:
            for one in data:
                await publisher.publish("ex.a.x", one)
            await publisher.flush()
        every = data * len(kinds)
        await until(lambda: all(len(inbox.messages) >= len(every) for inbox in plain.values()))
        await until(lambda: sum(len(inbox.messages) for inbox in members) >= len(every))
        for clients in of.values():
            await settle(clients)
        for inbox in plain.values():
            assert Counter(inbox.data) == Counter(every)
        assert Counter(one for inbox in members for one in inbox.data) == Counter(every)
