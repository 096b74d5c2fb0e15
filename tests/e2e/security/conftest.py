"""Servers in the test's own process, and raw clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

from midge.server.config.options import Listen, Options
from midge.server.server import Server
from tests.support.raw import Raw
from tests.support.users import Open, Start

ONE_PORT = Listen(port=-1)


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start servers that are stopped when the test ends."""
    servers: list[Server] = []

    async def one(**tables: Any) -> Server:
        server = Server(Options(listen=ONE_PORT, **tables))
        await server.start()
        servers.append(server)
        return server

    yield one
    for server in servers:
        await server.stop()


@pytest.fixture
async def dial(start: Start) -> AsyncIterator[Open]:
    """Open raw connections that are closed when the test ends, before the servers stop."""
    opened: list[Raw] = []

    async def one(server: Server, tls: ssl.SSLContext | None = None, **options: Any) -> Raw:
        raw = await Raw.open(server.urls()["nats"][0], tls, **options)
        opened.append(raw)
        return raw

    yield one
    await asyncio.gather(*(raw.close() for raw in opened))
