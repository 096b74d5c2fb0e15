"""The stream form of S2: chunks, each with its kind, its length and the checksum of what it holds.

Snappy's `framing_format.txt` describes it; S2 only has a larger largest block, and another name in
the first chunk. Only what nats-server writes and reads lives here: no padding is written, no index.
"""

from __future__ import annotations

from midge.jetstream.archive.s2 import BLOCK_MAX, Encoder, S2Error, checksum, decode
from midge.jetstream.store import numbers

_MAGIC = b"\xff\x06\x00\x00S2sTwO"
_MAGICS = (b"S2sTwO", b"sNaPpY")
_COMPRESSED = 0x00
_PLAIN = 0x01
_FIRST_SKIPPED = 0x80
_IDENTIFIER = 0xFF
_HEAD = 4
_BLOCK_LIMIT = 4 << 20
"""The largest block that S2 allows."""

_CHUNK_LIMIT = _BLOCK_LIMIT + (_BLOCK_LIMIT // 6) + 32


class S2Writer:
    """Compresses its input, or only frames it. `take` returns the output that is ready so far.

    A caller may write into `block` at the index that `room` returns, and then calls `wrote`.
    """

    def __init__(self) -> None:
        self._encoder = Encoder()
        self.block = bytearray(2 * BLOCK_MAX)
        self.compresses = True
        self._used = 0
        self._out = [_MAGIC]
        self.ready_bytes = len(_MAGIC)
        """Size of the bytes that `take` would return."""

    def write(self, data: bytes) -> None:
        """Add `data` to the input."""
        size = len(data)
        at = self.room(size)
        numbers.put(self.block, at, data, 0, size)
        self.wrote(size)

    def room(self, size: int) -> int:
        """Make room for `size` bytes in `block`; return their index."""
        end = self._used + size
        if end > len(self.block):
            numbers.grow(self.block, end - len(self.block))
        return self._used

    def wrote(self, size: int) -> None:
        """Add the `size` bytes at the index of `room` to the input."""
        self._used += size
        if self._used >= BLOCK_MAX:
            self._write_blocks()

    def finish(self) -> None:
        """Compress the rest of the input."""
        if self._used:
            self._write_block(0, self._used)
            self._used = 0

    def take(self) -> bytes:
        """Return the bytes that are ready, once."""
        out = b"".join(self._out)
        self._out.clear()
        self.ready_bytes = 0
        return out

    def _write_blocks(self) -> None:
        """Compress all whole blocks."""
        at = 0
        while self._used - at >= BLOCK_MAX:
            self._write_block(at, BLOCK_MAX)
            at += BLOCK_MAX
        numbers.move(self.block, 0, at, self._used)
        self._used -= at
        if len(self.block) > 2 * BLOCK_MAX:  # for a large message
            numbers.resize(self.block, 2 * BLOCK_MAX)

    def _write_block(self, start: int, size: int) -> None:
        crc = checksum(self.block, start, start + size).to_bytes(4, "little")
        body = self._encoder.encode(self.block, start, size) if self.compresses else b""
        kind = _COMPRESSED if body else _PLAIN
        if not body:
            body = numbers.take(self.block, start, start + size)
        head = bytes([kind]) + (len(body) + 4).to_bytes(3, "little") + crc
        self._out += (head, body)
        self.ready_bytes += len(head) + len(body)


class S2Reader:
    """Cuts a stream into chunks and returns what they hold, one at a time."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._has_begun = False

    def check_begin(self, octet: int) -> None:
        """Check the first octet of a chunk: a stream begins with its identifier.

        Raises:
            S2Error: it does not.
        """
        if not self._has_begun and octet != _IDENTIFIER:
            raise S2Error("this is no S2 stream")

    def feed(self, data: bytes) -> None:
        """Take more of the stream."""
        self._data += data

    def left(self) -> int:
        """Return how many bytes are left over; 0 where the stream may end."""
        return len(self._data)

    def next_block(self) -> bytes | bytearray | None:
        """Return what the next chunk holds; None when it is not there as a whole yet.

        Raises:
            S2Error: the stream is damaged, or no S2.
        """
        while end := chunk_end(self._data, 0, len(self._data)):
            chunk = bytes(self._data[:end])
            del self._data[:end]
            block = self.open(chunk)
            if block is not None:
                return block
        return None

    def open(self, chunk: bytes) -> bytes | bytearray | None:
        """Return what a whole chunk of the stream holds; None for one without data.

        Raises:
            S2Error: the stream is damaged, or no S2.
        """
        kind, body = chunk[0], chunk[_HEAD:]
        if kind == _IDENTIFIER and body in _MAGICS:
            self._has_begun = True
        elif not self._has_begun:
            raise S2Error("this is no S2 stream")
        elif kind in {_COMPRESSED, _PLAIN}:
            return _unpack(kind, body)
        elif kind < _FIRST_SKIPPED or kind == _IDENTIFIER:
            raise S2Error(f"the compressed stream has a chunk of the unknown kind {kind}")
        return None


def chunk_end(data: bytearray, start: int, end: int) -> int:
    """Return where the chunk at `start` ends; 0 if ``data[start:end]`` has only a part of it.

    Raises:
        S2Error: the chunk is too long.
    """
    if end - start < _HEAD:
        return 0
    length = int.from_bytes(data[start + 1 : start + _HEAD], "little")
    if length > _CHUNK_LIMIT:
        raise S2Error("a chunk of the compressed stream is too long")
    after = start + _HEAD + length
    return after if after <= end else 0


def _unpack(kind: int, chunk: bytes) -> bytes | bytearray:
    """Return what a chunk holds, checked."""
    if len(chunk) < _HEAD:
        raise S2Error("a chunk of the compressed stream is too short")
    if kind == _PLAIN:
        block: bytes | bytearray = chunk[_HEAD:]
    else:
        block = decode(chunk, _HEAD, len(chunk), _BLOCK_LIMIT)
    if checksum(block, 0, len(block)) != int.from_bytes(chunk[:_HEAD], "little"):
        raise S2Error("a chunk of the compressed stream is damaged: its checksum does not match")
    return block
