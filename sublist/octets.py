"""A subject in place in a read buffer: copied out, compared, and hashed.

This module is the interpreted twin of ``octets.pxd``: there the same functions are C, which the
compiled modules inline. `data` is any byte buffer here and a plain pointer there, so none of them
checks bounds.
"""

# The compiled twin compares up to four words without touching the bytes object; this one has none.
WORDS_MIN = 1
WORDS_MAX = 0


def take(data: bytearray | bytes, start: int, end: int) -> bytes:
    """Copy ``data[start:end]`` out as bytes."""
    return bytes(data[start:end])


def equals(piece: bytes, data: bytearray | bytes, start: int, end: int) -> bool:
    """Tell whether `piece` equals ``data[start:end]``."""
    return data[start:end] == piece


def digest(data: bytearray | bytes, start: int, end: int) -> int:
    """Hash ``data[start:end]`` to an integer, 0 or more."""
    return hash(bytes(data[start:end])) & 0x7FFF_FFFF


def word(data: bytearray | bytes, at: int) -> int:
    """Return the eight bytes at `at` as an integer."""
    return int.from_bytes(data[at : at + 8], "little")
