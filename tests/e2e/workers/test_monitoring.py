"""The monitoring of several workers: pages over all of them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from midge.testing import SettlingClient

if TYPE_CHECKING:
    from tests.support.processes import Server

Four = list[SettlingClient]


def text(server: Server, path: str) -> str:
    host, port = server.address("monitoring")
    with urlopen(f"http://{host}:{port}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def page(server: Server, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text(server, path))
    return found


async def ask(server: Server, path: str) -> dict[str, Any]:
    """Return a page, read in a thread."""
    return await asyncio.to_thread(page, server, path)


async def test_varz_adds_up(server: Server, four: Four) -> None:
    before = await ask(server, "/varz")
    assert before["connections"] == 4
    for client in four:
        await client.publish("counted", b"12345")
        await client.flush()
    after = await ask(server, "/varz")
    assert after["in_msgs"] - before["in_msgs"] == 4
    assert after["in_bytes"] - before["in_bytes"] == 20
    assert [one["ready"] for one in after["workers"]] == [True, True]


async def test_connz_sorts_and_pages_over_all(server: Server, four: Four) -> None:
    for i, client in enumerate(four):
        for _ in range(i):
            await client.publish("sorted", b"")
        await client.flush()
    ids = [client.client_id for client in four]
    found = await ask(server, "/connz?sort=msgs_from")
    assert [one["cid"] for one in found["connections"]] == ids[::-1]
    assert (found["total"], found["num_connections"]) == (4, 4)
    found = await ask(server, "/connz?offset=1&limit=2")
    assert [one["cid"] for one in found["connections"]] == ids[1:3]
    assert (found["total"], found["offset"], found["limit"]) == (4, 1, 2)
    for cid in ids:
        found = await ask(server, f"/connz?cid={cid}")
        assert [one["cid"] for one in found["connections"]] == [cid]


async def test_closed_connections_of_all_are_kept(server: Server) -> None:
    clients = [await SettlingClient.connected(server.url, name="gone") for _ in range(4)]
    ids = {client.client_id for client in clients}
    for client in clients:
        await client.close()
    while True:
        found = await ask(server, "/connz?state=closed")
        gone = {one["cid"] for one in found["connections"]}
        if ids <= gone:
            break


async def test_subscriptions_and_accounts_add_up(server: Server, four: Four) -> None:
    for client in four:
        await client.subscribe("listed.it")
        await client.flush()
    found = await ask(server, "/subsz?subs=1&acc=HERE")
    listed = [one for one in found["subscriptions_list"] if one["subject"] == "listed.it"]
    assert {one["cid"] for one in listed} == {client.client_id for client in four}
    statistics = (await ask(server, "/accstatz"))["account_statz"]
    assert [one["conns"] for one in statistics if one["acc"] == "HERE"] == [4]
    detail = (await ask(server, "/accountz?acc=HERE"))["account_detail"]
    assert detail["client_connections"] == 4


async def test_metrics_name_their_worker(server: Server, four: Four) -> None:
    found = await asyncio.to_thread(text, server, "/metrics")
    lines = [line for line in found.splitlines() if line.startswith("midge_connections{")]
    assert lines == ['midge_connections{worker="0"} 2.0', 'midge_connections{worker="1"} 2.0']
    assert found.count("# TYPE midge_connections gauge") == 1


async def act(server: Server, action: str, **body: Any) -> dict[str, Any]:
    """Do what the console's page does."""
    host, port = server.address("monitoring")
    request = Request(
        f"http://{host}:{port}/console/{action}",
        json.dumps(body).encode(),
        {"X-Console-Token": "t"},
        method="POST",
    )
    answer = await asyncio.to_thread(lambda: urlopen(request, timeout=30).read())
    found: dict[str, Any] = json.loads(answer)
    return found


async def test_a_tail_of_the_console_sees_each_message_once(server: Server, four: Four) -> None:
    tail = {"name": "t", "account": "HERE", "subject": "tailed.>"}
    assert (await act(server, "tail", **tail))["seen"] == 0
    for client in four:
        await client.subscribe("tailed.>")
        await client.flush()
    for number, client in enumerate(four):
        await client.publish(f"tailed.{number}", b"")
        await client.flush()
    found = await act(server, "tail", **tail)
    assert found["seen"] == 4
    assert sorted(one["subject"] for one in found["messages"]) == [f"tailed.{i}" for i in range(4)]
    now = await ask(server, "/console/now")
    assert now["subscriptions"] == 4


async def test_it_is_healthy(server: Server) -> None:
    assert await ask(server, "/healthz") == {"status": "ok"}
