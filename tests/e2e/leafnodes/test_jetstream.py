"""JetStream on both sides of a link: domains, mirrors and sources, whichever server is where."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tests.support.leafnodes import WAIT_S, Pair, until

OWN_PAIR = pytest.param("midge", "midge", marks=pytest.mark.full)
PAIRS = [("real", "midge"), ("midge", "real"), OWN_PAIR]
DOMAINS = {"hub": "hub", "leaf": "edge"}

HUB = 'jetstream { store_dir: "@directory@/js", domain: hub }'
LEAF = 'jetstream { store_dir: "@directory@/js", domain: edge }'


def pair_of(hub: str, leaf: str, **options: Any) -> Pair:
    return Pair(hub, leaf, hub_config=HUB, leaf_config=LEAF, **options)


async def api(client: Client, request: str, body: Any = None, domain: str = "") -> dict[str, Any]:
    """Send a request to the API; return its answer, which is no error."""
    prefix = f"$JS.{domain}.API" if domain else "$JS.API"
    payload = b"" if body is None else json.dumps(body).encode()
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                reply = await client.request(f"{prefix}.{request}", payload, timeout=WAIT_S)
            except NoRespondersError:
                await asyncio.sleep(0.01)  # the other side's interest has not come yet
            else:
                break
    answer: dict[str, Any] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def publish(client: Client, subject: str, first: int, end: int) -> None:
    """Publish numbers into a stream, and wait for the last one's ack."""
    for i in range(first, end - 1):
        await client.publish(subject, b"%d" % i)
    await client.request(subject, b"%d" % (end - 1), timeout=WAIT_S)


async def stored(client: Client, stream: str, count: int) -> list[bytes]:
    """Wait until a stream has `count` messages; return their payloads in order."""
    async with asyncio.timeout(WAIT_S):
        while True:
            info = await api(client, f"STREAM.INFO.{stream}")
            if info["state"]["messages"] >= count:
                break
            await asyncio.sleep(0.02)
    assert info["state"]["messages"] == count
    js = client.jetstream()
    subscription = await js.subscribe(">", stream=stream, ordered_consumer=True)
    found = [await subscription.next_msg(timeout=WAIT_S) for _ in range(count)]
    await subscription.unsubscribe()
    return [message.data for message in found]


async def sides(pair: Pair) -> dict[str, Client]:
    return {"hub": await pair.at_hub(), "leaf": await pair.at_leaf()}


def external(domain: str) -> dict[str, Any]:
    return {"external": {"api": f"$JS.{domain}.API", "deliver": f"deliver.{domain}"}}


@pytest.mark.parametrize(("hub", "leaf"), PAIRS)
async def test_each_side_reaches_the_other_one_by_its_domain(hub: str, leaf: str) -> None:
    async with pair_of(hub, leaf) as pair:
        clients = await sides(pair)
        for side, client in clients.items():
            await api(client, "STREAM.CREATE.S", {"name": "S", "subjects": [f"{side}.>"]})
        for side, client in clients.items():
            other = "leaf" if side == "hub" else "hub"
            info = await api(client, "STREAM.INFO.S", domain=DOMAINS[other])
            assert info["config"]["subjects"] == [f"{other}.>"]
            assert info["domain"] == DOMAINS[other]
            info = await api(client, "STREAM.INFO.S")
            assert info["config"]["subjects"] == [f"{side}.>"], "what has no domain stays here"
            await publish(client, f"{other}.x", 0, 10)
        for client in clients.values():
            assert await stored(client, "S", 10) == [b"%d" % i for i in range(10)]


@pytest.mark.parametrize(("hub", "leaf"), PAIRS)
async def test_a_bucket_of_the_other_side_is_written_by_its_domain(hub: str, leaf: str) -> None:
    async with pair_of(hub, leaf) as pair:
        clients = await sides(pair)
        for side, client in clients.items():
            config = {"name": "KV_b", "subjects": ["$KV.b.>"], "max_msgs_per_subject": 1}
            await api(client, "STREAM.CREATE.KV_b", config)
            other = clients["leaf" if side == "hub" else "hub"]
            await api(other, "STREAM.INFO.KV_b", domain=DOMAINS[side])
            reply = await other.request(
                f"$JS.{DOMAINS[side]}.API.$KV.b.k", side.encode(), timeout=30
            )
            assert json.loads(reply.data)["domain"] == DOMAINS[side]
        for side, client in clients.items():
            assert await stored(client, "KV_b", 1) == [side.encode()]


@pytest.mark.parametrize(("hub", "leaf"), PAIRS)
@pytest.mark.parametrize("to", ["hub", "leaf"])
async def test_mirror_and_source_over_a_link_that_was_away(hub: str, leaf: str, to: str) -> None:
    async with pair_of(hub, leaf, is_wired=True) as pair:
        clients = await sides(pair)
        origin = "leaf" if to == "hub" else "hub"
        at_origin, at_copy = clients[origin], clients[to]
        await api(at_origin, "STREAM.CREATE.S", {"name": "S", "subjects": ["o.>"]})
        await publish(at_origin, "o.x", 0, 100)
        from_origin = {"name": "S", **external(DOMAINS[origin])}
        await api(at_copy, "STREAM.CREATE.M", {"name": "M", "mirror": from_origin})
        await api(at_copy, "STREAM.CREATE.G", {"name": "G", "sources": [from_origin]})
        for copy in ("M", "G"):
            assert await stored(at_copy, copy, 100) == [b"%d" % i for i in range(100)]
        pair.wire.cut()
        await publish(at_origin, "o.x", 100, 2000)
        pair.wire.mend()
        for copy in ("M", "G"):
            assert await stored(at_copy, copy, 2000) == [b"%d" % i for i in range(2000)]
        await publish(at_origin, "o.y", 2000, 2010)
        assert await stored(at_copy, "M", 2010) == [b"%d" % i for i in range(2010)]
        info = await api(at_copy, "STREAM.INFO.M")
        assert info["mirror"]["external"]["api"] == f"$JS.{DOMAINS[origin]}.API"
        assert info["state"]["last_seq"] == 2010


@pytest.mark.parametrize(
    ("hub", "leaf", "domain"),
    [
        ("real", "midge", ", domain: hub"),
        pytest.param("midge", "real", ", domain: hub", marks=pytest.mark.full),
        pytest.param("real", "midge", "", marks=pytest.mark.full),
        pytest.param("midge", "real", "", marks=pytest.mark.full),
    ],
)
async def test_domains_that_tell_nothing_apart_are_warned_of(
    hub: str, leaf: str, domain: str
) -> None:
    config = f'jetstream {{ store_dir: "@directory@/js" {domain} }}'
    async with Pair(hub, leaf, hub_config=HUB, leaf_config=config) as pair:
        of_midge = pair.hub if hub == "midge" else pair.leaf
        await until(lambda: "Leafnode domains unclear" in of_midge.log)
        at_hub, at_leaf = await pair.at_hub(), await pair.at_leaf()
        await api(at_hub, "STREAM.CREATE.S", {"name": "S"})
        answer = await at_leaf.request("$JS.API.STREAM.INFO.S", b"", timeout=WAIT_S)
        assert json.loads(answer.data)["error"]["err_code"] == 10059, "it is not the other side's"
