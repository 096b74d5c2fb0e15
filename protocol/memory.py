"""The byte operations of the hot path.

This module is the interpreted twin of ``memory.pxd``, which has the same functions as one-line C
calls that the compiled modules inline. `data` is any byte buffer here and a plain pointer there, so
none of these functions checks bounds: callers must pass indices within the buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array


def is_compiled() -> bool:
    """Return whether the calling module is compiled."""
    return False


def starts_with(data: bytearray | bytes, start: int, end: int, prefix: bytes) -> bool:
    """Return whether `data` from `start` on, and before `end`, begins with `prefix`."""
    return data.startswith(prefix, start, end)


def find(data: bytearray, byte: int, start: int, end: int) -> int:
    """Return the index of the first `byte` in ``data[start:end]``, or -1."""
    return data.find(byte, start, end)


def token_end(data: bytearray, start: int, end: int) -> int:
    """Return the index of the first blank or control byte in ``data[start:end]``; `end` if none."""
    while start < end and data[start] > 0x20:
        start += 1
    return start


def take(data: bytearray, start: int, end: int) -> bytes:
    """Copy ``data[start:end]`` out as bytes."""
    return bytes(data[start:end])


def copy(target: bytearray, at: int, data: bytearray | bytes, start: int, end: int) -> None:
    """Copy ``data[start:end]`` into `target` at the index `at`."""
    target[at : at + end - start] = data[start:end]


def copy_bytes(target: bytearray, at: int, piece: bytes) -> None:
    """Copy all of `piece` into `target` at the index `at`."""
    target[at : at + len(piece)] = piece


def allocate(size: int) -> bytearray:
    """Return a new buffer of `size` bytes with undefined contents."""
    return bytearray(size)


def populate(data: bytearray, start: int, end: int) -> None:
    """Ask the system to allocate the pages of ``data[start:end]`` at once.

    It is a hint: a system without it, or with pages of more than 4 KiB, allocates each page at its
    first use, as it does for the interpreter, which has no way to ask.
    """


def same(data: bytearray, one: int, other: int, length: int) -> bool:
    """Return whether the `length` bytes of `data` from `one` on equal those from `other` on."""
    return data[one : one + length] == data[other : other + length]


def same_word(data: bytearray, one: int, other: int) -> bool:
    """Return whether the eight bytes of `data` from `one` on equal those from `other` on."""
    return data[one : one + 8] == data[other : other + 8]


def count_by_size(counts: array[int], size: int, number: int) -> None:
    """Add `number` to the item `n` of `counts` that counts sizes up to 4 ** n."""
    counts[(max(size - 1, 0).bit_length() + 1) >> 1] += number


def int32_items(column: array[int]) -> array[int]:
    """Return the items of an array of the type "i", which must keep its length from now on."""
    return column


def int64_items(column: array[int]) -> array[int]:
    """Return the items of an array of the type "q", which must keep its length from now on."""
    return column
