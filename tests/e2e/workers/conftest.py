"""A midge of two workers, and clients that are in both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command

CONFIG = """
http: 127.0.0.1:-1
jetstream { store_dir: "@directory@/js" }
no_auth_user: guest
accounts {
    HERE {
        jetstream: enabled
        users: [ { user: guest, password: guest } ]
        imports: [
            { service: { account: THERE, subject: svc.add } }
            { stream: { account: THERE, subject: "news.>" }, prefix: there }
        ]
        mappings: { "old.*": "new.$1" }
    }
    THERE {
        users: [ { user: there, password: there } ]
        exports: [ { service: svc.add }, { stream: "news.>" } ]
    }
    $SYS { users: [ { user: sys, password: sys } ] }
}
"""


CONSOLE = ("MIDGE_MONITORING_CONSOLE_ENABLED=true", "MIDGE_MONITORING_CONSOLE_TOKEN=t")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for the tests of a module; subjects keep them apart."""
    command = ["env", *CONSOLE, *midge_command()]
    with Server(command, CONFIG, ("--workers", "2")) as running:
        yield running


async def close_all(clients: list[SettlingClient]) -> None:
    await asyncio.gather(*(client.close() for client in clients))


@pytest.fixture
async def four(server: Server) -> AsyncIterator[list[SettlingClient]]:
    """Four clients, two in each worker: each new one goes to the worker with fewer."""
    clients = [await SettlingClient.connected(server.url, allow_reconnect=False) for _ in range(4)]
    yield clients
    await close_all(clients)
