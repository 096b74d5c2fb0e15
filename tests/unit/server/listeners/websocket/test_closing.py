"""The port for WebSockets, closed while a client comes."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from websockets.asyncio.client import connect

from midge.server.channels.channel import ChannelOwner
from midge.server.config.options import Listen, Options, Shutdown, Tls, WebSocket
from midge.server.listeners.websocket.listener import WebSocketListener
from midge.server.listeners.websocket.upgrade_request import UpgradeRequest
from midge.server.server import Server
from tests.support.keys import Authority, pem

WAIT_S = 20.0


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest):
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    authority = Authority()
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate, key = authority.issue(alternatives=[loopback])
    for name, content in {"cert": pem(certificate), "key": key, "ca": authority.pem}.items():
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in ("cert", "key", "ca")}


def options_of(files: dict[str, str], *, is_encrypted: bool) -> Options:
    tls = Tls(cert_file=files["cert"], key_file=files["key"]) if is_encrypted else Tls()
    table = WebSocket(host="127.0.0.1", port=-1, no_tls=not is_encrypted, tls=tls)
    return Options(listen=Listen(port=-1), websocket=table, shutdown=Shutdown(flush_timeout_s=0.2))


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_client_that_is_upgraded_as_the_port_closes_is_served(
    runner: asyncio.Runner,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    is_encrypted: bool,
) -> None:
    make = WebSocketListener._make_connection

    def make_and_close(
        listener: WebSocketListener, request: UpgradeRequest, peer: tuple[str, int]
    ) -> ChannelOwner:
        made = make(listener, request, peer)
        listener.close()
        return made

    monkeypatch.setattr(WebSocketListener, "_make_connection", make_and_close)

    async def play() -> None:
        server = Server(options_of(files, is_encrypted=is_encrypted))
        await server.start()
        url = server.urls()["websocket"][0]
        context = ssl.create_default_context(cafile=files["ca"]) if is_encrypted else None
        async with asyncio.timeout(WAIT_S), connect(url, ssl=context) as client:
            assert (await client.recv()).startswith(b"INFO ")
            await server.stop()
            await client.wait_closed()
        assert await server.broker.emptied(0)

    runner.run(play())


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_handshake_ends_with_the_port(
    runner: asyncio.Runner, files: dict[str, str], is_encrypted: bool
) -> None:
    async def play() -> None:
        server = Server(options_of(files, is_encrypted=is_encrypted))
        await server.start()
        host, _, port = server.urls()["websocket"][0].rpartition("/")[2].rpartition(":")
        before = asyncio.all_tasks()
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(WAIT_S):
            while not (upgrading := asyncio.all_tasks() - before):
                await asyncio.sleep(0)
            await server.stop()
            assert not await reader.read()
            await asyncio.gather(*upgrading)
        writer.close()
        await writer.wait_closed()

    runner.run(play())


def test_a_transport_that_never_tells_its_end_does_not_keep_a_server(
    runner: asyncio.Runner, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midge.server.server._ABORT_S", 0.1)

    async def play() -> None:
        server = Server(options_of(files, is_encrypted=False))
        await server.start()
        stuck = server.broker.make_connection(("127.0.0.1", 1))
        server.broker.transport_made(stuck)
        async with asyncio.timeout(WAIT_S):
            await server.stop()
        assert not await server.broker.emptied(0)

    runner.run(play())
