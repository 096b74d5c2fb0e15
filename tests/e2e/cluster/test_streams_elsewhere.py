"""Clients of a midge without JetStream use the streams of the cluster's nats-servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from midge.server.accounts.plan import asks_cluster
from midge.server.config.options import Cluster, JetStream, Options
from tests.support.processes import Server, command_of

WAIT_S = 60.0
NO_LEADER = 10008
"""JetStream's error while the cluster elects."""

ACCOUNTS = (
    "accounts { A { jetstream: enabled, users: [{user: a, password: p}] }\n"
    " N { users: [{user: n, password: p}] } }\n"
)


def free_ports(count: int) -> list[int]:
    """Return ports that are free now; servers of a JetStream cluster must know all of them."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


@pytest.fixture(scope="module", params=["", ACCOUNTS], ids=["global", "accounts"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[list[Server]]:
    """Start three nats-servers with JetStream, and a midge without."""
    ports = free_ports(3)
    routes = ", ".join(f'"nats-route://127.0.0.1:{port}"' for port in ports)
    with contextlib.ExitStack() as stack:
        servers = []
        for number, port in enumerate([*ports, -1]):
            store: Path = tmp_path_factory.mktemp("store")
            streams = f'jetstream {{ store_dir: "{store}" }}\n' if port > 0 else ""
            listen = f'name: C, listen: "127.0.0.1:{port}", routes: [{routes}]'
            config = f"server_name: S{number}\n{request.param}{streams}cluster {{ {listen} }}\n"
            kind = "real" if port > 0 else "midge"
            servers.append(stack.enter_context(Server(command_of(kind), config)))
        yield servers


async def connect(server: Server, user: str) -> Client:
    """Connect as `user`, or without a user where the server has none."""
    has_users = "accounts" in server.config_path.read_text()
    login = {"user": user, "password": "p"} if has_users else {}
    return await nats.connect(server.url, **login)


async def api(client: Client, subject: str) -> dict[str, Any]:
    """Ask the API until the cluster has a leader that answers."""
    for _ in range(600):
        try:
            answer = await client.request(f"$JS.API.{subject}", timeout=5)
        except (NoRespondersError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        found: dict[str, Any] = json.loads(answer.data)
        if found.get("error", {}).get("err_code") != NO_LEADER:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("the cluster never answered")


async def test_the_api_answers_at_every_server(cluster: list[Server]) -> None:
    for server in cluster:
        client = await connect(server, "a")
        assert (await api(client, "INFO"))["limits"]["max_streams"] == -1
        await client.close()


# Servers that elect drop requests, which a loaded machine makes them do: not for every run.
@pytest.mark.full
async def test_streams_consumers_and_buckets_are_used_through_it(cluster: list[Server]) -> None:
    client = await connect(cluster[-1], "a")
    await api(client, "INFO")
    context = client.jetstream(timeout=WAIT_S)
    await context.add_stream(name="S", subjects=["s.>"])
    for number in range(20):
        await context.publish("s.a", b"%d" % number)
    puller = await context.pull_subscribe("s.>", durable="D")
    messages = await puller.fetch(20, timeout=WAIT_S)
    assert [one.data for one in messages] == [b"%d" % number for number in range(20)]
    for one in messages:
        await one.ack()
    for _ in range(600):
        left = (await puller.consumer_info()).num_ack_pending
        if not left:
            break
        await asyncio.sleep(0.1)
    assert left == 0
    bucket = await context.create_key_value(bucket="B")
    await bucket.put("k", b"v")
    assert (await bucket.get("k")).value == b"v"
    assert [one["config"]["name"] for one in (await api(client, "STREAM.LIST"))["streams"]] == [
        "KV_B",
        "S",
    ]
    await context.delete_stream("S")
    await context.delete_key_value("B")
    await client.close()


async def test_an_account_without_jetstream_has_none(cluster: list[Server]) -> None:
    answers = []
    for server in (cluster[0], cluster[-1]):
        client = await connect(server, "n")
        answers.append((await api(client, "INFO")).get("error"))
        await client.close()
    assert answers[0] == answers[1]


def test_only_a_member_without_jetstream_asks_the_others() -> None:
    member = Cluster(port=-1)
    assert asks_cluster(Options(cluster=member))
    assert not asks_cluster(Options())
    assert not asks_cluster(Options(cluster=member, jetstream=JetStream(enabled=True)))
