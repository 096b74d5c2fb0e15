"""Clusters of servers, each of them midge or a real nats-server, and peers that speak by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Self

from nats.aio.client import Client
from nats.aio.msg import Msg

from midge.testing import SettlingClient
from tests.support.processes import Server, command_of, link_port

WAIT_S = 15.0
END = "(end)"

INFO: dict[str, Any] = {
    "version": "2.15.1",
    "proto": 3,
    "host": "127.0.0.1",
    "port": 1,
    "headers": True,
    "max_payload": 1 << 20,
}
"""What INFO says of a server that a test speaks for, whatever the kind of the link."""

IMPORTING_ACCOUNTS = """
accounts {
  EX { users: [{user: ex, password: p}], exports: [{stream: "ex.>"}] }
  IM { users: [{user: im, password: p}]
       imports: [{stream: {account: EX, subject: "ex.>"}, to: "imp.>"}] }
  JM { users: [{user: jm, password: p}]
       imports: [{stream: {account: EX, subject: "ex.a.*"}, prefix: "pre"}] }
}
"""
"""An account that exports streams, and two that import them; each has one of `IMPORTING_USERS`."""

IMPORTING_USERS = ("ex", "im", "jm")

_probes = count()


def route_port(server: Server) -> int:
    """The port that a server takes routes at, from its log."""
    return link_port(server, "route", WAIT_S)


class Cluster:
    """Servers of `kinds`, in this order; each except the first gets only the route to the first.

    `config` is added to each server's configuration, and `cluster` to its block `cluster`; @i@ in
    both is replaced by the number of the server. `login` goes into the URL of routes, and `only`
    has additions for single servers.
    """

    def __init__(
        self,
        *kinds: str,
        config: str = "",
        cluster: str = "",
        login: str = "",
        only: dict[int, str] | None = None,
        files: dict[str, bytes] | None = None,
    ) -> None:
        self.kinds = kinds
        self.servers: list[Server] = []
        self.ports: list[int] = []
        self._config = config
        self._cluster = cluster
        self._login = login
        self._only = only or {}
        self._files = files or {}
        self._clients: list[Client] = []

    async def __aenter__(self) -> Self:
        try:
            for i in range(len(self.kinds)):
                await asyncio.to_thread(self.start, i)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        await self._stop()

    async def _stop(self) -> None:
        for server in self.servers:
            await asyncio.to_thread(server.stop)

    def start(self, i: int) -> Server:
        """Start server `i`, where it was before if it was anywhere."""
        port = self.ports[i] if i < len(self.ports) else -1
        routes = ""
        if i:
            routes = f'routes: ["nats-route://{self._login}127.0.0.1:{self.ports[0]}"]'
        # One attempt, the default, may come to nothing on a busy machine.
        block = f'name: C1\nlisten: "127.0.0.1:{port}"\nconnect_retries: 50\n{routes}\n'
        block += self._cluster + "\n"
        text = f"server_name: S{i}\ncluster {{ {block} }}\n{self._config}\n".replace("@i@", str(i))
        text += self._only.get(i, "")
        server = Server(command_of(self.kinds[i]), text, files=self._files)
        if i < len(self.servers):
            self.servers[i] = server
        else:
            self.servers.append(server)
        server.wait_ready()
        if i >= len(self.ports):
            self.ports.append(route_port(server))
        return server

    async def client(self, i: int, **options: Any) -> Client:
        """Connect a client to server `i`."""
        return await self.client_of(self.servers[i], **options)

    async def client_of(self, server: Server, **options: Any) -> Client:
        """Connect a client to `server`, which may be another one; it is closed at the end."""
        defaults: dict[str, Any] = {"allow_reconnect": False, "error_cb": _ignore}
        client = await SettlingClient.connected(server.url, **{**defaults, **options})
        self._clients.append(client)
        return client

    async def clients(self, **options: Any) -> list[Client]:
        """Connect a client to each server, and wait until all have routes to each other."""
        clients = [await self.client(i, **options) for i in range(len(self.kinds))]
        await settle(clients)
        return clients


async def _ignore(_: Exception) -> None:
    """Errors are looked at where they are expected."""


async def settle(clients: Sequence[Client]) -> None:
    """Return when all interest of `clients` so far is known at the servers of all others.

    Interest goes over a route in order, so it is once a later subscription is reached.
    """
    mark = next(_probes)
    reached: set[tuple[int, int]] = set()
    probes = []
    for i, client in enumerate(clients):

        async def note(message: Msg, to: int = i) -> None:
            reached.add((int(message.data), to))

        probes.append(await client.subscribe(f"probe.{mark}.{i}", cb=note))
        await client.flush()
    pairs = {(i, j) for i in range(len(clients)) for j in range(len(clients))}
    async with asyncio.timeout(WAIT_S):
        while pairs - reached:
            for i, j in pairs - reached:
                await clients[i].publish(f"probe.{mark}.{j}", b"%d" % i)
            for client in clients:
                await client.flush()
    for probe, client in zip(probes, clients, strict=True):
        await probe.unsubscribe()
        await client.flush()


@contextlib.contextmanager
def clustered(program: str, accounts: str) -> Iterator[Server]:
    """Run "midge" or the "real" server alone in the cluster C1, with these `accounts`."""
    config = f'server_name: R1\ncluster {{ name: C1, listen: "127.0.0.1:-1" }}\n{accounts}'
    with Server(command_of(program), config) as server:
        server.wait_ready()
        yield server


async def publish_each_kind(client: Client) -> None:
    """Publish to "bar" and "qq", with and without a reply, to "bar" a header, and to "other"."""
    await client.publish("bar", b"1")
    await client.publish("bar", b"2", reply="rep")
    await client.publish("bar", b"3", headers={"K": "v"})
    await client.publish("qq", b"4")
    await client.publish("qq", b"5", reply="rep")
    await client.publish("other", b"6")
    await client.flush()


class Peer:
    """A server of the cluster that a test speaks for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.info: dict[str, Any] = {}

    @classmethod
    async def dial(cls, port: int) -> Peer:
        """Connect, and take INFO."""
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        peer.info = json.loads((await peer.line()).removeprefix("INFO "))
        return peer

    @classmethod
    async def join(cls, server: Server) -> Peer:
        """Connect to `server`, and have it take this for a server of its cluster."""
        peer = await cls.dial(await asyncio.to_thread(route_port, server))
        peer.connect()
        peer.introduce()
        return peer

    def say(self, *lines: str) -> None:
        """Send lines."""
        self._writer.write("".join(f"{line}\r\n" for line in lines).encode())

    def connect(self, **fields: Any) -> None:
        """Send CONNECT."""
        known = {"echo": True, "headers": True, "name": "NPEER", "cluster": "C1", "lnoc": True}
        self.say(f"CONNECT {json.dumps({**known, 'lnocu': True, **fields})}")

    def introduce(self, **fields: Any) -> None:
        """Send INFO."""
        known = {
            **INFO,
            "server_id": "NPEER",
            "server_name": "PEER",
            "cluster": "C1",
            "lnoc": True,
            "lnocu": True,
        }
        self.say(f"INFO {json.dumps({**known, **fields})}")

    async def line(self) -> str:
        """Read a line; END at the end."""
        async with asyncio.timeout(WAIT_S):
            return (await self._reader.readline() or END.encode()).decode().rstrip("\r\n")

    async def settle(self) -> list[str]:
        """Wait until the server has handled everything; return its lines without $SYS."""
        self.say("PING")
        found = []
        while (line := await self.line()) not in {"PONG", END}:
            if line == "PING":
                self.say("PONG")
            elif "$SYS" not in line:
                found.append(line)
        return found

    async def until(self, start: str) -> str:
        """Read up to a line that begins with `start`, and return that."""
        while not (line := await self.line()).startswith(start):
            assert line != END, f"no {start}"
            if line == "PING":
                self.say("PONG")
        return line

    async def rest(self) -> list[str]:
        """Read to the end; return what the other side said last, INFO and interest aside."""
        found = []
        while (line := await self.line()) != END:
            if not line.startswith(("INFO ", "RS", "LS", "PING", "PONG")):
                found.append(line)
        return found

    async def close(self) -> None:
        """Leave."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


async def told_of(client: Peer, expected: set[str]) -> None:
    """Read until `client` has got an INFO with the `expected` addresses."""
    urls: set[str] = set()
    while urls != expected:
        info = json.loads((await client.until("INFO")).removeprefix("INFO "))
        urls = set(info.get("connect_urls", ()))
