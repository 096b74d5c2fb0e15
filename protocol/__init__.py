"""The NATS wire protocol, sans-I/O: bytes to commands and commands to bytes.

Nothing here uses a socket, a clock or an event loop.
"""

from midge.protocol.errors import MidgeError, ProtocolError
from midge.protocol.frame import Frame, compose
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound, SharedBuffer
from midge.protocol.parser import Parser
from midge.protocol.version import COMPATIBLE_VERSION

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
