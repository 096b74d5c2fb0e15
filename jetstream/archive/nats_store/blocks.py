"""Message blocks of nats-server: `msgs/N.blk`, records one after the other, perhaps compressed.

A record is its length (the top bit: it has headers), its sequence, its time and the length of its
subject, little-endian; the subject; with headers their length and they; the payload; a checksum.
The two top bits of a sequence mark entries without a message: one that was erased, or skipped, and
a tombstone, which says that a message of an earlier block is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from midge.jetstream.archive.framing import S2Reader
from midge.jetstream.archive.nats_store.highway import HighwayHash
from midge.jetstream.archive.nats_store.metadata import Index
from midge.jetstream.archive.s2 import S2Error

_HEAD = 22
_SUM = 8
_HAS_HEADERS = 1 << 31
_ERASED = 1 << 63
_TOMBSTONE = 1 << 62
_LENGTH_MAX = 32 << 20
_COMPRESSED = b"cmp"
_S2 = 1


class Record(NamedTuple):
    """A message of a block, or with `is_gone` a sequence that has none."""

    seq: int
    time_ns: int
    subject: bytes
    headers: bytes
    payload: bytes
    is_gone: bool
    is_tombstone: bool


class NatsRecords:
    """Cuts what a block holds, as it comes, into records; `damages` says what cannot be read."""

    def __init__(self, stream: str, index: int) -> None:
        self.index = index
        self.damages: list[str] = []
        key = sha256(f"{stream}-{index}".encode("utf-8", "surrogateescape")).digest()
        self._hash = HighwayHash(key)
        self._data = bytearray()
        self._begin = 0  # of the data, in the block
        self._at = 0

    def feed(self, data: bytes | bytearray) -> None:
        """Take more of the block."""
        if self._at:
            del self._data[: self._at]
            self._begin += self._at
            self._at = 0
        self._data += data

    def next_record(self) -> Record | None:
        """Return the next record that is whole and sound; None when more is needed."""
        while True:
            head = self._data[self._at : self._at + _HEAD]
            if len(head) < _HEAD:
                return None
            length = int.from_bytes(head[:4], "little")
            has_headers = bool(length & _HAS_HEADERS)
            length &= ~_HAS_HEADERS
            subject_size = int.from_bytes(head[20:], "little")
            least = _HEAD + subject_size + (4 if has_headers else 0) + _SUM
            if not least <= length <= _LENGTH_MAX:
                self._cut()
                return None
            if len(self._data) - self._at < length:
                return None
            data = bytes(self._data[self._at : self._at + length])
            self._at += length
            record = self._record(data, subject_size, has_headers=has_headers)
            if record is not None:
                return record

    def finish(self) -> None:
        """Report the rest of the input, after its last byte, as damage."""
        if self._at < len(self._data):
            self._cut()

    def _cut(self) -> None:
        """Drop the rest of the input: the beginnings of its records are unknown."""
        at = self._begin + self._at
        left = len(self._data) - self._at
        self.damages.append(f"block {self.index}: {left} bytes at {at} are no records")
        self._at = len(self._data)

    def _record(self, data: bytes, subject_size: int, *, has_headers: bool) -> Record | None:
        """Return the record that `data` is; None for a damaged one, which is noted."""
        middle = _HEAD + subject_size
        body = middle
        header_size = 0
        if has_headers:
            header_size = int.from_bytes(data[middle : middle + 4], "little")
            body += 4
        parts = data[4:20] + data[_HEAD:middle] + data[body:-_SUM]
        seq = int.from_bytes(data[4:12], "little")
        plain = seq & ~(_ERASED | _TOMBSTONE)
        at = self._begin + self._at - len(data)
        if self._hash.digest(parts) != int.from_bytes(data[-_SUM:], "little"):
            self.damages.append(f"block {self.index}: the message {plain} at {at} is damaged")
            return None
        if body + header_size > len(data) - _SUM:
            text = f"block {self.index}: the headers of message {plain} at {at} are cut"
            self.damages.append(text)
            return None
        return Record(
            plain,
            int.from_bytes(data[12:20], "little", signed=True),
            data[_HEAD:middle],
            data[body : body + header_size],
            data[body + header_size : -_SUM],
            bool(seq & (_ERASED | _TOMBSTONE)) or not plain,
            bool(seq & _TOMBSTONE),
        )


class NatsBlock:
    """One block, read: its records, and what of it cannot be read."""

    def __init__(self, stream: str, index: int, data: bytes) -> None:
        self.index = index
        self.records: list[Record] = []
        reader = NatsRecords(stream, index)
        self.damages = reader.damages
        try:
            reader.feed(_uncompressed(data))
        except S2Error as error:
            self.damages.append(f"block {index}: {error}")
        while (record := reader.next_record()) is not None:
            self.records.append(record)
        reader.finish()


def _uncompressed(data: bytes) -> bytes:
    """Return the records of a block without its compression; raises S2Error."""
    if len(data) < 5 or not data.startswith(_COMPRESSED):
        return data
    if data[3] != _S2:
        return data[_prefix(data) :]
    reader = S2Reader()
    reader.feed(data[_prefix(data) : -_SUM])  # behind it is the last record's checksum again
    out = bytearray()
    while (block := reader.next_block()) is not None:
        out += block
    if reader.left():
        raise S2Error("the compressed block is cut short")
    return bytes(out) + data[-_SUM:]


def _prefix(data: bytes) -> int:
    """Return the length of the head before the compressed records; raises S2Error."""
    for at in range(4, min(len(data), 4 + 10)):
        if data[at] < 0x80:
            return at + 1
    raise S2Error("the compressed block has no length")


class RemovedSequences:
    """Which sequences have no message, as all blocks of a stream together and its index say.

    A tombstone may lie in a later block than the message that it removes.
    """

    def __init__(self, index: Index) -> None:
        self.first_seq = index.first_seq
        self.last_seq = max(index.first_seq - 1, 0)
        self._firsts = index.firsts
        self._deleted = index.deleted
        self._seqs: set[int] = set()

    def take(self, block: NatsBlock) -> None:
        """Record the tombstones of a block, and its last sequence."""
        for record in block.records:
            if record.is_gone:
                self._seqs.add(record.seq)
            self.last_seq = max(self.last_seq, record.seq)

    def left(self, block: NatsBlock) -> Iterator[Record]:
        """Yield the messages of a block that are left."""
        first = max(self.first_seq, self._firsts.get(block.index, 0))
        for record in block.records:
            if record.is_gone or record.seq < first or record.seq in self._seqs:
                continue
            if record.seq not in self._deleted:
                yield record
