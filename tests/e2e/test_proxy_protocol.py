"""Clients and leaf nodes behind a proxy that names them in PROXY protocol headers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.keys import Authority, pem
from tests.support.processes import Server, command_of, link_port, midge_command
from tests.support.proxy_headers import REFUSED, TAKEN

HAPROXY = shutil.which("haproxy")
TIMEOUT_S = 60.0
SOURCE = "127.0.0.9"
"""The address that test clients connect from; the proxy has another."""

CONFIG = "http: 127.0.0.1:-1\nproxy_protocol: true\n"
CONNECT = b'CONNECT {"verbose":false}\r\nPING\r\n'
Proxy = Callable[..., tuple[str, int]]


def dial(address: tuple[str, int], source: str = SOURCE) -> socket.socket:
    """Connect from `source`."""
    return socket.create_connection(address, TIMEOUT_S, source_address=(source, 0))


def read_until(client: socket.socket, end: bytes) -> bytes:
    """Return the input until `end`, or until the server closes."""
    got = b""
    while end not in got:
        try:
            piece = client.recv(1 << 16)
        except ConnectionError:
            break
        if not piece:
            break
        got += piece
    return got


def connections(server: Server) -> list[dict[str, Any]]:
    """Return the open connections by the server's monitoring."""
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}/connz", timeout=TIMEOUT_S) as page:
        found: list[dict[str, Any]] = json.load(page)["connections"]
        return found


@pytest.fixture
def haproxy(tmp_path: Path) -> Iterator[Proxy]:
    """Start haproxy in front of an address; it sends a header of a version for each client."""
    if HAPROXY is None:
        pytest.skip("haproxy is not installed")
    started: list[subprocess.Popen[bytes]] = []

    def start(behind: tuple[str, int], version: str) -> tuple[str, int]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address: tuple[str, int] = listening.getsockname()
            config = tmp_path / f"haproxy{len(started)}.cfg"
            config.write_text(
                "defaults\n mode tcp\n timeout connect 60s\n timeout client 60s\n"
                " timeout server 60s\n"
                f"listen nats\n bind fd@{listening.fileno()}\n"
                f" server one {behind[0]}:{behind[1]} {version}\n"
            )
            command = [HAPROXY or "", "-db", "-f", str(config)]
            started.append(subprocess.Popen(command, pass_fds=[listening.fileno()]))
        return address

    yield start
    for process in started:
        process.terminate()
        process.wait(TIMEOUT_S)


@pytest.mark.parametrize("kind", ["midge", "real"])
def test_headers_are_judged_as_by_nats_server(kind: str) -> None:
    """Only a valid header is served, and monitoring shows the client that it names.

    nats-server serves what begins with no header at all, too, as INFO is sent before.
    """
    with Server(command_of(kind), CONFIG) as server:
        for name, (header, source) in TAKEN.items():
            with dial(server.address()) as client:
                client.sendall(header + CONNECT)
                assert b"PONG\r\n" in read_until(client, b"PONG\r\n"), name
                shown = connections(server)[-1]
                own = client.getsockname()
                assert (shown["ip"], shown["port"]) == (source or own), name
        for name, (header, complaint) in REFUSED.items():
            if kind == "real" and complaint == "neither":
                continue
            with dial(server.address()) as client:
                client.sendall(header)
                with contextlib.suppress(OSError):  # nats-server waits for a whole block
                    client.shutdown(socket.SHUT_WR)
                assert b"PONG" not in read_until(client, b"\0never"), name
        assert "Traceback" not in server.log


@pytest.mark.parametrize("version", ["send-proxy", "send-proxy-v2"])
@pytest.mark.parametrize("way", ["plain", "tls", "workers"])
async def test_clients_behind_haproxy(
    haproxy: Proxy, way: str, version: str, tmp_path: Path
) -> None:
    authority = Authority()
    certificate, key = authority.issue("CN=server")
    files = {"cert": pem(certificate), "key": key, "ca": authority.pem}
    tls = 'tls { cert_file: "@directory@/cert", key_file: "@directory@/key" }\n'
    context = None
    if way == "tls":
        (tmp_path / "ca").write_bytes(authority.pem)
        context = ssl.create_default_context(cafile=tmp_path / "ca")
        context.check_hostname = False
    flags = ("--workers", "2") if way == "workers" else ()
    config = CONFIG + (tls if way == "tls" else "")
    with Server(midge_command(), config, flags, files=files) as server:
        host, port = haproxy(server.address(), version)
        scheme = "tls" if way == "tls" else "nats"
        client = await nats.connect(f"{scheme}://{host}:{port}", tls=context)
        subscription = await client.subscribe("a")
        await client.publish("a", b"x" * 100_000)
        message = await subscription.next_msg(TIMEOUT_S)
        assert message.data == b"x" * 100_000
        await client.close()
        with dial((host, port)) as raw:
            info = json.loads(read_until(raw, b"\r\n")[5:])
            assert info["client_ip"] == SOURCE
            if way != "tls":
                raw.sendall(CONNECT)
                assert b"PONG\r\n" in read_until(raw, b"PONG\r\n")
                (shown,) = connections(server)
                assert (shown["ip"], shown["port"]) == raw.getsockname()


@pytest.mark.parametrize("version", ["send-proxy", "send-proxy-v2"])
def test_websockets_behind_haproxy(haproxy: Proxy, version: str) -> None:
    config = (
        "http: 127.0.0.1:-1\n"
        "websocket { listen: 127.0.0.1:-1, no_tls: true, proxy_protocol: true }\n"
    )
    with Server(midge_command(), config) as server:
        address = haproxy(server.address("websocket"), version)
        with dial(address) as client:
            request = [
                "GET / HTTP/1.1",
                "Host: localhost",
                "Upgrade: websocket",
                "Connection: Upgrade",
                f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
                "Sec-WebSocket-Version: 13",
            ]
            client.sendall("\r\n".join([*request, "", ""]).encode())
            assert b'"client_ip":"127.0.0.9"' in read_until(client, b"}")
            (shown,) = connections(server)
            assert (shown["ip"], shown["port"]) == client.getsockname()
        with dial(server.address()) as client:  # the other listener takes clients as they are
            assert read_until(client, b"\r\n").startswith(b"INFO ")


@pytest.mark.parametrize("version", ["send-proxy", "send-proxy-v2"])
async def test_leaf_nodes_behind_haproxy(haproxy: Proxy, version: str) -> None:
    config = "leafnodes { listen: 127.0.0.1:-1, proxy_protocol: true }\n"
    with Server(midge_command(), config) as hub:
        host, port = haproxy(("127.0.0.1", link_port(hub, "leafnode", TIMEOUT_S)), version)
        remote = f'leafnodes {{ remotes: [ {{ url: "nats-leaf://{host}:{port}" }} ] }}\n'
        with Server(midge_command(), remote) as leaf:
            near, far = await nats.connect(leaf.url), await nats.connect(hub.url)
            subscription = await far.subscribe("a")
            for _ in range(600):
                await near.publish("a", b"x")
                try:
                    message = await subscription.next_msg(0.1)
                    break
                except TimeoutError:
                    await asyncio.sleep(0)
            assert message.data == b"x"
            await near.close()
            await far.close()


def test_only_listed_addresses_send_headers() -> None:
    listed = f'proxies {{ addresses: ["{SOURCE}", "10.0.0.0/8"] }}\n'
    header, source = TAKEN["v1"]
    with Server(midge_command(), CONFIG + listed) as server:
        with dial(server.address(), "127.0.0.1") as direct:
            direct.sendall(CONNECT)
            assert b"PONG\r\n" in read_until(direct, b"PONG\r\n")
        with dial(server.address(), "127.0.0.1") as liar:
            liar.sendall(header + CONNECT)
            assert b"-ERR 'Unknown Protocol Operation'" in read_until(liar, b"\0never")
        with dial(server.address()) as proxied:
            proxied.sendall(header + CONNECT)
            assert b"PONG\r\n" in read_until(proxied, b"PONG\r\n")
            assert [(one["ip"], one["port"]) for one in connections(server)] == [source]
        with dial(server.address()) as silent:
            silent.sendall(CONNECT)
            assert read_until(silent, b"\0never") == b""
        said = f"Error reading PROXY protocol header from {SOURCE}:"
        for _ in range(600):
            if said in server.log:
                break
            time.sleep(0.1)  # the line comes behind the end of the connection
        assert said in server.log
