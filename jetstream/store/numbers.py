"""Unsigned numbers kept in a bytearray, little-endian: as compact as a C array, and plain bytes.

This module is the interpreted twin of ``numbers.pxd``: there the same functions are one-line C
loads and stores, which the compiled modules inline. Indices count numbers, positions count bytes.
Callers keep to what they have grown. Bytes outside raise IndexError here and end a process whose
modules were built with `MIDGE_BOUNDSCHECK=1`; other builds do not look.
"""

BytesLike = bytes | bytearray


def u16(data: bytearray, index: int) -> int:
    """Return the 16-bit number number `index`."""
    return int.from_bytes(take(data, index * 2, index * 2 + 2), "little")


def set_u16(data: bytearray, index: int, value: int) -> None:
    """Set the 16-bit number number `index`."""
    put(data, index * 2, value.to_bytes(2, "little"), 0, 2)


def u32(data: bytearray, index: int) -> int:
    """Return the 32-bit number number `index`."""
    return u32_at(data, index * 4)


def set_u32(data: bytearray, index: int, value: int) -> None:
    """Set the 32-bit number number `index`."""
    set_u32_at(data, index * 4, value)


def u32_at(data: bytearray, position: int) -> int:
    """Return the 32-bit number that begins at byte `position`."""
    return int.from_bytes(take(data, position, position + 4), "little")


def word(data: BytesLike, position: int) -> int:
    """Return the 32-bit number that begins at byte `position` of any buffer."""
    return int.from_bytes(data[position : position + 4], "little")


def set_u32_at(data: bytearray, position: int, value: int) -> None:
    """Set the 32-bit number that begins at byte `position`."""
    put(data, position, value.to_bytes(4, "little"), 0, 4)


def u64_at(data: bytearray, position: int) -> int:
    """Return the 64-bit number that begins at byte `position`."""
    return int.from_bytes(take(data, position, position + 8), "little")


def u48_at(data: bytearray, position: int) -> int:
    """Return the 48-bit number that begins at byte `position`, which has two bytes behind it."""
    return int.from_bytes(take(data, position, position + 8), "little") & 0xFFFFFFFFFFFF


def set_u64_at(data: bytearray, position: int, value: int) -> None:
    """Set the 64-bit number that begins at byte `position`."""
    put(data, position, value.to_bytes(8, "little"), 0, 8)


def plus(one: int, other: int) -> int:
    """Return the sum of two 32-bit numbers, of which the carry is lost."""
    return one + other & 0xFFFFFFFF


def minus(one: int, other: int) -> int:
    """Return the difference of two 32-bit numbers, or what `plus` makes the first one of."""
    return one - other & 0xFFFFFFFF


def bit_length(value: int) -> int:
    """Return how many bits a number of 64 bits has without its leading zeros."""
    return value.bit_length()


def product(one: int, other: int) -> int:
    """Return the product of two 64-bit numbers, of which the upper half is lost."""
    return one * other & 0xFFFFFFFFFFFFFFFF


def resize(data: bytearray, size: int) -> None:
    """Make `data` `size` bytes long; added bytes are zero."""
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def grow(data: bytearray, size: int) -> int:
    """Make `data` `size` bytes longer; return where they begin. They must be written before use."""
    before = len(data)
    data.extend(bytes(size))
    return before


def grow_in_steps(data: bytearray, size: int, most: int) -> int:  # noqa: ARG001 - of C
    """Do what `grow` does, and reserve room for as much again, up to `most` bytes together."""
    return grow(data, size)


def put(target: bytearray, position: int, data: BytesLike, start: int, end: int) -> None:
    """Copy ``data[start:end]`` into `target` at byte `position`."""
    _expect(target, position, position + end - start)
    target[position : position + end - start] = data[start:end]


def put_short(
    target: bytearray, position: int, data: BytesLike, start: int, end: int, data_end: int
) -> None:
    """Do what `put` does; in C up to 16 bytes are copied as 16 where both have as many.

    What `target` has behind them is lost; `data` ends at `data_end`.
    """
    assert end <= data_end
    put(target, position, data, start, end)


def repeat(data: bytearray, position: int, offset: int, length: int) -> None:
    """Write `length` bytes at byte `position`, each as the one `offset` bytes before it.

    What `data` has behind them may be lost.
    """
    while length > offset:
        put(data, position, data, position - offset, position)
        position += offset
        length -= offset
        offset *= 2
    put(data, position, data, position - offset, position - offset + length)


def take(data: bytearray, start: int, end: int) -> bytes:
    """Copy ``data[start:end]`` out."""
    _expect(data, start, end)
    return bytes(data[start:end])


def move(data: bytearray, target: int, start: int, end: int) -> None:
    """Copy ``data[start:end]`` to byte `target` of the same buffer; the two may overlap."""
    put(data, target, take(data, start, end), 0, end - start)


def is_same(data: bytearray, position: int, other: BytesLike, start: int, end: int) -> bool:
    """Return whether ``other[start:end]`` stands in `data` at byte `position`."""
    return take(data, position, position + end - start) == other[start:end]


def common(data: bytearray, one: int, other: int, end: int) -> int:
    """Return how many bytes from `other` to `end` are those from `one` on, which lies before."""
    at = other
    while at < end and data[at] == data[one + at - other]:
        at += 1
    return at - other


def seeded_hash(data: BytesLike, start: int, end: int, seed: int) -> int:
    """Return a 32-bit hash of ``data[start:end]``, unpredictable without the seed."""
    return hash((seed, bytes(data[start:end]))) & 0xFFFFFFFF


def _expect(data: bytearray, start: int, end: int) -> None:
    if not 0 <= start <= end <= len(data):
        raise IndexError(f"bytes {start} to {end} of {len(data)}")
