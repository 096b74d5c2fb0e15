"""Abuse of TLS: garbage, plain text, half handshakes and enormous ones. Row 15 of the table."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import time

import pytest

from tests.abuse.bystander import without_checks
from tests.abuse.conftest import Target, Victim, ask, read_to_end, read_until
from tests.support.keys import Authority, pem

CONFIG = 'tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem", timeout: 1 }\n'
PLAIN = b'CONNECT {"verbose":false,"tls_required":false}\r\nPING\r\nSUB > 1\r\n'


def record(kind: int, payload: bytes, length: int | None = None) -> bytes:
    """A TLS record, whatever its length says."""
    size = len(payload) if length is None else length
    return bytes([kind]) + b"\x03\x01" + size.to_bytes(2, "big") + payload


def client_hello() -> bytes:
    """The first flight of a well-behaved client."""
    outgoing = ssl.MemoryBIO()
    stub = without_checks().wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        stub.do_handshake()
    return outgoing.read()


def cases() -> dict[str, list[bytes]]:
    hello = client_hello()
    return {
        "garbage": [b"\xff\x00" * 2_000],
        "plain text": [PLAIN],
        "a request": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
        "a record of nothing": [record(22, b"")] * 1_000,
        "a record that is too long": [record(22, b"\x01" * 20_000, 65_535)],
        "an alert": [record(21, b"\x02\x28")] * 100,
        "data before keys": [record(23, b"x" * 100)],
        "half a hello": [hello[: len(hello) // 2]],
        "a hello byte by byte": [hello[i : i + 1] for i in range(30)],
        "a hello, and then plain text": [hello, PLAIN],
        "a hello, and then nothing": [hello],
        "hellos without end": [hello] * 50,
        "a huge hello": [record(22, b"\x01\xff\xff\xff" + b"x" * 16_000)]
        + [record(22, b"x" * 16_000)] * 1_000,
    }


def attack(target: Target, pieces: list[bytes]) -> tuple[bytes, float]:
    """Send `pieces` after INFO; return the input until the server closed, and the time it took."""
    client = target.dial(is_connected=False)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begun = time.monotonic()
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            client.sendall(piece)
    answer = read_to_end(client)
    client.close()
    return answer, time.monotonic() - begun


@pytest.mark.row(15)
@pytest.mark.parametrize("rounds", [1, pytest.param(30, marks=pytest.mark.full)])
@pytest.mark.timeout(400)
def test_what_is_no_tls_ends_the_connection(victim: Victim, rounds: int) -> None:
    certificate, key = Authority().issue("CN=localhost")
    files = {"cert.pem": pem(certificate), "key.pem": key}
    with victim(CONFIG, files=files, is_encrypted=True) as target:
        open_files = target.descriptors()
        for _ in range(rounds):
            for name, pieces in cases().items():
                answer, seconds = attack(target, pieces)
                assert b"PONG" not in answer, name
                assert b"MSG" not in answer, name
                assert seconds < 30, name  # the server ends it, after 1 s at most
        target.wait_for_descriptors(open_files)


@pytest.mark.row(15)
@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_requests_to_renegotiate_are_refused(victim: Victim, times: int) -> None:
    certificate, key = Authority().issue("CN=localhost")
    files = {"cert.pem": pem(certificate), "key.pem": key}
    # OpenSSL's own client asks for it, but knows nothing of an INFO before the handshake.
    config = CONFIG.replace("timeout: 1", "handshake_first: auto")
    with victim(config, files=files, is_encrypted=True) as target:
        open_files = target.descriptors()
        host, port = target.server.address()
        command = ["openssl", "s_client", "-tls1_2", "-connect", f"{host}:{port}"]
        for _ in range(times):
            done = subprocess.run(
                command, input=b"R\n" * 20, capture_output=True, timeout=20, check=False
            )
            assert b"no renegotiation" in done.stderr
        target.wait_for_descriptors(open_files)


@pytest.mark.parametrize("own", [20_000, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_row_15_leaving_by_close_notify_stops_nobody(victim: Victim, own: int) -> None:
    """18,000 messages for all of one's own subscriptions wait when the client has left."""
    certificate, key = Authority().issue("CN=localhost")
    files = {"cert.pem": pem(certificate), "key.pem": key}
    growth_bytes = (32 + own // 1000) << 20
    with victim(CONFIG, files=files, is_encrypted=True, growth_bytes=growth_bytes) as target:
        open_files = target.descriptors()
        client = target.open()
        read_until(client, b"\r\n")
        client = without_checks().wrap_socket(client)
        client.sendall(b'CONNECT {"verbose":false,"echo":false}\r\n')
        for first in range(0, own, 1000):
            ask(client, *(b"SUB own %d" % i for i in range(first, first + 1000)))
        client.sendall(b"PUB own 0\r\n\r\n" * 18_000)
        with contextlib.suppress(OSError):
            client.unwrap()
        client.close()
        target.wait_for_descriptors(open_files)
