"""A subject where it lies in a read buffer: copied out, compared, and mixed into a number.

This module is the interpreted twin of ``octets.pxd``: there the same functions are C, which the
compiled modules inline. `data` is any byte buffer here and a plain pointer there, so none of them
checks bounds.
"""

# What four words hold is compared without a look at the bytes object: no word in this twin.
WORDS_MIN = 1
WORDS_MAX = 0


def take(data: bytearray | bytes, start: int, end: int) -> bytes:
    """Copy ``data[start:end]`` out as bytes."""
    return bytes(data[start:end])


def equals(piece: bytes, data: bytearray | bytes, start: int, end: int) -> bool:
    """Tell whether `piece` is what ``data[start:end]`` holds."""
    return data[start:end] == piece


def digest(data: bytearray | bytes, start: int, end: int) -> int:
    """Mix ``data[start:end]`` into an integer, 0 or more; equal bytes give equal ones."""
    return hash(bytes(data[start:end])) & 0x7FFF_FFFF


def word(data: bytearray | bytes, at: int) -> int:
    """Give the eight bytes at `at` as an integer."""
    return int.from_bytes(data[at : at + 8], "little")
