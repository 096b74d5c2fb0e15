"""A server with monitoring in the test's own loop."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from midge.server.config.options import Console, Limits, Listen, Monitoring, Options
from midge.server.server import Server
from midge.testing import SettlingClient

OPTIONS = Options(
    listen=Listen(port=-1),
    limits=Limits(max_closed_clients=3),
    monitoring=Monitoring(http_port=-1, console=Console(enabled=True)),
)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A running server."""
    server = Server(OPTIONS)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def http(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of its pages."""
    async with aiohttp.ClientSession(base_url=server.urls()["monitoring"][0]) as session:
        yield session


@pytest.fixture
def page(http: aiohttp.ClientSession) -> Callable[[str], Awaitable[Any]]:
    """Get a page and decode it."""

    async def get(path: str) -> Any:
        async with http.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    return get


@pytest.fixture
async def connect(server: Server) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Connect clients that are closed at the end."""
    clients = []

    async def make(**choices: Any) -> Any:
        client = await SettlingClient.connected(
            server.urls()["nats"][0], allow_reconnect=False, **choices
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()
