"""Addresses in the settings: `host:port`, with the port left out where it has a default.

As Go's `net.SplitHostPort`, which nats-server uses: an IPv6 address stands in brackets.
"""

from __future__ import annotations

import re

PORT_MAX = 65535
_PORT = r"[+-]?[0-9]{1,9}"
_HOST = r"\[([^\[\]]*)\]|([^:\[\]]*)"


def split_address(text: str) -> tuple[str, str | None]:
    """Return host, without brackets, and port of `text`; None for a port that is left out.

    Raises:
        ValueError: `text` has another form.
    """
    found = re.fullmatch(rf"(?:{_HOST})(?::([^:\[\]]*))?", text, re.DOTALL)
    if found is None:
        raise ValueError("expected host:port, with an IPv6 host in brackets")
    bracketed, bare, port = found.groups()
    return bracketed or bare or "", port


def advertised_address(text: str, default_host: str, default_port: int) -> tuple[str, int]:
    """Return the host and port that `text`, a host or `host:port`, gives others to connect to.

    The defaults replace an empty host, and a port that is missing, 0 or -1.

    Raises:
        ValueError: `text` is no such address.
    """
    host, port = split_address(text)
    if port is None:
        return host.strip() or default_host, default_port
    if not re.fullmatch(_PORT, port.strip()) or not -1 <= int(port) <= PORT_MAX:
        raise ValueError(f"expected a port number up to {PORT_MAX}")
    number = int(port)
    return host.strip() or default_host, number if number > 0 else default_port
