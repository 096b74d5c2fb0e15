"""A midge process and nats-py clients for the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from nats.aio.client import Client

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command

Connect = Callable[..., Awaitable[Client]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for the tests of a module; subjects keep them apart."""
    with Server(midge_command()) as running:
        yield running


@pytest.fixture
async def connect(server: Server) -> AsyncIterator[Connect]:
    """Connect clients that are closed when the test ends."""
    clients: list[Client] = []

    async def one(**options: Any) -> Client:
        client = await SettlingClient.connected(server.url, **{"allow_reconnect": False, **options})
        clients.append(client)
        return client

    yield one
    await asyncio.gather(*(client.close() for client in clients))
