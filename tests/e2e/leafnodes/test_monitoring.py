"""What a hub shows of its leaf nodes: pages, metrics and events."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from typing import Any

import pytest
from nats.aio.msg import Msg

from tests.support.leafnodes import Inbox, Pair, settle, until
from tests.support.processes import Server

HUB = """
http: 127.0.0.1:-1
accounts {
  SYS { users: [ {user: s, password: s} ] }
  A { users: [ {user: a, password: a} ] }
}
system_account: SYS
"""
REMOTE = 'url: "nats-leaf://a:a@127.0.0.1:@port@"'


def page(server: Server, path: str) -> str:
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}{path}") as answer:
        return str(answer.read().decode())


def listed(server: Server, arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(page(server, f"/connz?{arguments}"))["connections"]
    return found


def metric(server: Server, name: str) -> float:
    found = re.search(
        rf'^{name}{{[^}}]*account="A"[^}}]*}} (\S+)$', page(server, "/metrics"), re.MULTILINE
    )
    return float(found[1]) if found else 0.0


async def test_metrics_tell_of_each_link() -> None:
    async with Pair("midge", "real", hub_config=HUB, remote=REMOTE, is_wired=True) as pair:
        at_hub, at_leaf = await pair.at_hub(user="a", password="a"), await pair.at_leaf()
        got = Inbox()
        await at_leaf.subscribe("a", cb=got.take)
        await settle(at_leaf, at_hub)
        before = metric(pair.hub, "midge_leafnode_sent_messages_total")
        for _ in range(10):
            await at_hub.publish("a", b"12345")
        await at_hub.flush()
        await got.has(*[b"12345"] * 10)
        assert metric(pair.hub, "midge_leafnode_sent_messages_total") == before + 10
        assert metric(pair.hub, "midge_leafnode_pending_bytes") == 0
        assert metric(pair.hub, "midge_leafnodes") == 1
        await until(lambda: metric(pair.hub, "midge_leafnode_rtt_seconds") > 0)
        listed = json.loads(page(pair.hub, "/leafz?subs=1"))["leafs"][0]["subscriptions_list"]
        assert "a" in listed
        assert metric(pair.hub, "midge_leafnode_subscriptions") == len(listed)
        pair.wire.cut()
        pair.wire.mend()
        await until(lambda: metric(pair.hub, "midge_leafnode_connects_total") == 2)


@pytest.mark.parametrize(("hub", "leaf"), [("midge", "real"), ("real", "midge")])
async def test_connections_hold_leaf_nodes(hub: str, leaf: str) -> None:
    async with Pair(
        hub, leaf, hub_config=HUB, leaf_config="http: 127.0.0.1:-1", remote=REMOTE
    ) as pair:
        # Each announces the same five subjects to the other.
        await until(lambda: [one["subscriptions"] for one in listed(pair.hub, "")] == [5])
        await until(lambda: [one["subscriptions"] for one in listed(pair.leaf, "")] == [5])
        (at_hub,) = listed(pair.hub, "acc=A&auth=1&subs=1")
        (at_leaf,) = listed(pair.leaf, "auth=1&subs=detail")
        for entry in (at_hub, at_leaf):
            assert entry["kind"] == "Leafnode"
            assert "type" not in entry
        assert len(at_hub["subscriptions_list"]) == len(at_leaf["subscriptions_list_detail"]) == 5
        assert (at_hub["account"], at_hub["authorized_user"]) == ("A", "a")
        assert at_hub["version"] == "2.15.1"
        assert at_hub["name"] == "LEAF"
        assert "name" not in at_leaf
        assert listed(pair.hub, "acc=SYS") in ([], None)
        assert listed(pair.hub, f"cid={at_hub['cid']}")[0]["port"] == at_hub["port"]
        await asyncio.to_thread(pair.leaf.stop)
        await until(lambda: listed(pair.hub, "state=closed") != [])
        (ended,) = listed(pair.hub, "state=closed&auth=1")
        assert (ended["kind"], ended["cid"]) == ("Leafnode", at_hub["cid"])
        assert ended["stop"] > ended["start"]
        assert listed(pair.hub, "") in ([], None)


@pytest.mark.parametrize("hub", ["midge", "real"])
async def test_refused_leaf_nodes_are_listed_as_closed(hub: str) -> None:
    remote = REMOTE.replace("a:a@", "a:wrong@")
    async with Pair(hub, "real", hub_config=HUB, remote=remote) as pair:
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
        assert (await reader.readline()).startswith(b"INFO ")
        writer.close()

        def found() -> dict[str, dict[str, Any]]:
            return {one["reason"]: one for one in listed(pair.hub, "state=closed&auth=1")}

        await until(lambda: found().keys() >= {"Authentication Failure", "Client Closed"})
        refused, silent = found()["Authentication Failure"], found()["Client Closed"]
        for one in (refused, silent):
            assert one["kind"] == "Leafnode"
            assert "account" not in one
        assert (refused["name"], refused["authorized_user"]) == ("LEAF", "a")
        assert refused["version"] == "2.15.1"
        assert not {"name", "authorized_user", "version"} & silent.keys()
        assert listed(pair.hub, "") in ([], None)


async def test_the_system_account_is_told_of_a_leaf_as_of_a_client() -> None:
    events: dict[str, dict] = {}

    async def note(message: Msg) -> None:
        events[message.subject] = json.loads(message.data)

    async with Pair("midge", "real", hub_config=HUB, remote=REMOTE) as pair:
        await until(lambda: "Leafnode connection created" in pair.hub.log)
        system = await pair.at_hub(user="s", password="s")
        await system.subscribe("$SYS.ACCOUNT.A.>", cb=note)
        await system.flush()
        await asyncio.to_thread(pair.leaf.stop)
        await until(lambda: "$SYS.ACCOUNT.A.DISCONNECT" in events)
        assert events["$SYS.ACCOUNT.A.SERVER.CONNS"]["leafnodes"] == 0
        pair.leaf = await asyncio.to_thread(pair.start_leaf)
        await until(lambda: "$SYS.ACCOUNT.A.CONNECT" in events)
        connected = events["$SYS.ACCOUNT.A.CONNECT"]
        assert connected["type"] == "io.nats.server.advisory.v1.client_connect"
        client = connected["client"]
        assert (client["kind"], client["name"], client["user"]) == ("Leafnode", "LEAF", "a")
        assert client["acc"] == client["name_tag"] == "A"
        assert client["ver"] == "2.15.1"
        assert events["$SYS.ACCOUNT.A.SERVER.CONNS"]["leafnodes"] == 1
