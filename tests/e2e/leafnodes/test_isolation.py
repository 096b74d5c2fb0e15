"""Remotes with isolated interest: what leaf nodes want stays on one side of the link."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from contextlib import AsyncExitStack

import pytest

from midge.testing import SettlingClient
from tests.support.leafnodes import leaf_port, settle
from tests.support.processes import Server, command_of

ACCEPTING = 'server_name: %s\nhttp: "127.0.0.1:-1"\nleafnodes { listen: "127.0.0.1:-1", %s }\n'
REMOTE = 'reconnect: 100ms, remotes: [ { url: "nats-leaf://127.0.0.1:%d"%s } ]'
WAIT_S = 60.0


def announced(server: Server) -> set[str]:
    """Return the interest that the other servers have announced over the links of `server`."""
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}/leafz?subs=1") as answer:
        links = json.load(answer)["leafs"] or []
    return {subject for link in links for subject in link.get("subscriptions_list") or []}


async def has(server: Server, subject: str) -> set[str]:
    """Return the announced interest of `server`, once `subject` is part of it."""
    async with asyncio.timeout(WAIT_S):
        while subject not in (found := await asyncio.to_thread(announced, server)):
            await asyncio.sleep(0.05)
    return found


@pytest.mark.parametrize("far", ["real", "midge"])
@pytest.mark.parametrize("option", ["", "isolate_leafnode_interest", "request_isolation"])
async def test_what_other_leaf_nodes_want_stays_where_it_is(option: str, far: str) -> None:
    async with AsyncExitStack() as stack:

        async def run(kind: str, name: str, more: str = "") -> Server:
            server = Server(command_of(kind), ACCEPTING % (name, more))
            stack.callback(server.stop)
            return await asyncio.to_thread(server.wait_ready)

        async def client(server: Server) -> SettlingClient:
            found = await SettlingClient.connected(server.url, allow_reconnect=False)
            stack.push_async_callback(found.close)
            return found

        chosen = f", {option}: true" if option else ""
        hub = await run(far, "HUB")
        leaf = await run("midge", "LEAF", REMOTE % (leaf_port(hub), chosen))
        here, there = (hub, leaf) if option == "request_isolation" else (leaf, hub)
        other = await run("midge", "OTHER", REMOTE % (leaf_port(here), ""))
        at_here, at_other = await client(here), await client(other)
        await at_other.subscribe("x.other")
        await settle(at_other, at_here)
        await at_here.subscribe("x.own")
        await at_here.flush()
        assert ("x.other" in await has(there, "x.own")) == (not option)
