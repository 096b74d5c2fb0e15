"""Two places that a link joins, whatever its kind: a route, a leaf node either way, or workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any, Self

from nats.aio.client import Client

from midge.testing import SettlingClient
from tests.support.clusters import route_port
from tests.support.leafnodes import leaf_port, settle
from tests.support.processes import Server, command_of

LINKS = ("route", "leaf", "hub", "hub: true", "workers")
"""The kinds of link, by what the far place is to the near server: the other end of a route, a leaf,
a hub, a leaf that the near server has connected to, or another worker."""

TO_SERVERS = LINKS[:-1]

NAMES = ("server_name: NEAR\n", "server_name: FAR\n")
ACCEPTING = 'leafnodes { listen: "127.0.0.1:%d", %s }\n'


class Linked:
    """A near and a far place that a link of the kind `link` joins.

    `near` and `far` are what they are: "midge" or "real"; of workers both are one midge. `config`
    is added to each configuration, and `near_config` and `far_config` to one of them. A leaf node
    links `accounts`, each as a user whose name and password are the account's in lower case. The
    near server is started with `flags`, and takes leaf nodes besides.
    """

    def __init__(
        self,
        link: str,
        far: str = "real",
        *,
        near: str = "midge",
        config: str = "",
        near_config: str = "",
        far_config: str = "",
        accounts: tuple[str, ...] = (),
        flags: tuple[str, ...] = (),
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        self._link = link
        self._kinds = (near, far)
        self._near_config = config + near_config
        self._far_config = config + far_config
        self._accounts = accounts
        self._flags = flags
        self._files = files
        self._stack = AsyncExitStack()
        self.near: Server
        self.far: Server

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        if self._link == "workers":
            config = ACCEPTING % (-1, "") + self._near_config
            self.near = self.far = await self._run("midge", config, ("--workers", "2"))
        elif self._link == "route":
            block = 'cluster { name: C1, listen: "127.0.0.1:-1", connect_retries: 50, %s }\n'
            await self._run_near(block % "" + ACCEPTING % (-1, ""))
            port = await _port_of(route_port, self.near)
            await self._run_far(block % f'routes: ["nats-route://127.0.0.1:{port}"]')
        elif self._link == "leaf":
            await self._run_near(ACCEPTING % (-1, ""))
            await self._run_far(self._remotes(await _port_of(leaf_port, self.near)))
        else:
            await self._run_far(ACCEPTING % (-1, ""))
            port = await _port_of(leaf_port, self.far)
            self._far_block = ACCEPTING % (port, "")
            await self._run_near(self._remotes(port))

    async def restart_far(self) -> None:
        """Stop the far server and start it again, at the same port for links."""
        await asyncio.to_thread(self.far.stop)
        await self._run_far(self._far_block)

    async def _run_near(self, block: str) -> None:
        config = NAMES[0] + block + self._near_config
        self.near = await self._run(self._kinds[0], config, self._flags)

    async def _run_far(self, block: str) -> None:
        self._far_block = block
        self.far = await self._run(self._kinds[1], NAMES[1] + block + self._far_config)

    async def _run(self, kind: str, config: str, flags: tuple[str, ...] = ()) -> Server:
        server = Server(command_of(kind), config, flags, files=self._files)
        self._stack.callback(server.stop)
        return await asyncio.to_thread(server.wait_ready)

    def _remotes(self, port: int) -> str:
        """Write the block of the server that connects to a leaf node port."""
        more = ", hub: true" if self._link == "hub: true" else ""
        logins = [
            (f"{name.lower()}:{name.lower()}@", f", account: {name}") for name in self._accounts
        ]
        remotes = [
            f'{{ url: "nats-leaf://{login}127.0.0.1:{port}"{account}{more} }}'
            for login, account in logins or [("", "")]
        ]
        more = f"reconnect: 100ms, remotes: [ {', '.join(remotes)} ]"
        return ACCEPTING % (-1, more)

    async def add_leaf(self, config: str) -> Server:
        """Start a nats-server that is a leaf of the near one, with this `config`."""
        port = await _port_of(leaf_port, self.near)
        remotes = f'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{port}" }} ] }}\n'
        return await self._run("real", "server_name: MORE\n" + remotes + config)

    async def add_member(self, config: str) -> Server:
        """Start a midge in the cluster of the near one, which is called C1, with this `config`."""
        port = await _port_of(route_port, self.near)
        routes = f'routes: ["nats-route://127.0.0.1:{port}"]'
        block = f'cluster {{ name: C1, listen: "127.0.0.1:-1", {routes} }}\n'
        return await self._run("midge", "server_name: MEMBER\n" + block + config)

    async def clients(self, **options: Any) -> tuple[Client, Client]:
        """Connect a client at either place; each new one goes to the worker with fewer."""
        servers = (self.near, self.far)
        near, far = [await self.client_of(server, **options) for server in servers]
        return near, far

    async def client_of(self, server: Server, **options: Any) -> Client:
        """Connect a client to `server`."""
        client = await SettlingClient.connected(server.url, allow_reconnect=False, **options)
        self._stack.push_async_callback(client.close)
        return client


async def settle_both(near: Client, far: Client) -> None:
    """Return when either side knows what the other has subscribed to."""
    await settle(near, far)
    await settle(far, near)


async def _port_of(find: Callable[[Server], int], server: Server) -> int:
    return await asyncio.to_thread(find, server)
