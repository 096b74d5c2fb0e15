"""One connection to another server: its address, a socket, TLS, its first line, and why it fails.

dialler.py makes the attempts, one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from midge.server.channels.channel_state import ChannelState
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.loop_adapter import forget, protocol_for
from midge.server.listeners.sockets import bound_receive_buffer, host_in_url, is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from midge.server.listeners.websocket.client import WebSocketClient
    from midge.server.peers.link import Link

LINE_MAX_BYTES = 1 << 20
"""Longest first line: a server's INFO may have lists of permissions and of addresses."""

ENDED = "the other server closed the connection before the link was up"
"""The failure of a link whose end has no other reason."""

NO_INFO = "no INFO, as where a server expects TLS first"
"""The failure of a link whose other server sends nothing."""

_TLS_CAUSES = {
    "CERTIFICATE_REQUIRED": "the other server requires a client certificate",
    "BAD_CERTIFICATE": "the other server requires a client certificate, or refuses this one",
    "UNKNOWN_CA": "the other server does not know the authority of this server's certificate",
    "WRONG_VERSION_NUMBER": "the other server does not speak TLS at this port",
    "RECORD_LAYER_FAILURE": "the other server does not speak TLS at this port",
    "PACKET_LENGTH_TOO_LONG": "the other server does not speak TLS at this port",
}
"""Causes, by a part of OpenSSL's reason."""


ROUTE_PORT = 6222
LEAF_PORT = 7422
"""The ports of routes and of leaf nodes where a URL names none."""

ROUTE_SCHEMES = ("nats-route", "nats", "tls")
LEAF_SCHEMES = ("nats-leaf", "nats", "tls", "leaf", "ws", "wss")
"""The schemes of URLs; the last two of a leaf node's are of a WebSocket."""

Place = int | str
"""Which route to a server it is: its index in the pool, or the account that it is dedicated to."""


class Address(NamedTuple):
    """The address of another server, and the credentials for it."""

    host: str
    port: int
    user: str = ""
    password: str = ""
    is_encrypted: bool = False
    path: str | None = None
    """Where a WebSocket is, a path; None without one."""

    def __str__(self) -> str:
        return f"{host_in_url(self.host)}:{self.port}"


def parse_route_address(url: str) -> Address:
    """Read the URL of a route, or a bare ``host[:port]``.

    Raises:
        ValueError: it is not an address; the message says why, without what may be a password.
    """
    return _split_url(url, ROUTE_SCHEMES, ROUTE_PORT, "a route")[1]


def parse_leaf_address(url: str) -> Address:
    """Read the URL of a remote, likewise.

    Raises:
        ValueError: likewise.
    """
    parts, address = _split_url(url, LEAF_SCHEMES, LEAF_PORT, "a remote")
    is_websocket = parts.scheme in {"ws", "wss"}
    return address._replace(
        is_encrypted=parts.scheme in {"tls", "wss"},
        path=parts.path.rstrip("/") + "/leafnode" if is_websocket else None,
    )


def _split_url(
    url: str, schemes: Sequence[str], default_port: int, of: str
) -> tuple[SplitResult, Address]:
    """Read the URL `of` something; a bare ``host[:port]`` is of the first of `schemes`."""
    parts = urlsplit(url if "://" in url else f"{schemes[0]}://{url}")
    if parts.scheme not in schemes:
        raise ValueError(f"expected one of {', '.join(schemes)} before ://, got {parts.scheme!r}")
    if not parts.hostname:
        raise ValueError(f"expected a host in the URL of {of}")
    try:
        port = parts.port or default_port
    except ValueError:
        raise ValueError(f"expected a port number from 1 to 65535 in the URL of {of}") from None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return parts, Address(parts.hostname, port, user, password)


def cause_of(error: BaseException) -> str:
    """Return in a sentence why a link is not up."""
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return ENDED
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other server is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return next(
            (text for part, text in _TLS_CAUSES.items() if part in reason), f"TLS: {reason}"
        )
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


@contextlib.asynccontextmanager
async def within(limit_s: float, missing: str) -> AsyncIterator[None]:
    """Limit the time of the block; 0 is no limit.

    Raises:
        TimeoutError: the time has passed; the message is `missing`.
    """
    try:
        async with asyncio.timeout(limit_s or None):
            yield
    except TimeoutError as error:
        raise TimeoutError(missing) from error


async def dial(
    loop: asyncio.AbstractEventLoop, host: str, port: int, limit_s: float
) -> socket.socket:
    """Connect a socket to the first of the addresses of a name that takes it.

    Raises:
        OSError: none does, or none has within `limit_s`; 0 is no limit.
    """
    async with within(limit_s, "no answer to the connection attempt"):
        return await _dial(loop, host, port)


async def _dial(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    failure: OSError | None = None
    for family, kind, protocol, _, where in await _find(loop, host, port):
        bare = socket.socket(family, kind, protocol)
        bare.setblocking(False)
        try:
            await loop.sock_connect(bare, where)
            bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if is_loopback(str(where[0])):
                bound_receive_buffer(bare)
        except OSError as error:
            bare.close()
            failure = error
        except BaseException:
            bare.close()
            raise
        else:
            return bare
    raise failure or OSError(f"{host} has no address")


async def _find(loop: asyncio.AbstractEventLoop, host: str, port: int) -> Sequence[Any]:
    """Return the addresses of a name, as `getaddrinfo`; a numeric one needs no thread."""
    with contextlib.suppress(socket.gaierror):
        flags = socket.AI_NUMERICHOST
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def read_line(loop: asyncio.AbstractEventLoop, bare: socket.socket) -> bytes:
    """Read up to the end of the first line, and the bytes that have arrived behind it."""
    line = b""
    while b"\n" not in line:
        piece = await loop.sock_recv(bare, 65536)
        if not piece:
            raise ConnectionError(NO_INFO)
        line += piece
        if len(line) > LINE_MAX_BYTES:
            raise ValueError(f"expected INFO, got more than {LINE_MAX_BYTES} bytes")
    return line


async def attach(
    link: Link,
    bare: socket.socket,
    host: str,
    tls: ssl.SSLContext | None,
    tls_timeout_s: float,
    upgrade: WebSocketClient | None = None,
    upgrade_timeout_s: float = 0.0,
) -> None:
    """Make a transport of the connected socket `bare` for `link`, by TLS with a context `tls`.

    `host` is the name that the certificate must have. With `upgrade`, the connection becomes a
    WebSocket. The time limits are None or 0 where there is none.

    Raises:
        OSError: it cannot be; `link` and the socket are closed.
        TimeoutError: likewise, a time limit has passed.
    """
    loop = asyncio.get_running_loop()
    if upgrade is None:
        link.channel.bare_socket = bare
    protocol = upgrade or protocol_for(loop, link.channel)
    try:
        await loop.create_connection(
            lambda: protocol,
            sock=bare,
            ssl=tls,
            server_hostname=host if tls else None,
            ssl_handshake_timeout=(tls_timeout_s or None) if tls else None,
        )
        if upgrade is not None:
            async with within(upgrade_timeout_s, "no answer to the upgrade to a WebSocket"):
                await upgrade.upgraded
            if upgrade.failure:
                raise ConnectionError(upgrade.failure)
    except BaseException:
        if upgrade is not None:
            upgrade.give_up()
        had_no_transport = link.channel.state == ChannelState.CONNECTING
        link.close(ClosedReason.CLIENT_CLOSED)
        if had_no_transport:  # which would report its end
            link.channel.dispose()
            forget(protocol)
        bare.close()
        raise
