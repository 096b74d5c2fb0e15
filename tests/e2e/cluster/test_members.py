"""Servers of a cluster that have something of their own: streams, leaf nodes, an end in sight."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from midge.testing import SettlingClient
from tests.support.clusters import Cluster, Peer, settle, told_of
from tests.support.leafnodes import Inbox, leaf_port, until
from tests.support.processes import Server, command_of


async def test_streams_of_one_midge_serve_clients_of_all_servers(tmp_path: Path) -> None:
    streams = {1: f'jetstream {{ store_dir: "{tmp_path}" }}'}
    async with Cluster("real", "midge", only=streams) as cluster:
        at_real, at_midge = await cluster.clients()
        context = at_midge.jetstream()
        await context.add_stream(name="ORDERS", subjects=["orders.>"])
        got = Inbox()
        await at_real.subscribe("out", cb=got.take)
        await settle([at_real, at_midge])
        body = {"stream_name": "ORDERS", "config": {"durable_name": "D", "deliver_subject": "out"}}
        body["config"] |= {"ack_policy": "explicit", "deliver_policy": "all"}
        answer = await at_midge.request(
            "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.D", json.dumps(body).encode(), timeout=30
        )
        assert b"error" not in answer.data
        await settle([at_real, at_midge])
        ack = await at_real.request("orders.1", b"from afar", timeout=30)
        assert json.loads(ack.data)["seq"] == 1
        await until(lambda: got.messages)
        (message,) = got.messages
        assert (message.subject, message.data) == ("orders.1", b"from afar")
        await message.ack_sync(timeout=30)
        info = await context.consumer_info("ORDERS", "D")
        assert info.ack_floor.stream_seq == 1


async def test_a_server_in_lame_duck_mode_is_no_longer_told_of() -> None:
    async with Cluster("midge", "real", "midge", config="lame_duck_duration: 30s") as cluster:
        await cluster.clients()
        urls = [server.url.removeprefix("nats://") for server in cluster.servers]
        watchers = []
        try:
            for url in urls:
                watchers.append(await Peer.dial(int(url.rpartition(":")[2])))
                watchers[-1].say('CONNECT {"verbose":false,"protocol":1}')
                await watchers[-1].settle()
            await asyncio.to_thread(cluster.servers[2].signal, "SIGUSR2")
            for watcher in watchers:
                await told_of(watcher, set(urls[:2]))
        finally:
            for watcher in watchers:
                await watcher.close()
            cluster.servers[2].process.kill()  # it would wait for its clients to leave


@pytest.mark.parametrize("leaf", ["midge", "real"])
async def test_a_leaf_node_of_one_server_reaches_all_and_is_the_last_choice(leaf: str) -> None:
    port = 'leafnodes { listen: "127.0.0.1:-1" }'
    async with Cluster("midge", "real", config=port) as cluster:
        clients = await cluster.clients()
        hub = cluster.servers[0]
        remote = f'{{ url: "nats-leaf://127.0.0.1:{leaf_port(hub)}" }}'
        with Server(
            command_of(leaf), f"server_name: L\nleafnodes {{ remotes: [{remote}] }}"
        ) as server:
            server.wait_ready()
            behind = await SettlingClient.connected(server.url, allow_reconnect=False)
            everyone = [*clients, behind]
            inboxes = [Inbox() for _ in everyone]
            workers = [Inbox() for _ in everyone]
            for client, inbox, worker in zip(everyone, inboxes, workers, strict=True):
                await client.subscribe("a", cb=inbox.take)
                await client.subscribe("work", "g", cb=worker.take)
            await settle(everyone)
            for i, client in enumerate(everyone):
                await client.publish("a", b"%d" % i)
                await client.flush()
            for inbox in inboxes:
                await until(lambda inbox=inbox: len(inbox.messages) >= len(everyone))
            await settle(everyone)
            assert [Counter(inbox.data) for inbox in inboxes] == [Counter((b"0", b"1", b"2"))] * 3
            for client in clients:
                for _ in range(50):
                    await client.publish("work", b"x")
                await client.flush()
            await until(lambda: sum(len(worker.messages) for worker in workers) >= 100)
            assert len(workers[2].messages) == 0, "members of leaf nodes are the last choice"
            await behind.close()


async def test_the_route_of_two_servers_with_jetstream_is_refused(tmp_path: Path) -> None:
    config = f'jetstream {{ store_dir: "{tmp_path}/@i@" }}'
    async with Cluster("midge", "midge", config=config) as cluster:
        refused = re.compile("this server has JetStream and so has the other one")
        await until(lambda: any(refused.search(server.log) for server in cluster.servers))
