"""The pages, asked for over HTTP from a server with clients."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import aiohttp
import pytest

from midge.server.config.options import Listen, Monitoring, Options
from midge.server.server import Server

Page = Callable[[str], Awaitable[Any]]
Connect = Callable[..., Awaitable[Any]]


async def ignore(message: Any) -> None:
    """Take a message."""


def moment(text: str) -> datetime:
    """Read a time as Go writes it: up to nine digits of a second, without trailing zeros, and Z."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}")


async def test_varz_counts_what_passes(page: Page, connect: Connect) -> None:
    client = await connect()
    await client.subscribe("foo", cb=ignore)
    for _ in range(10):
        await client.publish("foo", b"12345")
    await client.flush()
    varz = await page("/varz")
    assert (varz["in_msgs"], varz["in_bytes"]) == (10, 50)
    assert (varz["out_msgs"], varz["out_bytes"]) == (10, 50)
    assert (varz["connections"], varz["total_connections"]) == (1, 1)
    await client.close()
    varz = await page("/varz")
    assert (varz["in_msgs"], varz["out_msgs"]) == (10, 10)
    assert varz["http_req_stats"] == {"/varz": 2}
    assert moment(varz["start"]) <= moment(varz["now"])


async def test_connz_shows_who_is_there(page: Page, connect: Connect) -> None:
    client = await connect(name="orders")
    await client.subscribe("foo.*", cb=ignore)
    await client.subscribe("bar", "group", cb=ignore)
    await client.flush()
    connz = await page("/connz?subs=detail&auth=1")
    (entry,) = connz["connections"]
    assert (entry["name"], entry["lang"], entry["kind"], entry["type"]) == (
        "orders",
        "python3",
        "Client",
        "nats",
    )
    assert entry["cid"] == client._client_id
    assert entry["subscriptions_list_detail"] == [
        {"subject": "foo.*", "sid": "1", "msgs": 0, "cid": entry["cid"]},
        {"subject": "bar", "qgroup": "group", "sid": "2", "msgs": 0, "cid": entry["cid"]},
    ]
    plain = await page("/connz?subs=1")
    assert plain["connections"][0]["subscriptions_list"] == ["foo.*", "bar"]
    assert "account" not in plain["connections"][0]


async def test_connz_remembers_who_went_up_to_a_limit(page: Page, connect: Connect) -> None:
    for number in range(4):
        client = await connect(name=f"client-{number}")
        await client.subscribe("foo", cb=ignore)
        await client.flush()
        await client.close()
    closed = await page("/connz?state=closed&subs=1")
    assert [entry["name"] for entry in closed["connections"]] == [
        "client-1",
        "client-2",
        "client-3",
    ]
    entry = closed["connections"][0]
    assert entry["reason"] == "Client Closed"
    assert moment(entry["stop"]) >= moment(entry["start"])
    assert entry["subscriptions_list"] == ["foo"]
    assert (await page("/connz"))["connections"] == []
    await connect(name="alive")
    assert (await page("/connz?state=any"))["num_connections"] == 4


async def test_connz_pages_and_sorts(page: Page, connect: Connect) -> None:
    clients = [await connect(name=f"{number}") for number in range(3)]
    for number, client in enumerate(clients):
        for _ in range(number):
            await client.publish("foo", b"x")
        await client.flush()
    by_messages = await page("/connz?sort=msgs_from")
    assert [entry["name"] for entry in by_messages["connections"]] == ["2", "1", "0"]
    second = await page("/connz?limit=1&offset=1")
    assert (second["num_connections"], second["total"], second["limit"]) == (1, 3, 1)
    assert second["connections"][0]["name"] == "1"
    beyond = await page("/connz?offset=9")
    assert beyond["connections"] == []


@pytest.mark.parametrize(
    "sort",
    ["cid", "start", "subs", "pending", "msgs_to", "last", "idle", "uptime", "rtt"],
)
async def test_connz_sorts_by_everything(page: Page, connect: Connect, sort: str) -> None:
    await connect()
    await connect()
    assert (await page(f"/connz?sort={sort}&state=open"))["num_connections"] == 2


async def test_connz_lists_whole_subscriptions_and_the_newest_end_first(
    page: Page, connect: Connect
) -> None:
    clients = [await connect(name=f"{number}") for number in range(3)]
    for client in clients:
        for number in range(4):
            await client.subscribe(f"s.{number}", cb=ignore)
        await client.flush()
    for query, key in (("1", "subscriptions_list"), ("detail", "subscriptions_list_detail")):
        for limit in (1, 2):
            shown = await page(f"/connz?subs={query}&limit={limit}")
            assert [len(one[key]) for one in shown["connections"]] == [4] * limit
    invalid = await page("/connz?filter_subject=s..0&user=&limit=2")
    assert (invalid["num_connections"], invalid["total"]) == (2, 3)
    nobody = await page("/connz?user=nobody")
    assert (nobody["num_connections"], nobody["total"]) == (0, 3)
    for ended, client in enumerate(clients, 1):
        await client.close()
        while (await page("/connz?state=closed"))["num_connections"] < ended:
            pass
    shown = await page("/connz?state=closed&sort=stop")
    assert [one["name"] for one in shown["connections"]] == ["2", "1", "0"]
    assert all("rtt" in one for one in shown["connections"])


async def test_connz_by_cid_account_user_and_interest(page: Page, connect: Connect) -> None:
    client = await connect(name="one")
    await connect(name="two")
    await client.subscribe("foo.>", cb=ignore)
    await client.flush()
    cid = client._client_id
    for query in (f"cid={cid}", "filter_subject=foo.bar", "acc=$G&filter_subject=foo.*"):
        entries = (await page(f"/connz?{query}"))["connections"]
        assert [entry["name"] for entry in entries] == ["one"], query
    for query in ("cid=999", "acc=nobody", "user=nobody", "filter_subject=bar"):
        assert (await page(f"/connz?{query}"))["connections"] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/connz?sort=x", "invalid sorting option: x"),
        ("/connz?sort=stop", "sort by stop only valid on closed connections"),
        ("/connz?sort=reason&state=any", "sort by reason only valid on closed connections"),
        ("/connz?state=x", "Error decoding state for x"),
        ("/subsz?test=foo.*", "invalid test subject, must be valid publish subject: foo.*"),
        ("/accountz?acc=X", "Account X does not exist"),
    ],
)
async def test_what_cannot_be_is_refused_in_text(
    http: aiohttp.ClientSession, path: str, text: str
) -> None:
    async with http.get(path) as answer:
        assert (answer.status, await answer.text()) == (400, text)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_unknown_paths_are_not_found(http: aiohttp.ClientSession) -> None:
    for path in ("/nope", "/varz/", "/../etc/passwd", "/varz%00"):
        async with http.get(path) as answer:
            assert (answer.status, await answer.text()) == (404, "404 page not found\n")


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT"])
async def test_any_method_will_do(http: aiohttp.ClientSession, method: str) -> None:
    async with http.request(method, "/varz") as answer:
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Server" not in answer.headers


async def test_subsz_lists_and_tests(page: Page, connect: Connect) -> None:
    client = await connect()
    for subject in ("foo.*", "bar", "baz"):
        await client.subscribe(subject, cb=ignore)
    await client.flush()
    second = await page("/subsz?subs=1&limit=1&offset=1&acc=$G")
    assert [one["subject"] for one in second["subscriptions_list"]] == ["bar"]
    assert second["limit"] == 1
    test = await page("/subscriptionsz?subs=1&test=foo.x")
    assert [one["subject"] for one in test["subscriptions_list"]] == ["foo.*"]
    assert test["total"] == 1
    assert "subscriptions_list" not in await page("/subsz")


async def test_accounts(page: Page, connect: Connect) -> None:
    client = await connect()
    await client.publish("foo", b"12345")
    await client.flush()
    assert {"$G", "$SYS"} <= set((await page("/accountz"))["accounts"])
    detail = (await page("/accountz?acc=$G"))["account_detail"]
    assert (detail["account_name"], detail["client_connections"]) == ("$G", 1)
    (statistics,) = (await page("/accstatz"))["account_statz"]
    assert (statistics["acc"], statistics["conns"]) == ("$G", 1)
    assert statistics["received"]["msgs"] == 1
    assert len((await page("/accstatz?unused=1"))["account_statz"]) == 2


async def test_health_follows_lame_duck_mode(http: aiohttp.ClientSession, server: Server) -> None:
    async with http.get("/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, '{"status":"ok"}')
    server.broker.lame_duck = True
    async with http.get("/healthz") as answer:
        assert answer.status == 503
        assert (await answer.json())["status"] == "unavailable"


async def test_health_of_a_stream_needs_its_account(http: aiohttp.ClientSession) -> None:
    async with http.get("/healthz?stream=X") as answer:
        assert answer.status == 400
        assert (await answer.json())["status"] == "error"


async def test_metrics_are_prometheus_text(http: aiohttp.ClientSession, connect: Connect) -> None:
    client = await connect()
    await client.publish("foo", b"12345")
    await client.flush()
    async with http.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        lines = (await answer.text()).splitlines()
    assert "midge_received_messages_total 1.0" in lines
    assert 'midge_account_connections{account="$G"} 1.0' in lines


async def test_index_links_to_pages_that_exist(http: aiohttp.ClientSession) -> None:
    async with http.get("/") as answer:
        html = await answer.text()
    paths = [part.split('"', 1)[0] for part in html.split('href="./')[1:]]
    assert "connz" in paths
    for path in paths:
        async with http.get(f"/{path}") as answer:
            assert answer.status == 200, path


async def test_pages_live_below_the_base_path() -> None:
    server = Server(
        Options(
            listen=Listen(port=-1), monitoring=Monitoring(http_port=-1, base_path="/nats/here/")
        )
    )
    await server.start()
    try:
        url = server.urls()["monitoring"][0]
        async with aiohttp.ClientSession() as session:
            for path, status in (("/nats/here/varz", 200), ("/varz", 404), ("/nats/here/", 200)):
                async with session.get(url + path) as answer:
                    assert answer.status == status, path
    finally:
        await server.stop()


async def test_a_port_in_use_leaves_nothing_open(server: Server) -> None:
    taken = server.broker.port
    second = Server(
        Options(listen=Listen(port=-1), monitoring=Monitoring(host="127.0.0.1", http_port=taken))
    )
    with pytest.raises(OSError, match="in use"):
        await second.start()
    assert second._listener is None
    assert second._monitoring is None
