"""Positions of the numbers in the rows of the index, which several modules read and write.

The rows of a block of messages stand in one bytearray, behind a head that says how they are packed.
Each of the five fields of row ``i`` is ``base + step * i + deviation``, modulo 2**32, and only the
deviation is stored, in as many bits as the largest one of the block needs. In plain rows, as of
the block that is being filled, `base` and `step` are zero and each deviation has 32 bits, so that a
field can also be written as a number at its position. A row whose size deviates by zero holds no
message; then its other fields have no meaning.

This module is the interpreted twin of ``layout.pxd``, where the positions are C constants and the
functions are inlined: compiled code would load a module's variable again for each access to a row.
"""

from midge.jetstream.store import numbers

LINE = 28  # bytes of a published line's row: seven numbers of 32 bits
LINE_SUBJECT = 0  # where its subject begins
LINE_SUBJECT_LENGTH = 4
LINE_PAYLOAD = 8  # where its payload begins
LINE_PAYLOAD_LENGTH = 12
LINE_NUMBER = 16  # the number of the subject
LINE_PLACE = 20  # where the message is stored
LINE_DISTANCE = 24  # how far before it the last one of its subject is

ROW = 20  # bytes of a message's plain row: five numbers of 32 bits
ROW_OFFSET = 0  # in its segment or chunk, bytes
ROW_SIZE = 4  # what the message counts towards the stream's bytes; no deviation: no message
ROW_SUBJECT = 8
ROW_BEFORE = 12  # sequences back to the message before it of its subject; 0: it is the first
ROW_AFTER = 16  # sequences on to the next one; 0: it is the last

HEAD = 88  # bytes before the first row; its description of a field begins at four times the field
HEAD_STEP = 4  # behind the base
HEAD_MASK = 8  # the largest deviation
HEAD_START = 12  # where in the row it begins, in bits
HEAD_END = 14  # where the byte after it begins that it does not reach, in bits, at most
HEAD_BITS = 80  # the bits of a row

MOST_ADDED = 57  # bits that `add_bits` can write, from any bit of a byte on

SUBJECT = 40  # bytes of a subject's row: four numbers of 64 bits, two of 32
SUBJECT_NAME = 0  # where its name begins
SUBJECT_COUNT = 8
SUBJECT_FIRST = 16
SUBJECT_LAST = 24
SUBJECT_HASH = 32
SUBJECT_LENGTH = 36  # of its name

BITS = 10  # of a sequence: its place in its block
SPAN = 1 << BITS
MASK = SPAN - 1


def plain_rows() -> bytearray:
    """Return a head of plain rows, and no row."""
    rows = bytearray(HEAD)
    for field in range(0, ROW, 4):
        describe(rows, field, 0, 0, 32, field * 8)
    numbers.set_u32_at(rows, HEAD_BITS, ROW * 8)
    return rows


def describe(rows: bytearray, field: int, base: int, step: int, bits: int, start: int) -> None:
    """Write into the head of empty rows how a field is packed: in `bits` from bit `start` on."""
    entry = field * 4
    numbers.set_u32_at(rows, entry, base)
    numbers.set_u32_at(rows, entry + HEAD_STEP, step)
    numbers.set_u32_at(rows, entry + HEAD_MASK, (1 << bits) - 1)
    numbers.set_u16(rows, (entry + HEAD_START) >> 1, start)
    numbers.set_u16(rows, (entry + HEAD_END) >> 1, start + bits + 7)


def is_plain(rows: bytearray) -> bool:
    """Return whether the rows are plain."""
    return numbers.u32_at(rows, HEAD_BITS) == ROW * 8


def row_count(rows: bytearray) -> int:
    """Return how many rows there are; packed rows may have up to seven more that are empty."""
    return (len(rows) - HEAD) * 8 // numbers.u32_at(rows, HEAD_BITS)


def has_row(rows: bytearray, i: int) -> bool:
    """Return whether there are more than `i` rows, without the division of `row_count`."""
    return (i + 1) * numbers.u32_at(rows, HEAD_BITS) <= (len(rows) - HEAD) * 8


def bits_at(rows: bytearray, start: int, end: int) -> int:
    """Return the bits behind the head from `start` on; `end` is seven bits behind the last one."""
    return numbers.u64_at(rows, HEAD - 8 + (end >> 3)) >> (start + 64 - (end & ~7) & 63)


def add_bits(rows: bytearray, bits: int, end: int, value: int) -> None:
    """Write `bits` bits where all are 0; `end` is seven bits behind the last one."""
    position = HEAD - 8 + (end >> 3)
    word = value << (57 - bits + (end & 7))
    numbers.set_u64_at(rows, position, numbers.u64_at(rows, position) | word)


def deviation(rows: bytearray, i: int, field: int) -> int:
    """Return how far a field of row `i` is from what the head predicts."""
    start, end = _span(rows, i, field)
    return bits_at(rows, start, end) & numbers.u32_at(rows, field * 4 + HEAD_MASK)


def set_deviation(rows: bytearray, i: int, field: int, value: int) -> None:
    """Set how far a field of row `i` is from what the head predicts."""
    start, end = _span(rows, i, field)
    mask = numbers.u32_at(rows, field * 4 + HEAD_MASK)
    value = value & mask ^ bits_at(rows, start, end) & mask
    position, shift = HEAD - 8 + (end >> 3), start + 64 - (end & ~7) & 63
    numbers.set_u64_at(rows, position, numbers.u64_at(rows, position) ^ value << shift)


def is_live(rows: bytearray, i: int) -> bool:
    """Return whether row `i` holds a message."""
    return deviation(rows, i, ROW_SIZE) != 0


def get(rows: bytearray, i: int, field: int) -> int:
    """Return a field of row `i`, which holds a message."""
    return numbers.plus(_predicted(rows, i, field), deviation(rows, i, field))


def try_put(rows: bytearray, i: int, field: int, value: int) -> bool:
    """Set a field of row `i` and return True; return False where it has no room for `value`."""
    value = numbers.minus(value, _predicted(rows, i, field))
    if value > numbers.u32_at(rows, field * 4 + HEAD_MASK):
        return False
    set_deviation(rows, i, field, value)
    return True


def _predicted(rows: bytearray, i: int, field: int) -> int:
    return numbers.u32_at(rows, field * 4) + numbers.u32_at(rows, field * 4 + HEAD_STEP) * i


def _span(rows: bytearray, i: int, field: int) -> tuple[int, int]:
    """Return the first bit of a field of row `i`, and the one seven bits behind its last."""
    row = i * numbers.u32_at(rows, HEAD_BITS)
    start = row + numbers.u16(rows, (field * 4 + HEAD_START) >> 1)
    return start, row + numbers.u16(rows, (field * 4 + HEAD_END) >> 1)
