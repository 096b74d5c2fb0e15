"""The lines of a leaf node port, spoken by hand: nats-server and midge answer alike."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.leafnodes import leaf_port
from tests.support.processes import Server, command_of

CONFIG = """
server_name: HUB
max_payload: 4096
leafnodes { listen: "127.0.0.1:-1", min_version: "2.9.0" }
accounts {
  A { users: [
    {user: a, password: pw}
    {user: limited, password: pw, permissions {
      publish { allow: ["out.>"] }, subscribe { allow: ["in.>"], deny: "in.secret" }
    }}
  ] }
}
"""

WAIT_S = 10.0
END = "(end)"
PEERS: list[Peer] = []


@pytest.fixture(autouse=True)
async def partings() -> AsyncIterator[None]:
    """Close all peers at the end."""
    yield
    for peer in PEERS:
        await peer.close()
    PEERS.clear()


class Peer:
    """A leaf of our own making."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.info: dict[str, Any] = {}
        PEERS.append(self)

    @classmethod
    async def dial(cls, port: int) -> Peer:
        """Connect, and take INFO."""
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        peer.info = json.loads((await peer.line()).removeprefix("INFO "))
        return peer

    def say(self, *lines: str) -> None:
        """Send lines."""
        self._writer.write("".join(f"{line}\r\n" for line in lines).encode())

    def connect(self, **fields: Any) -> None:
        """Send CONNECT."""
        defaults = {"version": "2.15.1", "server_id": "N1", "name": "L1", "headers": True}
        credentials = {"user": "a", "pass": "pw", "remote_account": "$G", "protocol": 1}
        self.say(f"CONNECT {json.dumps({**defaults, **credentials, **fields})}")

    async def line(self) -> str:
        """Read a line; END at the end."""
        async with asyncio.timeout(WAIT_S):
            return (await self._reader.readline() or END.encode()).decode().rstrip()

    async def settle(self) -> list[str]:
        """Wait until the server has handled all input; return its lines, without PONG etc."""
        self.say("PING")
        found = []
        while (line := await self.line()) != "PONG":
            if line == END:
                break
            if line == "PING":
                self.say("PONG")
            else:
                found.append(line)
        return found

    async def rest(self) -> list[str]:
        """Read to the end; return what the other side said last, INFO and interest aside."""
        found = []
        while (line := await self.line()) != END:
            if not line.startswith(("INFO ", "LS", "PING", "PONG")):
                found.append(line)
        return found

    async def close(self) -> None:
        """Leave."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@pytest.fixture(scope="module", params=["real", "midge"])
def hub(request: pytest.FixtureRequest):
    with Server(command_of(request.param), CONFIG) as server:
        yield leaf_port(server)


@pytest.fixture
async def peer(hub: int) -> Peer:
    return await Peer.dial(hub)


async def joined(port: int, **fields: Any) -> tuple[Peer, list[str]]:
    """Connect a leaf and return it with all lines that it got."""
    peer = await Peer.dial(port)
    peer.connect(**fields)
    return peer, await peer.settle()


async def test_the_first_info_is_that_of_a_leaf_node_port(peer: Peer) -> None:
    info = peer.info
    assert info["client_id"] > 0
    assert info["nonce"]
    assert info["info_on_connect"] is True
    assert info["auth_required"] is True
    assert info["headers"] is True
    assert info["max_payload"] == 4096
    assert info["proto"] == 3
    assert isinstance(info["leafnode_urls"], list)
    assert "connect_info" not in info
    assert "cluster" not in info


async def test_connect_is_answered_by_info_and_interest(hub: int) -> None:
    _, told = await joined(hub)
    info = json.loads(told[0].removeprefix("INFO "))
    assert info["connect_info"] is True
    assert info["remote_account"] == "A"
    assert "nonce" not in info
    assert "compression" not in info
    assert sum(line.startswith("LS+ $LDS.") for line in told) == 1
    assert all(line.startswith("LS+ ") for line in told[1:])


async def test_permissions_are_told_as_import_and_export(hub: int) -> None:
    _, told = await joined(hub, user="limited")
    info = json.loads(told[0].removeprefix("INFO "))
    assert info["import"] == {"allow": ["in.>"], "deny": ["in.secret"]}
    assert info["export"] == {"allow": ["out.>"]} or info["export"] == {
        "allow": ["out.>"],
        "deny": [],
    }


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"pass": "wrong"}, "Authorization Violation"),
        ({"user": "nobody"}, "Authorization Violation"),
        ({"user": "", "pass": ""}, "Authorization Violation"),
        ({"lang": "python3"}, "attempted to connect to leaf node port"),
        (
            {"version": "2.8.4"},
            'connection rejected since minimum version required is "2.9.0"',
        ),
        ({"version": ""}, 'connection rejected since minimum version required is "2.9.0"'),
        ({"cluster": "a b"}, "cluster name cannot contain spaces"),
        (
            {"gateway": "g"},
            'Rejecting connection from gateway "g" on the leafnode port',
        ),
    ],
)
async def test_who_may_not_come_in_is_told_why(peer: Peer, fields: dict, text: str) -> None:
    peer.connect(**fields)
    assert await peer.rest() == [f"-ERR '{text}'"]


@pytest.mark.parametrize("line", ["PING", "LS+ a", "LMSG a 1", "SUB a 1"])
async def test_nothing_comes_before_connect(peer: Peer, line: str) -> None:
    peer.say(line)
    assert await peer.rest() == ["-ERR 'Authorization Violation'"]


@pytest.mark.parametrize("line", ["LS+ a b", "LS+ a b c d"])
async def test_a_line_that_cannot_be_ends_the_link_without_a_word(hub: int, line: str) -> None:
    peer, _ = await joined(hub)
    peer.say(line)
    assert await peer.rest() == []


@pytest.mark.parametrize("line", ["XYZ", "LS+"])
async def test_an_unknown_verb_ends_the_link(hub: int, line: str) -> None:
    peer, _ = await joined(hub)
    peer.say(line)
    assert await peer.rest() == ["-ERR 'Unknown Protocol Operation'"]


async def test_what_is_no_subject_is_refused_and_the_link_stays(hub: int) -> None:
    peer, _ = await joined(hub)
    peer.say("LS+ a..b")
    assert await peer.settle() == ["-ERR 'Invalid Subscription'"]


async def test_own_interest_that_comes_back_is_a_loop(hub: int) -> None:
    peer, told = await joined(hub)
    own = next(line for line in told if line.startswith("LS+ $LDS."))
    peer.say(own)
    text = 'Loop detected for leafnode account="A". Delaying attempt to reconnect for 30s'
    assert await peer.rest() == [f"-ERR '{text}'"]


async def test_the_newer_of_two_links_of_one_leaf_stays(hub: int) -> None:
    first, _ = await joined(hub, name="SAME")
    second, _ = await joined(hub, name="SAME")
    await joined(hub, name="OTHER")
    assert await first.rest() == ["-ERR 'Duplicate Remote LeafNode Connection'"]
    assert await second.settle() == []


async def test_a_message_goes_on_to_another_leaf_and_not_back(hub: int) -> None:
    first, _ = await joined(hub, name="F")
    second, _ = await joined(hub, name="S")
    first.say("LS+ talk.*", "LS+ talk.> g 1")
    await first.settle()
    told = await second.settle()
    assert sorted(told) == ["LS+ talk.*", "LS+ talk.> g 1"]
    second.say("LS+ talk.a")
    assert await second.settle() == []
    first.say("LMSG talk.a 2", "hi")
    first_told = await first.settle()
    assert [line for line in first_told if line.startswith("LMSG")] == []
    assert await second.settle() == ["LMSG talk.a 2", "hi"]
    second.say("LMSG talk.a reply 2", "ho", "HMSG talk.b 12 13", "NATS/1.0", "", "x")
    await second.settle()
    assert await first.settle() == [
        "LMSG talk.a reply 2",
        "ho",
        "HMSG talk.b 12 13",
        "NATS/1.0",
        "",
        "x",
    ]
    second.say("LMSG talk.a | g 1", "q")
    await second.settle()
    assert await first.settle() == ["LMSG talk.a | g 1", "q"]


async def test_links_of_one_cluster_hear_nothing_of_each_other(hub: int) -> None:
    first, _ = await joined(hub, name="C1", cluster="C")
    second, _ = await joined(hub, name="C2", cluster="C")
    first.say("LS+ same")
    await first.settle()
    assert await second.settle() == []
    second.say("LMSG same 1", "x")
    await second.settle()
    assert await first.settle() == []


async def test_an_isolated_leaf_hears_nothing_of_others(hub: int) -> None:
    first, _ = await joined(hub, name="I1")
    second, _ = await joined(hub, name="I2", isolate=True)
    first.say("LS+ alone")
    await first.settle()
    assert await second.settle() == []


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["LMSG bad.1 1", "x"], 'Permissions Violation for Publish to "bad.1"'),
        (["LS+ other"], 'Permissions Violation for Subscription to "other"'),
        (["LS+ in.secret"], 'Permissions Violation for Subscription to "in.secret"'),
    ],
)
async def test_what_the_user_may_not_ends_the_link(hub: int, lines: list[str], text: str) -> None:
    peer, _ = await joined(hub, user="limited", name="LIMITED")
    peer.say(*lines)
    assert await peer.rest() == [f"-ERR '{text}'"]


async def test_wider_interest_is_taken_and_filtered(hub: int) -> None:
    limited, _ = await joined(hub, user="limited", name="LIMITED2")
    free, _ = await joined(hub, name="FREE")
    limited.say("LS+ >")
    assert await limited.settle() == []
    await free.settle()
    free.say("LMSG in.secret 1", "s", "LMSG other 1", "o", "LMSG in.a 1", "a")
    await free.settle()
    assert await limited.settle() == ["LMSG in.a 1", "a"]


async def test_a_message_too_large_ends_the_link(hub: int) -> None:
    peer, _ = await joined(hub, name="LARGE")
    peer.say("LMSG a 4097")
    assert await peer.rest() == ["-ERR 'Maximum Payload Violation'"]


async def test_silence_ends_a_link_that_has_not_connected(peer: Peer) -> None:
    assert await peer.rest() == ["-ERR 'Authentication Timeout'"]
