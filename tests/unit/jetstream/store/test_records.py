"""Checksums distinguish a record of the log from any other data."""

from __future__ import annotations

import zlib

from midge.jetstream.store.file import records

_BODY = b"what the record says"


def _sealed() -> bytearray:
    """Return a record at position 96 of segment 3."""
    length = records.HEAD + len(_BODY)
    data = bytearray(records.padded(length))
    records.start_record(data, 0, length, records.STREAM, 7, 1, 2)
    data[records.HEAD : length] = _BODY
    records.seal(data, len(data), 5, 3, 96)
    return data


def _look(data: bytearray, position: int = 96) -> tuple[bool, int]:
    """Return whether the head is whole, and how much of the record."""
    size = len(data)
    return (
        records.check_head(data, 0, size, 5, 3, position),
        records.check(data, 0, size, 5, 3, position),
    )


def test_a_whole_record_is_known() -> None:
    assert _look(_sealed()) == (True, 2)


def test_of_a_record_cut_off_the_head_is_known() -> None:
    data = _sealed()
    assert _look(data[: records.HEAD]) == (True, 1)
    assert _look(data[: records.HEAD - 1]) == (False, 0)


def test_a_record_belongs_to_its_place() -> None:
    assert _look(_sealed(), 104) == (False, 0)


def test_every_flipped_bit_is_found_where_it_is() -> None:
    whole = _sealed()
    for bit in range((records.HEAD + len(_BODY)) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        # The head's own checksum covers the body's checksum.
        assert _look(data) == ((False, 0) if bit // 8 < records.HEAD else (True, 1))


def _group(lengths: range) -> bytearray:
    """Return a sealed group at position 4096 of segment 3: a record for each length of a body."""
    data = bytearray(records.GROUP_HEAD)
    records.start_group(data, 9)
    for length in lengths:
        at = len(data)
        size = records.HEAD + length
        data += bytes(records.padded(size))
        records.start_record(data, at, size, records.STREAM, 7, length, 2)
        data[at + records.HEAD : at + size] = bytes(i * 7 + length & 255 for i in range(length))
    records.finish_group(data, len(data), len(lengths) + 1, 1, 2)
    records.seal(data, len(data), 5, 3, 4096)
    return data


def test_a_body_of_any_length_is_sealed_as_zlib_does() -> None:
    data = _group(range(700))
    at = records.GROUP_HEAD
    place = (3).to_bytes(8, "little")
    chain = zlib.crc32(place + (4096).to_bytes(8, "little"), 5)
    for length in range(700):
        seed = zlib.crc32(place + (4096 + at).to_bytes(8, "little"), 5)
        end = at + records.HEAD + length
        body = zlib.crc32(data[at + records.HEAD : end], seed)
        assert data[at + 4 : at + 8] == body.to_bytes(4, "little"), length
        head = zlib.crc32(data[at + 4 : at + records.HEAD], seed)
        assert data[at : at + 4] == head.to_bytes(4, "little"), length
        assert records.check(data, at, len(data), 5, 3, 4096 + at) == 2
        chain = zlib.crc32(data[at : at + 4], chain)
        at = records.GROUP_HEAD + sum(
            records.padded(records.HEAD + each) for each in range(length + 1)
        )
    assert data[60:64] == chain.to_bytes(4, "little")
    assert records.check(data, 0, len(data), 5, 3, 4096) == 2
