"""S2 compression of routes and leaf node links, with the other server in each of its modes."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

import pytest
from nats.aio.client import Client

from tests.support.clusters import Cluster
from tests.support.leafnodes import Inbox, Pair, settle, until
from tests.support.processes import Server

MODES = ("off", "accept", "s2_auto", "s2_fast", "s2_better", "s2_best")
LEVELS = {"s2_uncompressed", "s2_fast", "s2_better", "s2_best"}
HTTP = "http: 127.0.0.1:-1\n"
READING = {"vehicle": "WDB-4711", "line": "east", "door": "front left", "state": "open", "ok": True}


class Compressed(Cluster):
    """A cluster whose servers have these modes of compression."""

    def __init__(self, *kinds: str, modes: tuple[str, str]) -> None:
        Cluster.__init__(self, *kinds, config=HTTP)
        self._modes = modes

    def start(self, i: int) -> Server:
        self._cluster = f"compression: {self._modes[i]}"
        return Cluster.start(self, i)


def full(mode: str) -> Any:
    """Leave a mode to the long form."""
    return pytest.param(mode, marks=pytest.mark.full)


def payloads() -> list[bytes]:
    """Return JSON messages of 300 bytes, and one that fills several blocks."""
    small = [
        json.dumps({**READING, "number": number, "text": "position and speed " * 8}).encode()
        for number in range(200)
    ]
    return [*small, b"large" * 100_000, bytes(range(256)) * 2000]


def page(server: Server, path: str) -> dict[str, Any]:
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}{path}") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


async def exchange(here: Client, there: Client) -> None:
    """Send messages in both directions, with headers too, and expect all of them."""
    sent = payloads()
    for subscriber, publisher in ((here, there), (there, here)):
        inbox = Inbox()
        await subscriber.subscribe("m.>", cb=inbox.take)
        await settle(subscriber, publisher)
        for data in sent:
            await publisher.publish("m.1", data, headers={"K": "v"} if len(data) % 2 else None)
        await publisher.flush()
        await until(lambda inbox=inbox: len(inbox.messages) >= len(sent))
        assert inbox.data == sent


def expected(own: str, other: str) -> set[str]:
    """Return the possible modes at a server with the mode `own`; a busy machine is a slow link."""
    if "off" in (own, other) or own == other == "accept":
        return {"off"}
    chosen = own if own != "accept" else ("s2_fast" if other == "s2_auto" else other)
    return LEVELS if chosen == "s2_auto" else {chosen}


async def mode_in(server: Server, path: str, list_name: str) -> str:
    """Return what a monitoring page says of the only link, once there is one."""
    async with asyncio.timeout(60):
        while True:
            links = (await asyncio.to_thread(page, server, path))[list_name] or []
            if links:
                mode: str = links[0]["compression"]
                return mode
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("other", MODES)
@pytest.mark.parametrize("own", [full("off"), "accept", full("s2_auto"), full("s2_fast")])
@pytest.mark.parametrize("kinds", [("midge", "real"), ("real", "midge")], ids="-".join)
async def test_a_leaf_node_link(kinds: tuple[str, str], own: str, other: str) -> None:
    hub_mode, leaf_mode = (own, other) if kinds[0] == "midge" else (other, own)
    async with Pair(
        *kinds,
        hub_config=HTTP,
        leaf_config=HTTP,
        leafnodes=f"compression: {hub_mode}",
        remote=f'url: "nats-leaf://127.0.0.1:@port@", compression: {leaf_mode}',
    ) as pair:
        await exchange(await pair.at_hub(), await pair.at_leaf())
        assert await mode_in(pair.hub, "/leafz", "leafs") in expected(hub_mode, leaf_mode)
        assert await mode_in(pair.leaf, "/leafz", "leafs") in expected(leaf_mode, hub_mode)


@pytest.mark.parametrize("other", MODES)
@pytest.mark.parametrize("own", [full("off"), "accept", full("s2_auto"), full("s2_fast")])
@pytest.mark.parametrize("kinds", [("midge", "real"), ("real", "midge")], ids="-".join)
async def test_a_route(kinds: tuple[str, str], own: str, other: str) -> None:
    modes = (own, other) if kinds[0] == "midge" else (other, own)
    async with Compressed(*kinds, modes=modes) as cluster:
        await exchange(*await cluster.clients())
        for server, here, there in zip(cluster.servers, modes, reversed(modes), strict=True):
            assert await mode_in(server, "/routez", "routes") in expected(here, there)


@pytest.mark.parametrize("thresholds", ['["0s", "10s"]', '["0s", "0s", "10s"]'])
async def test_the_round_trip_chooses_the_level(thresholds: str) -> None:
    mode = f"compression {{ mode: s2_auto, rtt_thresholds: {thresholds} }}"
    async with Pair(
        "midge",
        "midge",
        hub_config=HTTP,
        leafnodes=mode,
        remote=f'url: "nats-leaf://127.0.0.1:@port@", {mode}',
    ) as pair:
        await exchange(await pair.at_hub(), await pair.at_leaf())
        level = "s2_fast" if thresholds.count(",") == 1 else "s2_better"
        assert await mode_in(pair.hub, "/leafz", "leafs") == level


@pytest.mark.parametrize(("mode", "most"), [("s2_fast", 0.25), ("off", None)])
async def test_json_takes_a_quarter_of_the_bytes(mode: str, most: float | None) -> None:
    remote = f'url: "nats-leaf://127.0.0.1:@port@", compression: {mode}'
    more = f"compression: {mode}"
    async with Pair("midge", "midge", leafnodes=more, remote=remote, is_wired=True) as pair:
        here, there = await pair.at_hub(), await pair.at_leaf()
        inbox = Inbox()
        await here.subscribe("m", cb=inbox.take)
        await settle(here, there)
        before = pair.wire.passed_bytes
        sent = payloads()[:200]
        for data in sent * 10:
            await there.publish("m", data)
        await there.flush()
        await until(lambda: len(inbox.messages) >= 10 * len(sent))
        share = (pair.wire.passed_bytes - before) / (10 * sum(map(len, sent)))
        assert share < most if most is not None else share > 1
