"""Remotes with `hub: true`: the server that connects is the hub, the other one its leaf node."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from contextlib import ExitStack
from typing import Any

import pytest

from midge.testing import SettlingClient
from tests.support.leafnodes import Inbox, leaf_port, settle
from tests.support.processes import Server, command_of

ACCEPTING = 'server_name: %s\nhttp: "127.0.0.1:-1"\nleafnodes { listen: "127.0.0.1:-1" }\n'
CONNECTING = """
server_name: S
http: "127.0.0.1:-1"
leafnodes { reconnect: 100ms, remotes: [ %s ] }
"""


def spokes(server: Server) -> list[bool]:
    """Return for each link of `server` whether that is the spoke of it."""
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}/leafz") as answer:
        return [leaf["is_spoke"] for leaf in json.load(answer)["leafs"]]


@pytest.mark.parametrize("is_hub", [True, False])
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("real", "real", "real"), marks=pytest.mark.full),
        ("midge", "real", "real"),
        ("real", "midge", "midge"),
        ("midge", "midge", "real"),
    ],
)
async def test_only_a_hub_passes_messages_on_between_its_links(
    kinds: tuple[str, str, str], is_hub: bool
) -> None:
    with ExitStack() as stack:

        def run(kind: str, config: str) -> Server:
            return stack.enter_context(Server(command_of(kind), config))

        one, two = [run(kinds[i], ACCEPTING % f"A{i}") for i in (1, 2)]
        ports = [await asyncio.to_thread(leaf_port, server) for server in (one, two)]
        more = ", hub: true" if is_hub else ""
        remotes = [f'{{ url: "nats-leaf://127.0.0.1:{port}"{more} }}' for port in ports]
        between = run(kinds[0], CONNECTING % ", ".join(remotes))
        options: dict[str, Any] = {"allow_reconnect": False}
        clients = [
            await SettlingClient.connected(server.url, **options) for server in (one, two, between)
        ]
        at_one, at_two, at_between = clients
        got, group = Inbox(), Inbox()
        await at_one.subscribe("a", cb=got.take)
        await at_one.subscribe("work", "g", cb=group.take)
        await settle(at_one, at_between)
        await settle(at_between, at_two)
        if is_hub:
            await settle(at_one, at_two)
        for client, name in ((at_two, b"far"), (at_between, b"near")):
            await client.publish("a", name)
            await client.publish("work", name)
            await client.flush()
            await settle(at_between, at_two)
            await settle(at_one, at_between)
        expected = (b"far", b"near") if is_hub else (b"near",)
        await got.has(*expected)
        await group.has(*expected)
        shown = [await asyncio.to_thread(spokes, server) for server in (one, two, between)]
        assert shown == [[is_hub], [is_hub], [not is_hub] * 2]
        for client in clients:
            await client.close()
