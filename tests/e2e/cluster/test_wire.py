"""The lines of a route port, spoken by hand: nats-server and midge answer alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.client import Client

from midge.testing import SettlingClient
from tests.support.clusters import END, Peer, publish_each_kind, route_port, told_of
from tests.support.processes import Server, command_of

CONFIG = """
server_name: R1
cluster {
  name: C1, listen: "127.0.0.1:-1"
  authorization { user: route, password: pw, timeout: 2 }
}
accounts {
  A { users: [ {user: a, password: pw} ] }
  B { users: [ {user: b, password: pw} ] }
}
"""
LOGIN = {"user": "route", "pass": "pw"}


@pytest.fixture(scope="module", params=["real", "midge"])
def server(request: pytest.FixtureRequest):
    with Server(command_of(request.param), CONFIG) as server:
        server.wait_ready()
        yield server


@pytest.fixture
async def peers(server: Server) -> AsyncIterator[list[Peer]]:
    """Peers that leave at the end."""
    found: list[Peer] = []
    yield found
    for peer in found:
        await peer.close()


@pytest.fixture
async def peer(server: Server, peers: list[Peer]) -> Peer:
    """A peer that has read INFO."""
    return await dialled(server, peers)


@pytest.fixture
async def joined(peer: Peer) -> Peer:
    """A peer that takes part."""
    peer.connect(**LOGIN)
    peer.introduce()
    await peer.settle()
    return peer


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """A client of account A."""
    client = await SettlingClient.connected(server.url, user="a", password="pw")
    yield client
    await client.close()


async def dialled(server: Server, peers: list[Peer]) -> Peer:
    peer = await Peer.dial(await asyncio.to_thread(route_port, server))
    peers.append(peer)
    return peer


async def test_info_comes_first(peer: Peer, server: Server) -> None:
    info = peer.info
    assert info["cluster"] == "C1"
    assert info["server_name"] == "R1"
    assert info["auth_required"] is True
    assert info["nonce"]
    assert info["lnoc"] is info["lnocu"] is info["headers"] is True
    assert info["connect_urls"] == [server.url.removeprefix("nats://")]
    assert info["compression"] in {"accept", "off"}
    assert info["max_payload"] == 1 << 20
    assert not info.get("jetstream")


@pytest.mark.parametrize("line", ["INFO {}", "RS+ A a", "RMSG A a 0\r\n"])
async def test_nothing_comes_before_connect(peer: Peer, line: str) -> None:
    peer.say(line)
    assert await peer.rest() == ["-ERR 'Authorization Violation'"]


@pytest.mark.parametrize(
    "login", [{}, {"user": "route", "pass": "no"}, {"user": "x", "pass": "pw"}]
)
async def test_who_is_not_known_is_refused(peer: Peer, login: dict[str, str]) -> None:
    peer.connect(**login)
    assert await peer.rest() == ["-ERR 'Authorization Violation'"]


async def test_who_says_nothing_is_ended(peer: Peer) -> None:
    assert await peer.rest() == ["-ERR 'Authentication Timeout'"]


async def test_another_cluster_is_refused(peer: Peer) -> None:
    peer.connect(**LOGIN, cluster="C2")
    text = 'Rejecting connection, cluster name "C2" does not match "C1"'
    assert await peer.rest() == [f"-ERR '{text}'"]


async def test_the_same_server_has_one_route(
    joined: Peer, server: Server, peers: list[Peer]
) -> None:
    other = await dialled(server, peers)
    other.connect(**LOGIN)
    other.introduce()
    assert await other.rest() == []
    assert await joined.settle() is not None


async def test_a_name_is_there_once(server: Server, peers: list[Peer]) -> None:
    other = await dialled(server, peers)
    other.connect(**LOGIN)
    other.introduce(server_name="R1")
    assert await other.rest() == []


async def test_two_other_servers_may_have_one_name(
    joined: Peer, server: Server, peers: list[Peer], client: Client
) -> None:
    other = await dialled(server, peers)
    other.connect(**LOGIN, name="NOTHER")
    other.introduce(server_id="NOTHER")
    await other.settle()
    await client.subscribe("both")
    await client.flush()
    assert "RS+ A both" in await other.settle()
    assert "RS+ A both" in await joined.settle()


async def test_interest_is_told_when_it_begins_and_ends(joined: Peer, client: Client) -> None:
    first = await client.subscribe("foo.*")
    again = await client.subscribe("foo.*")
    members = [await client.subscribe("q", "g") for _ in range(2)]
    await client.flush()
    assert await joined.settle() == ["RS+ A foo.*", "RS+ A q g 1", "RS+ A q g 2"]
    await first.unsubscribe()
    await members[0].unsubscribe()
    await client.flush()
    assert await joined.settle() == ["RS+ A q g 1"]
    await again.unsubscribe()
    await members[1].unsubscribe()
    await client.flush()
    assert await joined.settle() == ["RS- A foo.*", "RS- A q g"]


async def test_interest_there_already_is_told_to_a_new_server(
    server: Server, peers: list[Peer], client: Client
) -> None:
    await client.subscribe("foo")
    await client.subscribe("q", "g")
    await client.flush()
    peer = await dialled(server, peers)
    peer.connect(**LOGIN)
    peer.introduce()
    lines = [line for line in await peer.settle() if line.startswith("RS+ A ")]
    assert sorted(lines) == ["RS+ A foo", "RS+ A q g 1"]


async def test_messages_go_where_interest_is(joined: Peer, client: Client) -> None:
    joined.say("RS+ A bar", "RS+ A bar.>", "RS+ A qq gg 2", "RS+ B bar")
    await joined.settle()
    await publish_each_kind(client)
    assert await joined.settle() == [
        *("RMSG A bar 1", "1", "RMSG A bar rep 1", "2"),
        *("HMSG A bar 18 19", "NATS/1.0", "K: v", "", "3"),
        *("RMSG A qq | gg 1", "4", "RMSG A qq + rep gg 1", "5"),
    ]
    joined.say("RS- A bar", "RS- A bar.>", "RS- A qq gg", "RS- B bar")
    await joined.settle()
    await client.publish("bar", b"7")
    await client.flush()
    assert await joined.settle() == []


async def test_plain_and_queue_interest_make_one_line(joined: Peer, client: Client) -> None:
    joined.say("RS+ A both", "RS+ A both g 1", "RS+ A both h 1")
    await joined.settle()
    await client.publish("both", b"x")
    await client.flush()
    line, payload = await joined.settle()
    words = line.split()
    assert (words[:4], sorted(words[4:6]), words[6:]) == (
        ["RMSG", "A", "both", "|"],
        ["g", "h"],
        ["1"],
    )
    assert payload == "x"
    joined.say("RS- A both", "RS- A both g", "RS- A both h")
    await joined.settle()


async def received(client: Client, joined: Peer, *lines: str) -> list[tuple[str, str, bytes]]:
    """Send message lines, and return what subscriptions get of them: kind, subject, payload."""
    got: list[tuple[str, str, bytes]] = []

    def keep(kind: str) -> Any:
        async def take(message: Any) -> None:
            got.append((kind, message.subject, message.data))

        return take

    subscriptions = [
        await client.subscribe("foo.*", cb=keep("plain")),
        await client.subscribe("foo.*", "g", cb=keep("g")),
        await client.subscribe("foo.*", "h", cb=keep("h")),
    ]
    await client.flush()
    await joined.settle()
    joined.say(*lines)
    await joined.settle()
    await client.flush()
    for subscription in subscriptions:
        await subscription.unsubscribe()
    await client.flush()
    await joined.settle()
    return sorted(got)


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (("RMSG A foo.1 1", "x"), ["plain"]),
        (("RMSG A foo.1 reply 1", "x"), ["plain"]),
        (("RMSG A foo.1 | g 1", "x"), ["g", "plain"]),
        (("RMSG A foo.1 + reply g h 1", "x"), ["g", "h", "plain"]),
        (("RMSG A foo.1 | unknown 1", "x"), ["plain"]),
        (("HMSG A foo.1 12 13", "NATS/1.0", "", "x"), ["plain"]),
        (("HMSG A foo.1 | h 12 13", "NATS/1.0", "", "x"), ["h", "plain"]),
        (("LMSG EDGE A foo.1 0 1", "x"), ["plain"]),
        (("LMSG EDGE A foo.1 | g 0 1", "x"), ["g", "plain"]),
        (("RMSG B foo.1 1", "x"), []),
        (("RMSG NONE foo.1 1", "x"), []),
        (("A+ A", "A- A", "rmsg A foo.1 1", "x"), ["plain"]),
    ],
)
async def test_messages_reach_plain_subscriptions_and_the_groups_named(
    joined: Peer, client: Client, lines: tuple[str, ...], kinds: list[str]
) -> None:
    expected = [(kind, "foo.1", b"x") for kind in kinds]
    assert await received(client, joined, *lines) == expected


async def test_a_delivery_of_jetstream_shows_its_own_subject(joined: Peer, client: Client) -> None:
    got = await client.subscribe("_in.7")
    await client.flush()
    await joined.settle()
    joined.say("RMSG A _in.7 $JS.ACK.S.Q.1.1.1.1700000000000000000.0@ev.1 1", "x")
    await joined.settle()
    message = await got.next_msg(timeout=30)
    assert (message.subject, message.reply) == (
        "ev.1",
        "$JS.ACK.S.Q.1.1.1.1700000000000000000.0",
    )
    await got.unsubscribe()


async def test_nobody_answers_without_interest_over_a_route(joined: Peer, client: Client) -> None:
    joined.say("RS+ A svc")
    await joined.settle()
    inbox = await client.subscribe("inbox")
    await client.publish("svc", b"", reply="inbox")
    await client.flush()
    assert (await joined.settle())[-2:] == ["RMSG A svc inbox 0", ""]
    assert inbox.pending_msgs == 0
    joined.say("RS- A svc")
    await joined.settle()
    await client.publish("svc", b"", reply="inbox")
    await client.flush()
    message = await inbox.next_msg(timeout=30)
    assert message.headers["Status"] == "503"
    await inbox.unsubscribe()


async def test_a_message_crosses_one_route_only(
    joined: Peer, server: Server, peers: list[Peer]
) -> None:
    other = await dialled(server, peers)
    other.connect(**LOGIN, name="NTHIRD")
    other.introduce(server_id="NTHIRD", server_name="THIRD")
    other.say("RS+ A far")
    await other.settle()
    joined.say("RMSG A far 1", "x")
    await joined.settle()
    assert [line for line in await other.settle() if "far" in line] == []


async def test_a_new_server_is_told_of_to_those_there(
    joined: Peer, server: Server, peers: list[Peer]
) -> None:
    other = await dialled(server, peers)
    other.connect(**LOGIN, name="NNEW")
    other.introduce(server_id="NNEW", server_name="NEW", port=7, connect_urls=["h:9"])
    await other.settle()
    told = json.loads((await joined.until('INFO {"server_id":"NNEW"')).removeprefix("INFO "))
    assert (told["server_name"], told["ip"]) == ("NEW", "nats-route://127.0.0.1:7/")
    assert told["connect_urls"] == ["h:9"]
    assert told["gossip_mode"] == 1
    assert not told.get("nonce")


async def test_clients_learn_where_other_servers_are(
    peer: Peer, server: Server, peers: list[Peer]
) -> None:
    own = server.url.removeprefix("nats://")
    client = await Peer.dial(int(own.rpartition(":")[2]))
    peers.append(client)
    assert client.info["cluster"] == "C1"
    client.say('CONNECT {"verbose":false,"protocol":1,"user":"a","pass":"pw"}')
    await client.settle()
    peer.connect(**LOGIN)
    peer.introduce(connect_urls=["127.0.0.1:9"])
    await told_of(client, {own, "127.0.0.1:9"})
    await peer.close()
    await told_of(client, {own})


async def test_clients_learn_it_after_their_first_pong(
    peer: Peer, server: Server, peers: list[Peer]
) -> None:
    """Some clients, such as nats.py, take an earlier line for the answer to their PING."""
    own = server.url.removeprefix("nats://")
    early, late = [await Peer.dial(int(own.rpartition(":")[2])) for _ in range(2)]
    peers += (early, late)
    for client in (early, late):
        client.say('CONNECT {"verbose":true,"protocol":1,"user":"a","pass":"pw"}')
        assert await client.line() == "+OK"
    await early.settle()
    peer.connect(**LOGIN)
    peer.introduce(connect_urls=["127.0.0.1:9"])
    await told_of(early, {own, "127.0.0.1:9"})
    late.say("PING")
    assert await late.line() == "PONG"
    info = json.loads((await late.line()).removeprefix("INFO "))
    assert set(info["connect_urls"]) == {own, "127.0.0.1:9"}


@pytest.mark.parametrize(
    "line", ["RS+ A", "RS+ A a b", "RMSG A a", "RMSG A a x q 1", "HMSG A a 5 1", "LMSG E A a 5"]
)
async def test_a_bad_line_ends_the_route(joined: Peer, line: str) -> None:
    joined.say(line)
    assert await joined.rest() == []


async def test_an_unknown_verb_ends_the_route(joined: Peer) -> None:
    joined.say("WHAT A a")
    assert await joined.rest() == ["-ERR 'Unknown Protocol Operation'"]


async def test_an_error_ends_the_route(joined: Peer) -> None:
    joined.say("-ERR 'something'")
    assert await joined.rest() == []


async def test_a_client_at_the_wrong_port_is_told_so(peer: Peer) -> None:
    peer.say('CONNECT {"user":"route","pass":"pw","lang":"python","version":"1","protocol":1}')
    assert await peer.rest() == ["-ERR 'attempted to connect to route port'"]


async def test_the_end_is_read(joined: Peer) -> None:
    joined.say("QUIT")
    await joined.rest()
    assert await joined.line() == END
