"""What a leaf node says to a hub that is spoken by hand: nats-server and midge say the same."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from nats.aio.client import Client

from midge.testing import SettlingClient
from tests.support.clusters import INFO, WAIT_S, Peer, publish_each_kind
from tests.support.processes import Server, command_of

CONFIG = """
server_name: LEAF
leafnodes {
  reconnect: 50ms
  remotes: [ {
    url: "nats-leaf://user:secret@127.0.0.1:%d"
    deny_imports: ["no.in.>"]
    deny_exports: ["no.out.>"]
  } ]
}
"""
HUB_INFO: dict[str, Any] = {
    **INFO,
    "server_id": "NHUB",
    "server_name": "HUB",
    "client_id": 7,
    "nonce": "bm9uY2U",
    "auth_required": True,
    "info_on_connect": True,
    "leafnode_urls": [],
}


class Hub(Peer):
    """A hub that a test speaks for; `told` is what CONNECT says."""

    told: dict[str, Any]

    def inform(self, **fields: Any) -> None:
        """Send INFO without the fields that are None."""
        info = {**HUB_INFO, **fields}
        known = {key: value for key, value in info.items() if value is not None}
        self.say(f"INFO {json.dumps(known)}")

    async def welcome(self, **fields: Any) -> list[str]:
        """Send the second INFO; return the interest that this brings, that of $SYS left out.

        Nothing, if that came too late: a leaf node waits for two seconds.
        """
        self.inform(nonce=None, connect_info=True, remote_account="A", **fields)
        found: list[str] = []
        # Announcing existing interest may take further turns behind the PONG.
        while not any(line.startswith("LS+ $LDS.") for line in found):
            if self._reader.at_eof():
                return []
            found += await self.settle()
        return found


class Door:
    """The port that the leaf node dials."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self.hubs: list[Hub] = []

    async def dialled(self) -> Hub:
        """Accept a connection."""
        async with asyncio.timeout(WAIT_S):
            taken, _ = await asyncio.get_running_loop().sock_accept(self.socket)
        hub = Hub(*await asyncio.open_connection(sock=taken))
        self.hubs.append(hub)
        return hub

    async def met(self, **fields: Any) -> Hub:
        """Accept a connection that answers INFO; one that has waited for too long does not."""
        while True:
            hub = await self.dialled()
            hub.inform(**fields)
            line = await hub.line()
            if line.startswith("CONNECT "):
                hub.told = json.loads(line.removeprefix("CONNECT "))
                return hub

    async def joined(self, **fields: Any) -> Hub:
        """Accept a connection, and have the leaf node take part; `fields` are of both INFOs."""
        while True:
            hub = await self.met(**fields)
            if await hub.welcome(**fields):
                return hub


def opened(kind: str) -> Iterator[tuple[Server, Door]]:
    """Run a leaf node of that kind, whose hub is spoken by hand."""
    door = Door()
    with door.socket, Server(command_of(kind), CONFIG % door.port) as server:
        server.wait_ready()
        yield server, door


@pytest.fixture(scope="module", params=["real", "midge"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Door]]:
    yield from opened(request.param)


@pytest.fixture
async def door(pair: tuple[Server, Door]) -> AsyncIterator[Door]:
    """The port; its connections are closed at the end."""
    yield pair[1]
    for hub in pair[1].hubs:
        await hub.close()
    pair[1].hubs.clear()


@pytest.fixture
async def client(pair: tuple[Server, Door]) -> AsyncIterator[Client]:
    """A client of the leaf node."""
    client = await SettlingClient.connected(pair[0].url)
    yield client
    await client.close()


async def test_connect_says_who_the_leaf_is(door: Door) -> None:
    told = (await door.met(compression="off")).told
    known = ("name", "cluster", "headers", "user", "pass", "remote_account", "deny_pub")
    assert {key: told.get(key) for key in (*known, "compress_mode", "lang", "gateway")} == {
        "name": "LEAF",
        "cluster": "LEAF",
        "headers": True,
        "user": "user",
        "pass": "secret",
        "remote_account": "$G",
        "deny_pub": ["no.in.>"],
        "compress_mode": "off",
        "lang": None,
        "gateway": None,
    }
    assert told["version"]
    assert told["server_id"]
    assert told["protocol"] >= 1


async def test_a_hub_that_says_nothing_of_compression_gets_none(door: Door) -> None:
    assert (await door.met()).told["compress_mode"] == "not supported"


async def test_interest_waits_for_the_second_info(door: Door, client: Client) -> None:
    await client.subscribe("here")
    await client.flush()
    found: list[str] = []
    while not found:
        hub = await door.met()
        assert "LS+ here" not in await hub.settle()
        found = await hub.welcome()
    assert sorted(line for line in found if "$LDS" not in line) == ["LS+ here"]


async def test_interest_comes_at_once_where_no_second_info_does(door: Door, client: Client) -> None:
    await client.subscribe("here")
    await client.flush()
    hub = await door.met(info_on_connect=None)
    assert await hub.until("LS+ here") == "LS+ here"


async def test_info_without_a_client_id_is_that_of_another_port(door: Door) -> None:
    hub = await door.dialled()
    hub.inform(client_id=None)
    assert not any(line.startswith("CONNECT ") for line in await hub.rest())


@pytest.mark.full
async def test_a_second_info_that_never_comes_ends_the_link(door: Door) -> None:
    hub = await door.met()
    assert await hub.rest() == ["-ERR 'Stale Leaf Node Connection - Closing'"]


async def test_interest_is_told_with_the_weight_of_a_queue_group(
    door: Door, client: Client
) -> None:
    hub = await door.joined()
    first = await client.subscribe("work", "q")
    second = await client.subscribe("work", "q")
    plain = [await client.subscribe("work") for _ in range(2)]
    await client.flush()
    assert await hub.settle() == ["LS+ work q 1", "LS+ work q 2", "LS+ work"]
    await first.unsubscribe()
    await second.unsubscribe()
    for subscription in plain:
        await subscription.unsubscribe()
    await client.flush()
    assert await hub.settle() == ["LS+ work q 1", "LS- work q", "LS- work"]


async def test_messages_go_where_the_hub_has_interest(door: Door, client: Client) -> None:
    hub = await door.joined()
    hub.say("LS+ bar", "LS+ bar.>", "LS+ qq gg 2")
    await hub.settle()
    await publish_each_kind(client)
    assert await hub.settle() == [
        *("LMSG bar 1", "1", "LMSG bar rep 1", "2"),
        *("HMSG bar 18 19", "NATS/1.0", "K: v", "", "3"),
        *("LMSG qq | gg 1", "4", "LMSG qq + rep gg 1", "5"),
    ]


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (("LMSG foo 1", "x"), ["plain"]),
        (("LMSG foo | g 1", "x"), ["g", "plain"]),
        (("LMSG foo + reply g h 1", "x"), ["g", "h", "plain"]),
        (("HMSG foo 12 13", "NATS/1.0", "", "x"), ["plain"]),
        (("HMSG foo | h 12 13", "NATS/1.0", "", "x"), ["h", "plain"]),
    ],
)
async def test_messages_reach_plain_subscriptions_and_the_groups_named(
    door: Door, client: Client, lines: tuple[str, ...], kinds: list[str]
) -> None:
    got: list[str] = []

    def note(kind: str) -> Any:
        async def take(_: Any) -> None:
            got.append(kind)

        return take

    hub = await door.joined()
    await client.subscribe("foo", cb=note("plain"))
    await client.subscribe("foo", "g", cb=note("g"))
    await client.subscribe("foo", "h", cb=note("h"))
    await client.flush()
    await hub.settle()
    hub.say(*lines)
    await hub.settle()
    await client.flush()
    assert sorted(got) == kinds


async def test_what_the_hub_does_not_permit_is_kept_here(door: Door, client: Client) -> None:
    hub = await door.joined(
        **{"import": {"allow": ["in.>"], "deny": ["in.not"]}, "export": {"allow": ["out.>"]}}
    )
    for subject in ("in.a", "in.not", "other"):
        await client.subscribe(subject)
    await client.flush()
    assert await hub.settle() == ["LS+ in.a"]
    hub.say("LS+ out.a", "LS+ other", "LS+ >")
    await hub.settle()
    for subject in ("out.a", "other"):
        await client.publish(subject, b"x")
    await client.flush()
    assert await hub.settle() == ["LMSG out.a 1", "x"]


async def test_what_the_remote_denies_does_not_cross(door: Door, client: Client) -> None:
    hub = await door.joined()
    got = []

    async def take(message: Any) -> None:
        got.append(message.subject)

    await client.subscribe("no.in.a", cb=take)
    await client.subscribe("yes", cb=take)
    await client.flush()
    assert await hub.settle() == ["LS+ yes"]
    hub.say("LMSG no.in.a 1", "x", "LMSG yes 1", "x", "LS+ no.out.a", "LS+ out.a")
    await hub.settle()
    for subject in ("no.out.a", "out.a"):
        await client.publish(subject, b"y")
    await client.flush()
    assert await hub.settle() == ["LMSG out.a 1", "y"]
    assert got == ["yes"]


async def test_a_hub_that_reads_no_headers_gets_none(door: Door, client: Client) -> None:
    hub = await door.joined(headers=None)
    hub.say("LS+ bar")
    await hub.settle()
    await client.publish("bar", b"3", headers={"K": "v"})
    await client.flush()
    assert await hub.settle() == ["LMSG bar 1", "3"]


async def test_an_error_does_not_end_the_link(door: Door, client: Client) -> None:
    hub = await door.joined()
    hub.say("-ERR 'Something is wrong'")
    await hub.settle()
    await client.subscribe("after")
    await client.flush()
    assert await hub.settle() == ["LS+ after"]


async def test_a_delivery_of_jetstream_shows_its_own_subject(door: Door, client: Client) -> None:
    hub = await door.joined()
    got = await client.subscribe("_in.7")
    await client.flush()
    await hub.settle()
    hub.say("LMSG _in.7 $JS.ACK.S.Q.1.1.1.1700000000000000000.0@ev.1 1", "x")
    message = await got.next_msg(timeout=WAIT_S)
    assert (message.subject, message.reply) == (
        "ev.1",
        "$JS.ACK.S.Q.1.1.1.1700000000000000000.0",
    )


async def test_the_addresses_that_the_hub_tells_are_dialled_too(door: Door) -> None:
    other = Door()
    with other.socket:
        hub = await door.joined(leafnode_urls=[f"127.0.0.1:{other.port}"])
        await hub.close()
        moved = await other.met(leafnode_urls=[f"127.0.0.1:{door.port}"])
        assert moved.told["name"] == "LEAF"
        await moved.close()


@pytest.mark.parametrize("kind", ["real", "midge"])
async def test_own_interest_that_comes_back_is_a_loop(kind: str) -> None:
    starting = opened(kind)
    _, door = await asyncio.to_thread(next, starting)
    found: list[str] = []
    while not found:
        hub = await door.met()
        found = await hub.welcome()
    hub.say(next(line for line in found if line.startswith("LS+ $LDS.")))
    text = 'Loop detected for leafnode account="$G". Delaying attempt to reconnect for 30s'
    assert await hub.rest() == [f"-ERR '{text}'"]
    await hub.close()
    await asyncio.to_thread(starting.close)
