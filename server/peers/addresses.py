"""The addresses of other servers, as URLs in the settings or told by a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from midge.server.listeners.sockets import host_in_url

if TYPE_CHECKING:
    from collections.abc import Sequence

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
