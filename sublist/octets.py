"""A subject in place in a read buffer: copied out, compared, and hashed.

This module is the interpreted twin of ``octets.pxd``: there the same functions are C, which the
compiled modules inline. `data` is any byte buffer here and a plain pointer there, so none of them
checks bounds.
"""


def take(data: bytearray | bytes, start: int, end: int) -> bytes:
    """Copy ``data[start:end]`` out as bytes."""
    return bytes(data[start:end])


def equals(piece: bytes, data: bytearray | bytes, start: int, end: int) -> bool:
    """Tell whether `piece` equals ``data[start:end]``."""
    return data[start:end] == piece


def digest(data: bytearray | bytes, start: int, end: int) -> int:
    """Hash ``data[start:end]`` to an integer, 0 or more."""
    return hash(bytes(data[start:end])) & 0x7FFF_FFFF
