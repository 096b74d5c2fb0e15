"""A NATS client of bare lines, for what an official client would never do."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from midge.protocol.client_side import connect_line, read_info

TIMEOUT_S = 60.0


class Raw:
    """One connection; all that it reads is kept in `received`, but for the server's PINGs.

    The first of these comes 2 s after the connection, and so, on a busy machine, among any answer.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.info: dict[str, Any] = {}
        self.received = b""

    @classmethod
    async def open(
        cls, url: str, tls: ssl.SSLContext | None = None, *, is_tls_first: bool = False
    ) -> Raw:
        """Connect and read INFO, before or after the TLS handshake if there is one."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        raw = socket.socket()
        raw.setblocking(False)
        await loop.sock_connect(raw, (parts.hostname, parts.port))
        line = b"" if is_tls_first else await _read_line(raw)
        # A fresh stream, for StreamWriter.start_tls leaves the reader on the old transport.
        host = "" if tls is not None else None
        made = cls(
            *await asyncio.open_connection(sock=raw, ssl=tls, server_hostname=host, limit=1 << 22)
        )
        made.read_info(line or await made._reader.readline())
        return made

    def read_info(self, line: bytes) -> None:
        assert line.startswith(b"INFO "), line
        self.info = read_info(line[5:])

    def tls_detail(self, name: str) -> Any:
        """Return what the TLS transport knows under `name`."""
        return self._writer.get_extra_info(name)

    async def connect(self, **options: Any) -> bytes:
        """Send CONNECT and PING; return the input until PONG, or until the end."""
        fields = {"verbose": False, "pedantic": False, "headers": True, **options}
        return await self.ask(connect_line(fields).removesuffix(b"\r\n"))

    async def ask(self, *lines: bytes) -> bytes:
        """Send `lines` and a PING; return the input before the PONG, or until the end."""
        self.send(*lines, b"PING")
        return await self.until_pong()

    def send(self, *lines: bytes) -> None:
        self._writer.write(b"".join(line + b"\r\n" for line in lines))

    async def until_pong(self) -> bytes:
        start = len(self.received)
        async with asyncio.timeout(TIMEOUT_S):
            while line := await self._line():
                if line == b"PONG\r\n":
                    return self.received[start : -len(line)]
        return self.received[start:]

    async def until_end(self) -> bytes:
        """Return the input until the server closes."""
        start = len(self.received)
        async with asyncio.timeout(TIMEOUT_S):
            while await self._line():
                continue
        return self.received[start:]

    async def until(self, text: bytes) -> bytes:
        """Return the input up to the line with `text`."""
        start = len(self.received)
        async with asyncio.timeout(TIMEOUT_S):
            while line := await self._line():
                if text in line:
                    return self.received[start:]
        raise AssertionError(f"{text!r} did not come, but {self.received[start:]!r}")

    def pause(self) -> None:
        """Read nothing more."""
        self._writer.transport.pause_reading()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except OSError:
            return b""
        if line != b"PING\r\n":
            self.received += line
        return line


async def _read_line(raw: socket.socket) -> bytes:
    """Read one line, and nothing after it, from a bare socket."""
    loop = asyncio.get_running_loop()
    line = b""
    async with asyncio.timeout(TIMEOUT_S):
        while not line.endswith(b"\n"):
            piece = await loop.sock_recv(raw, 1)
            assert piece, "closed before INFO"
            line += piece
    return line
