"""A record of the log is told from anything else by its checksums."""

from __future__ import annotations

from midge.jetstream.store.file import records

_BODY = b"what the record says"


def _sealed() -> bytearray:
    """Return a record at position 96 of segment 3."""
    length = records.HEAD + len(_BODY)
    data = bytearray(records.padded(length))
    records.start_record(data, 0, length, records.STREAM, 7, 1, 2)
    data[records.HEAD : length] = _BODY
    records.seal_one(data, 0, 5, 3, 96)
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
        # The head's own checksum covers that of the body.
        assert _look(data) == ((False, 0) if bit // 8 < records.HEAD else (True, 1))
