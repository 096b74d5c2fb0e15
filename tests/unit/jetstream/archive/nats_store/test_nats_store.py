"""nats-server's files: checksums, blocks, consumers' states and the index, each damaged as well."""

from __future__ import annotations

from hashlib import sha256

import pytest

from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.archive.framing import S2Writer
from midge.jetstream.archive.nats_store.blocks import NatsBlock, RemovedSequences
from midge.jetstream.archive.nats_store.highway import HighwayHash
from midge.jetstream.archive.nats_store.metadata import (
    Index,
    read_consumer,
    read_index,
    read_meta,
)

ERASED = 1 << 63
TOMBSTONE = 1 << 62


def checksum(key: str, data: bytes) -> bytes:
    return HighwayHash(sha256(key.encode()).digest()).digest(data).to_bytes(8, "little")


def record(
    seq: int, payload: bytes = b"", headers: bytes = b"", subject: bytes = b"s", block: int = 1
) -> bytes:
    size = 22 + len(subject) + (4 + len(headers) if headers else 0) + len(payload) + 8
    length = (size | (1 << 31 if headers else 0)).to_bytes(4, "little")
    place = seq.to_bytes(8, "little") + (7).to_bytes(8, "little")
    head = length + place + len(subject).to_bytes(2, "little") + subject
    inner = len(headers).to_bytes(4, "little") + headers if headers else b""
    total = checksum(f"S-{block}", place + subject + headers + payload)
    return head + inner + payload + total


def seqs(*blocks: NatsBlock, index: Index | None = None) -> list[int]:
    gone = RemovedSequences(index or Index())
    for block in blocks:
        gone.take(block)
    return [one.seq for block in blocks for one in gone.left(block)]


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, 0x907A56DE22C26E53), (1, 0x7EAB43AAC7CDDD78), (2, 0xB8D0569AB0B53D62)],
)
def test_the_hash_is_that_of_its_authors(size: int, expected: int) -> None:
    """The first of the 64-bit results in the algorithm's own test."""
    assert HighwayHash(bytes(range(32))).digest(bytes(range(size))) == expected


def test_a_block_is_read() -> None:
    block = NatsBlock("S", 1, record(1, b"one") + record(2, b"two", b"NATS/1.0\r\n\r\n", b"a.b"))
    assert block.damages == []
    one, two = block.records
    assert (one.seq, one.subject, one.headers, one.payload) == (1, b"s", b"", b"one")
    assert (two.subject, two.headers, two.payload) == (b"a.b", b"NATS/1.0\r\n\r\n", b"two")
    assert two.time_ns == 7


def test_what_is_gone_is_left_out_wherever_that_is_said() -> None:
    first = NatsBlock("S", 1, record(1) + record(2) + record(3 | ERASED) + record(4))
    second = NatsBlock(
        "S",
        2,
        b"".join(record(seq, block=2) for seq in (5, 6, 2 | TOMBSTONE)),
    )
    assert seqs(first, second) == [1, 4, 5, 6]
    index = Index()
    index.deleted.add(0, 1 << 5, 2048)
    index.first_seq = 4
    assert seqs(first, second, index=index) == [4, 6]
    index = Index()
    index.firsts = {1: 4, 2: 6}
    assert seqs(first, second, index=index) == [4, 6]


def test_a_compressed_block_is_read() -> None:
    data = record(1, b"text " * 1000) + record(2)
    writer = S2Writer()
    writer.write(data[:-8])
    writer.finish()
    packed = b"cmp\x01" + b"\xff\x7f" + writer.take() + data[-8:]
    block = NatsBlock("S", 1, packed)
    assert (block.damages, [one.seq for one in block.records]) == ([], [1, 2])
    damaged = NatsBlock("S", 1, packed[:40] + bytes([packed[40] ^ 1]) + packed[41:])
    assert damaged.records == []
    assert damaged.damages != []


def test_every_flipped_bit_costs_at_most_what_it_hits() -> None:
    data = record(1, b"one") + record(2, b"two", b"NATS/1.0\r\n\r\n") + record(3, b"three")
    whole = NatsBlock("S", 1, data).records
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        block = NatsBlock("S", 1, bytes(damaged))
        assert block.damages, at
        assert set(block.records) < set(whole), at


def test_a_consumers_state() -> None:
    data = b"\x16\x02\x01\x01\x02\x03\x01\xee\x91\x94\xb0\r\x02\x01\x04\x00"  # of nats-server's
    state = read_consumer(data)
    assert state["delivered"] == {"consumer_seq": 2, "stream_seq": 3}
    assert state["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1}
    assert set(state["pending"]) == {"3"}
    assert state["pending"]["3"]["Sequence"] == 2
    assert state["pending"]["3"]["Timestamp"] // 10**9 in range(1_795_000_000, 1_796_000_000)
    for cut in range(len(data)):
        with pytest.raises(ArchiveError):
            read_consumer(data[:cut])
    with pytest.raises(ArchiveError):
        read_consumer(b"\x16\x03" + data[2:])


def test_metadata_is_checked() -> None:
    data = b'{"name":"S"}'
    total = checksum("S", data).hex().encode()
    assert {key: bytes(one) for key, one in read_meta("S", data, total).items()} == {"name": b'"S"'}
    assert list(read_meta("S", data, b"")) == ["name"]
    with pytest.raises(ArchiveError, match="checksum does not match"):
        read_meta("S", data + b" ", total)
    with pytest.raises(ArchiveError, match="no JSON"):
        read_meta("S", b"", b"")
    with pytest.raises(ArchiveError, match="Expected `object`"):
        read_meta("S", b"[]", b"")


def index_file(body: bytes, version: int = 4) -> bytes:
    data = bytes([11, version]) + body
    return data + checksum("S", data)


def test_the_index_is_read() -> None:
    deleted = b"\x16\x02" + (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
    base = len(deleted)
    deleted += (0).to_bytes(8, "little") + (0b1010 << 64).to_bytes(256, "little") + b"\x01\x00"
    subjects = b"\x01" + b"\x01s" + b"\x05\x01\x02"
    blocks = b"\x01" + b"\x03\x00\x04\x00\x09\x00\x02" + b"\x00\x00" + deleted
    body = b"\x05\x00\x04\x00\x09\x00" + subjects + blocks
    index = read_index("S", index_file(body))
    assert (index.first_seq, index.firsts) == (4, {3: 4})
    assert [seq for seq in range(5000) if seq in index.deleted] == [65, 67]
    assert list(index.deleted.spans()) == [range(2048)]
    for start in (7, 2**63, 2**64 - 2048):
        wrong = deleted[:base] + start.to_bytes(8, "little") + deleted[base + 8 :]
        assert read_index("S", index_file(body.replace(deleted, wrong))).firsts == {}
    for wrong in (b"", index_file(body)[:-1], index_file(body, 9), index_file(body[:20])):
        assert read_index("S", wrong).firsts == {}
