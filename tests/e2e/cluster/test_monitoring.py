"""What monitoring says of a cluster, with a midge and a nats-server that say it of each other."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

from tests.support.clusters import Cluster, settle
from tests.support.processes import Server

PORT = 'http: "127.0.0.1:-1"'


async def page(server: Server, path: str) -> str:
    """Fetch a monitoring page."""
    host, port = server.address("monitoring")
    url = f"http://{host}:{port}{path}"

    def fetch() -> str:
        with urllib.request.urlopen(url, timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    return await asyncio.to_thread(fetch)


async def document(server: Server, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await page(server, path))
    return found


async def test_pages_list_routes_as_those_of_nats_server_do() -> None:
    async with Cluster("midge", "real", config=PORT) as cluster:
        clients = await cluster.clients()
        for client in clients:
            await client.subscribe("foo.*")
            await client.subscribe("q", "g")
        await settle(clients)
        await clients[0].publish("foo.1", b"four")
        await settle(clients)
        midge, real = cluster.servers
        for query in ("", "?subs=1", "?subs=detail"):
            ours, theirs = [await document(one, f"/routez{query}") for one in (midge, real)]
            assert ours.keys() == theirs.keys()
            by_us, by_them = ours["routes"][0], theirs["routes"][0]
            assert by_us.keys() == by_them.keys()
            assert (by_us["remote_name"], by_them["remote_name"]) == ("S1", "S0")
            assert (by_us["did_solicit"], by_them["did_solicit"]) == (False, True)
            assert by_us["remote_id"] == theirs["server_id"]
        detail = next(one for one in by_us["subscriptions_list_detail"] if one["subject"] == "q")
        assert (detail["qgroup"], detail["sid"]) == ("g", "R $G q g")
        ours, theirs = [await document(one, "/varz") for one in (midge, real)]
        assert ours["cluster"].keys() - {"urls"} == theirs["cluster"].keys() - {
            "urls",
            "pool_size",
        } | {"pool_size"}
        assert ours["routes"] == 1
        assert set(ours["connect_urls"]) == set(theirs["connect_urls"])
        metrics = await page(midge, "/metrics")
        assert "midge_routes 1.0" in metrics
        assert 'midge_route_sent_messages_total{server="S1"}' in metrics
        assert "midge_route_connects_total 1.0" in metrics


async def test_the_round_trip_of_a_route_is_measured() -> None:
    async with Cluster("midge", "midge", config=PORT) as cluster:
        await cluster.clients()
        (route,) = (await document(cluster.servers[0], "/routez"))["routes"]
        assert route["rtt"] != "0s"
