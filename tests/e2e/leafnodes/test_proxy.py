"""Leaf node links through an HTTP proxy, with nats-server at one end or as the measure."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Self

import pytest
from cryptography.x509 import IPAddress

from tests.e2e.leafnodes.test_websocket import PLAIN, exchange
from tests.support.keys import Authority, pem
from tests.support.leafnodes import Pair, until
from tests.support.processes import Server, command_of, midge_command

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"
AUTHORITY = Authority("ca")
CERTIFICATE, KEY = AUTHORITY.issue("CN=here", [IPAddress(IPv4Address("127.0.0.1"))])
FILES = {"ca.pem": AUTHORITY.pem, "cert.pem": pem(CERTIFICATE), "key.pem": KEY}
HUB_TLS = 'tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem" }'
LEAF_TLS = ', tls { ca_file: "@directory@/ca.pem" }'

REMOTES: dict[str, tuple[str, dict[str, Any], str]] = {
    "nats": ("nats://127.0.0.1:@port@", {}, ""),
    "tls": ("tls://127.0.0.1:@port@", {"leafnodes": HUB_TLS}, LEAF_TLS),
    "ws": ("ws://127.0.0.1:@websocket@", {"hub_config": PLAIN}, ""),
    "wss": (
        "wss://127.0.0.1:@websocket@",
        {"hub_config": f'websocket {{ listen: "127.0.0.1:-1", {HUB_TLS} }}'},
        LEAF_TLS,
    ),
}


class Proxy:
    """A proxy that answers CONNECT with `answer`, and connects if that is a 200.

    `asked` has the requests.
    """

    def __init__(self, answer: bytes = OPENED, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[bytes] = []
        self._answer = answer
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._tunnel(reader, writer)
        finally:
            writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(request)
        writer.write(self._answer)
        if not self._answer.startswith(b"HTTP/1.1 200"):
            if not self._answer:
                await reader.read()
            return
        host, port = request.split()[1].decode().rsplit(":", 1)
        other_reader, other_writer = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        finally:
            other_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Make servers trust the authority; return the context of a proxy that it has certified."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context


@contextlib.asynccontextmanager
async def linked(
    hub: str, leaf: str, kind: str, proxy: Proxy, scheme: str = "http", more: str = ""
) -> AsyncIterator[Pair]:
    url, options, keys = REMOTES[kind]
    remote = f'url: "{url}"{keys}, proxy {{ url: "{scheme}://{proxy.address}"{more} }}'
    async with Pair(hub, leaf, remote=remote, files=FILES, **options) as pair:
        yield pair


@pytest.mark.parametrize("kind", REMOTES)
@pytest.mark.parametrize("leaf", ["midge", pytest.param("real", marks=pytest.mark.full)])
async def test_messages_go_both_ways(leaf: str, kind: str) -> None:
    async with (
        Proxy() as proxy,
        linked("real", leaf, kind, proxy, more=', username: "me", password: "a:b"') as pair,
    ):
        await exchange(pair)
        port = pair.port if kind in ("nats", "tls") else pair.hub.address("websocket")[1]
        lines = proxy.asked[0].split(b"\r\n")
        assert lines[:2] == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % port, b"Host: 127.0.0.1:%d" % port]
        assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:a:b") in lines


@pytest.mark.parametrize("kind", REMOTES)
async def test_a_proxy_that_speaks_tls(kind: str, trusted: ssl.SSLContext) -> None:
    async with Proxy(tls=trusted) as proxy, linked("midge", "midge", kind, proxy, "https") as pair:
        await exchange(pair)
        assert proxy.asked


@pytest.mark.parametrize("server", ["midge", pytest.param("real", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "proxy CONNECT failed: 407 Proxy"),
        (b"hello\r\n\r\n", "'hello'"),
        (b"x" * 100_000, "longer than 4096 bytes"),
        (b"", "no answer from the proxy"),
    ],
)
async def test_a_refusal_is_logged_and_tried_again(server: str, answer: bytes, cause: str) -> None:
    async with Proxy(answer) as proxy:
        timeout = "20s" if answer else "300ms"
        options = f'proxy {{ url: "http://{proxy.address}", timeout: "{timeout}" }}'
        remote = f'{{ url: "nats://127.0.0.1:9", {options} }}'
        config = f"leafnodes {{ reconnect: 100ms, remotes: [ {remote} ] }}"
        with Server(command_of(server), config) as leaf:
            await until(lambda: len(proxy.asked) >= 2)
            await until(lambda: "Error trying to connect as leafnode" in leaf.log)
            if server == "midge":
                assert cause in leaf.log
                assert "Traceback" not in leaf.log


async def test_a_proxy_whose_certificate_is_not_trusted(
    trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with Proxy(tls=trusted) as proxy:
        remote = f'{{ url: "nats://127.0.0.1:9", proxy {{ url: "https://{proxy.address}" }} }}'
        with Server(midge_command(), f"leafnodes {{ remotes: [ {remote} ] }}") as leaf:
            await until(lambda: "proxy TLS handshake failed" in leaf.log)
        assert not proxy.asked


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ('url: "ftp://a:1"', "proxy URL scheme must be http or https"),
        ('url: "http://a:1", username: u', "must both be specified or both be empty"),
        ('url: "http://a:1", colour: red', 'unknown field "colour"'),
    ],
)
def test_what_cannot_be_honoured_is_refused(block: str, text: str) -> None:
    remote = f'{{ url: "nats://127.0.0.1:9", proxy {{ {block} }} }}'
    server = Server(midge_command(), f"leafnodes {{ remotes: [ {remote} ] }}")
    with pytest.raises(RuntimeError, match=text):
        server.wait_ready()
