"""Servers whose interceptors the tests choose."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import midge
from tests.support.interceptors import Start, clients


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start servers, and stop them when the test ends."""
    servers: list[midge.Server] = []

    async def one(**settings: Any) -> midge.Server:
        server = await midge.Server(port=-1, **settings).start()
        servers.append(server)
        return server

    yield one
    while clients:
        await clients.pop().close()
    for server in servers:
        await server.stop()
