"""The monitoring pages of a server that a set of clients uses, and what consumers read from them.

The same clients do the same on whichever server: a service and a queue member in one account, a
requester over its imports in another, one that has gone, and one with nothing to say. Then every
page is fetched once.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from midge.testing import SettlingClient
from tests.support.processes import Server

CONFIG = """
accounts {
  A {
    users: [{user: a, password: a}]
    exports: [{stream: "s.>"}, {service: "svc.>"}]
    mappings: {"m.in": "m.out"}
  }
  B {
    users: [{user: b, password: b}]
    imports: [
      {stream: {account: A, subject: "s.>"}, prefix: p}
      {service: {account: A, subject: svc.x}, to: my.x}
    ]
  }
}
websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }
max_subscriptions: 100
"""

PATHS = (
    "/varz",
    "/connz",
    "/connz?subs=1",
    "/connz?subs=detail&auth=1",
    "/connz?auth=true",
    "/connz?state=closed&auth=1&subs=detail",
    "/subsz",
    "/subsz?subs=1",
    "/subsz?subs=1&test=s.a",
    "/routez",
    "/routez?subs=1",
    "/leafz",
    "/leafz?subs=1",
    "/gatewayz",
    "/gatewayz?accs=1",
    "/accountz",
    "/accountz?acc=A",
    "/accountz?acc=B",
    "/accstatz",
    "/accstatz?unused=1",
    "/healthz",
    "/healthz?js-enabled-only=true",
    "/jsz",
    "/jsz?accounts=true&streams=true&consumers=true&config=true",
)
"""The fetched paths, including all paths of nats-top and prometheus-nats-exporter."""

REFUSALS = (
    "/connz?limit=abc",
    "/connz?limit=1.5",
    "/connz?limit=9223372036854775808",
    "/connz?offset=9223372036854775808",
    "/connz?offset=1_0",
    "/connz?cid=-1",
    "/connz?cid=18446744073709551616",
    "/connz?sort=size",
    "/connz?sort=stop",
    "/connz?state=gone",
    "/connz?auth=maybe",
    "/connz?subs=maybe",
    "/subsz?subs=detail",
    "/subsz?limit=abc",
    "/subsz?offset=9223372036854775808",
    "/subsz?test=a.*",
    "/accountz?acc=nobody",
    "/accstatz?unused=maybe",
    "/leafz?subs=maybe",
    "/gatewayz?accs=maybe",
    "/routez?subs=maybe",
    "/jsz?streams=maybe",
    "/jsz?limit=abc",
    "/nothing",
)
"""Requests that both servers refuse."""

PAGING = (
    "limit=-1",
    "limit=0",
    "limit=2",
    "offset=-1",
    "offset=1&limit=1",
    "offset=100",
    "offset=9223372036854775807",
    "limit=1&offset=2",
)
"""Pages of `/connz` and `/subsz` that both cut alike."""

SORTS = ("cid", "start", "subs", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "uptime")
"""Orders of `/connz` that depend on what clients did, not on how long it took."""

OTHER_SORTS = ("pending", "last", "idle", "rtt")


class Answer(NamedTuple):
    """The answer to one path."""

    status: int
    text: str

    @property
    def page(self) -> Any:
        """The document."""
        assert self.status == 200, self
        return json.loads(self.text)


class Site:
    """The monitoring port of a running server."""

    def __init__(self, server: Server) -> None:
        self._address = server.address("monitoring")

    def get(self, path: str) -> Answer:
        """Fetch one path."""
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode())
        finally:
            connection.close()


def visit(command: list[str], paths: tuple[str, ...]) -> dict[str, Answer]:
    """Start a server by `command`, let the clients use it, and fetch `paths`."""
    with Server(command, CONFIG, flags=("-m", "-1")) as server:
        return asyncio.run(_visit(server, paths))


async def _visit(server: Server, paths: tuple[str, ...]) -> dict[str, Answer]:
    async def connect(user: str, name: str) -> SettlingClient:
        return await SettlingClient.connected(
            server.url, user=user, password=user, name=name, allow_reconnect=False
        )

    clients = [await connect("a", "service"), await connect("b", "requester")]
    service, requester = clients
    gone = await connect("b", "gone")
    await gone.subscribe("gone.x")
    await gone.flush()
    await gone.close()
    clients.append(await connect("a", "quiet"))

    async def answer(message: Any) -> None:
        await message.respond(b"an answer")

    await service.subscribe("svc.x", cb=answer)
    await service.subscribe("work", queue="workers")
    await service.subscribe("more")
    await service.flush()
    stream = await requester.subscribe("p.s.a")
    await requester.flush()
    await service.publish("s.a", b"news")
    await service.publish("s.nobody", b"old")
    await stream.next_msg(timeout=30)
    await requester.request("my.x", b"?", timeout=30)
    site = Site(server)
    answers = {path: await asyncio.to_thread(site.get, path) for path in paths}
    for client in clients:
        await client.close()
    return answers


def shape(value: Any) -> Any:
    """Return `value` with JSON types in the place of values; a list is all of its elements."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        merged: Any = {}
        for one in value:
            merged = _merged(merged, shape(one))
        return [merged]
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "bool"
    return "string" if isinstance(value, str) else "number"


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        names = {**one, **other}
        return {name: _merged(one.get(name, {}), other.get(name, {})) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    return other or one


def differences(expected: Any, actual: Any, place: str = "") -> Iterator[str]:
    """Yield where two shapes differ, as `field.of[].fields: what`."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted({**expected, **actual}):
            below = f"{place}.{name}" if place else name
            if name not in actual or name not in expected:
                yield f"{below}: {'missing' if name in expected else 'not there'}"
            else:
                yield from differences(expected[name], actual[name], below)
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from differences(expected[0], actual[0], place + "[]")
    elif expected != actual:
        yield f"{place}: expected {expected}, got {actual}"


def numbers(value: Any, place: str = "") -> dict[str, float]:
    """Return every number in `value` by its place, as an exporter walks a page."""
    if isinstance(value, dict):
        found: dict[str, float] = {}
        for name, one in value.items():
            found |= numbers(one, f"{place}.{name}" if place else name)
        return found
    if isinstance(value, list):
        return {key: one for each in value for key, one in numbers(each, place + "[]").items()}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {place: value} if is_number else {}
