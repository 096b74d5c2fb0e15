"""The alert that gives a peer the reason why its TLS handshake failed.

asyncio and uvloop drop it: they close the socket before they write what OpenSSL had to say last. So
an SSL object of ours sends that itself, straight to the socket that the handshake is on. A listener
names this socket around the call that starts the handshake, and the loops run that call, and with
it `SSLContext.wrap_bio`, in a copy of the caller's context.
"""

from __future__ import annotations

import contextlib
import ssl
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

_ALERT_BYTES_MAX = 16 * 1024
"""A record at most: no handshake leaves more behind."""

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})
"""Failures of peers that do not speak TLS; nats-server does not answer them."""

_socket: ContextVar[socket.socket | None] = ContextVar("handshake_socket", default=None)


@contextlib.contextmanager
def alerting(accepted: socket.socket) -> Iterator[None]:
    """Send the alert of a handshake that starts meanwhile and fails to `accepted`."""
    token = _socket.set(accepted)
    try:
        yield
    finally:
        _socket.reset(token)


class AlertingSSLObject(ssl.SSLObject):
    """An SSL object that sends the alert of a failed handshake; for `sslobject_class`."""

    _outgoing: ssl.MemoryBIO
    _bare: socket.socket | None

    @classmethod
    def _create(
        cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **named: Any
    ) -> AlertingSSLObject:
        """Make one, as `ssl.SSLContext.wrap_bio` asks for it."""
        made: AlertingSSLObject = super()._create(  # type: ignore[misc]
            incoming, outgoing, *arguments, **named
        )
        made.watch(outgoing, _socket.get())
        return made

    def watch(self, outgoing: ssl.MemoryBIO, bare: socket.socket | None) -> None:
        """Take what an alert stands in, and where it goes."""
        self._outgoing = outgoing
        self._bare = bare

    def do_handshake(self) -> None:
        """Continue the handshake; if it fails, send the peer an alert with the reason.

        Raises:
            ssl.SSLError: it failed, or needs more bytes.
        """
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if error.reason not in _NO_TLS:
                self._send_alert()
            self._bare = None
            raise
        self._bare = None  # the transport has it; nothing of the handshake is left to say

    def _send_alert(self) -> None:
        """Send what OpenSSL has left, as far as the socket takes it at once."""
        left = self._outgoing.read(_ALERT_BYTES_MAX)
        if left and self._bare is not None:
            with contextlib.suppress(OSError):  # the peer does not read, or has gone
                self._bare.send(left)
