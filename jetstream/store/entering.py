"""Many messages entered into the index at once: their rows, and the chains of their subjects."""

from __future__ import annotations

from midge.jetstream.store import numbers
from midge.jetstream.store.message_index import Block, MessageIndex
from midge.jetstream.store.published import (
    DISTANCE_AT,
    LINE_BYTES,
    NUMBER_AT,
    PAYLOAD_LENGTH_AT,
    PLACE_AT,
    SUBJECT_LENGTH_AT,
    PublishedLines,
)

_LINE = LINE_BYTES  # C numbers where this is compiled
_LENGTH = SUBJECT_LENGTH_AT
_PAYLOAD_SIZE = PAYLOAD_LENGTH_AT
_NUMBER = NUMBER_AT
_PLACE = PLACE_AT
_DISTANCE = DISTANCE_AT

_ROW = 20  # of message_index
_OFFSET = 0
_SIZE = 4
_SUBJECT = 8
_BEFORE = 12
_AFTER = 16
_BITS = 10
_SPAN = 1 << _BITS
_MASK = _SPAN - 1


def enter_lines(
    index: MessageIndex,
    lines: PublishedLines,
    first: int,
    count: int,
    seq: int,
    time_ns: int,
    fixed_bytes: int,
) -> int:
    """Make rows for `count` messages from number `first` of `lines` on, the first of them `seq`.

    A message counts `fixed_bytes` towards the stream's bytes besides its parts. Returns what they
    count together.
    """
    total = 0
    while count > 0:
        place = (seq - 1) & _MASK
        stretch = min(count, _SPAN - place)
        block = index.tail_for(seq, time_ns)
        total += _write_rows(block, place, lines, first, stretch, fixed_bytes)
        _link(index, block, lines, first, stretch, seq)
        seq += stretch
        first += stretch
        count -= stretch
    return total


def _begin_rows(block: Block, place: int, count: int) -> int:
    """Make rows for `count` places from `place` on, after all others; return where they begin."""
    block.live += count
    rows = block.rows
    if block.keys is not None:
        for i in range(place, place + count):
            numbers.set_u16(block.keys, numbers.grow(block.keys, 2) >> 1, i)
    elif len(rows) < place * _ROW:
        numbers.resize(rows, place * _ROW)
    return numbers.grow(rows, count * _ROW)


def _write_rows(
    block: Block, place: int, lines: PublishedLines, first: int, count: int, fixed_bytes: int
) -> int:
    """Write `count` rows of one block; return what their messages count."""
    position = _begin_rows(block, place, count)
    rows = block.rows
    found = lines.rows
    total = 0
    for i in range(first, first + count):
        line = i * _LINE
        size = fixed_bytes + numbers.u32_at(found, line + _LENGTH)
        size += numbers.u32_at(found, line + _PAYLOAD_SIZE)
        numbers.set_u32_at(rows, position + _OFFSET, numbers.u32_at(found, line + _PLACE))
        numbers.set_u32_at(rows, position + _SIZE, size)
        numbers.set_u32_at(rows, position + _SUBJECT, numbers.u32_at(found, line + _NUMBER))
        numbers.set_u32_at(rows, position + _BEFORE, numbers.u32_at(found, line + _DISTANCE))
        numbers.set_u32_at(rows, position + _AFTER, 0)
        position += _ROW
        total += size
    return total


def _link(
    index: MessageIndex, block: Block, lines: PublishedLines, first: int, count: int, seq: int
) -> None:
    """Note in the row of the message before each one, of its subject, how far away it is."""
    found = lines.rows
    for i in range(first, first + count):
        line = i * _LINE
        distance = numbers.u32_at(found, line + _DISTANCE)
        number = (seq - distance - 1) >> _BITS
        if block.number != number:
            block = index.block_number(index.block_at_or_after(seq - distance))
        position = block.position((seq - distance - 1) & _MASK)
        numbers.set_u32_at(block.rows, position + _AFTER, distance)
        seq += 1
