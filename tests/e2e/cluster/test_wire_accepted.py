"""What a server says on routes that it opens itself, to servers spoken by hand.

nats-server and midge say the same. Each test has a port of its own in `routes`, so that none waits
until the server tries again, which is after a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from nats.aio.client import Client

from midge.testing import SettlingClient
from tests.support.clusters import INFO, WAIT_S, Peer, publish_each_kind, route_port, told_of
from tests.support.processes import Server, command_of

TESTS = 9
"""How many ports there are: one for each test."""

ATTEMPTS = 10
"""Clients wait for the first routes for 100 ms, which may pass on a busy machine."""

CONFIG = """
server_name: R1
cluster {
  name: C1, listen: "127.0.0.1:-1", pool_size: -1
  routes: [ %s ]
}
accounts {
  A { users: [ {user: a, password: pw} ] }
}
"""


class Accepted(Peer):
    """A server whose route the server under test has opened; `told` is what its CONNECT says."""

    told: dict[str, Any]
    number = 0

    def inform(self, **fields: Any) -> None:
        """Send INFO without the fields that are None."""
        own = {"server_id": f"NPEER{self.number}", "server_name": f"PEER{self.number}"}
        known = {**INFO, **own, "cluster": "C1", "lnoc": True, "lnocu": True, "nonce": "bm8"}
        info = {key: value for key, value in {**known, **fields}.items() if value is not None}
        self.say(f"INFO {json.dumps(info)}")


class Gate:
    """A port that the server under test opens a route to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self.peers: list[Accepted] = []

    async def dialled(self) -> Accepted:
        """Accept a connection."""
        async with asyncio.timeout(WAIT_S):
            taken, _ = await asyncio.get_running_loop().sock_accept(self.socket)
        peer = Accepted(*await asyncio.open_connection(sock=taken))
        peer.number = self.number
        self.peers.append(peer)
        return peer

    async def met(self, **fields: Any) -> Accepted:
        """Accept a connection that answers INFO; one that has waited for too long does not."""
        while True:
            peer = await self.dialled()
            peer.inform(**fields)
            line = ""
            with contextlib.suppress(ConnectionError):
                line = await peer.line()
            if line.startswith("CONNECT "):
                peer.told = json.loads(line.removeprefix("CONNECT "))
                return peer

    async def joined(self, **fields: Any) -> Accepted:
        """Accept a connection, and have the server take part; `info` is what its INFO says."""
        peer = await self.met(**fields)
        peer.info = json.loads((await peer.until("INFO ")).removeprefix("INFO "))
        return peer


@pytest.fixture(scope="module", params=["real", "midge"])
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[Server, list[Gate]]]:
    """A server of that kind, and the ports of the routes that it opens."""
    gates = [Gate(number) for number in range(TESTS)]
    urls = ", ".join(f'"nats-route://route:secret@127.0.0.1:{gate.port}"' for gate in gates)
    with Server(command_of(request.param), CONFIG % urls) as server:
        server.wait_ready()
        yield server, list(gates)
    for gate in gates:
        gate.socket.close()


@pytest.fixture
def server(opened: tuple[Server, list[Gate]]) -> Server:
    return opened[0]


@pytest.fixture
async def gate(opened: tuple[Server, list[Gate]]) -> AsyncIterator[Gate]:
    """A port of the test; its connections are closed at the end."""
    gate = opened[1].pop()
    yield gate
    gate.socket.close()
    for peer in gate.peers:
        await peer.close()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """A client of account A."""
    client = await SettlingClient.connected(server.url, user="a", password="pw")
    yield client
    await client.close()


async def test_connect_and_info_say_who_opens_the_route(gate: Gate, server: Server) -> None:
    peer = await gate.joined()
    known = ("echo", "verbose", "pedantic", "tls_required", "headers", "cluster", "lnoc")
    assert {key: peer.told.get(key) for key in (*known, "user", "pass", "lang", "gateway")} == {
        "echo": True,
        "verbose": False,
        "pedantic": False,
        "tls_required": False,
        "headers": True,
        "cluster": "C1",
        "lnoc": True,
        "user": "route",
        "pass": "secret",
        "lang": None,
        "gateway": None,
    }
    info = peer.info
    assert info["server_id"] == peer.told["name"]
    assert (info["server_name"], info["cluster"]) == ("R1", "C1")
    assert info["lnoc"] is info["lnocu"] is info["headers"] is True
    assert info["max_payload"] == 1 << 20
    assert info["connect_urls"] == [server.url.removeprefix("nats://")]
    assert info["port"] == await asyncio.to_thread(route_port, server)
    assert info["compression"] in {"not supported", "off"}
    assert not info.get("route_pool_size")
    assert not info.get("jetstream")


async def test_interest_and_messages_cross_both_ways(gate: Gate, client: Client) -> None:
    got = await client.subscribe("foo.*")
    members = [await client.subscribe("q", "g") for _ in range(2)]
    await client.flush()
    peer = await gate.joined()
    told: list[str] = []
    while len(told) < 2:  # the interest may come in later turns, behind the PONG
        told += await peer.settle()
    assert sorted(told) == ["RS+ A foo.*", "RS+ A q g 2"]
    await client.subscribe("later")
    await members[0].unsubscribe()
    await client.flush()
    assert await peer.settle() == ["RS+ A later", "RS+ A q g 1"]
    peer.say("RS+ A bar", "RS+ A bar.>", "RS+ A qq gg 2")
    await peer.settle()
    await publish_each_kind(client)
    assert await peer.settle() == [
        *("RMSG A bar 1", "1", "RMSG A bar rep 1", "2"),
        *("HMSG A bar 18 19", "NATS/1.0", "K: v", "", "3"),
        *("RMSG A qq | gg 1", "4", "RMSG A qq + rep gg 1", "5"),
    ]
    peer.say("RMSG A foo.1 rep 1", "x", "HMSG A foo.2 12 13", "NATS/1.0", "", "y")
    peer.say("RMSG A q | g 1", "z")
    await peer.settle()
    first, second = [await got.next_msg(timeout=WAIT_S) for _ in range(2)]
    assert (first.subject, first.reply, first.data) == ("foo.1", "rep", b"x")
    assert (second.subject, second.data) == ("foo.2", b"y")
    assert (await members[1].next_msg(timeout=WAIT_S)).data == b"z"


async def test_a_server_of_another_cluster_gets_connect_only(gate: Gate) -> None:
    peer = await gate.met(cluster="C2")
    assert peer.told["cluster"] == "C1"
    async with asyncio.timeout(WAIT_S):
        assert await peer.line() == "(end)"


async def test_whether_names_differ_is_for_the_other_server_to_say(gate: Gate) -> None:
    peer = await gate.joined(server_name="R1")
    assert peer.info["server_name"] == "R1"
    assert await peer.settle() is not None


async def test_who_has_been_refused_is_tried_again(gate: Gate) -> None:
    refused = await gate.met(cluster="C2")
    assert await refused.rest() == []
    assert (await gate.joined()).info["server_name"] == "R1"


@pytest.mark.parametrize("line", ["-ERR 'something'", "RS+ A"])
async def test_an_error_ends_the_route(gate: Gate, line: str) -> None:
    peer = await gate.joined()
    peer.say(line)
    assert await peer.rest() == []


async def test_a_server_told_of_is_dialled(gate: Gate) -> None:
    peer = await gate.joined()
    third = Gate(100)
    with third.socket:
        address = f"nats-route://127.0.0.1:{third.port}/"
        peer.introduce(server_id="NPEER100", server_name="PEER100", ip=address)
        other = await third.joined()
        assert other.info["server_id"] == peer.info["server_id"]
        await other.close()


async def test_clients_learn_where_the_other_server_is(gate: Gate, server: Server) -> None:
    own = server.url.removeprefix("nats://")
    client = await Peer.dial(int(own.rpartition(":")[2]))
    client.say('CONNECT {"verbose":false,"protocol":1,"user":"a","pass":"pw"}')
    await client.settle()
    peer = await gate.joined(connect_urls=["127.0.0.1:9"])
    await told_of(client, {own, "127.0.0.1:9"})
    peer.inform(connect_urls=["127.0.0.1:9"], ldm=True)
    await told_of(client, {own})
    await client.close()


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["alone", "workers"])
async def test_the_first_info_of_a_server_that_starts_names_the_others(
    flags: tuple[str, ...],
) -> None:
    for _ in range(ATTEMPTS):
        if await first_urls(flags) == {"127.0.0.1:9"}:
            return
    pytest.fail("a client that has connected before the route was up was told of no other server")


async def first_urls(flags: tuple[str, ...]) -> set[str]:
    """Return the addresses in the INFO of a client that connects before the first route is up."""
    gate = Gate(0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    route = f'listen: "127.0.0.1:-1", routes: ["nats-route://127.0.0.1:{gate.port}"]'
    server = Server(command_of("midge"), f"cluster {{ name: C1, {route} }}", flags, port)
    try:
        peer = await gate.dialled()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        peer.inform(connect_urls=["127.0.0.1:9"])
        async with asyncio.timeout(WAIT_S):
            line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        await peer.close()
    finally:
        await asyncio.to_thread(server.stop)
        gate.socket.close()
    urls = json.loads(line.removeprefix(b"INFO ")).get("connect_urls", ())
    return set(urls) - {f"127.0.0.1:{port}"}
