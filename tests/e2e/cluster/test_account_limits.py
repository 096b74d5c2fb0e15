"""Limits of accounts count the connections on all servers of a cluster, as nats-server's do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from midge.testing import SettlingClient
from tests.support.clusters import Cluster, Peer, clustered, settle
from tests.support.leafnodes import until
from tests.support.processes import Server

ACCOUNTS = """
accounts {
  A { users: [{user: a, password: p}], limits { max_connections: 3 } }
  SYS { users: [{user: sys, password: p}] }
}
system_account: SYS
"""
FULL = "maximum account active connections exceeded"
TOLD = "RMSG SYS $SYS.SERVER.ACCOUNT.A.CONNS "


@pytest.fixture(scope="module", params=["real", "midge"])
def server(request: pytest.FixtureRequest):
    with clustered(request.param, ACCOUNTS) as server:
        yield server


@pytest.fixture
async def joined(server: Server) -> AsyncIterator[Peer]:
    """A peer that hears of connections, with an id of its own: a nats-server remembers counts."""
    peer = await Peer.join(server)
    peer.say("RS+ SYS $SYS.SERVER.ACCOUNT.*.CONNS")
    await peer.settle()
    yield peer
    announce(peer, 0)
    await peer.settle()
    await peer.close()


async def connected(url: str) -> Client:
    return await SettlingClient.connected(url, user="a", password="p", allow_reconnect=False)


async def is_refused(server: Server) -> bool:
    """Connect a client of A, and return whether it is refused because there are too many."""
    client = await Peer.dial(server.address()[1])
    try:
        client.say('CONNECT {"verbose":false,"user":"a","pass":"p"}', "PING")
        while (line := await client.line()).startswith("INFO "):
            pass
        return line == f"-ERR '{FULL}'"
    finally:
        await client.close()


def announce(peer: Peer, count: int) -> None:
    """Announce this number of clients of A."""
    server = {"name": "PEER", "id": "NPEER", "host": "h", "ver": "2.15.1", "jetstream": False}
    counts = {"acc": "A", "conns": count, "leafnodes": 0, "total_conns": count}
    body = json.dumps({"server": {**server, "seq": 1, "time": "2026-01-01T00:00:00Z"}, **counts})
    peer.say(f"{TOLD}{len(body)}", body)


async def told(peer: Peer, count: int) -> dict[str, Any]:
    """Read until the server has announced this number of clients of A; return all it sent."""
    while True:
        await peer.until(TOLD)
        document: dict[str, Any] = json.loads(await peer.line())
        if document["conns"] == count:
            return document


async def test_clients_that_come_and_go_are_told_of(joined: Peer, server: Server) -> None:
    first = await connected(server.url)
    document = await told(joined, 1)
    assert document["type"] == "io.nats.server.advisory.v1.account_connections"
    assert (document["acc"], document["total_conns"]) == ("A", 1)
    assert document["server"]["name"] == "R1"
    joined.say("RS+ SYS answers", "RMSG SYS $SYS.REQ.ACCOUNT.A.CONNS answers 0", "")
    await joined.until("RMSG SYS answers ")
    assert json.loads(await joined.line())["conns"] == 1
    await first.close()
    await told(joined, 0)


async def test_clients_elsewhere_count(joined: Peer, server: Server) -> None:
    clients = [await connected(server.url) for _ in range(2)]
    await told(joined, 2)
    announce(joined, 2)
    await told(joined, 1)
    await until(lambda: clients[1].is_closed)
    assert clients[0].is_connected
    assert await is_refused(server)
    announce(joined, 9)
    await told(joined, 0)
    await until(lambda: clients[0].is_closed)


@pytest.mark.parametrize("other", ["real", "midge"])
async def test_the_servers_of_a_cluster_count_together(other: str) -> None:
    async with Cluster("midge", other, config=ACCOUNTS) as cluster:
        watching = await cluster.client(0, user="sys", password="p")
        counts: dict[str, int] = {}

        async def note(message: Msg) -> None:
            document = json.loads(message.data)
            counts[document["server"]["name"]] = document["conns"]

        await watching.subscribe("$SYS.SERVER.ACCOUNT.A.CONNS", cb=note)
        here = await cluster.client(0, user="a", password="p")
        there = [await cluster.client(1, user="a", password="p") for _ in range(2)]
        await settle([here, there[0]])
        await until(lambda: counts.get("S1") == 2)
        assert await is_refused(cluster.servers[0])
        await there[0].close()
        await until(lambda: counts["S1"] == 1)
        third = await cluster.client(0, user="a", password="p")
        assert here.is_connected
        assert third.is_connected
