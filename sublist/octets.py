"""Copy, compare and hash a subject in place in a read buffer.

This module is the interpreted twin of ``octets.pxd``, which has the same functions in C for the
compiled modules to inline. `data` is any byte buffer here and a plain pointer there, so none of
them checks bounds.
"""


def take(data: bytearray | bytes, start: int, end: int) -> bytes:
    """Copy ``data[start:end]`` out as bytes."""
    return bytes(data[start:end])


def equals(piece: bytes, data: bytearray | bytes, start: int, end: int) -> bool:
    """Return whether `piece` equals ``data[start:end]``."""
    return data[start:end] == piece


def digest(data: bytearray | bytes, start: int, end: int) -> int:
    """Hash ``data[start:end]`` to an integer, 0 or more."""
    return hash(bytes(data[start:end])) & 0x7FFF_FFFF
