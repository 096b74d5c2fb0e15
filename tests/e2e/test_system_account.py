"""Requests of a client of the system account to a running server process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from nats.aio.client import Client

ACCOUNTS = """
accounts {
  SYS { users: [{user: sys, password: pw}] }
  A { users: [{user: a, password: pw}] }
}
system_account: SYS
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(midge_command(), ACCOUNTS) as started:
        yield started


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    connected = await SettlingClient.connected(server.url, user="sys", password="pw")
    yield connected
    await connected.close()


async def reload(client: Client) -> dict[str, Any]:
    subject = f"$SYS.REQ.SERVER.{client._server_info['server_id']}.RELOAD"
    answer: dict[str, Any] = json.loads((await client.request(subject, timeout=30)).data)
    return answer


async def test_reload_takes_the_file_as_it_is_now(server: Server, client: Client) -> None:
    server.rewrite(ACCOUNTS + "max_payload: 1kb\n")
    answer = await reload(client)
    assert answer["server"]["id"] == client._server_info["server_id"]
    assert "error" not in answer
    assert "[INF] Reloaded: limits.max_payload_bytes = 1024" in server.log
    other = await SettlingClient.connected(server.url, user="a", password="pw")
    assert other.max_payload == 1024
    await other.close()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (ACCOUNTS + "server_name: other\n", "config reload not supported for server_name"),
        ("max_payload: x\n", 'server.conf:1:0: field "max_payload": expected an integer'),
    ],
)
async def test_reload_that_cannot_be_says_why(
    server: Server, client: Client, config: str, text: str
) -> None:
    server.rewrite(config)
    error = (await reload(client))["error"]
    assert error["code"] == 500
    assert text in error["description"]
    assert f"[ERR] Failed to reload server configuration: {error['description']}" in server.log
