"""S2: blocks and streams, against bytes of nats-server's, and against everything else."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midge.jetstream.archive.framing import S2Reader, S2Writer
from midge.jetstream.archive.s2 import (
    BLOCK_MAX,
    Encoder,
    S2Error,
    checksum,
    checksum_by_tables,
    decode,
)
from tests.unit.jetstream.archive.samples import SNAPSHOT


def unpacked(data: bytes, step: int = 1 << 20) -> bytes:
    reader = S2Reader()
    out = bytearray()
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        while (block := reader.next_block()) is not None:
            out += block
    assert reader.left() == 0
    return bytes(out)


def packed(*pieces: bytes) -> bytes:
    writer = S2Writer()
    for piece in pieces:
        writer.write(piece)
    writer.finish()
    return writer.take()


def test_checksum_is_masked_crc32c() -> None:
    crc = 0xE3069283  # of these digits, by the CRC catalogue
    masked = ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
    assert checksum(b"123456789", 0, 9) == masked


def test_checksums_by_the_instruction_and_by_tables_are_those_of_octets() -> None:
    data = random.Random(1).randbytes(300)
    for start in range(9):
        for end in range(start, 300, 7):
            crc = 0xFFFFFFFF
            for octet in data[start:end]:
                crc ^= octet
                for _ in range(8):
                    crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
            crc ^= 0xFFFFFFFF
            masked = ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
            assert checksum(data, start, end) == checksum_by_tables(data, start, end) == masked


def test_long_checksums_by_the_instruction_and_by_tables_are_equal() -> None:
    """The instruction takes three parts of 1 KiB at once, the tables eight bytes at a time."""
    data = random.Random(2).randbytes(3 * 1024 * 5 + 100)
    for start in range(9):
        for size in (3071, 3072, 3073, 2 * 3072 + 11, 5 * 3072 - 1, len(data) - start):
            end = start + size
            assert checksum(data, start, end) == checksum_by_tables(data, start, end)


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_what_nats_server_compressed_comes_out(step: int) -> None:
    archive = unpacked(SNAPSHOT, step)
    assert archive.startswith(b"NATSARC1")
    assert b"abcdefgh" * 40_000 in archive
    assert archive.endswith(bytes(5))


@pytest.mark.parametrize(
    "block",
    [
        b"\x04\x0cabcd",
        b"\x08\x0cabcd\x01\x04",  # a copy of 4 from 4 back
        b"\x0a\x0cabcd\x09\x04",  # of 6, overlapping
        b"\x10\x0cabcd\x01\x04\x11\x00",  # then 8 more from the same offset
        b"\x15\x0cabcd\x01\x04\x15\x00\x05",  # and 13, with a length of its own
        b"\x08\x0cabcd\x0e\x04\x00",
        b"\x08\x0cabcd\x0f\x04\x00\x00\x00",
        b"\x04\xf0\x03abcd",
        b"\x04\xf4\x03\x00abcd",
    ],
)
def test_every_kind_of_element(block: bytes) -> None:
    expected = (b"abcd" * 10)[: block[0]]
    assert decode(block, 0, len(block), 100) == expected


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x80",
        b"\xff\xff\xff\xff\xff\x01",
        b"\x04",
        b"\x04\x0cabc",
        b"\x03\x0cabcd",
        b"\x05\x0cabcd",
        b"\x08\x0cabcd\x01\x05",  # from before the beginning
        b"\x08\x0cabcd\x01",
        b"\x08\x01\x00",  # nothing to repeat
        b"\x08\x0cabcd\x0e\x04",
        b"\x08\x0cabcd\x0f\xff\xff\xff\xff",
        b"\x08\xfc\xff\xff\xff\xffabcd",
        b"\x07\x0cabcd\x01\x04",
    ],
)
def test_a_damaged_block_is_refused(block: bytes) -> None:
    with pytest.raises(S2Error):
        decode(block, 0, len(block), 1 << 20)


def test_a_block_that_claims_too_much_is_refused() -> None:
    with pytest.raises(S2Error, match="claims 1048576 bytes, more than 100"):
        decode(b"\x80\x80\x40", 0, 3, 100)


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(S2Error):
        assert len(decode(data, 0, len(data), 1 << 16)) <= 1 << 16


def test_what_is_compressed_comes_out() -> None:
    rng = random.Random(3)
    encoder = Encoder()
    for letters in (1, 2, 20, 256):
        for size in (0, 1, 15, 16, 17, 100, 4096, 65_000, BLOCK_MAX):
            data = bytearray(rng.choices(range(letters), k=size))
            block = encoder.encode(data, 0, size)
            if block:
                assert decode(block, 0, len(block), BLOCK_MAX) == data
    assert encoder.encode(bytearray(b"word " * 1000), 0, 5000) != b""


@pytest.mark.parametrize("period", [*range(1, 40), 1000, 2047, 2048, 5000])
def test_what_repeats_comes_out(period: int) -> None:
    """Copies that overlap, of each length that is written in another way."""
    rng = random.Random(period)
    pattern = bytes(rng.choices(range(256), k=period))
    encoder = Encoder()
    for length in (*range(1, 90), 255, 263, 264, 265, 268, 300, 5000, 55_000):
        for behind in (b"", b"\0\1\2", bytes(range(40))):
            data = bytearray(pattern * (length // period + 2))[: period + length] + behind
            block = encoder.encode(data, 0, len(data))
            assert not block or decode(block, 0, len(block), BLOCK_MAX) == data


def test_a_block_is_the_same_wherever_it_begins() -> None:
    rng = random.Random(4)
    data = bytearray(b"".join(rng.choices([b"word", b"and", b"x" * 90, b"\0\1\2"], k=3000)))
    for size in (16, 100, 20_000):
        expected = Encoder().encode(data[700 : 700 + size], 0, size)
        assert Encoder().encode(data, 700, size) == expected
        if expected:
            assert decode(expected, 0, len(expected), size) == data[700 : 700 + size]


@given(st.lists(st.binary(max_size=300) | st.builds(lambda n: b"ab" * n, st.integers(0, 70_000))))
@settings(max_examples=40)
def test_a_stream_comes_out_as_it_went_in(pieces: list[bytes]) -> None:
    assert unpacked(packed(*pieces)) == b"".join(pieces)


def test_a_stream_that_is_none_is_refused() -> None:
    data = packed(b"hello" * 100)
    reader = S2Reader()
    reader.feed(b"\x00" + bytes(20))
    with pytest.raises(S2Error, match="this is no S2 stream"):
        reader.next_block()
    for at in range(10, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        reader = S2Reader()
        reader.feed(bytes(damaged))
        try:
            assert reader.next_block() is None or reader.left()
        except S2Error:
            continue


def test_chunks_that_may_be_skipped_are() -> None:
    data = packed(b"hello")
    assert unpacked(data[:10] + b"\x99\x03\x00\x00abc" + b"\xfe\x01\x00\x00\x00" + data[10:]) == (
        b"hello"
    )
    reader = S2Reader()
    reader.feed(data[:10] + b"\x02\x03\x00\x00abc")
    with pytest.raises(S2Error, match="unknown kind 2"):
        reader.next_block()
