"""Headers of the PROXY protocol, whole and in pieces."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from midge.server.listeners.proxy_header import Header, HeaderError, is_proxy
from tests.support.proxy_headers import REFUSED, TAKEN, V2, block


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the proxy's end and the server's, which does not block."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("piece", [1, 5, 1000])
@pytest.mark.parametrize("name", TAKEN)
def test_a_valid_header_is_read_and_nothing_behind_it(
    name: str, piece: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    data, source = TAKEN[name]
    ours, theirs = pair
    header = Header()
    behind = b"\nPROXY CONNECT\r\n"
    for start in range(0, len(data), piece):
        assert not header.read(theirs)
        ours.sendall(data[start : start + piece] + (behind if start + piece >= len(data) else b""))
    assert header.read(theirs)
    assert header.source == source
    assert theirs.recv(100) == behind


@pytest.mark.parametrize("piece", [1, 1000])
@pytest.mark.parametrize("name", REFUSED)
def test_any_other_beginning_is_refused(
    name: str, piece: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    data, complaint = REFUSED[name]
    ours, theirs = pair

    def play(header: Header) -> None:
        for start in range(0, len(data), piece):
            ours.sendall(data[start : start + piece])
            assert not header.read(theirs)

    with pytest.raises(HeaderError, match=complaint):
        play(Header())


@pytest.mark.parametrize(
    "data", [b"", b"PROX", b"PROXY TCP4 1.2", V2[:7], block(0x21, 0x11, b"abcdefgh", 12)]
)
def test_an_end_within_it_is_an_error(
    data: bytes, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    ours.sendall(data)
    header = Header()
    assert not header.read(theirs)
    ours.close()
    with pytest.raises(HeaderError, match="ended within"):
        header.read(theirs)


@pytest.mark.parametrize(
    ("host", "addresses", "expected"),
    [
        ("1.2.3.4", (), True),
        ("10.2.3.4", ("10.0.0.0/8",), True),
        ("11.2.3.4", ("10.0.0.0/8",), False),
        ("::1", ("10.0.0.0/8", "::1"), True),
        ("fe80::1%eth0", ("fe80::/10",), True),
    ],
)
def test_whose_connections_begin_with_one(
    host: str, addresses: tuple[str, ...], expected: bool
) -> None:
    assert is_proxy(host, addresses) is expected
