"""Listening sockets: what an address binds, and how peers are named."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from midge.server.listeners import sockets as binding
from midge.server.listeners.sockets import (
    LOCAL_RECEIVE_BYTES,
    accept,
    is_loopback,
    listen,
    peer_of,
)


def accepted_from(host: str, bound: socket.socket, port: int) -> tuple[str, int]:
    """Connect to `host`; return how `bound` names that peer's host, and that it has its port."""
    with socket.create_connection((host, port), timeout=30) as client:
        bound.settimeout(5)
        accepted, address = bound.accept()
        accepted.close()
        name, its_port = peer_of(address)
        assert its_port == client.getsockname()[1]
        return name, its_port


def test_a_loopback_address_is_bound_alone() -> None:
    listener, (host, port) = listen("127.0.0.1", -1, 4)
    with listener:
        assert (host, listener.family) == ("127.0.0.1", socket.AF_INET)
        assert accepted_from("127.0.0.1", listener, port)[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_everywhere_is_both_families(host: str) -> None:
    listener, (shown, port) = listen(host, 0, 4)
    with listener:
        assert shown == host
        assert accepted_from("127.0.0.1", listener, port)[0] == "127.0.0.1"
        assert accepted_from("::1", listener, port)[0] == "::1"


def test_without_ipv6_everywhere_is_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    make = binding.TcpSocket

    def refuse(family: Any, kind: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, kind)

    monkeypatch.setattr(binding, "TcpSocket", refuse)
    listener, _ = listen("0.0.0.0", 0, 4)
    with listener:
        assert listener.family == socket.AF_INET


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1"])
def test_a_port_in_use_is_named(host: str) -> None:
    taken, (_, port) = listen("127.0.0.1", 0, 4)
    with taken, pytest.raises(OSError, match="in use") as raised:
        listen(host, port, 4)
    assert raised.value.filename == f"{host}:{port}"


def test_peers_of_ipv4_are_named_as_such() -> None:
    assert peer_of(("::ffff:10.0.0.1", 5, 0, 0)) == ("10.0.0.1", 5)
    assert peer_of(("fe80::1", 5, 0, 0)) == ("fe80::1", 5)
    assert peer_of(("10.0.0.1", 5)) == ("10.0.0.1", 5)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_receive_buffer_of_a_loopback_connection_does_not_grow(host: str) -> None:
    listener, (_, port) = listen(host, 0, 4)
    with listener, socket.socket() as alike, socket.create_connection(("127.0.0.1", port)):
        alike.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LOCAL_RECEIVE_BYTES)
        accepted, _ = accept(listener)
        with accepted:
            sizes = [
                each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in (accepted, alike)
            ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("host", ["10.0.0.1", "fe80::1", "1.27.0.0", "::"])
def test_other_addresses_are_no_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_what_is_accepted_names_family_and_type_as_plain_numbers() -> None:
    listener, (host, port) = listen("127.0.0.1", 0, 4)
    with listener, socket.create_connection((host, port), timeout=30):
        listener.settimeout(5)
        accepted, _ = accept(listener)
        with accepted:
            assert type(accepted.family) is int
            assert accepted.family == socket.AF_INET
            assert accepted.type == socket.SOCK_STREAM
