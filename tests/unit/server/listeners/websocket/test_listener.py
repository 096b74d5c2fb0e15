"""WebSocket clients of a server in the test's own loop."""

import asyncio
import contextlib
import ipaddress
import ssl
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from msgspec import structs
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from midge.server.config.options import (
    Authorization,
    Keepalive,
    Limits,
    Listen,
    Options,
    Tls,
    User,
    WebSocket,
    WebSocketAuthorization,
)
from midge.server.server import Server
from midge.testing import SettlingClient
from tests.support.keys import Authority, pem


class Running:
    """Starts servers with a WebSocket listener; `server` is the last one."""

    def __init__(self) -> None:
        self.servers: list[Server] = []

    async def __call__(self, **tables: Any) -> str:
        settings = {"host": "127.0.0.1", "port": -1, "no_tls": True, **tables.pop("websocket", {})}
        server = Server(Options(listen=Listen(port=-1), websocket=WebSocket(**settings), **tables))
        await server.start()
        self.servers.append(server)
        return server.urls()["websocket"][0]

    @property
    def server(self) -> Server:
        return self.servers[-1]


@pytest.fixture
async def serve() -> AsyncIterator[Running]:
    """Start servers with a WebSocket listener; give the URL."""
    running = Running()
    yield running
    for server in running.servers:
        await server.stop()


async def until(client: ClientConnection, wanted: bytes) -> bytes:
    """Read messages until `wanted` has come."""
    got = b""
    while wanted not in got:
        message = await client.recv()
        assert isinstance(message, bytes)
        got += message
    return got


async def ended(client: ClientConnection) -> None:
    """Read until the server has closed."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await client.recv()


# The client hands aiohttp a time-out in a form that aiohttp calls outdated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_the_official_client_talks_over_websocket(serve: Running) -> None:
    client = await SettlingClient.connected(await serve(), allow_reconnect=False)
    subscription = await client.subscribe("a")
    await client.publish("a", b"x" * 500_000)
    assert len((await subscription.next_msg()).data) == 500_000
    await client.close()


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_bytes_pass_with_and_without_compression(
    serve: Running, compression: str | None
) -> None:
    url = await serve(websocket={"compression": True})
    async with connect(url, compression=compression) as client:
        assert (await until(client, b"\r\n")).startswith(b"INFO {")
        payload = b"z" * 10_000
        await client.send(b'CONNECT {"verbose":false}\r\nSUB a 1\r\n')
        await client.send(b"PUB a 10000\r\n" + payload + b"\r\nPING\r\n")
        assert b"MSG a 1 10000\r\n" + payload in await until(client, b"PONG\r\n")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"FOO\r\n", 1002),
        (b"PUB a 9999999\r\n", 1009),
        (b"SUB x\r\n", 1002),
    ],
)
async def test_close_codes_tell_the_reason(serve: Running, sent: bytes, code: int) -> None:
    async with connect(await serve()) as client:
        await client.send(b'CONNECT {"verbose":false}\r\n' + sent)
        await ended(client)
        assert client.close_code == code


async def test_wrong_credentials_violate_the_policy(serve: Running) -> None:
    url = await serve(authorization=Authorization(users=(User(user="a", password="b"),)))
    async with connect(url) as client:
        await client.send(b'CONNECT {"user":"a","pass":"no"}\r\n')
        await ended(client)
        assert client.close_code == 1008


async def test_cookies_let_a_browser_in(serve: Running) -> None:
    url = await serve(
        authorization=Authorization(users=(User(user="a", password="b"),)),
        websocket={"user_cookie": "u", "pass_cookie": "p"},
    )
    async with connect(url, additional_headers={"Cookie": "u=a; p=b"}) as client:
        await client.send(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert b"PONG" in await until(client, b"PONG\r\n")


async def test_strangers_can_send_little(serve: Running) -> None:
    url = await serve(authorization=Authorization(users=(User(user="a", password="b"),)))
    async with connect(url) as client:
        await client.send(b"C" * 70_000)
        await ended(client)


async def test_inflation_is_bounded(serve: Running) -> None:
    url = await serve(websocket={"compression": True}, limits=Limits(max_payload_bytes=1024))
    async with connect(url, compression="deflate", max_size=None) as client:
        bomb = b"PING\r\n" * 1_000_000
        assert len(zlib.compress(bomb)) < 20_000
        with contextlib.suppress(ConnectionClosed):
            await client.send(bomb)
        await ended(client)
        assert client.close_code == 1009


async def test_refusals_are_http(serve: Running) -> None:
    url = await serve(websocket={"same_origin": True})
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url, origin="http://evil.example"):  # type: ignore[arg-type]
            pass
    assert caught.value.response.status_code == 403


async def test_a_silent_or_endless_request_is_cut(serve: Running) -> None:
    url = await serve(websocket={"handshake_timeout_s": 0.05})
    host, _, port = url.removeprefix("ws://").partition(":")
    for sent in (b"GET", b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_close_frame_is_echoed(serve: Running) -> None:
    async with connect(await serve()) as client:
        await client.send(b'CONNECT {"verbose":false}\r\n')
        await client.close(4001, "enough")
        assert (client.close_code, client.close_reason) == (4001, "enough")


class TestOwnRules:
    """The listener's own authorization, time-out and ping interval."""

    RULES = WebSocketAuthorization(token="t0ken", timeout_s=0.05)

    async def test_its_token_is_asked_for_and_only_there(self, serve: Running) -> None:
        url = await serve(websocket={"authorization": self.RULES})
        async with connect(url) as client:
            assert b'"auth_required":true' in await until(client, b"\r\n")
            await client.send(b'CONNECT {"verbose":false,"auth_token":"t0ken"}\r\nPING\r\n')
            await until(client, b"PONG\r\n")
        server = serve.server
        plain = await SettlingClient.connected(server.urls()["nats"][0], allow_reconnect=False)
        await plain.close()

    async def test_its_time_out_cuts_the_silent(self, serve: Running) -> None:
        async with connect(await serve(websocket={"authorization": self.RULES})) as client:
            await until(client, b"-ERR 'Authentication Timeout'\r\n")
            await ended(client)
            assert client.close_code == 1008

    async def test_a_reload_questions_its_clients_again(self, serve: Running) -> None:
        async with connect(await serve(websocket={"authorization": self.RULES})) as client:
            await client.send(b'CONNECT {"verbose":false,"auth_token":"t0ken"}\r\nPING\r\n')
            await until(client, b"PONG\r\n")
            server = serve.server
            table = server.options.websocket
            other = structs.replace(table, authorization=WebSocketAuthorization(token="other"))
            await server.reload(structs.replace(server.options, websocket=other))
            await until(client, b"-ERR 'Authorization Violation'\r\n")

    async def test_its_ping_interval_is_that_of_its_clients(self, serve: Running) -> None:
        async with connect(await serve(websocket={"ping_interval_s": 7})) as client:
            await until(client, b"\r\n")
            server = serve.server
            plain = await SettlingClient.connected(server.urls()["nats"][0])
            kinds = {
                one.listener_kind: one.channel.keepalive.interval_s for one in server.connections()
            }
            assert kinds == {"WEBSOCKET": 7, "STANDARD": 120}
            await server.reload(
                structs.replace(server.options, keepalive=Keepalive(ping_interval_s=9))
            )
            kinds = {
                one.listener_kind: one.channel.keepalive.interval_s for one in server.connections()
            }
            assert kinds == {"WEBSOCKET": 7, "STANDARD": 9}
            await plain.close()


async def test_the_listener_speaks_tls(serve: Running, tmp_path: Path) -> None:
    authority = Authority()
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate, key = authority.issue("CN=server", [loopback])
    files = {"cert": pem(certificate), "key": key, "ca": authority.pem}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    tls = Tls(cert_file=str(tmp_path / "cert"), key_file=str(tmp_path / "key"))
    url = await serve(websocket={"tls": tls, "no_tls": False, "same_origin": True})
    assert url.startswith("wss://")
    trusted = ssl.create_default_context(cafile=tmp_path / "ca")
    async with connect(url, ssl=trusted, origin=Origin(url.replace("wss", "https"))) as client:
        assert b"tls_required" not in await until(client, b"\r\n")
        await client.send(b'CONNECT {"verbose":false}\r\nPING\r\n')
        await until(client, b"PONG\r\n")
