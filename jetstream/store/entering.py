"""Many messages entered into the index at once: their rows, and the chains of their subjects."""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.message_index import Block, MessageIndex
from midge.jetstream.store.published import PublishedLines


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
        place = (seq - 1) & layout.MASK
        stretch = min(count, layout.SPAN - place)
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
    elif len(rows) < place * layout.ROW:
        numbers.resize(rows, place * layout.ROW)
    return numbers.grow_in_steps(rows, count * layout.ROW, layout.SPAN * layout.ROW)


def _write_rows(
    block: Block, place: int, lines: PublishedLines, first: int, count: int, fixed_bytes: int
) -> int:
    """Write `count` rows of one block; return what their messages count."""
    position = _begin_rows(block, place, count)
    rows = block.rows
    found = lines.rows
    total = 0
    for i in range(first, first + count):
        line = i * layout.LINE
        size = fixed_bytes + numbers.u32_at(found, line + layout.LINE_SUBJECT_LENGTH)
        size += numbers.u32_at(found, line + layout.LINE_PAYLOAD_LENGTH)
        numbers.set_u32_at(
            rows, position + layout.ROW_OFFSET, numbers.u32_at(found, line + layout.LINE_PLACE)
        )
        numbers.set_u32_at(rows, position + layout.ROW_SIZE, size)
        numbers.set_u32_at(
            rows, position + layout.ROW_SUBJECT, numbers.u32_at(found, line + layout.LINE_NUMBER)
        )
        numbers.set_u32_at(
            rows, position + layout.ROW_BEFORE, numbers.u32_at(found, line + layout.LINE_DISTANCE)
        )
        numbers.set_u32_at(rows, position + layout.ROW_AFTER, 0)
        position += layout.ROW
        total += size
    return total


def _link(
    index: MessageIndex, block: Block, lines: PublishedLines, first: int, count: int, seq: int
) -> None:
    """Note in the row of the message before each one, of its subject, how far away it is."""
    found = lines.rows
    before = block  # the block of the last message that was in another one than they are
    for i in range(first, first + count):
        line = i * layout.LINE
        distance = numbers.u32_at(found, line + layout.LINE_DISTANCE)
        number = (seq - distance - 1) >> layout.BITS
        holder = block
        if number != block.number:
            if number != before.number:
                before = index.block_number(index.block_at_or_after(seq - distance))
            holder = before
        place = (seq - distance - 1) & layout.MASK
        position = place * layout.ROW if holder.keys is None else holder.position(place)
        numbers.set_u32_at(holder.rows, position + layout.ROW_AFTER, distance)
        seq += 1
