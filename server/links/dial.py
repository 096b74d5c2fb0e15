"""Connecting to another server, up to the first line that it says."""

from __future__ import annotations

import asyncio
import socket

from midge.server.listeners.sockets import bound_receive_buffer, is_loopback

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
