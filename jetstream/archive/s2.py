"""Blocks of S2 and Snappy, and CRC-32C: what the compressed formats of nats-server are made of.

S2 is Snappy with two additions that `decode` understands: a copy with offset 0 repeats the last
offset, and its length may be long. `encode` writes plain Snappy, which is valid S2. Google's Snappy
describes its format in `format_description.txt`, klauspost/compress what S2 adds.
"""

from __future__ import annotations

from midge.jetstream.archive import crc32c
from midge.jetstream.store import numbers
from midge.jetstream.store.numbers import BytesLike
from midge.protocol.errors import MidgeError

BLOCK_MAX = 64 * 1024
"""Most bytes that `encode` takes at once: offsets fit 16 bits, a block takes well below 1 ms."""

_HASH_BITS = 14
_HASH_BITS_MIN = 8  # a block has as many slots as bytes, because clearing them takes time as well
_HASH_FACTOR = 0x1E35A7BD
_WORD = 0xFFFFFFFF
_MARGIN = 15  # bytes at the end of a block that are not searched, as in Snappy
_SIZE_DIGITS_MAX = 5
_CRC_MASK = 0xA282EAD8

crc32c.prepare()


class S2Error(MidgeError):
    """Compressed data is damaged, or no S2 at all."""


def checksum(data: BytesLike, start: int, end: int) -> int:
    """Return the CRC-32C of ``data[start:end]``, masked as Snappy's framing format wants it."""
    crc = crc32c.crc32c(data, start, end, False)
    return ((crc >> 15 | crc << 17 & _WORD) + _CRC_MASK) & _WORD


def checksum_by_tables(data: BytesLike, start: int, end: int) -> int:
    """Return the same, as on processors that have no instruction for it."""
    crc = crc32c.crc32c(data, start, end, True)
    return ((crc >> 15 | crc << 17 & _WORD) + _CRC_MASK) & _WORD


def decoded_size(data: BytesLike, start: int, end: int) -> int:
    """Return how long the block in ``data[start:end]`` is decoded.

    Raises:
        S2Error: the block does not begin with a length.
    """
    size = 0
    for i in range(start, min(end, start + _SIZE_DIGITS_MAX)):
        octet = data[i]
        size |= (octet & 0x7F) << 7 * (i - start)
        if octet < 0x80:
            return size
    raise S2Error("a compressed block does not begin with its length")


def decode(data: BytesLike, start: int, end: int, size_max: int) -> bytearray:
    """Return what the block in ``data[start:end]`` holds, of `size_max` bytes at most.

    Raises:
        S2Error: the block is damaged.
    """
    size = decoded_size(data, start, end)
    if size > size_max:
        raise S2Error(f"a compressed block claims {size} bytes, more than {size_max}")
    return _Decoder(size).run(data, start, end)


class _Decoder:
    """Decodes one block of `size` bytes: `at` is how far it has read, `done` how far written."""

    __slots__ = ("at", "done", "offset", "out", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.out = bytearray(size)
        self.at = 0
        self.done = 0
        self.offset = 0

    def run(self, data: BytesLike, start: int, end: int) -> bytearray:
        """Return what ``data[start:end]``, which begins with the block's length, holds."""
        self.at = start
        while data[self.at] >= 0x80:
            self.at += 1
        self.at += 1
        while self.at < end:
            tag = data[self.at]
            kind = tag & 3
            self.at += 1
            if kind == 0:
                self._literal(data, end, tag >> 2)
            elif kind == 1:
                self._near(data, end, tag)
            else:
                self.offset = self._number(data, end, 2 if kind == 2 else 4)
                self._repeat((tag >> 2) + 1)
        if self.done != self.size:
            raise _damaged()
        return self.out

    def _number(self, data: BytesLike, end: int, count: int) -> int:
        """Read a number of `count` bytes, little-endian."""
        if self.at + count > end:
            raise _damaged()
        number = 0
        for i in range(count):
            octet = data[self.at + i]
            number |= octet << 8 * i
        self.at += count
        return number

    def _literal(self, data: BytesLike, end: int, length: int) -> None:
        """Take bytes as they are; from 60 on `length` says how many bytes hold the length."""
        if length >= 60:
            length = self._number(data, end, length - 59)
        length += 1
        if length > end - self.at or length > self.size - self.done:
            raise _damaged()
        numbers.put(self.out, self.done, data, self.at, self.at + length)
        self.at += length
        self.done += length

    def _near(self, data: BytesLike, end: int, tag: int) -> None:
        """Copy from nearby, or, where the offset is 0, from the last one."""
        distance = (tag & 0xE0) << 3 | self._number(data, end, 1)
        length = tag >> 2 & 7
        if distance:
            self.offset = distance
        elif length == 5:
            length = self._number(data, end, 1) + 4
        elif length == 6:
            length = self._number(data, end, 2) + 256
        elif length == 7:
            length = self._number(data, end, 3) + 65536
        self._repeat(length + 4)

    def _repeat(self, length: int) -> None:
        """Repeat the bytes that lie `offset` bytes back; the two ranges may overlap."""
        offset = self.offset
        if offset <= 0 or offset > self.done or length > self.size - self.done:
            raise _damaged()
        out = self.out
        while length > offset:
            numbers.put(out, self.done, out, self.done - offset, self.done)
            self.done += offset
            length -= offset
            offset *= 2
        numbers.put(out, self.done, out, self.done - offset, self.done - offset + length)
        self.done += length


def _damaged() -> S2Error:
    return S2Error("a compressed block is damaged")


class Encoder:
    """Compresses blocks; it keeps its hash table from one to the next."""

    __slots__ = ("_heads", "_out", "_used")

    def __init__(self) -> None:
        self._heads = bytearray(2 << _HASH_BITS)
        self._out = bytearray()
        self._used = 0

    def encode(self, data: bytearray, start: int, size: int) -> bytes:
        """Return the block of `size` bytes from `start` on, which are `BLOCK_MAX` at most.

        It is empty where compressing would save less than an eighth.
        """
        assert size <= BLOCK_MAX
        if len(self._out) < size + size // 6 + 32:
            self._out = bytearray(size + size // 6 + 32)
        self._used = 0
        rest = size
        while rest >= 0x80:
            self._put(rest & 0x7F | 0x80, 1)
            rest >>= 7
        self._put(rest, 1)
        end = start + size
        literal = self._compress(data, start, end) if size > _MARGIN else start
        if literal < end:
            self._literal(data, literal, end)
        return numbers.take(self._out, 0, self._used) if self._used < size - size // 8 else b""

    def _compress(self, data: bytearray, start: int, end: int) -> int:
        """Write literals and copies; return where the last literal, not yet written, begins."""
        heads = self._heads
        bits = _HASH_BITS_MIN
        while bits < _HASH_BITS and 1 << bits < end - start:
            bits += 1
        numbers.resize(heads, 0)
        numbers.resize(heads, 2 << bits)
        shift = 32 - bits
        limit = end - _MARGIN
        literal = start
        at = start + 1
        tried = 32
        while at < limit:
            word = numbers.u32_at(data, at)
            slot = (word * _HASH_FACTOR & _WORD) >> shift
            candidate = start + numbers.u16(heads, slot)
            numbers.set_u16(heads, slot, at - start)
            if numbers.u32_at(data, candidate) != word:
                at += tried >> 5
                tried += 1
                continue
            length = 4 + numbers.common(data, candidate + 4, at + 4, end)
            if literal < at:
                self._literal(data, literal, at)
            self._copies(at - candidate, length)
            at += length
            literal = at
            tried = 32
        return literal

    def _put(self, value: int, size: int) -> None:
        """Write a number of `size` bytes; room for four is always left."""
        numbers.set_u32_at(self._out, self._used, value)
        self._used += size

    def _literal(self, data: bytearray, start: int, end: int) -> None:
        length = end - start - 1
        if length < 60:
            self._put(length << 2, 1)
        elif length < 256:
            self._put(60 << 2 | length << 8, 2)
        else:
            self._put(61 << 2 | length << 8, 3)
        numbers.put(self._out, self._used, data, start, end)
        self._used += end - start

    def _copies(self, offset: int, length: int) -> None:
        """Write a copy, in pieces where it is longer than 64 bytes."""
        while length >= 68:
            self._copy(offset, 64)
            length -= 64
        if length > 64:
            self._copy(offset, 60)
            length -= 60
        if length < 12 and offset < 2048 and length >= 4:
            self._put(offset >> 8 << 5 | (length - 4) << 2 | 1 | (offset & 0xFF) << 8, 2)
        else:
            self._copy(offset, length)

    def _copy(self, offset: int, length: int) -> None:
        self._put((length - 1) << 2 | 2 | offset << 8, 3)
