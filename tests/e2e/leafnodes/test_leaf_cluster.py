"""A cluster of which every server is a leaf node of the same hub: each message comes once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.e2e.leafnodes.test_wire_remote import Door
from tests.support.clusters import Cluster, Peer, settle
from tests.support.leafnodes import Inbox, leaf_port, until
from tests.support.processes import Server, command_of

KINDS = [
    pytest.param("real", "real", "real", marks=pytest.mark.full),
    ("real", "midge", "midge"),
    ("real", "midge", "real"),
    ("midge", "real", "real"),
    ("midge", "midge", "midge"),
]


@pytest.mark.parametrize(("hub", "first", "second"), KINDS)
async def test_each_message_comes_once_and_to_one_of_a_group(
    hub: str, first: str, second: str
) -> None:
    with Server(command_of(hub), 'server_name: HUB\nleafnodes { listen: "127.0.0.1:-1" }') as top:
        top.wait_ready()
        port = await asyncio.to_thread(leaf_port, top)
        url = f"nats-leaf://127.0.0.1:{port}"
        remote = f'leafnodes {{ reconnect: 100ms, remotes: [ {{ url: "{url}" }} ] }}'
        async with Cluster(first, second, config=remote) as cluster:
            clients = [await cluster.client_of(top), *await cluster.clients()]
            await settle(clients)
            plain = [Inbox() for _ in clients]
            members = [Inbox() for _ in clients]
            for client, inbox, member in zip(clients, plain, members, strict=True):
                await client.subscribe("a", cb=inbox.take)
                await client.subscribe("work", "g", cb=member.take)
            await settle(clients)
            sent = []
            for i, client in enumerate(clients):
                for j in range(20):
                    sent.append(b"%d.%d" % (i, j))
                    await client.publish("a", sent[-1])
                    await client.publish("work", sent[-1])
                await client.flush()
            await until(lambda: all(len(inbox.messages) >= len(sent) for inbox in plain))
            await settle(clients)
            assert [Counter(inbox.data) for inbox in plain] == [Counter(sent)] * 3
            assert Counter(data for member in members for data in member.data) == Counter(sent)


@pytest.mark.parametrize("kind", ["real", "midge"])
async def test_a_leaf_node_of_the_same_cluster_is_refused(kind: str) -> None:
    config = 'cluster { name: C1, listen: "127.0.0.1:-1" }\nleafnodes { listen: "127.0.0.1:-1" }'
    with Server(command_of(kind), f"server_name: H\n{config}") as server:
        server.wait_ready()
        peer = await Peer.dial(await asyncio.to_thread(leaf_port, server))
        assert peer.info["cluster"] == "C1"
        peer.say('CONNECT {"version":"2.15.1","name":"L","cluster":"C1","headers":true}')
        assert await peer.rest() == ["-ERR 'remote leafnode has same cluster name'"]
        await peer.close()


@pytest.mark.parametrize("kind", ["real", "midge"])
async def test_a_hub_is_told_the_new_name_of_a_cluster_by_another_link(kind: str) -> None:
    door = Door()
    config = """server_name: L
cluster { name: @name@, listen: "127.0.0.1:-1" }
leafnodes { reconnect: 50ms, remotes: [ { url: "nats-leaf://127.0.0.1:@port@" } ] }
""".replace("@port@", str(door.port))
    with door.socket, Server(command_of(kind), config.replace("@name@", "ONE")) as server:
        hub = await door.joined()
        assert hub.told["cluster"] == "ONE"
        await asyncio.to_thread(server.signal, "SIGHUP", config.replace("@name@", "TWO"))
        assert await hub.rest() == [], "it ends without a word"
        hub = await door.joined()
        assert hub.told["cluster"] == "TWO"
        for known in door.hubs:
            await known.close()
