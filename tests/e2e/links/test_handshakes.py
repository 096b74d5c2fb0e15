"""Links that come up, whatever else the server does."""

from __future__ import annotations

import asyncio

import pytest

from midge.testing import SettlingClient
from tests.support.clusters import Cluster, route_port, settle
from tests.support.leafnodes import Inbox
from tests.support.linked import TO_SERVERS, Linked, settle_both
from tests.support.processes import Server, command_of
from tests.support.wires import Wire

RESTRICTED = """
accounts { A { users: [
  { user: client, password: p }
  { user: a, password: a, permissions: { %s } }
] } }
"""
"""The user of links has rules, and that of clients has none."""

SYSTEM = """
accounts {
  A { users: [ { user: a, password: a } ] }
  $SYS { users: [ { user: sys, password: sys } ] }
}
"""


@pytest.mark.parametrize("far", ["real", "midge"])
@pytest.mark.parametrize("link", ["leaf", "hub"])
@pytest.mark.parametrize("rules", ['publish: { deny: "no.>" }', 'subscribe: { deny: "no.>" }'])
async def test_a_user_with_denied_subjects_alone_may_use_all_others(
    rules: str, link: str, far: str
) -> None:
    config = RESTRICTED % rules
    async with Linked(link, far, config=config, accounts=("A",)) as places:
        near, away = await places.clients(user="client", password="p")
        for subscriber, publisher in ((near, away), (away, near)):
            inbox = Inbox()
            await subscriber.subscribe("yes.>", cb=inbox.take)
            await settle_both(near, away)
            await publisher.publish("yes.1", b"1")
            await publisher.flush()
            await inbox.has(b"1")


@pytest.mark.parametrize("link", TO_SERVERS)
@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
async def test_a_link_comes_up_while_the_system_account_is_listened_to(
    link: str, flags: tuple[str, ...]
) -> None:
    async with Linked(link, config=SYSTEM, accounts=("A",), flags=flags) as places:
        system, _ = await places.clients(user="sys", password="sys")
        events = Inbox()
        await system.subscribe("$SYS.ACCOUNT.A.>", cb=events.take)
        await system.flush()
        await places.restart_far()
        near, away = await places.clients(user="a", password="a")
        for subscriber, publisher in ((near, away), (away, near)):
            inbox = Inbox()
            await subscriber.subscribe("x", cb=inbox.take)
            await settle_both(near, away)
            await publisher.publish("x", b"1")
            await publisher.flush()
            await inbox.has(b"1")
        assert "Traceback" not in places.near.log


@pytest.mark.parametrize("kinds", [("midge", "real", "real"), ("midge", "midge", "real")])
async def test_servers_that_learn_of_each_other_log_in_with_the_password(
    kinds: tuple[str, str, str],
) -> None:
    login = 'authorization { user: r, password: "p" }'
    async with Cluster(*kinds, cluster=login, login="r:p@") as cluster:
        clients = await cluster.clients()
        assert len(clients) == len(kinds), "each one's interest is known at every other server"


ROUTED = """
server_name: @name@
cluster { name: C, listen: "127.0.0.1:-1", connect_retries: 50
          authorization { user: r, password: p }, @routes@ }
"""


@pytest.mark.parametrize("seed", ["real", "midge"])
async def test_a_route_comes_back_while_the_seed_dials_without_the_password(seed: str) -> None:
    """nats-server dials a server whose route is lost by the address of INFO, without password."""

    def config(name: str, routes: str) -> str:
        return ROUTED.replace("@name@", name).replace("@routes@", routes)

    with Server(command_of(seed), config("S0", "")) as first:
        async with Wire(await asyncio.to_thread(route_port, first)) as wire:
            route = f'routes: ["nats-route://r:p@127.0.0.1:{wire.port}"]'
            with Server(command_of("midge"), config("S1", route)) as second:
                clients = [await SettlingClient.connected(one.url) for one in (first, second)]
                await settle(clients)
                for _ in range(2):
                    wire.cut()
                    await asyncio.sleep(0.2)
                    wire.mend()
                    await settle(clients)
                for client in clients:
                    await client.close()
                assert second.log.count("wrong name or password") < 100
