"""Connecting to a remote through an HTTP proxy, which opens the connection for CONNECT."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from midge.server.peers.dial import dial, within

if TYPE_CHECKING:
    from midge.server.config.leafnodes import LeafProxy
    from midge.server.peers.dial import Address

_ANSWER_MAX_BYTES = 4096
_PIECE_BYTES = 65536

_relays: set[asyncio.Task[None]] = set()
"""What copies the bytes of connections to `https` proxies, until they end."""


async def dial_through(
    proxy: LeafProxy, address: Address, limit_s: float, loop: asyncio.AbstractEventLoop
) -> tuple[socket.socket, tuple[str, int]]:
    """Connect a socket to `proxy`, and have it connect to `address`, as nats-server does.

    TLS to the proxy itself is spoken here: the socket carries the bytes of the remote. The other
    result is the proxy's address.

    Raises:
        OSError: the proxy cannot be reached, refuses, or has not answered within `limit_s`.
        ValueError: the address cannot stand in a request.
    """
    url = urlsplit(proxy.url)
    is_encrypted = url.scheme == "https"
    port = url.port or (443 if is_encrypted else 80)
    request = _request(proxy, str(address))
    bare = await dial(loop, url.hostname or "", port, limit_s)
    host, number = bare.getpeername()[:2]
    try:
        async with within(limit_s, "no answer from the proxy"):
            if is_encrypted:
                bare = await _encrypt(bare, url.hostname or "")
            await loop.sock_sendall(bare, request)
            _check(await _read_answer(loop, bare))
    except BaseException:
        bare.close()
        raise
    return bare, (host, number)


def _request(proxy: LeafProxy, target: str) -> bytes:
    if not re.fullmatch(r"[!-~]+", target):
        raise ValueError(f"expected a host of visible ASCII characters, got {target!r}")
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", "User-Agent: midge"]
    if proxy.username:
        pair = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {pair}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _read_answer(loop: asyncio.AbstractEventLoop, bare: socket.socket) -> bytes:
    """Read up to the empty line, and no further: the link reads the bytes behind it."""
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n"):
        piece = await loop.sock_recv(bare, 1)
        if not piece:
            raise ConnectionError("the proxy closed the connection without an answer")
        answer += piece
        if len(answer) > _ANSWER_MAX_BYTES:
            raise ConnectionError(f"the proxy's answer is longer than {_ANSWER_MAX_BYTES} bytes")
    return bytes(answer)


def _check(answer: bytes) -> None:
    first = answer.partition(b"\r\n")[0].decode("latin-1")
    status = re.fullmatch(r"HTTP/1\.[01] (\d{3}.{,100})", first)
    if status is None:
        raise ConnectionError(f"expected an HTTP answer from the proxy, got {first[:60]!r}")
    if not status[1].startswith("200"):
        raise ConnectionError(f"proxy CONNECT failed: {status[1]}")


async def _encrypt(bare: socket.socket, host: str) -> socket.socket:
    """Speak TLS over `bare`; return a socket that carries the decrypted bytes.

    The link may begin TLS of its own on that socket, which asyncio does on sockets only.
    """
    try:
        reader, writer = await asyncio.open_connection(
            sock=bare, ssl=ssl.create_default_context(), server_hostname=host
        )
    except ssl.SSLError as error:
        raise ConnectionError(f"proxy TLS handshake failed: {error.reason}") from error
    inner, outer = socket.socketpair()
    inner.setblocking(False)
    other_reader, other_writer = await asyncio.open_connection(sock=outer)
    for source, target in ((reader, other_writer), (other_reader, writer)):
        relay = asyncio.create_task(_copy(source, target))
        _relays.add(relay)
        relay.add_done_callback(_relays.discard)
    return inner


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until either end closes."""
    try:
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
