"""The addresses of routes: those in the settings, and those that other servers tell of."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

DEFAULT_PORT = 6222
SCHEMES = ("nats-route", "nats", "tls")


class Address(NamedTuple):
    """Where another server is, and who we are there."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a URL, without user and password."""
        return f"nats-route://{self}"


def parse_address(url: str) -> Address:
    """Read the URL of a route, or a bare ``host[:port]``.

    Raises:
        ValueError: it is none; the message says why, without what may be a password.
    """
    parts = urlsplit(url if "://" in url else f"nats-route://{url}")
    if parts.scheme not in SCHEMES:
        raise ValueError(f"expected one of {', '.join(SCHEMES)} before ://, got {parts.scheme!r}")
    if not parts.hostname:
        raise ValueError("expected a host in the URL of a route")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Address(parts.hostname, _port_of(parts), user, password)


def _port_of(parts: SplitResult) -> int:
    try:
        return parts.port or DEFAULT_PORT
    except ValueError:
        raise ValueError("expected a port number from 1 to 65535 in the URL of a route") from None
