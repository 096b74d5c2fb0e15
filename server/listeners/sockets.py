"""Listening sockets: bind an address as nats-server does, and format the peers' addresses.

As there, `0.0.0.0` is every address of the machine, including those of IPv6.
"""

from __future__ import annotations

import _socket
import errno
import socket

_ANYWHERE = "0.0.0.0"  # noqa: S104  # nosec B104 - compared, not bound
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
_MAPPED = "::ffff:"
"""Prefix of IPv4 addresses on an IPv6 socket."""

LOCAL_RECEIVE_BYTES = 256 * 1024
"""Receive buffer of a connection from this machine.

Without a limit the kernel lets it grow to tens of MiB (`net.ipv4.tcp_rmem`) as soon as the peer is
faster, and each read copies bytes that have left the CPU's cache meanwhile: publishing 16 B took
15 ns of CPU a message instead of 7. A loopback has no delay, so no window is too small for it.
"""


INHERITED: dict[int, socket.socket] = {}
"""Listening sockets that this process was started with, by port, until a listener takes them."""


class TcpSocket(socket.socket):
    """A socket whose `family` and `type` are plain numbers.

    `socket.socket` makes enums of them at each look: 6 µs until an event loop has made a transport.
    """

    __slots__ = ()

    family = _socket.socket.family  # type: ignore[assignment]
    type = _socket.socket.type  # type: ignore[assignment]


def listen(host: str, port: int, backlog: int) -> tuple[socket.socket, tuple[str, int]]:
    """Listen on `host` and `port`, 0 or -1 for a free one; return the socket and the address.

    An inherited socket of this port is taken as it is, whatever its address.

    Raises:
        OSError: the address cannot be bound; its `filename` is the address.
    """
    if inherited := INHERITED.pop(port, None):
        return inherited, (host, port)
    try:
        if host == _ANYWHERE:
            try:
                listener = _listen(socket.AF_INET6, "::", port, backlog)
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
                listener = _listen(socket.AF_INET, host, port, backlog)
            return listener, (host, listener.getsockname()[1])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = _listen(family, host, port, backlog)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    bound = listener.getsockname()
    return listener, (bound[0], bound[1])


def accept(listener: socket.socket) -> tuple[TcpSocket, tuple[str, int]]:
    """Accept a connection; return its socket, which does not block, and the peer's address.

    `socket.accept` does the same and makes enums of two numbers on the way, which took 6 µs. Named
    as TCP, the socket gets TCP_NODELAY by either event loop.

    Raises:
        OSError: none waits, or the process has no room for it.
    """
    number, address = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    accepted = TcpSocket(listener.family, socket.SOCK_STREAM, socket.IPPROTO_TCP, number)
    accepted.setblocking(False)
    peer = peer_of(address)
    if is_loopback(peer[0]):
        bound_receive_buffer(accepted)
    return accepted, peer


def is_loopback(host: str) -> bool:
    """Return whether the address `host` is one of this machine's loopback."""
    return host.startswith("127.") or host == "::1"


def bound_receive_buffer(connected: socket.socket) -> None:
    """Keep the kernel from growing the buffer of a connection from this machine."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LOCAL_RECEIVE_BYTES)


def peer_of(address: tuple[str, int] | tuple[str, int, int, int]) -> tuple[str, int]:
    """Return host and port of an accepted `address`; an IPv4-mapped one as plain IPv4."""
    host, port = address[0], address[1]
    return host.removeprefix(_MAPPED) if "." in host else host, port


def host_in_url(host: str) -> str:
    """Return `host` in the form of URLs: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def reserve(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen, so that no other program can take the port.

    Raises:
        OSError: the address cannot be bound.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, port))
    except OSError:
        reserved.close()
        raise
    return reserved


def _listen(family: socket.AddressFamily, host: str, port: int, backlog: int) -> socket.socket:
    listener = TcpSocket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, max(port, 0)))
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
