"""The addresses of routes: those in the settings, and those that other servers tell of."""

from __future__ import annotations

from midge.server.links.addresses import Address, split_url

DEFAULT_PORT = 6222
SCHEMES = ("nats-route", "nats", "tls")


def parse_address(url: str) -> Address:
    """Read the URL of a route, or a bare ``host[:port]``.

    Raises:
        ValueError: it is not an address; the message says why, without what may be a password.
    """
    return split_url(url, SCHEMES, DEFAULT_PORT, "a route")[1]
