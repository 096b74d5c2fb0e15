"""Servers within the test's own process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from midge.server.config.options import Options
from midge.server.server import Server


@contextlib.asynccontextmanager
async def serving(*served: Options) -> AsyncIterator[list[Server]]:
    """Start a server of each of the options, on free ports, and stop them at the end."""
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for one in served:
            assert one.listen.port <= 0, "expected listen.port -1: another program may have 4222"
            server = Server(one)
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        yield servers
