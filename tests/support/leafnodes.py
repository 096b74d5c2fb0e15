"""Pairs of servers that a leaf node link joins, each of them midge or a real nats-server."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Self

from nats.aio.client import Client
from nats.aio.msg import Msg

from midge.testing import SettlingClient
from tests.support.processes import Server, command_of, link_port
from tests.support.wires import Wire

WAIT_S = 15.0

_probes = count()


class Pair:
    """A hub and a leaf; `hub_config` and `leaf_config` are added to what each needs.

    In `remote`, the text of the leaf's remote, @port@ is replaced by the hub's port, and
    @websocket@ by its WebSocket port. With `is_wired`, @port@ is the port of `wire`, which can cut
    the link.
    """

    wire: Wire

    def __init__(
        self,
        hub: str,
        leaf: str,
        *,
        hub_config: str = "",
        leafnodes: str = "",
        leaf_config: str = "",
        remote: str = 'url: "nats-leaf://127.0.0.1:@port@"',
        files: dict[str, bytes] | None = None,
        is_wired: bool = False,
    ) -> None:
        self._kinds = (hub, leaf)
        self._leafnodes = leafnodes
        self._hub_config = hub_config
        self._leaf_config = leaf_config
        self._remote = remote
        self._files = files or {}
        self._clients: list[Client] = []
        self.port = -1
        self._is_wired = is_wired

    async def __aenter__(self) -> Self:
        self.hub = await asyncio.to_thread(self.start_hub)
        if self._is_wired:
            self.wire = await Wire(self.port).__aenter__()
        self.leaf = await asyncio.to_thread(self.start_leaf)
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        await asyncio.to_thread(self.leaf.stop)
        if self._is_wired:
            await self.wire.__aexit__()
        await asyncio.to_thread(self.hub.stop)

    def start_hub(self) -> Server:
        """Start the hub, where it was before if it was anywhere."""
        block = f'listen: "127.0.0.1:{self.port}"\n{self._leafnodes}'
        text = f"server_name: HUB\nleafnodes {{ {block} }}\n"
        server = Server(command_of(self._kinds[0]), text + self._hub_config, files=self._files)
        server.wait_ready()
        self.port = leaf_port(server)
        return server

    def start_leaf(self) -> Server:
        """Start the leaf."""
        port = self.wire.port if self._is_wired else self.port
        remote = self._remote.replace("@port@", str(port))
        if "@websocket@" in remote:
            remote = remote.replace("@websocket@", str(self.hub.address("websocket")[1]))
        text = f"server_name: LEAF\nleafnodes {{ reconnect: 100ms, remotes: [ {{ {remote} }} ] }}\n"
        server = Server(command_of(self._kinds[1]), text + self._leaf_config, files=self._files)
        return server.wait_ready()

    async def at_hub(self, **options: Any) -> Client:
        """Connect a client to the hub."""
        return await self._connect(self.hub, options)

    async def at_leaf(self, **options: Any) -> Client:
        """Connect a client to the leaf."""
        return await self._connect(self.leaf, options)

    async def _connect(self, server: Server, options: dict[str, Any]) -> Client:
        defaults = {"allow_reconnect": False, "error_cb": _ignore}
        client = await SettlingClient.connected(server.url, **{**defaults, **options})
        self._clients.append(client)
        return client


async def _ignore(_: Exception) -> None:
    """Errors are looked at where they are expected."""


def leaf_port(server: Server) -> int:
    """The port that a server takes leaf nodes at, from its log."""
    return link_port(server, "leafnode", WAIT_S)


async def settle(subscriber: Client, publisher: Client) -> None:
    """Return when what `subscriber` has done about its interest is known at the publisher's server.

    Interest goes over a link in order, so it is when a later subscription is reached.
    """
    subject = f"probe.{next(_probes)}"
    reached = asyncio.Event()

    async def note(_: Msg) -> None:
        reached.set()

    subscription = await subscriber.subscribe(subject, cb=note)
    await subscriber.flush()
    async with asyncio.timeout(WAIT_S):
        while not reached.is_set():
            await publisher.publish(subject, b"")
            await publisher.flush()
            await subscriber.flush()
    await subscription.unsubscribe()
    await subscriber.flush()


async def until(told: Any) -> None:
    """Wait until `told()` is true."""
    async with asyncio.timeout(WAIT_S):
        while not told():
            await asyncio.sleep(0.005)


class Inbox:
    """Keeps the messages of a subscription."""

    def __init__(self) -> None:
        self.messages: list[Msg] = []

    async def take(self, message: Msg) -> None:
        """Keep a message."""
        self.messages.append(message)

    @property
    def data(self) -> list[bytes]:
        """The payloads."""
        return [message.data for message in self.messages]

    async def has(self, *data: bytes) -> None:
        """Wait until as many have come, and compare them."""
        async with asyncio.timeout(WAIT_S):
            while len(self.messages) < len(data):
                await asyncio.sleep(0.002)
        assert self.data == list(data)
