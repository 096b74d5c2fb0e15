"""`/connz` of 200 and of 2,000 connections: every order, filter and page is as on nats-server.

Half of the connections are closed. Servers put equals in any order, so a page is compared by what
it is sorted by, and by names where there are no equals.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import Any

import pytest

from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

from .pages import Answer, Site

CONFIG = """
accounts {
  A { users: [{user: a, password: a}, {user: a2, password: a}] }
  B { users: [{user: b, password: b}] }
}
"""
USERS = (("a", "a"), ("b", "b"), ("a2", "a"))

SORTED_BY = {
    "cid": "name",
    "start": "name",
    "uptime": None,
    "subs": "subscriptions",
    "msgs_to": "out_msgs",
    "msgs_from": "in_msgs",
    "bytes_to": "out_bytes",
    "bytes_from": "in_bytes",
    "stop": None,
    "reason": "reason",
}
"""The field that each order shows; none where it depends on the time that something took."""

STATES = ("", "open", "closed", "any", "ALL")
PAGES = (
    "",
    "limit=1",
    "limit=0",
    "limit=-1",
    "offset=3&limit=5",
    "offset=90&limit=30",
    "offset=5000",
)
FILTERS = (
    "acc=A",
    "acc=B",
    "acc=nobody",
    "user=a&auth=1",
    "user=a2&auth=true",
    "user=a",
    "user=nobody&auth=1",
    "filter_subject=s.1",
    "filter_subject=s.*",
    "acc=A&filter_subject=s.1",
    "acc=A&filter_subject=s.*&subs=1",
    "acc=B&filter_subject=s.>&subs=detail",
    "acc=A&filter_subject=s..1",
    "acc=A&filter_subject=none.of.them",
    "acc=A&user=a&auth=1&filter_subject=s.3",
    "cid=[c0014]",
    "cid=[c0195]",
    "cid=99999",
    "cid=[c0014]&acc=A",
    "cid=[c0014]&acc=B",
    "cid=[c0195]&acc=A",
    "cid=[c0195]&acc=B",
    "cid=[c0014]&offset=2&limit=7",
    "cid=[c0014]&subs=1",
    "cid=[c0015]&subs=detail",
    "subs=1",
    "subs=detail&limit=40",
    "mqtt_client=x",
    "auth=1&limit=10",
)


def paths() -> list[str]:
    """Return every path that is compared."""
    ordered = itertools.product(("", "closed", "ALL"), SORTED_BY, PAGES)
    orders = [f"/connz?state={state}&sort={sort}&{page}" for state, sort, page in ordered]
    filters = [f"/connz?state={state}&{one}" for state in STATES for one in FILTERS]
    return orders + filters


PATHS = paths()

MEANT = ("filter_subject=", "acc=nobody")
"""midge filters by subject over HTTP too, of which nats-server takes no notice; and the page of an
unknown account is an empty one, where nats-server leaves out the server's id and gives `null`."""


async def visit(command: list[str], count: int) -> dict[str, Answer]:
    """Start a server by `command`, let `count` clients use it, and fetch each path."""
    with Server(command, CONFIG, flags=("-m", "-1")) as server:
        opened = [await one_client(server, number) for number in range(count)]
        for client in opened[1::2]:
            client.send(b"FOO")
            await client.until_end()
            await client.close()
        site = Site(server)
        await until(site, count // 2)
        everyone = (await asyncio.to_thread(site.get, "/connz?state=all&limit=5000")).page
        cids = {f"[{one['name']}]": str(one["cid"]) for one in everyone["connections"]}
        named = re.compile(r"\[c\d+\]")
        answers = {
            path: await asyncio.to_thread(site.get, named.sub(lambda m: cids[m[0]], path))
            for path in PATHS
        }
        for client in opened[::2]:
            await client.close()
    return answers


async def one_client(server: Server, number: int) -> Raw:
    """Connect a client, and let it subscribe and publish as its number says."""
    user, password = USERS[number % 3]
    client = await Raw.open(server.url)
    await client.connect(name=f"c{number:04}", user=user, **{"pass": password})
    subscriptions = [b"SUB s.%d %d" % (sid, sid) for sid in range(number * 7 % 23)]
    publications = [b"PUB p 3\r\nabc" for _ in range(number * 5 % 31)]
    await client.ask(*subscriptions, *publications)
    return client


async def until(site: Site, count: int) -> None:
    """Wait until `count` connections are open."""
    async with asyncio.timeout(60):
        while (await asyncio.to_thread(site.get, "/varz")).page["connections"] != count:
            await asyncio.sleep(0.05)


def seen(path: str, answer: Answer) -> Any:
    """Return what the answer to a path must have in common on both servers."""
    if answer.status != 200:
        return answer
    page = answer.page
    found = page["connections"] or []
    sort = path.partition("sort=")[2].partition("&")[0]
    field = SORTED_BY[sort or "cid"]
    rows = [one[field] for one in found] if field else len(found)
    if sort == "stop":  # a server may stamp the ends of two connections in another order
        stops = [one["stop"].removesuffix("Z") for one in found]
        assert stops == sorted(stops, reverse=True)
    counts = {name: page[name] for name in ("num_connections", "total", "offset", "limit")}
    lists = [
        sorted(one.get("subscriptions_list", []))
        or sorted(each["subject"] for each in one.get("subscriptions_list_detail", []))
        for one in found
    ]
    users = [one.get("authorized_user") for one in found] if not sort else []
    return rows, counts, lists, users, page["connections"] is None, bool(page["server_id"])


@pytest.mark.parametrize("count", [200, pytest.param(2_000, marks=pytest.mark.full)])
def test_orders_filters_and_pages(count: int) -> None:
    commands = nats_server_command(), midge_command()
    real, ours = (asyncio.run(visit(command, count)) for command in commands)
    different = [path for path in PATHS if seen(path, ours[path]) != seen(path, real[path])]
    assert [path for path in different if not any(part in path for part in MEANT)] == []
    assert [part for part in MEANT if not any(part in path for path in different)] == []
