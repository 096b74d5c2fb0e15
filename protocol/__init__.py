"""The NATS wire protocol, sans-I/O: bytes to commands and commands to bytes.

Parsers, frames, headers, the errors of peers and the conventions of NATS clients belong here.
Nothing here uses a socket, a clock or an event loop, or decides what a client may do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.protocol.errors import MidgeError, ProtocolError
from midge.protocol.frame import Frame, compose
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound, SharedBuffer

if TYPE_CHECKING:
    from midge.protocol.parser import Parser

__all__ = [
    "COMPATIBLE_VERSION",
    "Frame",
    "Handler",
    "Inbound",
    "MidgeError",
    "Parser",
    "ProtocolError",
    "SharedBuffer",
    "compose",
]


COMPATIBLE_VERSION = "2.15.1"
"""The version of nats-server in INFO, from which clients derive the server's features."""


def __getattr__(name: str) -> Any:
    """Import the parser when it is first asked for: a server listens before it needs one."""
    if name == "Parser":
        from midge.protocol.parser import Parser  # noqa: PLC0415 - see above

        return Parser
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
