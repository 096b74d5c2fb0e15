"""Links of several workers to other servers: towards those they are one server."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from midge.server.workers.process import MODULE
from midge.testing import SettlingClient
from tests.support.leafnodes import leaf_port, settle, until
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

TIMEOUT_S = 60
WORKERS = ("--workers", "2")
HUB = 'server_name: HUB\nleafnodes { listen: "127.0.0.1:-1" }\nhttp: 127.0.0.1:-1\n'
LEAF = """server_name: LEAF
leafnodes { reconnect: 100ms, remotes: [ { url: "nats-leaf://127.0.0.1:@port@" } ] }
"""
ROUTED = 'server_name: %s\ncluster { name: C, listen: "127.0.0.1:-1", routes: [ %s ] }\n'


class Both:
    """Two servers that a link joins: `several` is midge with workers, `real` a nats-server.

    `inside` are four clients of the former, two in each worker, and `outside` are two of the other.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self.kind == "leaf":
            self.real = self._start(nats_server_command(), HUB, ())
            config = LEAF.replace("@port@", str(leaf_port(self.real)))
            self.several = self._start(midge_command(), config, WORKERS)
        elif self.kind == "hub":
            self.several = self._start(midge_command(), HUB, WORKERS)
            port = self.several.address("leafnodes")[1]
            self.real = self._start(nats_server_command(), LEAF.replace("@port@", str(port)), ())
        else:
            self.several = self._start(midge_command(), ROUTED % ("ONE", ""), WORKERS)
            host, port = self.several.address("cluster")
            route = f'"nats-route://{host}:{port}"'
            self.real = self._start(nats_server_command(), ROUTED % ("TWO", route), ())
        self.inside = [await self.connected(self.several) for _ in range(4)]
        self.outside = [await self.connected(self.real) for _ in range(2)]
        for client in self.inside:
            await settle(client, self.outside[0])
            await settle(self.outside[0], client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _start(self, command: list[str], config: str, flags: tuple[str, ...]) -> Server:
        server = Server(command, config, flags)
        self._stack.callback(server.stop)
        return server.wait_ready()

    async def connected(self, server: Server) -> Client:
        client = await SettlingClient.connected(server.url, allow_reconnect=False)
        self._stack.push_async_callback(client.close)
        return client

    @property
    def everybody(self) -> list[Client]:
        return [*self.inside, *self.outside]


class Taken:
    """What subscribers have got, by their number."""

    def __init__(self) -> None:
        self.found: list[tuple[int, bytes]] = []

    async def subscribe(self, clients: list[Client], subject: str, queue: str = "") -> None:
        for number, client in enumerate(clients):

            async def take(message: Msg, number: int = number) -> None:
                self.found.append((number, message.data))
                if message.reply:
                    await message.respond(b"%d" % number)

            await client.subscribe(subject, queue, cb=take)
        for client in clients:
            await client.flush()

    async def has(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.found) < count:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["leaf", "hub", "route"])
async def test_all_workers_are_one_server_to_the_other_one(kind: str) -> None:
    async with Both(kind) as both:
        await plain_subscriptions_get_each_message_once(both)
        await one_member_of_a_queue_group_gets_it(both)
        await members_count_alike(both)
        await requests_find_their_responder(both)
        await interest_ends_with_its_last_subscriber(both)


async def known(both: Both) -> None:
    """Return when every server and worker knows the interest of every other."""
    for client in both.inside:
        await settle(client, both.outside[0])
        await settle(both.outside[0], client)


async def plain_subscriptions_get_each_message_once(both: Both) -> None:
    taken = Taken()
    await taken.subscribe(both.everybody, "p.>")
    await known(both)
    for number, client in enumerate(both.everybody):
        await client.publish(f"p.{number}", b"%d" % number)
        await client.flush()
    await taken.has(36)
    await known(both)
    assert Counter(taken.found) == {(n, b"%d" % i): 1 for n in range(6) for i in range(6)}


async def one_member_of_a_queue_group_gets_it(both: Both) -> None:
    taken = Taken()
    await taken.subscribe(both.everybody, "q", "workers")
    await known(both)
    for number, client in enumerate(both.everybody):
        for i in range(20):
            await client.publish("q", b"%d %d" % (number, i))
        await client.flush()
    await taken.has(120)
    await known(both)
    assert len({data for _, data in taken.found}) == len(taken.found) == 120


async def members_count_alike(both: Both) -> None:
    """A route's members are chosen like others, those behind a leaf node where no other is."""
    taken = Taken()
    await taken.subscribe(both.inside[:2] + both.outside, "w", "g")
    await known(both)
    for _ in range(200):
        await both.inside[2].publish("w", b"")
        await both.inside[3].publish("w", b"")
    for client in both.inside:
        await client.flush()
    await taken.has(400)
    await known(both)
    counts = Counter(number for number, _ in taken.found)
    outside = counts[2] + counts[3]
    if both.kind == "route":
        assert 150 <= outside <= 250, counts
    else:
        assert outside == 0, counts


async def requests_find_their_responder(both: Both) -> None:
    taken = Taken()
    await taken.subscribe([both.outside[1]], "far")
    await taken.subscribe([both.inside[3]], "near", "g")
    await known(both)
    for client in both.everybody:
        assert (await client.request("far", b"", timeout=TIMEOUT_S)).data == b"0"
        assert (await client.request("near", b"", timeout=TIMEOUT_S)).data == b"0"
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("none", b"", timeout=TIMEOUT_S)


async def interest_ends_with_its_last_subscriber(both: Both) -> None:
    for one, other in ((both.inside[1], both.outside[0]), (both.outside[0], both.inside[1])):
        subscription = await one.subscribe("brief")
        await one.flush()
        await settle(one, other)
        await other.publish("brief", b"")
        assert (await subscription.next_msg(TIMEOUT_S)).data == b""
        await subscription.unsubscribe()
        await one.flush()
        await settle(one, other)
        with pytest.raises(nats.errors.NoRespondersError):
            await other.request("brief", b"", timeout=TIMEOUT_S)


async def test_clients_of_every_worker_are_told_of_the_cluster() -> None:
    async with Both("route") as both:
        other = "{}:{}".format(*both.real.address())
        for client in [*both.inside, await both.connected(both.several)]:
            info: dict[str, Any] = client._server_info
            assert info["cluster"] == "C"
            # A client that connected before the link gets a later INFO.
            await until(functools.partial(_has_discovered, client, other))


def _has_discovered(client: Client, address: str) -> bool:
    return address in {url.netloc for url in client.discovered_servers}


async def test_a_worker_that_starts_late_knows_the_cluster() -> None:
    """The first worker announces the cluster before the other one has begun to listen to it."""
    server = Server(midge_command(), ROUTED % ("ONE", ""), WORKERS)
    try:
        second = await asyncio.to_thread(_second_worker, server)
        os.kill(second, signal.SIGSTOP)
        await until(lambda: "Listening for route connections" in server.log)
        os.kill(second, signal.SIGCONT)
        await asyncio.to_thread(server.wait_ready)
        raws = [await Raw.open(server.url) for _ in range(4)]
        assert [raw.info["cluster"] for raw in raws] == ["C"] * 4
        for raw in raws:
            await raw.close()
    finally:
        await asyncio.to_thread(server.stop)


def _second_worker(server: Server) -> int:
    """Return the process id of worker 1 as soon as it runs the program of one."""
    path = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    while True:
        children = path.read_text().split()
        if (
            len(children) > 1
            and MODULE.encode() in Path(f"/proc/{children[1]}/cmdline").read_bytes()
        ):
            return int(children[1])
        time.sleep(0.001)


async def test_a_link_comes_back_with_the_first_worker() -> None:
    async with Both("leaf") as both:
        pid = int(re.findall(r"Worker started: worker=0 worker_pid=(\d+)", both.several.log)[0])
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(TIMEOUT_S):
            while both.several.log.count("Worker started: worker=0") < 2:
                await asyncio.sleep(0.01)
        stays = [client for client in both.inside if client.is_connected]
        assert len(stays) == 2
        for client in stays:
            await settle(client, both.outside[0])
            await settle(both.outside[0], client)


async def test_a_leaf_node_by_websocket_comes_to_the_worker_that_has_the_links() -> None:
    websocket = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'
    async with AsyncExitStack() as stack:
        hub = Server(midge_command(), HUB + websocket, WORKERS)
        stack.callback(hub.stop)
        hub.wait_ready()
        inside = [await SettlingClient.connected(hub.url) for _ in range(3)]
        for client in inside:
            stack.push_async_callback(client.close)
        port = str(hub.address("websocket")[1])
        config = LEAF.replace("nats-leaf", "ws").replace("@port@", port)
        leaf = Server(nats_server_command(), config)
        stack.callback(leaf.stop)
        outside = await SettlingClient.connected(leaf.wait_ready().url)
        stack.push_async_callback(outside.close)
        for client in inside:
            await settle(client, outside)
            await settle(outside, client)


PERMISSIONS = 'permissions { import: ["in.>", "probe.>"], export: ["out.>", "probe.>"] }'


async def test_a_reload_changes_what_crosses_to_the_cluster_for_every_worker() -> None:
    async with Both("route") as both:
        taken = Taken()
        await taken.subscribe(both.inside[:2], "in.*")
        await taken.subscribe(both.outside[:1], "out.*")
        await taken.subscribe(both.outside[:1], "late.*")
        await known(both)
        wide = both.several.config_path.read_text()
        narrow = wide.replace("cluster {", f"cluster {{ {PERMISSIONS}\n", 1)
        for config in (narrow, wide):
            await asyncio.to_thread(both.several.reload, config)
            await known(both)
            for client in both.inside[:2]:
                await client.publish("out.x", b"out")
                await client.publish("late.x", b"late")
            await both.outside[1].publish("in.x", b"in")
            await both.outside[1].publish("out.x", b"own")
            await both.outside[1].flush()
            await known(both)
            count = {b"in": 2, b"out": 2, b"own": 1} | ({b"late": 2} if config is wide else {})
            await taken.has(sum(count.values()))
            assert Counter(data for _, data in taken.found) == count
            taken.found.clear()
