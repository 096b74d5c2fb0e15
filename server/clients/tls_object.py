"""Read an SSL object after its transport is gone; asyncio's closed transports forget it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

_READ_BYTES = 64 * 1024


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
