"""The addresses of other servers, as URLs in the settings or told by a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from midge.server.listeners.sockets import host_in_url

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def split_url(
    url: str, schemes: Sequence[str], default_port: int, of: str
) -> tuple[SplitResult, Address]:
    """Read the URL `of` something, or a bare ``host[:port]``, which is of the first of `schemes`.

    Raises:
        ValueError: it is not an address; the message says why, without what may be a password.
    """
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
