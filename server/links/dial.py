"""Connecting to another server: a socket, the first line that it says, and a transport."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.loop_adapter import forget, protocol_for
from midge.server.clients.state import State
from midge.server.listeners.sockets import bound_receive_buffer, is_loopback

if TYPE_CHECKING:
    import ssl

    from midge.server.links.link import Link
    from midge.server.listeners.websocket.client import WebSocketClient

LINE_MAX_BYTES = 1 << 20
"""Longest first line: a server's INFO may have lists of permissions and of addresses."""


async def dial(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """Connect a socket to the first of the addresses of a name that takes it."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for family, kind, protocol, _, where in found:
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


async def read_line(loop: asyncio.AbstractEventLoop, bare: socket.socket) -> bytes:
    """Read what comes up to the end of the first line, and what may have come behind it."""
    line = b""
    while b"\n" not in line:
        piece = await loop.sock_recv(bare, 65536)
        if not piece:
            raise ConnectionError("closed before INFO")
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
            async with asyncio.timeout(upgrade_timeout_s or None):
                await upgrade.upgraded
            if upgrade.failure:
                raise ConnectionError(upgrade.failure)
    except BaseException:
        if upgrade is not None:
            upgrade.give_up()
        had_no_transport = link.channel.state == State.CONNECTING
        link.close(ClosedReason.CLIENT_CLOSED)
        if had_no_transport:  # which would report its end
            link.channel.let_go()
            forget(protocol)
        bare.close()
        raise
