"""A hostile archive: nothing that an account restores becomes a protocol line of another one's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nats.aio.client import Client

from midge.jetstream.archive import entries
from midge.jetstream.archive.framing import S2Writer
from tests.support.clusters import Cluster
from tests.support.leafnodes import WAIT_S, Inbox, Pair, settle, until

ACCOUNTS = """
accounts {
  A { jetstream: enabled, users: [{user: a, password: p}] }
  B { users: [{user: b, password: p}] }
}
"""
JETSTREAM = 'jetstream { store_dir: "@directory@/js" }'
ROUTED = b" 0\r\n\r\nRMSG B victim 6\r\nforged\r\nRMSG A x"
LEAVED = b" 0\r\n\r\nLMSG victim 6\r\nforged\r\nLMSG x"
TOLD = b" 0\r\n\r\nMSG victim 1 6\r\nforged\r\nMSG x 1"


def archive(subject: bytes, consumer: bytes, **config: Any) -> bytes:
    """Return an archive of one message and one push consumer."""
    writer = S2Writer()
    state = {"first_seq": 1, "last_seq": 1, "consumer_count": 1}
    writer.write(entries.MAGIC + entries.pack(entries.STATE, 0, 0, b"", json.dumps(state).encode()))
    body = {
        "config": {"deliver_subject": "d.x", "ack_policy": "explicit", **config},
        "state": {
            "delivered": {"consumer_seq": 0, "stream_seq": 0},
            "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
        },
    }
    name = entries.CONSUMERS + consumer
    writer.write(entries.pack(name, 0, 0, b"", json.dumps(body).encode()))
    writer.write(entries.pack(subject, 1, 1, b"", b"told") + entries.END)
    writer.finish()
    return writer.take()


def archives(forged: bytes) -> dict[str, bytes]:
    text = forged.decode()
    return {
        "subject": archive(b"s.x" + forged, b"C", durable_name="C"),
        "name": archive(b"s.x", b"C" + forged, name=f"C{text}"),
        "durable": archive(b"s.x", b"C" + forged, durable_name=f"C{text}"),
        "deliver": archive(b"s.x", b"C", durable_name="C", deliver_subject=f"d.x{text}"),
        "filter": archive(b"s.x" + forged, b"C", durable_name="C", filter_subject=f"s.x{text}"),
    }


PLACES = list(archives(b""))


async def attack(client: Client, data: bytes) -> dict[str, Any]:
    """Restore an archive; return the last answer."""
    config = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
    body = json.dumps({"config": config, "state": {}}).encode()
    answer = json.loads((await client.request("$JS.API.STREAM.RESTORE.S", body, WAIT_S)).data)
    to = answer["deliver_subject"]
    for piece in (data, b""):
        told = (await client.request(to, piece, WAIT_S)).data
        if told:
            return dict(json.loads(told))
    return {}


async def check(victim: Client, attacker: Client, listener: Client, data: bytes) -> None:
    """Attack from `attacker`, which `listener` shares the account with, and look at `victim`."""
    forged = Inbox()
    await victim.subscribe("victim", cb=forged.take)
    deliveries = Inbox()
    for subject in ("d.x", "d.>"):
        await listener.subscribe(subject, cb=deliveries.take)
    if listener is not victim:
        await settle(listener, attacker)
    await victim.flush()
    answer = await attack(attacker, data)
    if "error" not in answer:
        await until(lambda: deliveries.messages or forged.messages or listener.is_closed)
    assert forged.messages == []
    assert not victim.is_closed
    assert not listener.is_closed
    assert answer["error"]["err_code"] == 10062, answer


@pytest.mark.parametrize("place", PLACES)
async def test_no_line_is_forged_over_a_route(place: str) -> None:
    only = {0: JETSTREAM}
    async with Cluster("midge", "midge", config=ACCOUNTS, only=only) as cluster:
        attacker, listener = await cluster.clients(user="a", password="p")
        victim = await cluster.client(1, user="b", password="p")
        await check(victim, attacker, listener, archives(ROUTED)[place])


@pytest.mark.parametrize("place", PLACES)
async def test_no_line_is_forged_over_a_leaf(place: str) -> None:
    remote = 'url: "nats-leaf://a:p@127.0.0.1:@port@", account: A, deny_imports: "victim"'
    leaf = {"leaf_config": ACCOUNTS, "remote": remote}
    async with Pair("midge", "midge", hub_config=ACCOUNTS + JETSTREAM, **leaf) as pair:
        attacker = await pair.at_hub(user="a", password="p")
        listener = await pair.at_leaf(user="a", password="p")
        victim = await pair.at_leaf(user="a", password="p")
        await check(victim, attacker, listener, archives(LEAVED)[place])


@pytest.mark.parametrize("place", PLACES)
async def test_no_line_is_forged_on_the_same_server(place: str) -> None:
    exporting = ACCOUNTS.replace("enabled,", 'enabled, exports: [{stream: "d.>"}],')
    imports = 'imports: [{stream: {account: A, subject: "d.>"}}]'
    importing = exporting.replace("B { ", f"B {{ {imports}, ")
    async with Cluster("midge", config=importing + JETSTREAM) as cluster:
        attacker = await cluster.client(0, user="a", password="p")
        victim = await cluster.client(0, user="b", password="p")
        await check(victim, attacker, victim, archives(TOLD)[place])
