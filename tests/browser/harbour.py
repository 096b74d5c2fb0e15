"""A busy server with one of everything that the console shows, and hostile names among it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import nats
from nats.js.api import KeyValueConfig, ObjectStoreConfig

from tests.support.processes import Server, midge_command

from .scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

TOKEN = "let me"
HOSTILE = "<img/src=x/onerror=hacked=1>"
"""A token of a subject, a client's name, a user and an account; no stream may be called so."""

HOSTILE_STREAM = "<b_onload='x'&\""
ACCOUNT = "HARBOUR"

CONFIG = """
server_name: "harbour-@odd@"
jetstream: { store_dir: "@directory@/js" }
accounts: {
  HARBOUR: { jetstream: enabled, users: [{ user: visitor, password: x }],
    exports: [{ service: "stock.query" }], mappings: { "old.berths": "berths.assign" } },
  "@odd@": { users: [{ user: "@odd@", password: x }] }
}
no_auth_user: visitor
max_pending: 1MB
max_payload: 256KB
cluster: { name: bay, listen: "127.0.0.1:-1" }
leafnodes: { listen: "127.0.0.1:-1" }
"""
NEIGHBOUR = """
server_name: "neighbour"
accounts: {{ HARBOUR: {{ users: [{{ user: visitor, password: x }}] }} }}
no_auth_user: visitor
{link}
"""
CONSOLE = ("-m", "-1", "--monitoring-console-enabled", "--monitoring-console-token", TOKEN)


class Harbour:
    """A server with links, streams, buckets and clients; the hostile names are `odd`.

    It has as many processes as `workers`.
    """

    def __init__(
        self, odd: str = HOSTILE, odd_stream: str = HOSTILE_STREAM, *, workers: int = 1
    ) -> None:
        self._odd = odd
        self._odd_stream = odd_stream
        self._flags = (*CONSOLE, "--workers", str(workers))

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._start(stack.enter_context)
            self._stack = stack.pop_all()
        return self

    def _start(self, enter: Callable[[Any], Any]) -> None:
        config = CONFIG.replace("@odd@", self._odd)
        self.server = enter(Server(midge_command(), config, self._flags))
        route, leaf = self.server.address("cluster"), self.server.address("leafnodes")
        routes = f'routes: ["nats://{route[0]}:{route[1]}"]'
        remote = f'url: "nats-leaf://{leaf[0]}:{leaf[1]}", account: HARBOUR'
        for link in (
            f'cluster: {{ name: bay, listen: "127.0.0.1:-1", {routes} }}',
            f"leafnodes: {{ remotes: [{{ {remote} }}] }}",
        ):
            enter(Server(midge_command(), NEIGHBOUR.format(link=link)))
        enter(Scene(self.server.url))
        with ThreadPoolExecutor(1) as thread:  # this one may have Playwright's loop
            thread.submit(
                asyncio.run, _stock(self.server.url, self._odd, self._odd_stream)
            ).result()
        self._named = enter(socket.create_connection(self.server.address(), timeout=60))
        self._hostile = enter(socket.create_connection(self.server.address(), timeout=60))
        self._fill()
        self.url = "http://{}:{}/console".format(*self.server.address("monitoring"))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _fill(self) -> None:
        """Connect clients with hostile names, one of which breaks a limit."""
        odd = self._odd
        identity = json.dumps({"user": odd, "pass": "x", "name": odd, "lang": odd})
        self._hostile.sendall(f"CONNECT {identity}\r\nPING\r\n".encode())
        _until(self._hostile, b"PONG")
        named = json.dumps({"name": odd, "lang": odd, "version": odd, "headers": True})
        subscriptions = f"SUB ships.{odd}.> {odd} 1\r\nSUB {odd} 2\r\nPING\r\n"
        self._named.sendall(f"CONNECT {named}\r\n{subscriptions}".encode())
        _until(self._named, b"PONG")
        with socket.create_connection(self.server.address(), timeout=60) as greedy:
            greedy.sendall(f"CONNECT {named}\r\nPUB {odd} 999999\r\n".encode())
            while greedy.recv(4096):
                pass

    def publish(self, subject: str, payload: bytes, headers: bytes = b"") -> None:
        """Publish as the client with a hostile name."""
        block = b"NATS/1.0\r\n" + headers + b"\r\n"
        size = f"{len(block)} {len(block) + len(payload)}"
        self._named.sendall(f"HPUB {subject} {size}\r\n".encode() + block + payload + b"\r\n")


PAGES = {
    "overview": (),
    "clients": ("client-list",),
    "accounts": ("account-list",),
    "subjects": ("group-list",),
    "links": (),
    "messages": (),
    "streams": ("stream-list", "consumers"),
    "buckets": ("bucket-list", "keys"),
    "objects": ("store-list", "object-list"),
}
"""The pages of the console, and the tables of which `visit` chooses a row, one after the other."""


def visit(page: Any, name: str, odd: str = HOSTILE) -> None:
    """Open a page of the harbour's account, unlocked, with what can be chosen on it chosen.

    `odd` is the name of the client that is chosen.
    """
    page.click(f"#tabs button[data-page={name}]")
    for select in page.locator(f"#{name} select[id$=-account]").all():
        select.select_option(ACCOUNT)
    for table in PAGES[name]:
        rows = page.locator(f"#{table} tr.choice")
        if name == "clients":  # clients of all accounts may still be listed
            rows = rows.filter(has_text=odd)
        rows.locator("button").last.press("Enter")
        page.locator(f"#{table} tr.chosen").wait_for()
    if name == "messages":
        page.fill("#subject", "ships.>")
        page.click("#follow")
        page.locator("#tail details").first.wait_for()
    if name == "streams":
        page.fill("#search-seq", "1")
        page.click("#search button")
        page.locator("#found .message").first.wait_for()
    if name == "links":
        for table in ("route-list", "leaf-list"):
            page.locator(f"#{table} td", has_text="neighbour").wait_for()


def _until(connection: socket.socket, expected: bytes) -> None:
    received = b""
    while expected not in received:
        more = connection.recv(4096)
        assert more, received
        received += more


async def _stock(url: str, odd: str, odd_stream: str) -> None:
    """Fill streams, buckets and objects."""
    client = await nats.connect(url, name="warehouse")
    stored = client.jetstream()
    await stored.add_stream(name="SHIPS", subjects=["log.>"])
    await stored.add_stream(name=odd_stream, subjects=["odd.>"])
    await client.request(
        f"$JS.API.CONSUMER.DURABLE.CREATE.{odd_stream}.{odd_stream}",
        json.dumps(
            {
                "stream_name": odd_stream,
                "config": {"durable_name": odd_stream, "ack_policy": "explicit"},
            }
        ).encode(),
    )
    for number in range(20):
        entry: dict[str, Any] = {"ship": number, "note": odd}
        await stored.publish(f"log.{number % 3}", json.dumps(entry).encode(), headers={"N": odd})
    await stored.publish(f"odd.{odd}", odd.encode())
    await stored.pull_subscribe("log.>", "clerks")
    kept = await stored.create_key_value(KeyValueConfig(bucket="tariffs", history=5))
    for key in ("night", "day"):
        for value in ("1", odd):
            await kept.put(key, value.encode())
    await client.publish(f"$KV.tariffs.{odd}", odd.encode())
    objects = await stored.create_object_store("papers", ObjectStoreConfig(bucket="papers"))
    await objects.put(odd, b"a bill of lading")
    await objects.put("manifest.txt", b"x" * 300_000)
    await client.close()
