"""Pools of routes and dedicated routes, among midges and with nats-servers on either side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.aio.msg import Msg

from midge.testing import SettlingClient
from tests.e2e.cluster.test_monitoring import PORT, document
from tests.support.clusters import END, Cluster, Peer, settle
from tests.support.leafnodes import Inbox, leaf_port, until
from tests.support.processes import Server, command_of
from tests.support.wires import Wire

POOL = "pool_size: 3, accounts: [A]"
POOLED = [("", ()), ("", ("B",)), ("", ("C",)), ("A", ()), ("SYS", ())]
USERS = "abc"
ACCOUNTS = (
    PORT
    + """
accounts {
    A { users: [{user: a, password: p}] }, B { users: [{user: b, password: p}] }
    C { users: [{user: c, password: p}] }, SYS { users: [{user: s, password: p}] }
}
system_account: SYS
"""
)
PAIRS = [("midge", "real"), ("real", "midge"), ("midge", "midge")]


class Clients:
    """A client of each account at each of the servers; `answers` has those to requests.

    The subject of the answers is subscribed to long before, because between pools of different
    sizes interest and requests use different routes, and one of them may come first.
    """

    def __init__(self, at: dict[str, list[Any]]) -> None:
        self.at = at
        self.plain = {user: [Inbox() for _ in clients] for user, clients in at.items()}
        self.grouped = {user: Inbox() for user in at}
        self.answers = {user: Inbox() for user in at}

    @classmethod
    async def of(cls, cluster: Cluster) -> Clients:
        found = cls({user: await cluster.clients(user=user, password="p") for user in USERS})
        for user, clients in found.at.items():
            for i, (client, inbox) in enumerate(zip(clients, found.plain[user], strict=True)):
                await client.subscribe("p", cb=inbox.take)
                await client.subscribe(f"answer.{i}", cb=found.answers[user].take)
            await clients[0].subscribe("q", "workers", cb=found.grouped[user].take)
            await clients[0].subscribe("ask", cb=_answer)
        await found.settle()
        return found

    async def settle(self) -> None:
        for clients in self.at.values():
            await settle(clients)

    async def check(self) -> None:
        """Send each kind of message in each account, and expect it once at each receiver."""
        for user, clients in self.at.items():
            for inbox in self.inboxes(user):
                inbox.messages.clear()
            for i, client in enumerate(clients):
                await client.publish("p", user.encode())
                await client.publish("p", user.encode(), headers={"K": "v"})
                await client.publish("q", user.encode())
                await client.publish("q", user.encode(), reply="r")
                await client.publish("ask", user.encode(), reply=f"answer.{i}")
        await self.settle()
        for user in self.at:
            data, inboxes = user.encode(), self.inboxes(user)
            await until(lambda inboxes=inboxes: all(len(one.messages) >= 4 for one in inboxes[:-1]))
            await until(lambda inboxes=inboxes: len(inboxes[-1].messages) >= 2)
            expected = [[data] * 4] * (len(inboxes) - 1) + [[data] * 2]
            assert [inbox.data for inbox in inboxes] == expected

    def inboxes(self, user: str) -> list[Inbox]:
        return [*self.plain[user], self.grouped[user], self.answers[user]]


async def _answer(message: Msg) -> None:
    await message.respond(message.data)


async def places(server: Server) -> list[tuple[str, tuple[str, ...]]]:
    """Which account each route is dedicated to, and the accounts of the interest on it."""
    found = await document(server, "/routez?subs=detail")
    routes = []
    for route in found["routes"]:
        sids = [one["sid"] for one in route.get("subscriptions_list_detail") or ()]
        accounts = {sid.split(" ")[1] for sid in sids if "$SYS" not in sid}
        dedicated = route.get("account", "")
        routes.append((dedicated, () if dedicated else tuple(sorted(accounts))))
    return sorted(routes)


async def join(cluster: Cluster, kind: str, table: str = POOL) -> None:
    """Add a server, whose block `cluster` has `table`."""
    cluster.kinds, cluster._cluster = (*cluster.kinds, kind), table
    await asyncio.to_thread(cluster.start, 1)


async def expect(server: Server, routes: list[tuple[str, tuple[str, ...]]]) -> None:
    """Wait until `server` shows these routes."""
    for _ in range(600):
        if (found := await places(server)) == routes:
            return
        await asyncio.sleep(0.1)
    assert found == routes, server.log


@pytest.mark.parametrize("kinds", PAIRS)
async def test_every_account_uses_the_route_that_nats_server_gives_it(
    kinds: tuple[str, str],
) -> None:
    async with Cluster(*kinds, config=ACCOUNTS, cluster=POOL) as cluster:
        clients = await Clients.of(cluster)
        await clients.check()
        for server in cluster.servers:
            await expect(server, POOLED)
        logs = "".join(server.log for server in cluster.servers)
        assert "[ERR]" not in logs
        shown = [(await document(one, "/varz"))["cluster"]["pool_size"] for one in cluster.servers]
        assert shown == [3, 3]


SPREAD = {
    5: [("", ("A",)), ("", ("B",)), ("", ("C",))],
    3: [("", ("A", "B")), ("", ("C",))],
    1: [("", ("A", "B", "C"))],
}
SIZES = [(5, 3), (1, 3), (1, 1), (-1, 3), (3, -1)]


@pytest.mark.parametrize("kinds", PAIRS)
@pytest.mark.parametrize("sizes", SIZES)
async def test_the_larger_pool_holds_and_a_server_without_one_has_one_route(
    kinds: tuple[str, str], sizes: tuple[int, int]
) -> None:
    async with Cluster(kinds[0], config=ACCOUNTS, cluster=f"pool_size: {sizes[0]}") as cluster:
        await join(cluster, kinds[1], f"pool_size: {sizes[1]}")
        clients = await Clients.of(cluster)
        await clients.check()
        for server, size in zip(cluster.servers, reversed(sizes), strict=True):
            expected = SPREAD[1]
            if min(sizes) > 0:  # the other server spreads its interest by its own number
                empty = [("", ())] * (max(sizes) - len(SPREAD[size]))
                expected = [*empty, *SPREAD[size], ("SYS", ())]
            await expect(server, expected)


@pytest.mark.parametrize("kinds", PAIRS)
async def test_a_lost_route_of_a_pool_is_opened_again(kinds: tuple[str, str]) -> None:
    async with (
        Cluster(kinds[0], config=ACCOUNTS, cluster=POOL) as cluster,
        Wire(cluster.ports[0]) as wire,
    ):
        cluster.ports[0] = wire.port
        await join(cluster, kinds[1])
        clients = await Clients.of(cluster)
        await expect(cluster.servers[0], POOLED)
        for writer in wire.writers[::2]:
            writer.transport.abort()
            await until(lambda writer=writer: writer not in wire.writers)
            await clients.settle()
            for server in cluster.servers:
                await expect(server, POOLED)
            await clients.check()


async def test_servers_that_learn_of_each_other_open_pools() -> None:
    async with Cluster("midge", "real", "midge", "midge", config=ACCOUNTS, cluster=POOL) as cluster:
        clients = await Clients.of(cluster)
        for _ in range(3):
            await until_once(clients)
        for server in cluster.servers:
            found = await places(server)
            assert [one for one, _ in found] == [""] * 9 + ["A"] * 3 + ["SYS"] * 3


async def until_once(clients: Clients) -> None:
    """Publish once in each account, and expect it once at each server."""
    for user, at in clients.at.items():
        for inbox in clients.plain[user]:
            inbox.messages.clear()
        await at[0].publish("p", b"x")
    await clients.settle()
    for inboxes in clients.plain.values():
        await until(lambda inboxes=inboxes: all(inbox.messages for inbox in inboxes))
        assert [inbox.data for inbox in inboxes] == [[b"x"]] * len(inboxes)


@pytest.mark.parametrize("kinds", PAIRS)
async def test_lines_of_a_leaf_node_name_no_account_on_a_dedicated_route(
    kinds: tuple[str, str],
) -> None:
    port = 'leafnodes { listen: "127.0.0.1:-1" }'
    async with Cluster(*kinds, config=ACCOUNTS + port, cluster=POOL) as cluster:
        hub, other = await cluster.clients(user="a", password="p")
        url = f"nats-leaf://a:p@127.0.0.1:{leaf_port(cluster.servers[0])}"
        config = f'server_name: L\nleafnodes {{ remotes: [{{ url: "{url}" }}] }}\n'
        with Server(command_of("real"), config + "cluster { name: L, port: -1 }") as server:
            server.wait_ready()
            leaf = await SettlingClient.connected(server.url, allow_reconnect=False)
            inboxes = {name: Inbox() for name in ("plain", "group", "up", "again")}
            await leaf.subscribe("plain", cb=inboxes["plain"].take)
            await leaf.subscribe("group", "g", cb=inboxes["group"].take)
            await other.subscribe("up", cb=inboxes["up"].take)
            await other.subscribe("again", cb=inboxes["again"].take)
            await settle([hub, other, leaf])
            for subject in ("plain", "group"):
                await other.publish(subject, b"down")
            await leaf.publish("up", b"up")
            await leaf.publish("up", b"up", reply="r", headers={"K": "v"})
            await leaf.flush()
            await settle([hub, other, leaf])
            await hub.publish("again", b"from the hub itself")
            await hub.publish("plain", b"hub")
            await settle([hub, other, leaf])
            assert {name: inbox.data for name, inbox in inboxes.items()} == {
                "plain": [b"down", b"hub"],
                "group": [b"down"],
                "up": [b"up", b"up"],
                "again": [b"from the hub itself"],
            }
            await leaf.close()


@pytest.mark.parametrize("kinds", PAIRS)
async def test_a_reload_changes_the_pool(kinds: tuple[str, str]) -> None:
    async with Cluster(*kinds, config=ACCOUNTS, cluster=POOL) as cluster:
        clients = await Clients.of(cluster)
        other = "pool_size: 1, accounts: [B]"
        for text, routes in (
            (other, [("", ("A", "C")), ("B", ()), ("SYS", ())]),
            ("pool_size: -1", [("", ("A", "B", "C"))]),
            (POOL, POOLED),
        ):
            # One after the other: nats-server does not dial a dedicated route again that a server
            # without a pool has refused.
            for server in cluster.servers:
                before = server.config_path.read_text()
                known = next(one for one in (POOL, other, "pool_size: -1") if one in before)
                await asyncio.to_thread(server.reload, before.replace(known, text))
            for server in cluster.servers:
                await expect(server, routes)
            await clients.settle()
            await clients.check()


async def test_a_server_that_connects_during_a_reload_comes_again() -> None:
    async with Cluster("midge", config=ACCOUNTS, cluster="pool_size: -1") as cluster:
        (server,) = cluster.servers
        peer = await Peer.dial(cluster.ports[0])
        assert "route_pool_size" not in peer.info
        before = server.config_path.read_text()
        await asyncio.to_thread(server.signal, "SIGHUP", before.replace("pool_size: -1", POOL))
        assert await peer.line() == END
        again = await Peer.dial(cluster.ports[0])
        assert again.info["route_pool_size"] == 3
        await again.close()
        await peer.close()


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"route_pool_idx": 7}, "Invalid route pool index: 7 - pool size is 3"),
        ({"route_account": "B"}, 'No route for account "B"'),
    ],
)
@pytest.mark.parametrize("kind", ["midge", "real"])
async def test_a_place_that_there_is_not_is_refused(
    kind: str, fields: dict[str, Any], refusal: str
) -> None:
    async with Cluster(kind, config=ACCOUNTS, cluster=POOL) as cluster:
        peer = await Peer.dial(cluster.ports[0])
        assert peer.info["route_pool_size"] == 3
        peer.connect()
        peer.introduce(route_pool_size=3, **fields)
        line = await peer.line()
        while not line.startswith("-ERR"):
            line = await peer.line()
        assert line == f"-ERR '{refusal}'"
        await peer.close()
