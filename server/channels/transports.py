"""Transports: what a channel needs of one, a socket before its transport, TLS, and the end."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any, Protocol

from midge.server.routing.outbound import OutputTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from midge.server.channels.host import Host
    from midge.server.clock import Timer

_LINGER_S = 0.25  # how long to read on after the last output, so that no reset drops it
_READ_BYTES = 64 * 1024


class Transport(OutputTransport, Protocol):
    """The methods of an asyncio transport that a channel uses."""

    def set_write_buffer_limits(self, *, high: int) -> None:
        """Set the number of waiting bytes at which the transport calls `pause_writing`."""

    def get_extra_info(self, name: str) -> Any:
        """Return a fact about the transport; None when it is not known."""

    def pause_reading(self) -> None:
        """Stop reading."""

    def resume_reading(self) -> None:
        """Resume reading."""

    def can_write_eof(self) -> bool:
        """Return whether one direction can be closed alone."""

    def write_eof(self) -> None:
        """Close the writing side once everything is written; reading continues."""

    def close(self) -> None:
        """Close, once everything is written."""

    def abort(self) -> None:
        """Close at once."""


class BareTransport:
    """Writes to a socket with nothing in its send buffer yet: PINGs and last words."""

    def __init__(self, bare_socket: socket.socket) -> None:
        self._socket = bare_socket

    def write(self, data: bytes | memoryview) -> None:
        """Send `data`, unless the peer has gone."""
        with contextlib.suppress(OSError):
            self._socket.send(data)

    def get_write_buffer_size(self) -> int:
        """Return 0: the socket has taken everything."""
        return 0


def shut(bare_socket: socket.socket) -> None:
    """Shut down both directions; the code that is making a transport of it reads the end."""
    with contextlib.suppress(OSError):
        bare_socket.shutdown(socket.SHUT_RDWR)


class GracefulClose:
    """Closes `transport`, to which everything has been written."""

    def __init__(self, host: Host, transport: Transport) -> None:
        self._host = host
        self._transport = transport
        self._timer: Timer | None = None

    def begin(self, *, has_words: bool) -> None:
        """Close; with `has_words`, close only the writing side first and read on.

        Closing with unread input would reset the connection, and the peer could lose an -ERR.
        """
        if not has_words or not self._transport.can_write_eof():
            self._close()
            return
        try:
            self._transport.write_eof()
        except OSError:
            self._close()
            return
        self._timer = self._host.clock.call_later(_LINGER_S, self._close)

    def end(self) -> None:
        """Cancel the timer: the transport is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        """Close, and abort if the peer does not take the last output within the write deadline.

        The connection has left `clients`, so no other timer would close it.
        """
        deadline_s = self._host.options.limits.write_deadline_s
        self._timer = self._host.clock.call_later(deadline_s, self._cut)
        self._transport.close()

    def _cut(self) -> None:
        self._host.limit_hits["last_words"] += 1
        self._transport.abort()


def rest_of_tls(tls: ssl.SSLObject | None) -> Iterator[bytes]:
    """Yield the data that `tls` has received and not delivered; nothing if it is None.

    There is such data if reading was paused. When the socket ends, uvloop and asyncio drop it, but
    the SSL object still has it: about 1 MiB at most.
    """
    try:
        while tls and (data := tls.read(_READ_BYTES)):
            yield data
    except (OSError, ValueError):
        return  # the end of the stream, orderly or not: TLS errors are OSErrors


def peer_certificate(tls: ssl.SSLObject | None) -> bytes:
    """Return the certificate that the peer has proven to own, in DER, or b"" without one."""
    return tls.getpeercert(binary_form=True) or b"" if tls else b""


def tls_facts(tls: ssl.SSLObject | None) -> tuple[str, str] | None:
    """Return version and cipher suite of TLS; None on a plain connection."""
    if not tls:
        return None
    suite = tls.cipher()
    return tls.version() or "", suite[0] if suite else ""


def peer_chain(tls: ssl.SSLObject | None) -> tuple[bytes, ...]:
    """Return the verified chain of the peer in DER, its own certificate first."""
    if tls is None:
        return ()
    if hasattr(tls, "get_verified_chain"):  # from Python 3.13 on
        return tuple(tls.get_verified_chain())
    inner: Any = getattr(tls, "_sslobj", None)
    if not hasattr(inner, "get_verified_chain"):
        own = tls.getpeercert(binary_form=True)
        return (own,) if own else ()
    from _ssl import ENCODING_DER  # noqa: PLC0415 - of TLS alone

    return tuple(one.public_bytes(ENCODING_DER) for one in inner.get_verified_chain() or ())
