"""Handshakes that fail end with the same alert as nats-server's, on every listener that has TLS."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.keys import Authority, pem
from tests.support.processes import Server, midge_command, nats_server_command

COMMANDS = {"midge-server": midge_command, "nats-server": nats_server_command}
TIMEOUT_S = 60.0

CONFIG = """
tls { cert_file: "@directory@/server.pem", key_file: "@directory@/server.key"
      ca_file: "@directory@/authority.pem", verify: true }
https_port: -1
websocket { port: -1
  tls { cert_file: "@directory@/server.pem", key_file: "@directory@/server.key"
        ca_file: "@directory@/authority.pem", verify: true } }
"""

Dress = Callable[[ssl.SSLContext, Path], None]


def load(name: str) -> Dress:
    return lambda context, folder: context.load_cert_chain(
        folder / f"{name}.pem", folder / f"{name}.key"
    )


def nothing(context: ssl.SSLContext, folder: Path) -> None:
    """Bring no certificate."""


def old_version(context: ssl.SSLContext, folder: Path) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # which is why it is refused
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = ssl.TLSVersion.TLSv1_1


def unsafe_suite(context: ssl.SSLContext, folder: Path) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("DHE-RSA-AES256-SHA256:@SECLEVEL=0")


CLIENTS: dict[str, Dress] = {
    "no certificate": nothing,
    "expired": load("expired"),
    "unknown authority": load("stranger"),
    "old version": old_version,
    "no common suite": unsafe_suite,
}
WITHOUT_CERTIFICATES = ("old version", "no common suite")


@functools.cache
def files() -> dict[str, bytes]:
    authority, other = Authority(), Authority("other authority")
    found = {"authority.pem": authority.pem}
    yesterday = datetime.now(UTC) - timedelta(hours=1)
    for name, issuer, ends in (
        ("server", authority, None),
        ("expired", authority, yesterday),
        ("stranger", other, None),
    ):
        certificate, key = issuer.issue(f"CN={name}", ends=ends)
        found |= {f"{name}.pem": pem(certificate), f"{name}.key": key}
    return found


@contextlib.contextmanager
def connected(server: Server, listener: str) -> Iterator[socket.socket]:
    """Connect to a listener, and read the bytes before TLS."""
    with socket.create_connection(server.address(listener), TIMEOUT_S) as raw:
        if listener == "nats":
            while raw.recv(1) != b"\n":
                continue
        yield raw


def reason_of_refusal(server: Server, listener: str, dress: Dress, folder: Path) -> str:
    """Shake hands and read; return what OpenSSL calls the alert that ends it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    dress(context, folder)
    with connected(server, listener) as raw:
        try:
            with context.wrap_socket(raw) as wrapped:
                return "ended" if not wrapped.recv(1) else "let in"
        except ssl.SSLError as error:
            return str(error.reason)
        except OSError as error:
            return type(error).__name__


@pytest.fixture(scope="module", params=["1.2", "1.3"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(Server(command(), CONFIG, files=files()))
            for name, command in COMMANDS.items()
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    for name, content in files().items():
        (made / name).write_bytes(content)
    return made


@pytest.mark.parametrize("listener", ["nats", "websocket", "monitoring"])
@pytest.mark.parametrize("client", CLIENTS)
def test_the_alert_is_nats_servers(
    servers: dict[str, Server], folder: Path, version: str, client: str, listener: str
) -> None:
    if listener == "monitoring" and client not in WITHOUT_CERTIFICATES:
        return  # monitoring asks no client for a certificate

    def dress(context: ssl.SSLContext, folder: Path) -> None:
        if version == "1.2":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        CLIENTS[client](context, folder)

    said = {
        name: reason_of_refusal(server, listener, dress, folder) for name, server in servers.items()
    }
    assert said["midge-server"] == said["nats-server"]
    assert "ALERT" in said["midge-server"]


@pytest.mark.parametrize("listener", ["nats", "websocket", "monitoring"])
def test_what_is_no_tls_gets_no_alert(servers: dict[str, Server], listener: str) -> None:
    for server in servers.values():
        with connected(server, listener) as raw:
            raw.sendall(b"CONNECT {}\r\nPING\r\n")
            assert raw.recv(1) == b""
