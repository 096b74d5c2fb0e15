"""Configurations that are reloaded under a link to a real nats-server."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from nats.aio.client import Client

from tests.support.leafnodes import WAIT_S, Inbox, Pair, settle, until

PORTED = 'server_name: HUB\nleafnodes {{ listen: "127.0.0.1:-1" }}\n{accounts}'
ACCOUNTS = """
accounts {{ A {{ users: [
  {{user: a, password: pw}}
  {{user: link, password: pw, permissions {{ publish: ">", subscribe: "{allowed}" }}}}
] }} }}
"""


async def permitted(at_leaf: Client, at_hub: Client) -> None:
    """Wait until the leaf announces interest that it was not permitted to announce before.

    A nats-server does not announce earlier subscriptions again, so each probe has its own
    subscription.
    """
    got = Inbox()
    async with asyncio.timeout(WAIT_S):
        for number in itertools.count():
            await at_leaf.subscribe(f"permitted.{number}", cb=got.take)
            await at_leaf.flush()
            for _ in range(20):
                await at_hub.publish(f"permitted.{number}", b"")
                await asyncio.sleep(0.01)
            if got.messages:
                return


@pytest.mark.parametrize(
    ("hub", "leaf"), [("midge", "real"), pytest.param("midge", "midge", marks=pytest.mark.full)]
)
async def test_a_leaf_is_told_of_other_permissions(hub: str, leaf: str) -> None:
    remote = 'url: "nats-leaf://link:pw@127.0.0.1:@port@"'
    accounts = ACCOUNTS.format(allowed="in.>")
    async with Pair(hub, leaf, hub_config=accounts, remote=remote) as pair:
        at_hub = await pair.at_hub(user="a", password="pw")
        at_leaf = await pair.at_leaf()
        got = Inbox()
        for subject in ("in.x", "more.x", "probe.>"):
            await at_leaf.subscribe(subject, cb=got.take)
        await until(lambda: pair.hub.log.count("Leafnode connection created") == 1)
        accounts = ACCOUNTS.format(allowed=">")
        await asyncio.to_thread(pair.hub.signal, "SIGHUP", PORTED.format(accounts=accounts))
        await until(lambda: "Reloaded server configuration" in pair.hub.log)
        await permitted(at_leaf, at_hub)
        again = Inbox()
        await at_leaf.subscribe("more.y", cb=again.take)
        await settle(at_leaf, at_hub)
        await at_hub.publish("more.y", b"now")
        await again.has(b"now")
        assert pair.hub.log.count("Leafnode connection created") == 1


@pytest.mark.parametrize(("hub", "leaf"), [("real", "midge")])
async def test_a_remote_is_added_and_removed(hub: str, leaf: str) -> None:
    async with Pair(hub, leaf) as pair:
        await until(lambda: pair.hub.log.count("Leafnode connection created") == 1)
        await asyncio.to_thread(pair.leaf.signal, "SIGHUP", "server_name: LEAF\n")
        await until(lambda: "Leafnode connection closed" in pair.hub.log)
        url = f"nats-leaf://127.0.0.1:{pair.port}"
        text = f'server_name: LEAF\nleafnodes {{ remotes: [ {{ url: "{url}" }} ] }}\n'
        await asyncio.to_thread(pair.leaf.signal, "SIGHUP", text)
        await settle(await pair.at_leaf(), await pair.at_hub())
