"""The monitoring pages have nats-server's fields, types, orders, pages and refusals.

Both servers are used by the same clients (`pages.py`), and then read as nats-top and
prometheus-nats-exporter read them.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

from .pages import (
    OTHER_SORTS,
    PAGING,
    PATHS,
    REFUSALS,
    SORTS,
    Answer,
    Site,
    differences,
    numbers,
    shape,
    visit,
)
from .pair import NAMES

NOT_HERE = {
    "midge_version: ": "nats-server's version is in `version`, as everywhere",
    "midge_build: ": "nats-server is always compiled",
    "account_detail.imports: missing": (
        "the system's services are offered in every account itself, not imported into it"
    ),
}
"""Beginnings of the differences that are meant, and why."""

LISTED = ("/connz", "/subsz?subs=1")
QUERIES = tuple(
    f"{path}{'&' if '?' in path else '?'}{paging}" for path in LISTED for paging in PAGING
)
ORDERS = tuple(f"/connz?sort={key}" for key in (*SORTS, *OTHER_SORTS))
EVERYTHING = PATHS + REFUSALS + QUERIES + ORDERS

GO_DURATION = re.compile(r"(\d+(\.\d+)?(ns|µs|ms|s|m|h))+")
UPTIME = re.compile(r"(\d+[ydhms])+")

Pages = dict[str, Answer]


@pytest.fixture(scope="module")
def real() -> Pages:
    """What nats-server answered."""
    return visit(nats_server_command(), EVERYTHING)


@pytest.fixture(scope="module")
def ours() -> Pages:
    """What midge answered."""
    return visit(midge_command(), EVERYTHING)


@pytest.mark.parametrize("path", PATHS)
def test_fields_and_their_types(real: Pages, ours: Pages, path: str) -> None:
    found = differences(shape(real[path].page), shape(ours[path].page))
    assert [one for one in found if not one.startswith(tuple(NOT_HERE))] == []


def test_what_is_left_out_is_left_out_still(real: Pages, ours: Pages) -> None:
    found = [
        one for path in PATHS for one in differences(shape(real[path].page), shape(ours[path].page))
    ]
    for beginning in NOT_HERE:
        assert any(one.startswith(beginning) for one in found), beginning


@pytest.mark.parametrize("path", PATHS)
def test_every_number_an_exporter_walks_is_one(real: Pages, ours: Pages, path: str) -> None:
    """prometheus-nats-exporter makes a metric of each number on the pages, whatever its name."""
    assert numbers(real[path].page).keys() <= numbers(ours[path].page).keys()


def test_an_exporter_can_name_and_label(ours: Pages) -> None:
    for page in (ours["/varz"].page, ours["/connz?auth=true"].page, ours["/jsz"].page):
        assert re.fullmatch("N[A-Z2-7]{55}", page["server_id"])
    assert ours["/varz"].page["server_name"]
    for client in ours["/connz?auth=true"].page["connections"]:
        assert client["account"] in {"A", "B"}
        assert GO_DURATION.fullmatch(client["rtt"])
        assert UPTIME.fullmatch(client["uptime"])
        assert UPTIME.fullmatch(client["idle"])


def test_what_was_done_is_counted_alike(real: Pages, ours: Pages) -> None:
    """nats-top's head: connections and message rates; bytes depend on the inbox's name."""
    for name in ("connections", "total_connections", "slow_consumers", "in_msgs", "out_msgs"):
        assert ours["/varz"].page[name] == real["/varz"].page[name], name
    for name in ("cpu", "mem", "uptime", "version", "server_id", "in_bytes", "out_bytes"):
        assert ours["/varz"].page[name] not in {"", None}, name
    assert ours["/varz"].page["mem"] > 1 << 20


def test_the_table_of_clients_is_alike(real: Pages, ours: Pages) -> None:
    """nats-top's rows, without what depends on time and ports."""
    assert rows(ours["/connz?subs=1"].page) == rows(real["/connz?subs=1"].page)


def rows(page: Any) -> list[dict[str, Any]]:
    wanted = ("name", "kind", "type", "subscriptions", "in_msgs", "out_msgs", "pending_bytes")
    more = ("lang", "version", "ip")
    return [{name: one[name] for name in (*wanted, *more)} for one in page["connections"]]


@pytest.mark.parametrize("command", [nats_server_command(), midge_command()], ids=NAMES)
async def test_rates_between_two_polls(command: list[str]) -> None:
    """nats-top's rates: what passed between two polls, of the server and of each client."""
    with Server(command, flags=("-m", "-1")) as server:
        site = Site(server)
        client = await SettlingClient.connected(server.url, name="top", allow_reconnect=False)
        await client.subscribe("a", cb=ignore)
        await client.flush()
        before = await asyncio.to_thread(poll, site)
        for _ in range(100):
            await client.publish("a", b"12345")
        await client.flush()
        after = await asyncio.to_thread(poll, site)
        await client.close()
    passed = {name: after[name] - before[name] for name in before}
    counts = {"in_msgs": 100, "in_bytes": 500, "out_msgs": 100, "out_bytes": 500}
    assert passed == {**counts, **{f"top {name}": count for name, count in counts.items()}}


def poll(site: Site) -> dict[str, int]:
    """Read the counters as nats-top does at each of its steps."""
    server = site.get("/varz").page
    (client,) = site.get("/connz?limit=1024&sort=cid&subs=1").page["connections"]
    assert client["subscriptions_list"] == ["a"]
    fields = ("in_msgs", "in_bytes", "out_msgs", "out_bytes")
    own = {f"{client['name']} {name}": client[name] for name in fields}
    return {**{name: server[name] for name in fields}, **own}


async def ignore(_message: Any) -> None:
    """Take a message."""


ENDINGS = {
    "no such verb": b"FOO",
    "too few arguments": b"PUB a",
    "a bad size": b"PUB a x",
    "a long line": b"SUB " + b"a" * 5000,
    "a large payload": b"PUB a 9999999",
    "no such protocol": b'CONNECT {"user":"u","pass":"p","protocol":7}',
    "a wrong password": b'CONNECT {"user":"u","pass":"x"}',
    "a token": b'CONNECT {"auth_token":"secret"}',
}
"""What ends a connection of a user, and has a reason on the page."""


async def test_why_clients_went_and_who_they_were() -> None:
    told = [await endings(command) for command in (nats_server_command(), midge_command())]
    assert [len(one) for one in told] == [len(ENDINGS), len(ENDINGS)]
    assert told[0] == told[1]


async def endings(command: list[str]) -> list[dict[str, Any]]:
    """End one connection after the other; read the reports about them."""
    config = "authorization { users: [ {user: u, password: p} ] }"
    with Server(command, config, flags=("-m", "-1")) as server:
        site = Site(server)
        for number, sent in enumerate(ENDINGS.values(), 1):
            client = await Raw.open(server.url)
            if not sent.startswith(b"CONNECT"):
                await client.connect(user="u", **{"pass": "p"})
            client.send(sent)
            await client.until_end()
            await client.close()
            page: dict[str, Any] = {"connections": []}
            while len(page["connections"]) < number:  # nats-server lists it a little later
                page = (await asyncio.to_thread(site.get, "/connz?state=closed&auth=1")).page
    fields = ("reason", "authorized_user", "name_tag", "account")
    return [{field: one.get(field) for field in fields} for one in page["connections"]]


@pytest.mark.parametrize("key", SORTS)
def test_orders_are_alike(real: Pages, ours: Pages, key: str) -> None:
    assert names(ours, key) == names(real, key)


@pytest.mark.parametrize("key", OTHER_SORTS)
def test_orders_of_time_hold_everybody(ours: Pages, key: str) -> None:
    assert sorted(names(ours, key)) == ["quiet", "requester", "service"]


def names(answers: Pages, key: str) -> list[str]:
    return [one["name"] for one in answers[f"/connz?sort={key}"].page["connections"]]


@pytest.mark.parametrize("path", [path for path in QUERIES if path.startswith("/connz")])
def test_pages_of_clients_are_cut_alike(real: Pages, ours: Pages, path: str) -> None:
    assert cut(ours[path].page) == cut(real[path].page)


def cut(page: Any) -> list[Any]:
    bounds = [page[name] for name in ("num_connections", "total", "offset", "limit")]
    return [*bounds, *(one["name"] for one in page["connections"])]


@pytest.mark.parametrize("path", [path for path in QUERIES if path.startswith("/subsz")])
def test_pages_of_subscriptions_are_cut_alike(real: Pages, ours: Pages, path: str) -> None:
    """The servers have different subscriptions of their own, so only the bounds compare."""
    theirs, own = real[path].page, ours[path].page
    assert (own["offset"], own["limit"]) == (theirs["offset"], theirs["limit"])
    assert ("subscriptions_list" in own) == ("subscriptions_list" in theirs)
    assert len(own.get("subscriptions_list", [])) <= own["limit"]


@pytest.mark.parametrize("path", REFUSALS)
def test_refusals_are_alike(real: Pages, ours: Pages, path: str) -> None:
    assert real[path].status >= 400
    assert ours[path] == real[path]
