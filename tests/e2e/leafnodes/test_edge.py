"""A stream at the edge, and its mirror of three replicas in a cluster that loses a node."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from midge.testing import SettlingClient
from tests.e2e.leafnodes.test_jetstream import LEAF, api
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.wires import Wire

MESSAGES = 100_000
CUT_S = 120.0
WAIT_S = 120.0


def free_ports(count: int) -> list[int]:
    """Ports without a listener."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Three nats-servers with JetStream, each with a port for leaf nodes."""

    def __init__(self) -> None:
        self._routes = free_ports(3)
        self.leaf_ports = free_ports(3)
        self.nodes = [self._node(i) for i in range(3)]

    def _node(self, i: int) -> Server:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        config = f"""
        server_name: N{i}
        jetstream {{ store_dir: "@directory@/js", domain: hub }}
        leafnodes {{ listen: "127.0.0.1:{self.leaf_ports[i]}", no_advertise: true }}
        cluster {{ name: C, listen: "127.0.0.1:{self._routes[i]}", routes: [{routes}] }}
        """
        return Server(nats_server_command(), config)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


@contextlib.asynccontextmanager
async def clustered() -> AsyncIterator[Cluster]:
    cluster = await asyncio.to_thread(Cluster)
    try:
        for node in cluster.nodes:
            await asyncio.to_thread(node.wait_ready)
        yield cluster
    finally:
        await asyncio.to_thread(cluster.stop)


async def count_of(client: SettlingClient) -> int:
    with contextlib.suppress(Exception):  # its leader may be the killed node
        state = (await api(client, "STREAM.INFO.M"))["state"]
        return int(state["messages"])
    return 0


async def reaches(client: SettlingClient, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while await count_of(client) < count:
            await asyncio.sleep(0.1)


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_nothing_is_lost_while_the_link_is_away_and_a_node_of_the_hub_dies() -> None:
    async with clustered() as cluster, contextlib.AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(Wire(port)) for port in cluster.leaf_ports]
        urls = ", ".join(f'"nats-leaf://127.0.0.1:{wire.port}"' for wire in wires)
        remotes = f"leafnodes {{ reconnect: 200ms, remotes: [ {{ urls: [{urls}] }} ] }}\n"
        edge = Server(midge_command(), f"server_name: EDGE\n{remotes}{LEAF}")
        stack.push_async_callback(asyncio.to_thread, edge.stop)
        await asyncio.to_thread(edge.wait_ready)
        at_edge = await SettlingClient.connected(edge.url)
        stack.push_async_callback(at_edge.close)
        at_hub = await SettlingClient.connected(cluster.nodes[0].url)
        stack.push_async_callback(at_hub.close)
        await api(at_edge, "STREAM.CREATE.S", {"name": "S", "subjects": ["o.>"]})
        external = {"api": "$JS.edge.API", "deliver": "deliver.edge"}
        mirror = {"name": "S", "external": external}
        async with asyncio.timeout(WAIT_S):
            while True:  # until the cluster has a leader
                with contextlib.suppress(Exception):
                    await api(
                        at_hub,
                        "STREAM.CREATE.M",
                        {"name": "M", "num_replicas": 3, "mirror": mirror},
                    )
                    break
                await asyncio.sleep(0.2)
        js = at_edge.jetstream()
        await js.publish("o.x", b"0")
        await reaches(at_hub, 1)
        for wire in wires:
            wire.cut()
        for i in range(1, MESSAGES - 1):
            await at_edge.publish("o.x", b"%d" % i)
            if i % 1000 == 0:
                await asyncio.sleep(CUT_S * 1000 / MESSAGES)
        await js.publish("o.x", b"%d" % (MESSAGES - 1))
        for wire in wires:
            wire.mend()
        await reaches(at_hub, MESSAGES // 10)
        await asyncio.to_thread(cluster.nodes[2].stop)
        await reaches(at_hub, MESSAGES)
        ordered = await at_hub.jetstream().subscribe(">", stream="M", ordered_consumer=True)
        for i in range(MESSAGES):
            assert (await ordered.next_msg(timeout=WAIT_S)).data == b"%d" % i
