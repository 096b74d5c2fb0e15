"""The alert of a failed handshake: it is sent, on asyncio's loop too, and never waits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import pytest

from midge.server.config.options import Listen, Options, Tls
from midge.server.listeners.tls_alert import AlertingSSLObject, alerting
from midge.server.server import Server
from tests.support.keys import Authority, pem


@pytest.fixture
def table(tmp_path: Path) -> Tls:
    authority = Authority()
    certificate, key = authority.issue("CN=server")
    for name, content in (("c", pem(certificate)), ("k", key), ("ca", authority.pem)):
        (tmp_path / name).write_bytes(content)
    paths = {"cert_file": tmp_path / "c", "key_file": tmp_path / "k", "ca_file": tmp_path / "ca"}
    return Tls(verify=True, **{name: str(path) for name, path in paths.items()})


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def reason_of_refusal(address: tuple[str, int]) -> str:
    with socket.create_connection(address, 10) as raw:
        while raw.recv(1) != b"\n":
            continue
        with pytest.raises(ssl.SSLError) as refused, client_context().wrap_socket(raw) as wrapped:
            wrapped.recv(1)
    return str(refused.value.reason)


async def test_it_is_sent_by_asyncios_loop(table: Tls) -> None:
    server = Server(Options(listen=Listen(port=-1), tls=table))
    await server.start()
    address = (server.broker.host, server.broker.port)
    reason = await asyncio.to_thread(reason_of_refusal, address)
    await server.stop()
    assert reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


def fail_a_handshake(bare: socket.socket) -> None:
    """Make a handshake fail; its alert goes to `bare`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = AlertingSSLObject
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with alerting(bare):
        handshake = context.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(b"\x16\x03\x01\x00\x05aaaaa")
    with pytest.raises(ssl.SSLError):
        handshake.do_handshake()


def test_a_peer_that_does_not_read_holds_nobody_up() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        fail_a_handshake(here)
        assert there.recv(16)[0] == 21, "the type of an alert"
        with contextlib.suppress(BlockingIOError):
            while True:
                here.send(bytes(1 << 16))
        fail_a_handshake(here)


def test_a_peer_that_has_gone_is_no_error() -> None:
    here, there = socket.socketpair()
    there.close()
    with here:
        fail_a_handshake(here)
