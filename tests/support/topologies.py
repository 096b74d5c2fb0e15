"""Random topologies of midges and nats-servers, and what messages have to do in each of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any, Self

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from midge.testing import SettlingClient
from tests.support.clusters import WAIT_S, route_port, settle
from tests.support.processes import Server, command_of, link_port

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


class Topology:
    """Two to four servers of random kinds: some are a cluster, and the others leafs of others.

    With `has_password`, routes need a user. The server `streams`, if any, has JetStream: a midge,
    or a nats-server that is in no cluster, since a cluster's streams need three of those.
    """

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        count = random.choice((2, 3, 3, 4))
        self.kinds = [random.choice(("midge", "real")) for _ in range(count)]
        self.kinds[random.randrange(count)] = "midge"
        self.members = random.randint(1, count)
        self.has_password = random.random() < 0.5
        self.above = [random.randrange(i) if i >= self.members else -1 for i in range(count)]
        able = [i for i, kind in enumerate(self.kinds) if kind == "midge" or self._is_alone(i)]
        self.streams = random.choice(able) if able and random.random() < 0.7 else -1
        self.servers: list[Server] = []
        self._stack = contextlib.ExitStack()
        self._clients: list[Client] = []

    def __repr__(self) -> str:
        return f"<{self.kinds} cluster of {self.members}, leafs {self.above}, JS {self.streams}>"

    def _is_alone(self, i: int) -> bool:
        return i >= self.members or self.members == 1

    async def __aenter__(self) -> Self:
        try:
            for i in range(len(self.kinds)):
                server = Server(command_of(self.kinds[i]), self._config(i))
                self.servers.append(self._stack.enter_context(server))
        except BaseException:
            self._stack.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        await asyncio.to_thread(self._stack.close)

    def _config(self, i: int) -> str:
        has_streams = i == self.streams
        text = f'server_name: S{i}\nleafnodes {{ listen: "127.0.0.1:-1", reconnect: 100ms'
        if self.above[i] >= 0:
            port = link_port(self.servers[self.above[i]], "leafnode", WAIT_S)
            text += f', remotes: [{{url: "nats-leaf://a:p@127.0.0.1:{port}", account: A}}]'
        text += " }\n" + ACCOUNTS % ("jetstream: enabled" if has_streams else "")
        if has_streams:
            text += f'jetstream {{ store_dir: "@directory@/js", domain: D{i} }}\n'
        if not self._is_alone(i):
            login = "r:p@" if self.has_password else ""
            text += 'cluster { name: C, listen: "127.0.0.1:-1", connect_retries: 50\n'
            text += "authorization { user: r, password: p }\n" if login else ""
            if i:
                port = route_port(self.servers[0])
                text += f'routes: ["nats-route://{login}127.0.0.1:{port}"]\n'
            text += "}\n"
        return text

    async def client(self, i: int, user: str = "a") -> Client:
        """Connect a client of a user to server `i`."""
        client = await SettlingClient.connected(
            self.servers[i].url, user=user, password="p", allow_reconnect=False
        )
        self._clients.append(client)
        return client

    async def freeze(self) -> None:
        """Stop a server for a moment."""
        server = self.random.choice(self.servers)
        server.signal("SIGSTOP")
        await asyncio.sleep(0.3)
        server.signal("SIGCONT")


class Judged:
    """What one subscription gets."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.got: list[bytes] = []

    async def take(self, message: Msg) -> None:
        self.got.append(message.data)
        if message.subject.startswith("svc."):
            await message.respond(b"yes")
        elif message.reply.startswith("$JS.ACK."):
            await message.ack()


async def play(topology: Topology, *, with_freezes: bool) -> None:
    """Check every column: plain and queue, mapped, imported service, deliver group."""
    random, places = topology.random, range(len(topology.servers))
    clients = [await topology.client(i) for i in places]
    await settle(clients)
    if with_freezes:
        await topology.freeze()
        await settle(clients)
    await _mapped(topology, clients, random)
    await _served(topology, clients, random)
    if topology.streams >= 0:
        await _delivered(topology, clients, random)


async def _subscribe(
    clients: list[Client], random: Random, subject: str, queue: str = ""
) -> list[Judged]:
    """Subscribe at one or more random servers, once or twice at each."""
    found = []
    for at in random.sample(range(len(clients)), random.randint(1, len(clients))):
        for _ in range(random.randint(1, 2)):
            judged = Judged(at)
            await clients[at].subscribe(subject, queue=queue, cb=judged.take)
            found.append(judged)
    await settle(clients)
    return found


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


async def _mapped(topology: Topology, clients: list[Client], random: Random) -> None:
    """A mapped message comes to each plain subscription once, and to one member of a group."""
    plain = await _subscribe(clients, random, "out.1")
    group = await _subscribe(clients, random, "out.*", "g")
    data = [b"%d" % i for i in range(MESSAGES)]
    for one in data:
        await random.choice(clients).publish("in.1", one)
    await _arrived(clients, lambda: sum(_once(group).values()) >= MESSAGES)
    expected = Counter(data)
    for judged in plain:
        assert Counter(judged.got) == expected, ("plain", topology, judged.at, judged.got)
    assert _once(group) == expected, ("group", topology, [(one.at, one.got) for one in group])


async def _served(topology: Topology, clients: list[Client], random: Random) -> None:
    """A request through an import is answered by one member of the service's queue group.

    nats-server serves it twice where requester and importer are linked and both have members (also
    2.15.1), so only servers without a nats-server in the topology are held to once.
    """
    members = await _subscribe(clients, random, "svc.x", "w")
    for number in range(MESSAGES // 2):
        requester = await topology.client(random.randrange(len(clients)), "b")
        reply = await requester.request("svc.x", b"%d" % number, timeout=WAIT_S)
        assert reply.data == b"yes", topology
        await requester.close()
    await settle(clients)
    served = _once(members)
    assert set(served) == {b"%d" % i for i in range(MESSAGES // 2)}, (topology, served)
    assert max(served.values()) == 1, ("served", topology, [(one.at, one.got) for one in members])


async def _delivered(topology: Topology, clients: list[Client], random: Random) -> None:
    """A push consumer with a deliver group delivers each message to one member, wherever."""
    members = await _subscribe(clients, random, "deliver.g", "w")
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
