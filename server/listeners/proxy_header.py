"""PROXY protocol, versions 1 and 2: the client's address, sent by a proxy ahead of all else.

A proxy such as haproxy connects in the place of its client and names it, in one line (version 1) or
a binary block (version 2). The header comes before TLS, HTTP and NATS, so it is read from the bare
socket, never a byte beyond it, and the server goes on as if the client had connected.
Which headers are valid is what nats-server 2.15.1 takes; unlike it, midge sends INFO behind the
header, so that INFO has the client's address and a TLS handshake may follow.

Source: https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from midge.platforms import add_reader, remove_reader
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clock import Clock, Timer

    Peer = tuple[str, int]
    Begin = Callable[[socket.socket, Peer], None]

HEADER_TIMEOUT_S = 5.0
"""Seconds that a proxy has for its header, as on nats-server."""

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_LINE_BEGIN = b"PROXY "
_LINE_MAX_BYTES = 107
_BLOCK_HEAD_BYTES = 16
_BLOCK_MAX_BYTES = 4096
"""The longest block of version 2 that is read, its additions (TLV) included."""

_ADDRESS_BYTES = {0x1: 4, 0x2: 16}
"""Bytes of an address of each family of version 2: IPv4 and IPv6."""

log = get_logger()


class HeaderError(ValueError):
    """A header that is malformed, or of a kind that a NATS server cannot serve."""


class Header:
    """The part of a header that has been read; `source` is the client's address when it names one.

    A header for a connection of the proxy itself, such as a health check, names none.
    """

    def __init__(self) -> None:
        self.source: tuple[str, int] | None = None
        self._data = b""

    def read(self, accepted: socket.socket) -> bool:
        """Read on from a socket that does not block; return True at the header's end.

        Raises:
            HeaderError: it is no header, or the peer has closed the connection within it.
            OSError: the connection is broken.
        """
        try:
            while (wanted := self._wanted(accepted)) > 0:
                piece = accepted.recv(wanted)
                if not piece:
                    raise HeaderError("the connection ended within the header")
                self._data += piece
        except BlockingIOError:
            return False
        is_block = self._data.startswith(_SIGNATURE)
        self.source = _source_of_block(self._data) if is_block else _source_of_line(self._data)
        return True

    def _wanted(self, accepted: socket.socket) -> int:
        """Return how many bytes to read next, all of the header; 0 when it is complete."""
        data = self._data
        size = len(data)
        if size < len(_LINE_BEGIN) and (
            _LINE_BEGIN.startswith(data) or _SIGNATURE.startswith(data)
        ):
            return len(_LINE_BEGIN) - size  # no header is shorter
        if data.startswith(_LINE_BEGIN):
            if data.endswith(b"\n"):
                return 0
            if size >= _LINE_MAX_BYTES:
                raise HeaderError(f"a line of more than {_LINE_MAX_BYTES} bytes")
            ahead = accepted.recv(_LINE_MAX_BYTES - size, socket.MSG_PEEK)
            return ahead.find(b"\n") + 1 or max(len(ahead), 1)
        if not _SIGNATURE.startswith(data[: len(_SIGNATURE)]):
            raise HeaderError("neither version 1 nor version 2 of the PROXY protocol")
        return (_block_bytes(data) if size >= _BLOCK_HEAD_BYTES else _BLOCK_HEAD_BYTES) - size


def _source_of_line(line: bytes) -> Peer | None:
    """Return the address in a header of version 1; None for a connection of the proxy's own."""
    if not line.endswith(b"\r\n"):
        raise HeaderError("a line that does not end with CR LF")
    try:
        _, family, *rest = line[:-2].decode("ascii").split(" ")
        if family == "UNKNOWN":
            return None
        source, destination, source_port, destination_port = rest
        addresses = [ipaddress.ip_address(one) for one in (source, destination)]
        ports = [int(one) for one in (source_port, destination_port) if one.isdecimal()]
    except ValueError:
        raise HeaderError("expected TCP4 or TCP6, two addresses and two ports") from None
    version = {"TCP4": 4, "TCP6": 6}.get(family)
    if any(one.version != version for one in addresses):
        raise HeaderError(f"{family} with addresses of another family")
    if len(ports) < 2 or max(ports) > 0xFFFF:
        raise HeaderError("expected ports from 0 to 65535")
    return str(addresses[0]), ports[0]


def _block_bytes(head: bytes) -> int:
    """Return the size of a header of version 2, of which `head` has arrived."""
    version, command = head[12] >> 4, head[12] & 0xF
    size = _BLOCK_HEAD_BYTES + int.from_bytes(head[14:16], "big")
    if version != 2:
        raise HeaderError(f"version {version} of the binary header")
    if command > 1:
        raise HeaderError(f"command {command}")
    if size > _BLOCK_MAX_BYTES:
        raise HeaderError(f"a block of {size} bytes, more than {_BLOCK_MAX_BYTES}")
    if command:
        if head[13] & 0xF != 1:
            raise HeaderError("another transport than a stream")
        width = _ADDRESS_BYTES.get(head[13] >> 4)
        if width is None:
            raise HeaderError(f"address family {head[13] >> 4}")
        if size < _BLOCK_HEAD_BYTES + 2 * width + 4:
            raise HeaderError("a block too short for its addresses")
    return size


def _source_of_block(block: bytes) -> Peer | None:
    """Return the address in a header of version 2; None for a connection of the proxy's own."""
    if not block[12] & 0xF:
        return None
    width = _ADDRESS_BYTES[block[13] >> 4]
    address = ipaddress.ip_address(block[_BLOCK_HEAD_BYTES : _BLOCK_HEAD_BYTES + width])
    at = _BLOCK_HEAD_BYTES + 2 * width
    return str(address), int.from_bytes(block[at : at + 2], "big")


def is_proxy(host: str, addresses: tuple[str, ...]) -> bool:
    """Return whether connections from `host` begin with a header; from any, without addresses."""
    if not addresses:
        return True
    address = ipaddress.ip_address(host.partition("%")[0])
    return any(address in network for network in networks_of(addresses))


@lru_cache(maxsize=8)
def networks_of(
    addresses: tuple[str, ...],
) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return addresses and networks such as `10.0.0.0/8` in the form that is compared.

    Raises:
        ValueError: one of them is neither.
    """
    return [ipaddress.ip_network(one, strict=False) for one in addresses]


class AwaitedHeaders:
    """The connections of proxies whose headers have not arrived."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[socket.socket, Timer] = {}

    def take(self, accepted: socket.socket, proxy: Peer, begin: Begin, most: int) -> None:
        """Read the header of a connection, and begin it with the address of the client.

        A connection without a valid header in time is closed without an answer, and so is one that
        would wait while `most` others do.
        """
        header = Header()
        if self._is_read(accepted, proxy, header, begin):
            return
        if len(self._waiting) >= most:
            accepted.close()
            return
        loop = asyncio.get_running_loop()
        self._waiting[accepted] = self._clock.call_later(
            HEADER_TIMEOUT_S, self._refuse, accepted, proxy, "no header in time"
        )
        add_reader(loop, accepted, partial(self._is_read, accepted, proxy, header, begin))

    def close(self) -> None:
        """Close all that wait."""
        for accepted in list(self._waiting):
            self._forget(accepted)
            accepted.close()

    def _is_read(self, accepted: socket.socket, proxy: Peer, header: Header, begin: Begin) -> bool:
        """Read on; return True when there is no more to wait for."""
        try:
            if not header.read(accepted):
                return False
        except (HeaderError, OSError) as error:
            self._refuse(accepted, proxy, str(error))
            return True
        self._forget(accepted)
        begin(accepted, header.source or proxy)
        return True

    def _refuse(self, accepted: socket.socket, proxy: Peer, error: str) -> None:
        self._forget(accepted)
        accepted.close()
        log.warning("proxy_header_refused", peer=f"{proxy[0]}:{proxy[1]}", error=error)

    def _forget(self, accepted: socket.socket) -> None:
        timer = self._waiting.pop(accepted, None)
        if timer is not None:
            timer.cancel()
            remove_reader(asyncio.get_running_loop(), accepted)
