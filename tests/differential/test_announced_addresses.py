"""The addresses that the servers of a cluster announce to clients, WebSockets and leaf nodes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.processes import Server, command_of, link_port

WAIT_S = 60.0
FIELDS = ("host", "port", "connect_urls", "ws_connect_urls", "leafnode_urls")
CONFIG = """
server_name: %s
websocket { host: 127.0.0.1, port: -1, no_tls: true %s }
leafnodes { host: 127.0.0.1, port: -1 %s }
cluster { name: c, host: 127.0.0.1, port: -1, routes: [%s] %s }
"""
UPGRADE = (
    b"GET %b HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PAIRS = [("midge", "midge"), ("midge", "real"), ("real", "midge"), ("real", "real")]


async def info(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the fields of the next INFO that hold addresses."""
    async with asyncio.timeout(WAIT_S):
        line = await reader.readuntil(b"} \r\n")
    found = json.loads(line[line.index(b"INFO ") + 5 :])
    return {
        name: sorted(value) if isinstance(value, list) else value
        for name in FIELDS
        if (value := found.get(name))
    }


class Member:
    """A server of the cluster, and the addresses that it announces to new clients."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.port = server.address()[1]
        self.websocket_port = server.address("websocket")[1]
        self.leaf_port = link_port(server, "leafnode", WAIT_S)

    async def tells(self, port: int, path: bytes = b"") -> dict[str, Any]:
        """Return the INFO for a client of `port`; with `path`, one that comes by WebSocket."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(UPGRADE % path if path else b"")
        found = await info(reader)
        writer.close()
        return found

    async def tells_all(self) -> list[dict[str, Any]]:
        """Return the INFO for each kind of client: plain, WebSocket, and leafs of both kinds."""
        return [
            await self.tells(self.port),
            await self.tells(self.websocket_port, b"/"),
            await self.tells(self.leaf_port),
            await self.tells(self.websocket_port, b"/leafnode"),
        ]


def config(name: str, route: str = "", **more: str) -> str:
    """Return a member's configuration, with `more` in its blocks."""
    blocks = (more.get("websocket", ""), more.get("leafnodes", ""))
    return CONFIG % (name, *blocks, route, more.get("cluster", ""))


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
@pytest.mark.parametrize("advertise", ["", "example.org", "example.org:443"])
async def test_each_kind_of_client_gets_its_addresses(
    kinds: tuple[str, str], advertise: str
) -> None:
    more = {"websocket": f', advertise: "{advertise}"'} if advertise else {}
    with Server(command_of(kinds[0]), config("one", **more)) as first:
        route = f'"nats://127.0.0.1:{link_port(first, "route", WAIT_S)}"'
        with Server(command_of(kinds[1]), config("two", route)) as second:
            one, two = Member(first), Member(second)
            plain = sorted(f"127.0.0.1:{member.port}" for member in (one, two))
            leafs = sorted(f"127.0.0.1:{member.leaf_port}" for member in (one, two))
            own = f"127.0.0.1:{one.websocket_port}"
            if advertise:
                own = advertise if ":" in advertise else f"{advertise}:{one.websocket_port}"
            others = f"127.0.0.1:{two.websocket_port}"
            for member, shown in ((one, others), (two, own)):
                leaf = {"leafnode_urls": leafs, "ws_connect_urls": [shown]}
                at_leaf_port = {"host": "127.0.0.1", "port": member.leaf_port, **leaf}
                expected = [
                    {"host": "127.0.0.1", "port": member.port, "connect_urls": plain},
                    {
                        "host": "127.0.0.1",
                        "port": member.websocket_port,
                        "connect_urls": sorted([own, others]),
                    },
                    at_leaf_port,
                    at_leaf_port,
                ]
                async with asyncio.timeout(WAIT_S):
                    while (told := await member.tells_all()) != expected:
                        await asyncio.sleep(0.05)
                assert told == expected


@pytest.mark.parametrize("kind", ["midge", "real"])
async def test_hidden_addresses_are_not_sent(kind: str) -> None:
    more = {"leafnodes": ", no_advertise: true", "cluster": ", no_advertise: true"}
    with Server(command_of(kind), config("one", **more)) as server:
        member = Member(server)
        ports = (member.port, member.websocket_port, member.leaf_port, member.leaf_port)
        expected = [{"host": "127.0.0.1", "port": port} for port in ports]
        assert await member.tells_all() == expected


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
async def test_leafs_get_the_addresses_of_servers_that_come_and_go(kinds: tuple[str, str]) -> None:
    with Server(command_of(kinds[0]), config("one")) as first:
        one = Member(first)
        reader, writer = await asyncio.open_connection("127.0.0.1", one.leaf_port)
        connect = {"name": "leaf", "server_id": "leaf", "version": "2.15.1", "headers": True}
        writer.write(b"CONNECT %b\r\nPING\r\n" % json.dumps(connect).encode())
        own = f"127.0.0.1:{one.leaf_port}"
        for _ in range(2):  # before and after CONNECT
            assert (await info(reader))["leafnode_urls"] == [own]
        route = f'"nats://127.0.0.1:{link_port(first, "route", WAIT_S)}"'
        with Server(command_of(kinds[1]), config("two", route)) as second:
            two = Member(second)
            told = await info(reader)
            assert told["leafnode_urls"] == sorted([own, f"127.0.0.1:{two.leaf_port}"])
            assert told["ws_connect_urls"] == [f"127.0.0.1:{two.websocket_port}"]
        told = await info(reader)
        assert told["leafnode_urls"] == [own]
        assert "ws_connect_urls" not in told
        writer.close()
