"""Links that lead in a circle, and servers that connect twice."""

from __future__ import annotations

import asyncio

import pytest

from midge.testing import SettlingClient
from tests.support.leafnodes import Inbox, Pair, leaf_port, settle, until
from tests.support.processes import Server, command_of

LOOP = "Loop detected for leafnode account"
HEALING_S = 60.0  # both stay away for thirty seconds


def hub_config(name: str, remote: int | None = None) -> str:
    remotes = f'remotes: [ {{ url: "nats-leaf://127.0.0.1:{remote}" }} ]' if remote else ""
    port = '"127.0.0.1:-1"'
    return f"server_name: {name}\nleafnodes {{ listen: {port}, reconnect: 100ms\n{remotes} }}\n"


@pytest.mark.parametrize(("first", "second"), [("midge", "real"), ("real", "midge")])
@pytest.mark.parametrize("heals", [False, pytest.param(True, marks=pytest.mark.full)])
async def test_two_hubs_that_are_each_others_leaf_find_the_loop(
    first: str, second: str, heals: bool
) -> None:
    with (
        Server(command_of(first), hub_config("FIRST")) as one,
        Server(command_of(second), hub_config("SECOND", leaf_port(one))) as two,
    ):
        await until(lambda: "Leafnode connection created" in one.log)
        looped = hub_config("FIRST", leaf_port(two))
        await asyncio.to_thread(one.signal, "SIGHUP", looped)
        await until(lambda: LOOP in one.log + two.log)
        if heals:
            await asyncio.to_thread(one.signal, "SIGHUP", hub_config("FIRST"))
            await _exchange(one, two)


async def _exchange(one: Server, two: Server) -> None:
    """Wait until the link that is left is up, and check that messages cross it once."""
    at_one = await SettlingClient.connected(one.url)
    at_two = await SettlingClient.connected(two.url)
    got, probes = Inbox(), Inbox()
    await at_two.subscribe("a", cb=got.take)
    await at_two.subscribe("probe", cb=probes.take)
    async with asyncio.timeout(HEALING_S):
        while not probes.messages:
            await at_one.publish("probe", b"")
            await asyncio.sleep(0.1)
    await at_one.publish("a", b"1")
    await at_one.publish("a", b"2")
    await got.has(b"1", b"2")
    await at_one.close()
    await at_two.close()


async def test_of_two_links_between_two_servers_the_first_one_stays() -> None:
    with (
        Server(command_of("midge"), hub_config("FIRST")) as one,
        Server(command_of("midge"), hub_config("SECOND", leaf_port(one))) as two,
    ):
        await until(lambda: "Leafnode connection created" in one.log)
        at_one = await SettlingClient.connected(one.url)
        at_two = await SettlingClient.connected(two.url)
        await settle(at_one, at_two)
        looped = hub_config("FIRST", leaf_port(two))
        await asyncio.to_thread(one.signal, "SIGHUP", looped)
        await until(lambda: LOOP in one.log)
        await until(lambda: LOOP in two.log)
        got = Inbox()
        await at_two.subscribe("a", cb=got.take)
        # The links that are up are looked at again for as long as a loop may take to end.
        async with asyncio.timeout(HEALING_S):
            while len(got.messages) < 10:
                await at_one.publish("a", b"1")
                await settle(at_two, at_one)
                await asyncio.sleep(0.5)
        closed = "Leafnode connection closed"
        assert (one.log.count(closed), two.log.count(closed)) == (1, 1)
        await at_one.close()
        await at_two.close()


@pytest.mark.parametrize(("hub", "leaf"), [("real", "midge"), ("midge", "real")])
async def test_a_leaf_that_comes_again_under_its_name_replaces_itself(hub: str, leaf: str) -> None:
    async with Pair(hub, leaf) as pair:
        await until(lambda: "Leafnode connection created" in pair.hub.log)
        again = await asyncio.to_thread(pair.start_leaf)
        await until(lambda: "Duplicate Remote LeafNode" in pair.leaf.log)
        await asyncio.to_thread(again.stop)
        await settle(await pair.at_leaf(), await pair.at_hub())
