"""Streams that accounts import, on a midge of several workers in a cluster with other servers."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack

from nats.aio.client import Client

from midge.testing import SettlingClient
from tests.support.clusters import IMPORTING_ACCOUNTS, IMPORTING_USERS, settle
from tests.support.leafnodes import Inbox, until
from tests.support.processes import Server, midge_command, nats_server_command

CONFIG = """
server_name: %s
cluster { name: C, listen: "127.0.0.1:-1", connect_retries: 50, routes: [ %s ] }
"""
MESSAGES = 30


async def clients_of(servers: list[Server], stack: AsyncExitStack) -> dict[str, list[Client]]:
    """Connect clients of each account: to each worker of the first server, and to each other."""
    found: dict[str, list[Client]] = {name: [] for name in IMPORTING_USERS}
    for server in (servers[0], *servers):
        for name in IMPORTING_USERS:
            client = await SettlingClient.connected(server.url, user=name, password="p")
            stack.push_async_callback(client.close)
            found[name].append(client)
    return found


async def test_importers_get_each_message_once_wherever_they_are() -> None:
    async with AsyncExitStack() as stack:
        servers = [
            stack.enter_context(
                Server(
                    midge_command(), CONFIG % ("S0", "") + IMPORTING_ACCOUNTS, ("--workers", "2")
                )
            )
        ]
        host, port = servers[0].wait_ready().address("cluster")
        route = f'"nats-route://{host}:{port}"'
        for i, command in enumerate((nats_server_command(), midge_command()), 1):
            server = Server(command, CONFIG % (f"S{i}", route) + IMPORTING_ACCOUNTS)
            servers.append(stack.enter_context(server).wait_ready())
        of = await clients_of(servers, stack)
        plain = {(name, i): Inbox() for name in ("im", "jm") for i in range(4)}
        members = [Inbox() for _ in range(8)]
        for (name, i), inbox in plain.items():
            await of[name][i].subscribe({"im": "imp.a.*", "jm": "pre.>"}[name], cb=inbox.take)
        for i in range(4):
            await of["im"][i].subscribe("imp.>", "q", cb=members[2 * i].take)
            await of["jm"][i].subscribe("*.ex.a.x", "q", cb=members[2 * i + 1].take)
        for clients in of.values():
            await settle(clients)
        for i, publisher in enumerate(of["ex"]):
            for number in range(MESSAGES):
                await publisher.publish("ex.a.x", b"%d %d" % (i, number))
            await publisher.flush()
        every = Counter(b"%d %d" % (i, number) for i in range(4) for number in range(MESSAGES))
        await until(lambda: all(len(inbox.data) >= len(every) for inbox in plain.values()))
        await until(lambda: sum(len(inbox.data) for inbox in members) >= len(every))
        for clients in of.values():
            await settle(clients)
        for place, inbox in plain.items():
            assert Counter(inbox.data) == every, place
        assert Counter(one for inbox in members for one in inbox.data) == every
        assert "Fatal error" not in "".join(server.log for server in servers)
