"""Reads the files that nats-server keeps of a stream and its consumers besides the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from midge.jetstream.archive.entries import ArchiveError, json_members
from midge.jetstream.archive.nats_store.highway import HighwayHash
from midge.jetstream.config.names import SEQ_MAX

_STATE_MAGIC = 11
_STATE_VERSION = 4
_CONSUMER_MAGIC = 22
_SET_MAGIC = 22
_SECOND_NS = 10**9
_SUM = 8


Opener = Callable[[bytes], bytes]
"""Decrypts a file, see `keys.FileKey.open`."""


def read_meta(
    key: str, data: bytes, total: bytes, opener: Opener | None = None
) -> dict[str, msgspec.Raw]:
    """Return the members of a `meta.inf`; `total` is the content of its `meta.sum`.

    `key` is the stream's name, or stream and consumer with a slash between them. The checksum
    covers the file's bytes, encrypted or not.

    Raises:
        ArchiveError: the file is damaged.
    """
    if total and _sum(key, data).hex().encode() != total.strip():
        raise ArchiveError("its meta.inf is damaged: the checksum does not match")
    return json_members(opener(data) if opener is not None else data, "its meta.inf is no JSON")


class SequenceSet:
    """Sequences, as bits from multiples of a span on; a byte of the file has up to eight."""

    def __init__(self) -> None:
        self._nodes: dict[int, int] = {}
        self._span = 0

    def add(self, base: int, bits: int, span: int) -> None:
        """Add the sequences of a node.

        Raises:
            ArchiveError: it is not where a node can be.
        """
        if base % span or self._span not in (0, span) or base + span > SEQ_MAX:
            raise ArchiveError("its index is damaged")
        self._span = span
        self._nodes[base] = self._nodes.get(base, 0) | bits

    def __contains__(self, seq: object) -> bool:
        if not self._nodes or not isinstance(seq, int):
            return False
        place = seq % self._span
        return bool(self._nodes.get(seq - place, 0) >> place & 1)

    def spans(self) -> Iterator[range]:
        """Yield the ranges in which there are any."""
        for base in self._nodes:
            yield range(base, base + self._span)


class Index:
    """The sequences without a message, as an `index.db` lists them.

    The file is written when the server stops, and now and then; a sequence it lists stays deleted.
    `first_seq` is the stream's first sequence, `firsts` that of each block by its number, and
    `deleted` has those that were removed in between.
    """

    def __init__(self) -> None:
        self.first_seq = 0
        self.firsts: dict[int, int] = {}
        self.deleted = SequenceSet()


def read_index(stream: str, data: bytes, opener: Opener | None = None) -> Index:
    """Read an `index.db`; of a damaged or unknown one the result is empty."""
    if len(data) < _SUM or _sum(stream, data[:-_SUM]) != data[-_SUM:]:
        return Index()
    try:
        state = data[:-_SUM] if opener is None else opener(data[:-_SUM])
        if len(state) < 2 or state[0] != _STATE_MAGIC or not 1 <= state[1] <= _STATE_VERSION:
            return Index()
        return _read_index(_Numbers(state, 2), state[1])
    except ArchiveError:
        return Index()


def _read_index(numbers: _Numbers, version: int) -> Index:
    index = Index()
    numbers.skip(2)
    index.first_seq = numbers.unsigned()
    if index.first_seq > SEQ_MAX:
        raise ArchiveError("its index is damaged")
    numbers.skip(3)
    for _ in range(numbers.unsigned()):
        length = numbers.unsigned()
        if length:
            numbers.take(length)
            total = numbers.unsigned()
            numbers.skip(2 if total > 1 or version >= 4 else 1)
    for _ in range(numbers.unsigned()):
        block = numbers.unsigned()
        numbers.skip(1)
        index.firsts[block] = numbers.unsigned()
        numbers.skip(3)
        deleted = numbers.unsigned()
        numbers.skip(min(version - 1, 2))
        if deleted:
            _read_set(numbers, index.deleted)
    return index


def _read_set(numbers: _Numbers, into: SequenceSet) -> None:
    """Read a set of sequences: nodes of a tree, each with 32 or 64 words of bits."""
    magic, version = numbers.take(2)
    buckets = {1: 64, 2: 32}.get(version, 0)
    if magic != _SET_MAGIC or not buckets:
        raise ArchiveError("its index is damaged")
    count = int.from_bytes(numbers.take(8)[:4], "little")
    for _ in range(count):
        base = int.from_bytes(numbers.take(8), "little")
        bits = int.from_bytes(numbers.take(8 * buckets), "little")
        numbers.take(2)
        into.add(base, bits, 64 * buckets)


def read_consumer(data: bytes) -> dict[str, Any]:
    """Return what an `o.dat` says of positions and pending messages, as archives hold it.

    Raises:
        ArchiveError: the file is damaged.
    """
    if len(data) < 2 or data[0] != _CONSUMER_MAGIC or data[1] not in {1, 2}:
        raise ArchiveError("its state is damaged")
    version = data[1]
    numbers = _Numbers(data, 2)
    floor_consumer, floor, delivered_consumer, delivered = (numbers.unsigned() for _ in range(4))
    if version == 1:
        delivered_consumer += max(floor_consumer - 1, 0)
        delivered += max(floor - 1, 0)
    state: dict[str, Any] = {
        "delivered": {"consumer_seq": delivered_consumer, "stream_seq": delivered},
        "ack_floor": {"consumer_seq": floor_consumer, "stream_seq": floor},
        "pending": {},
        "redelivered": {},
    }
    count = numbers.unsigned()
    base = numbers.signed() if count else 0
    for _ in range(count):
        seq = numbers.unsigned() + floor
        consumer_seq = numbers.unsigned() + floor_consumer if version == 2 else 0
        time_s = numbers.signed()
        time_s = base - time_s if version == 2 else base + time_s
        if not 0 <= time_s * _SECOND_NS <= SEQ_MAX:
            raise ArchiveError("its state is damaged")
        state["pending"][str(seq)] = {"Sequence": consumer_seq, "Timestamp": time_s * _SECOND_NS}
    for _ in range(numbers.unsigned()):
        seq, times = numbers.unsigned(), numbers.unsigned()
        if seq and times:
            state["redelivered"][str(seq + floor)] = times
    return state


def _sum(key: str, data: bytes) -> bytes:
    """Return the checksum of a file, keyed by a name."""
    digest = sha256(key.encode("utf-8", "surrogateescape")).digest()
    return HighwayHash(digest).digest(data).to_bytes(_SUM, "little")


class _Numbers:
    """Go's varints, one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def skip(self, count: int) -> None:
        """Pass over numbers."""
        for _ in range(count):
            self.unsigned()

    def take(self, size: int) -> bytes:
        """Return bytes as they are."""
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ArchiveError("its state is damaged")
        self._at += size
        return taken

    def unsigned(self) -> int:
        """Return the next number; raises ArchiveError."""
        number = 0
        for shift in range(0, 70, 7):
            if self._at >= len(self._data):
                break
            octet = self._data[self._at]
            self._at += 1
            number |= (octet & 0x7F) << shift
            if octet < 0x80:
                if number >> 64:
                    break
                return number
        raise ArchiveError("its state is damaged")

    def signed(self) -> int:
        number = self.unsigned()
        return number >> 1 if not number & 1 else ~(number >> 1)
