"""Raw client sockets for the load generator: the handshake and nothing else.

A client library would cost more than the servers under test, so the bench speaks the protocol
itself, and only as much of it as it needs.
"""

import socket
import ssl
from dataclasses import dataclass

# Protocol 0 spares the stream every INFO line after the first.
CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"protocol":0,"headers":true,'
    b'"lang":"bench","version":"1"}\r\n'
)
PING = b"PING\r\n"
PONG = b"PONG\r\n"
IO_TIMEOUT_S = 30.0
_INFO_BYTES = 64 * 1024
_RECEIVE_BYTES = 1024 * 1024


class WireError(Exception):
    """A server did not follow the protocol; the text has its answer."""


@dataclass(frozen=True)
class Address:
    """The address of a server under test, and the TLS context if it uses TLS."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None


def connect(address: Address) -> socket.socket:
    """Open a connection, go through the handshake and return the blocking socket."""
    sock = dial(address)
    send_connect(sock)
    read_until_pong(sock)
    return sock


def dial(address: Address, *, source_host: str = "") -> socket.socket:
    """Open a connection and read the server's INFO; with TLS, upgrade."""
    source = (source_host, 0) if source_host else None
    sock = socket.create_connection(
        (address.host, address.port), IO_TIMEOUT_S, source_address=source
    )
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A server sends only INFO unasked, so one large read cannot take too much.
    greeting = more = sock.recv(_INFO_BYTES)
    while more and not greeting.endswith(b"\n"):
        greeting += (more := sock.recv(_INFO_BYTES))
    if not greeting.startswith(b"INFO "):
        raise WireError(f"expected INFO, got {greeting[:80]!r}")
    if address.tls is not None:
        return address.tls.wrap_socket(sock, server_hostname=address.host)
    return sock


def send_connect(sock: socket.socket) -> None:
    """Send CONNECT and the PING whose PONG ends the handshake."""
    sock.sendall(CONNECT + PING)


def round_trip(sock: socket.socket) -> None:
    """Send a PING and read up to its PONG: the server has then processed everything before it."""
    sock.sendall(PING)
    read_until_pong(sock)


def drain(sock: socket.socket) -> int:
    """Send a PING and drop everything before its PONG; return the number of dropped bytes.

    After the PONG, only PINGs of the server may come. PINGs in the same read as the PONG are
    dropped as well, and not counted.

    Raises:
        WireError: the end of the stream came first.
    """
    sock.sendall(PING)
    data = b""
    passed = 0  # bytes received before `data`
    while (at := data.find(PONG)) < 0:
        more = sock.recv(_RECEIVE_BYTES)
        if not more:
            raise WireError("the server closed the connection")
        kept = data[1 - len(PONG) :]  # a PONG may have begun in it
        passed += len(data) - len(kept)
        data = kept + more
    behind = len(data) - at - len(PONG)
    _read_exactly(sock, -behind % len(PING))
    return passed + at


def read_until_pong(sock: socket.socket) -> None:
    """Read up to a PONG and nothing behind it; the server may ping in between.

    Raises:
        WireError: something else came, or the end of the stream.
    """
    while (line := _read_exactly(sock, len(PONG))) != PONG:
        if line != PING:
            raise WireError(f"expected PONG, got {line + sock.recv(200)!r}")


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise WireError(f"the server closed the connection after {data!r}")
        data += more
    return data
