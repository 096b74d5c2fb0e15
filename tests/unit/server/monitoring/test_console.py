"""The console's page and what it is told."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from midge.server.config.options import Console, Listen, Monitoring, Options, WebSocket
from midge.server.server import Server

Start = Callable[..., Awaitable[str]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start servers with a console; give the monitoring URL."""
    servers = []

    async def one(console: Console) -> str:
        server = Server(
            Options(
                listen=Listen(port=-1),
                monitoring=Monitoring(http_port=-1, console=console),
                websocket=WebSocket(port=-1, no_tls=True),
            )
        )
        await server.start()
        servers.append(server)
        return server.urls()["monitoring"][0]

    yield one
    for server in servers:
        await server.stop()


async def test_it_is_off_unless_enabled(start: Start) -> None:
    url = await start(Console())
    async with aiohttp.ClientSession() as session, session.get(url + "/console") as answer:
        assert answer.status == 404


async def test_the_page_brings_everything_with_it(start: Start) -> None:
    url = await start(Console(enabled=True))
    async with aiohttp.ClientSession() as session:
        async with session.get(url + "/console") as answer:
            html = await answer.text()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Frame-Options"] == "DENY"
        assert "http://" not in html
        assert "https://" not in html
        assert "innerHTML" not in html
        async with session.get(url + "/console/facts") as answer:
            facts = await answer.json()
        assert facts["websocket"]["scheme"] == "ws"
        assert facts["can_unlock"] is False


@pytest.mark.parametrize(
    ("token", "given", "status"),
    [("s3cret", "s3cret", 200), ("s3cret", "wrong", 403), ("s3cret", "", 403), ("", "", 403)],
)
async def test_only_the_token_unlocks(start: Start, token: str, given: str, status: int) -> None:
    url = await start(Console(enabled=True, token=token))
    async with aiohttp.ClientSession(headers={"X-Console-Token": given}) as session:
        async with session.get(url + "/console/unlock") as answer:
            assert answer.status == status
        async with session.get(url + "/console/facts") as answer:
            assert "s3cret" not in await answer.text()
