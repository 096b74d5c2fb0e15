"""Leaf node links inside WebSockets, with nats-server at one end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from ipaddress import IPv4Address

import pytest
from cryptography.x509 import IPAddress
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from tests.support.keys import Authority, pem
from tests.support.leafnodes import Inbox, Pair, settle, until
from tests.support.processes import Server, midge_command

OWN_PAIR = pytest.param("midge", "midge", marks=pytest.mark.full)
PAIRS = [("real", "midge"), ("midge", "real"), OWN_PAIR]
PLAIN = 'websocket { listen: "127.0.0.1:-1", no_tls: true }'


def pair_of(hub: str, leaf: str, scheme: str = "ws", **options) -> Pair:
    remote = f'url: "{scheme}://127.0.0.1:@websocket@/some/path"' + options.pop("keys", "")
    return Pair(hub, leaf, hub_config=options.pop("hub_config", PLAIN), remote=remote, **options)


async def exchange(pair: Pair) -> None:
    """Send messages both ways, small ones and large ones."""
    at_hub, at_leaf = await pair.at_hub(), await pair.at_leaf()
    for receiver, sender in ((at_leaf, at_hub), (at_hub, at_leaf)):
        got = Inbox()
        await receiver.subscribe("a.>", cb=got.take)
        await settle(receiver, sender)
        data = [b"%d" % i for i in range(200)] + [b"x" * 500_000, b"y" * 100_000, b"end"]
        for one in data:
            await sender.publish("a.b", one)
        await sender.flush()
        await got.has(*data)


@pytest.mark.parametrize(("hub", "leaf"), PAIRS)
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param("", marks=pytest.mark.full),
        pytest.param(", ws_no_masking: true", marks=pytest.mark.full),
        pytest.param(", ws_compression: true", marks=pytest.mark.full),
        ", ws_no_masking: true, ws_compression: true",
    ],
)
async def test_messages_go_both_ways(hub: str, leaf: str, keys: str) -> None:
    config = PLAIN.replace("}", ", compression: true }") if keys else PLAIN
    async with pair_of(hub, leaf, keys=keys, hub_config=config) as pair:
        await exchange(pair)


@pytest.mark.parametrize(("hub", "leaf"), PAIRS)
async def test_an_encrypted_one(hub: str, leaf: str) -> None:
    authority = Authority("ca")
    address = IPAddress(IPv4Address("127.0.0.1"))
    certificate, key = authority.issue("CN=hub", [address])
    files = {"ca.pem": authority.pem, "cert.pem": pem(certificate), "key.pem": key}
    tls = 'tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem" }'
    config = f'websocket {{ listen: "127.0.0.1:-1", {tls} }}'
    keys = ', tls { ca_file: "@directory@/ca.pem" }'
    async with pair_of(hub, leaf, "wss", hub_config=config, keys=keys, files=files) as pair:
        await exchange(pair)


async def test_a_websocket_without_a_port_for_leaf_nodes_takes_none() -> None:
    with Server(midge_command(), PLAIN) as server:
        reader, writer = await asyncio.open_connection(*server.address("websocket"))
        key = "AAAAAAAAAAAAAAAAAAAAAA=="
        lines = ["GET /leafnode HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        writer.write("\r\n".join(lines).encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 404 ")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 101 Sure",
        pytest.param("HTTP/1.1 404 Not Found", marks=pytest.mark.full),
        pytest.param("nonsense", marks=pytest.mark.full),
    ],
)
async def test_what_is_no_websocket_is_tried_again(answer: str) -> None:
    asked: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"{answer}\r\nSec-WebSocket-Accept: wrong\r\n\r\n".encode())
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    hub = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = hub.sockets[0].getsockname()[1]
    remote = f'leafnodes {{ reconnect: 50ms, remotes: [ {{ url: "ws://127.0.0.1:{port}" }} ] }}'
    async with hub:
        with Server(midge_command(), remote) as server:
            await until(lambda: len(asked) >= 2)
            assert "Error trying to connect as leafnode" in server.log
        await asyncio.gather(*(task for task in asked if task is not None))


async def test_an_answer_that_comes_too_late_upgrades_nothing() -> None:
    heard: list[bytes] = []
    tasks: list[asyncio.Task[None] | None] = []
    second_is_up = asyncio.Event()
    info = {"server_id": "H", "server_name": "H", "client_id": 1, "max_payload": 1 << 20}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        number = len(heard)
        heard.append(b"")
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            key = re.search(rb"Sec-WebSocket-Key: (\S+)", head)
            assert key is not None
            if number == 0:
                await second_is_up.wait()
            accept = accept_key(key[1].decode())
            lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket"]
            lines += ["Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}", "", ""]
            writer.write("\r\n".join(lines).encode())
            writer.write(Frame(Opcode.BINARY, line_of(info)).serialize(mask=False))
            while data := await reader.read(4096):
                heard[number] += data
                if number == 1:
                    second_is_up.set()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    hub = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = hub.sockets[0].getsockname()[1]
    options = 'ws_no_masking: true, first_info_timeout: "200ms"'
    remote = f'leafnodes {{ remotes: [ {{ url: "ws://127.0.0.1:{port}", {options} }} ] }}'
    async with hub:
        with Server(midge_command(), remote) as server:
            await until(lambda: bool(tasks) and tasks[0] is not None and tasks[0].done())
            assert heard[0] == b""
            assert len(heard[1]) > 0
            assert len(heard) == 2
            assert "Traceback" not in server.log
        await asyncio.gather(*(task for task in tasks if task is not None))


def line_of(info: dict[str, object]) -> bytes:
    return b"INFO %b\r\n" % json.dumps(info).encode()


def test_addresses_are_all_of_one_kind() -> None:
    urls = '["ws://u:secret@127.0.0.1:1", "nats-leaf://127.0.0.1:2"]'
    server = Server(midge_command(), f"leafnodes {{ remotes: [ {{ urls: {urls} }} ] }}")
    with pytest.raises(RuntimeError, match="mix of websocket and non-websocket urls") as raised:
        server.wait_ready()
    assert "secret" not in str(raised.value)
