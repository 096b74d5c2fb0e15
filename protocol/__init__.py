"""The NATS wire protocol, sans-I/O: bytes to commands and commands to bytes.

No socket, clock or loop is in sight here.
"""

from midge.protocol.version import COMPATIBLE_VERSION

__all__ = ["COMPATIBLE_VERSION"]
