"""A client that is waited for without sleep, as it asks again at once, and its neighbours."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median

import pytest

from tests.support.keys import Authority, pem
from tests.support.processes import Server, midge_command

TLS = '{ cert_file: "@directory@/server.pem", key_file: "@directory@/server.key" }'
CONFIG = f"""
tls {TLS}
allow_non_tls: true
websocket {{ listen: 127.0.0.1:-1, no_tls: true }}
"""
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
CONNECT = b'CONNECT {"verbose":false}\r\n'
TIMEOUT_S = 60.0
ASKED = 100

Ask = Callable[[], object]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    certificate, key = Authority().issue("CN=localhost")
    files = {"server.pem": pem(certificate), "server.key": key}
    with Server(midge_command(), CONFIG, files=files) as running:
        yield running


def until(sock: socket.socket, text: bytes) -> bytes:
    got = b""
    while text not in got:
        piece = sock.recv(4096)
        assert piece, got
        got += piece
    return got


@contextlib.contextmanager
def plain(server: Server) -> Iterator[Ask]:
    with socket.create_connection(server.address(), TIMEOUT_S) as sock:
        until(sock, b"\r\n")
        yield from asking(sock)


@contextlib.contextmanager
def encrypted(server: Server) -> Iterator[Ask]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(server.address(), TIMEOUT_S) as sock:
        until(sock, b"\r\n")
        with context.wrap_socket(sock) as secure:
            yield from asking(secure)


@contextlib.contextmanager
def websocket(server: Server) -> Iterator[Ask]:
    def frame(lines: bytes) -> bytes:
        return bytes((0x82, 0x80 | len(lines))) + bytes(4) + lines

    with socket.create_connection(server.address("websocket"), TIMEOUT_S) as sock:
        sock.sendall(UPGRADE)
        until(sock, b"INFO ")
        sock.sendall(frame(CONNECT))
        yield lambda: (sock.sendall(frame(b"PING\r\n")), until(sock, b"PONG\r\n"))


def asking(sock: socket.socket) -> Iterator[Ask]:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(CONNECT)
    yield lambda: (sock.sendall(b"PING\r\n"), until(sock, b"PONG\r\n"))


@contextlib.contextmanager
def busy(server: Server) -> Iterator[list[int]]:
    """Send request after request from a plain client; the yielded item counts its answers."""
    is_over = threading.Event()
    answered = [0]

    def ask_on() -> None:
        with plain(server) as ask:
            while not is_over.is_set():
                ask()
                answered[0] += 1

    thread = threading.Thread(target=ask_on)
    thread.start()
    try:
        while answered[0] < 1_000:  # trials have favoured it, where they do
            assert thread.is_alive()
            time.sleep(0.01)
        yield answered
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("kind", [plain, encrypted, websocket])
def test_its_neighbours_are_served_as_soon(server: Server, kind) -> None:
    with kind(server) as ask:
        alone_s = median(times_of(ask))
        with busy(server) as answered:
            before = answered[0]
            beside_s = median(times_of(ask))
            assert answered[0] > before
    assert beside_s < 0.02 + 4 * alone_s


def times_of(ask: Ask) -> Iterator[float]:
    """Ask now and then; yield the seconds until each answer."""
    for _ in range(ASKED):
        time.sleep(0.002)
        began = time.monotonic()
        ask()
        yield time.monotonic() - began


def test_who_comes_meanwhile_is_greeted(server: Server) -> None:
    def visits() -> Iterator[float]:
        for _ in range(20):
            for kind in (plain, encrypted, websocket):
                began = time.monotonic()
                with kind(server) as ask:
                    ask()
                yield time.monotonic() - began

    alone_s = median(visits())
    with busy(server):
        assert median(visits()) < 0.1 + 4 * alone_s
