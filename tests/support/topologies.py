"""Random topologies of midges and nats-servers, and what messages have to do in each of them."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Self

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from midge.testing import SettlingClient
from tests.support.clusters import WAIT_S, settle
from tests.support.processes import Server, command_of, link_port
from tests.support.wires import Wire

ACCOUNTS = """
accounts {
  A { users: [{user: a, password: p}], %s
      exports: [{service: "svc.>"}]
      mappings: {"in.*": "out.{{wildcard(1)}}"} }
  B { users: [{user: b, password: p}]
      imports: [{service: {account: A, subject: "svc.x"}}] }
}
"""
MESSAGES = 12

Disturb = Callable[[], Awaitable[None]]


class Topology:
    """Two to four servers of random kinds: some are a cluster, and the others leafs of others.

    With `has_password`, routes need a user; `pool` says how many routes there are. The server
    `streams`, if any, has JetStream: a midge, or a nats-server that is in no cluster, since a
    cluster's streams need three of those. Configured links go over wires, which `disturb` cuts; a
    killed server starts again behind them.
    """

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        count = random.choice((2, 3, 3, 4))
        self.kinds = [random.choice(("midge", "real")) for _ in range(count)]
        self.kinds[random.randrange(count)] = "midge"
        self.members = random.randint(1, count)
        self.has_password = random.random() < 0.5
        pools = ("", "pool_size: 3", "pool_size: 2, accounts: [A]")
        self.pool = Random(f"pool {seed}").choice(pools)
        self.above = [random.randrange(i) if i >= self.members else -1 for i in range(count)]
        able = [i for i, kind in enumerate(self.kinds) if kind == "midge" or self._is_alone(i)]
        self.streams = random.choice(able) if able and random.random() < 0.7 else -1
        self.servers: list[Server] = []
        self.clients: list[Client] = []
        self.subscribed: list[Judged] = []
        self._wires: list[dict[str, Wire]] = []
        self._stack = contextlib.AsyncExitStack()
        self._opened: list[Client] = []
        self._store = tempfile.TemporaryDirectory(prefix="midge-test-")

    def __repr__(self) -> str:
        shape = f"{self.kinds} cluster of {self.members}, leafs {self.above}"
        return f"<{shape}, JS {self.streams}, {self.pool}>"

    def _is_alone(self, i: int) -> bool:
        return i >= self.members or self.members == 1

    async def __aenter__(self) -> Self:
        try:
            for i in range(len(self.kinds)):
                self.servers.append(await self._start(i))
                ports = self._ports(i)
                wires = {links: Wire(port) for links, port in ports.items()}
                self._wires.append(wires)
                for wire in wires.values():
                    await self._stack.enter_async_context(wire)
            self.clients = [await self.client(i) for i in range(len(self.kinds))]
            await settle(self.clients)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _start(self, i: int) -> Server:
        server = Server(command_of(self.kinds[i]), self._config(i))
        await asyncio.to_thread(server.wait_ready)
        return server

    async def _stop(self) -> None:
        for client in self._opened:
            await client.close()
        for server in self.servers:
            await asyncio.to_thread(server.stop)
        await self._stack.aclose()
        self._store.cleanup()

    def _ports(self, i: int) -> dict[str, int]:
        """Return the port for each kind of link that server `i` accepts."""
        kinds = ("leafnode",) if self._is_alone(i) else ("leafnode", "route")
        return {links: link_port(self.servers[i], links, WAIT_S) for links in kinds}

    def _config(self, i: int) -> str:
        has_streams = i == self.streams
        text = f'server_name: S{i}\nleafnodes {{ listen: "127.0.0.1:-1", reconnect: 100ms'
        if self.above[i] >= 0:
            port = self._wires[self.above[i]]["leafnode"].port
            text += f', remotes: [{{url: "nats-leaf://a:p@127.0.0.1:{port}", account: A}}]'
        text += " }\n" + ACCOUNTS % ("jetstream: enabled" if has_streams else "")
        if has_streams:
            text += f'jetstream {{ store_dir: "{self._store.name}", domain: D{i} }}\n'
        if not self._is_alone(i):
            login = "r:p@" if self.has_password else ""
            text += 'cluster { name: C, listen: "127.0.0.1:-1", connect_retries: 50\n'
            text += "authorization { user: r, password: p }\n" if login else ""
            text += self.pool + "\n"
            if i:
                port = self._wires[0]["route"].port
                text += f'routes: ["nats-route://{login}127.0.0.1:{port}"]\n'
            text += "}\n"
        return text

    async def client(self, i: int, user: str = "a") -> Client:
        """Connect a client of a user to server `i`."""
        client = await SettlingClient.connected(
            self.servers[i].url, user=user, password="p", allow_reconnect=False, error_cb=_ignore
        )
        self._opened.append(client)
        return client

    async def subscribe(self, subject: str, queue: str = "") -> list[Judged]:
        """Subscribe at one or more random servers, once or twice at each."""
        random, count = self.random, len(self.servers)
        found = []
        for at in random.sample(range(count), random.randint(1, count)):
            for _ in range(random.randint(1, 2)):
                judged = Judged(at, subject, queue)
                await self.clients[at].subscribe(subject, queue=queue, cb=judged.take)
                found.append(judged)
        self.subscribed += found
        await settle(self.clients)
        return found

    async def disturb(self) -> None:
        """Freeze or kill a server, or cut its links; return when all know all interest again."""
        at = self.random.randrange(len(self.servers))
        kind = self.random.choice(("freeze", "cut", "kill"))
        if kind == "freeze":
            self.servers[at].signal("SIGSTOP")
            await asyncio.sleep(0.3)
            self.servers[at].signal("SIGCONT")
        elif kind == "cut":
            for wire in self._wires[at].values():
                wire.cut()
            await asyncio.sleep(self.random.random() * 0.3)
            for wire in self._wires[at].values():
                wire.mend()
        else:
            await self._kill(at)
        async with asyncio.timeout(WAIT_S * 4):
            while not await self._is_settled():
                pass
        await settle(self.clients)  # by now the interest of links that came up before is announced

    async def _is_settled(self) -> bool:
        try:
            await settle(self.clients)
        except TimeoutError:
            return False
        return True

    async def _kill(self, at: int) -> None:
        """Kill a server, start it again, and subscribe there once more."""
        self.servers[at].signal("SIGKILL")
        await asyncio.to_thread(self.servers[at].stop)
        self.servers[at] = await self._start(at)
        for links, port in self._ports(at).items():
            self._wires[at][links].target = port
        self.clients[at] = client = await self.client(at)
        for judged in self.subscribed:
            if judged.at == at:
                await client.subscribe(judged.subject, queue=judged.queue, cb=judged.take)


async def _ignore(_: Exception) -> None:
    """Clients of a killed server report its end."""


class Judged:
    """What one subscription gets."""

    def __init__(self, at: int, subject: str, queue: str) -> None:
        self.at = at
        self.subject = subject
        self.queue = queue
        self.got: list[bytes] = []

    async def take(self, message: Msg) -> None:
        self.got.append(message.data)
        if message.subject.startswith("svc."):
            await message.respond(b"yes")
        elif message.reply.startswith("$JS.ACK."):
            await message.ack()


async def play(topology: Topology, *, with_disturbances: bool) -> None:
    """Check every column: plain and queue, mapped, imported service, deliver group.

    Disturbances come between a column's subscriptions and its messages.
    """

    async def disturb() -> None:
        if with_disturbances:
            await topology.disturb()

    await _mapped(topology, disturb)
    await _served(topology, disturb)
    if topology.streams >= 0:
        await _delivered(topology, disturb)


async def _arrived(clients: list[Client], is_done: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_done():
            for client in clients:
                await client.flush()
            await asyncio.sleep(0.01)
    await settle(clients)  # a second copy would have come by now
    for client in clients:
        await client.flush()


def _once(judged: list[Judged]) -> Counter[bytes]:
    return Counter(data for one in judged for data in one.got)


async def _mapped(topology: Topology, disturb: Disturb) -> None:
    """A mapped message comes to each plain subscription once, and to one member of a group."""
    clients, random = topology.clients, topology.random
    plain = await topology.subscribe("out.1")
    group = await topology.subscribe("out.*", "g")
    await disturb()
    data = [b"%d" % i for i in range(MESSAGES)]
    for one in data:
        await random.choice(clients).publish("in.1", one)
    await _arrived(clients, lambda: sum(_once(group).values()) >= MESSAGES)
    expected = Counter(data)
    for judged in plain:
        assert Counter(judged.got) == expected, ("plain", topology, judged.at, judged.got)
    assert _once(group) == expected, ("group", topology, [(one.at, one.got) for one in group])


async def _served(topology: Topology, disturb: Disturb) -> None:
    """A request through an import is answered by one member of the service's queue group.

    nats-server serves it twice where requester and importer are linked and both have members (also
    2.15.1), so only servers without a nats-server in the topology are held to once.
    """
    clients, random = topology.clients, topology.random
    members = await topology.subscribe("svc.x", "w")
    await disturb()
    for number in range(MESSAGES // 2):
        requester = await topology.client(random.randrange(len(clients)), "b")
        reply = await requester.request("svc.x", b"%d" % number, timeout=WAIT_S)
        assert reply.data == b"yes", topology
        await requester.close()
    await settle(clients)
    served = _once(members)
    assert set(served) == {b"%d" % i for i in range(MESSAGES // 2)}, (topology, served)
    assert max(served.values()) == 1, ("served", topology, [(one.at, one.got) for one in members])


async def _delivered(topology: Topology, disturb: Disturb) -> None:
    """A push consumer with a deliver group delivers each message to one member, wherever."""
    clients = topology.clients
    members = await topology.subscribe("deliver.g", "w")
    js = clients[topology.streams].jetstream()
    await js.add_stream(name="S", subjects=["s.*"])
    config = ConsumerConfig(
        durable_name="G",
        deliver_subject="deliver.g",
        deliver_group="w",
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=600,
    )
    await js.add_consumer("S", config)
    await disturb()
    js = clients[topology.streams].jetstream()
    data = [b"%d" % i for i in range(MESSAGES)]
    for one in data:
        await js.publish("s.1", one)
    await _arrived(clients, lambda: sum(_once(members).values()) >= MESSAGES)
    assert _once(members) == Counter(data), (topology, [(one.at, one.got) for one in members])

    async def acked() -> bool:
        info = await js.consumer_info("S", "G")
        return info.ack_floor is not None and info.ack_floor.stream_seq == MESSAGES

    async with asyncio.timeout(WAIT_S):
        while not await acked():
            await asyncio.sleep(0.05)
