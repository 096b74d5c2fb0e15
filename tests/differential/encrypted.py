"""A TLS client that reads what a server said even when the server resets the connection.

nats-server answers a refused certificate with an alert and closes at once; what the client still
sends is then answered by a reset. A client whose socket does the TLS meets the reset when it
writes, and never comes to read the alert, which has arrived. So here TLS is apart from the socket:
a write that fails is forgotten, and reading goes on.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

_READ_BYTES = 1 << 16

T = TypeVar("T")


class EncryptedClient:
    """A handshake on `sock`, and the data after it; the socket's owner closes the socket.

    Raises:
        ssl.SSLError: the server sent an alert, or something that is no TLS.
        OSError: the connection ended without.
    """

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._finish(self._tls.do_handshake)

    def version(self) -> str | None:
        """Return the protocol's version."""
        return self._tls.version()

    def sendall(self, data: bytes) -> None:
        """Send `data`; a connection that is reset is found by reading."""
        self._tls.write(data)
        self._flush()

    def recv(self, count: int) -> bytes:
        """Return at most `count` bytes, none at the end."""
        return self._finish(lambda: self._tls.read(count))

    def _finish(self, step: Callable[[], T]) -> T:
        """Return what `step` returns, once enough has come for it."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._flush()
                piece = self._sock.recv(_READ_BYTES)
                self._incoming.write(piece) if piece else self._incoming.write_eof()
            finally:
                self._flush()

    def _flush(self) -> None:
        with contextlib.suppress(ConnectionError):
            self._sock.sendall(self._outgoing.read())
