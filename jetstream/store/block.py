"""The rows of 1,024 sequences of a stream, one a message: its place, size, subject and chain.

Messages enter the last block, whose rows are plain: 20 bytes each. When the next block begins, the
rows are packed into as few bits as their values need. Most of what a row says is regular: records
of one size follow each other, few subjects are stored, and the next message of a subject is not far
away. A million messages in a thousand subjects take five bytes each so. A number that no longer
fits, because the next message of a subject is far away, has the rows packed again with more bits.

A block of which most has been removed keeps only the rows that are left, plain, so that what a
key-value stream takes depends on its keys and not on its revisions.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers

UNWANTED = 1
"""Byte of a subject that `Block.next_wanted` passes over."""

WANTED = 2
"""Byte of a subject that is known to be wanted."""

_UNWANTED = UNWANTED  # a C number where this is compiled

_WORD = 0xFFFFFFFF

_FEWEST = 64
"""Rows from which on they are packed: the head alone takes as much as four plain ones."""

_BEFORE_MASK = layout.ROW_BEFORE * 4 + layout.HEAD_MASK

_SIZE_FIRST = (
    layout.ROW_SIZE,
    layout.ROW_OFFSET,
    layout.ROW_SUBJECT,
    layout.ROW_BEFORE,
    layout.ROW_AFTER,
)
"""The fields of a row, the size before the others: without one there is no message."""

_WIDER = 4
"""Bits that a field gets more at once, so that its rows are packed at most eight times."""


class Block:
    """The rows of the sequences from ``number * 1024 + 1`` on.

    `keys` of a thinned-out block has the place within the block of each of its rows, ascending.
    `time_ns` is the time of the message at `timed_place`, the oldest of the block.
    """

    __slots__ = ("keys", "live", "number", "rows", "time_ns", "timed_place")

    def __init__(self, number: int, timed_place: int, time_ns: int) -> None:
        self.number = number
        self.timed_place = timed_place
        self.time_ns = time_ns
        self.live = 0
        self.rows = layout.plain_rows()
        self.keys: bytearray | None = None

    def row(self, place: int) -> int:
        """Return the number of the row of a place; -1 without a message."""
        if self.keys is None:
            if not layout.has_row(self.rows, place) or not layout.is_live(self.rows, place):
                return -1
            return place
        i = self.bisect(place)
        if i * 2 >= len(self.keys) or numbers.u16(self.keys, i) != place:
            return -1
        return i

    def bisect(self, place: int) -> int:
        """Return the index of the first key of a thinned-out block not before `place`."""
        keys = self.keys
        assert keys is not None
        low = 0
        high = len(keys) >> 1
        while low < high:
            middle = (low + high) >> 1
            if numbers.u16(keys, middle) < place:
                low = middle + 1
            else:
                high = middle
        return low

    def append(self, place: int, offset: int, size: int, subject: int, before: int) -> None:
        """Make the row of a place after all others.

        `before` is the distance to the message before it of its subject.
        """
        position = self.begin_rows(place, 1)
        rows = self.rows
        numbers.set_u32_at(rows, position + layout.ROW_OFFSET, offset)
        numbers.set_u32_at(rows, position + layout.ROW_SIZE, size)
        numbers.set_u32_at(rows, position + layout.ROW_SUBJECT, subject)
        numbers.set_u32_at(rows, position + layout.ROW_BEFORE, before)
        numbers.set_u32_at(rows, position + layout.ROW_AFTER, 0)

    def begin_rows(self, place: int, count: int) -> int:
        """Make plain rows for `count` places from `place` on, after all others, to be written.

        Returns the byte position of the first of them in `rows`.
        """
        self.live += count
        rows = self.rows
        if self.keys is not None:
            for i in range(place, place + count):
                numbers.set_u16(self.keys, numbers.grow(self.keys, 2) >> 1, i)
        elif len(rows) < layout.HEAD + place * layout.ROW:
            numbers.resize(rows, layout.HEAD + place * layout.ROW)
        return numbers.grow_in_steps(
            rows, count * layout.ROW, layout.HEAD + layout.SPAN * layout.ROW
        )

    def pack(self) -> None:
        """Pack the rows, to which none will be added, unless they are packed."""
        if self.keys is None and self.live >= _FEWEST and layout.is_plain(self.rows):
            self.rows = _packed(self.rows, self.rows, -1)

    def is_sound(self) -> bool:
        """Return whether rows and keys that were read from a file fit together."""
        rows = self.rows
        most = layout.SPAN
        if self.keys is not None:
            most = len(self.keys) >> 1
        if len(rows) < layout.HEAD or numbers.u32_at(rows, layout.HEAD_BITS) == 0:
            return False
        for field in range(0, layout.ROW, 4):
            entry = field * 4
            bits = _bits(numbers.u32_at(rows, entry + layout.HEAD_MASK))
            end = numbers.u16(rows, (entry + layout.HEAD_START) >> 1) + bits
            if numbers.u16(rows, (entry + layout.HEAD_END) >> 1) != end + 7 or end > numbers.u32_at(
                rows, layout.HEAD_BITS
            ):
                return False
        is_kept = self.keys is None or layout.is_plain(rows)
        return is_kept and 0 < self.live <= layout.row_count(rows) <= most

    def discard(self, i: int) -> None:
        """Remove row `i`, which is there."""
        self.live -= 1
        if self.keys is None:
            layout.set_deviation(self.rows, i, layout.ROW_SIZE, 0)
            if layout.has_row(self.rows, self.live * 4):
                self._thin_out()
            return
        numbers.move(self.keys, i * 2, i * 2 + 2, len(self.keys))
        numbers.resize(self.keys, len(self.keys) - 2)
        position = layout.HEAD + i * layout.ROW
        numbers.move(self.rows, position, position + layout.ROW, len(self.rows))
        numbers.resize(self.rows, len(self.rows) - layout.ROW)

    def _thin_out(self) -> None:
        """Keep the rows that are left, plain, and their places."""
        rows = layout.plain_rows()
        keys = bytearray()
        numbers.resize(rows, layout.HEAD + self.live * layout.ROW)
        numbers.resize(keys, self.live * 2)
        kept = 0
        plain = _plain(self.rows)
        for i in range(layout.row_count(plain)):
            if _field(plain, i, layout.ROW_SIZE) != 0:
                start = layout.HEAD + i * layout.ROW
                numbers.put(rows, layout.HEAD + kept * layout.ROW, plain, start, start + layout.ROW)
                numbers.set_u16(keys, kept, self.row_place(i))
                kept += 1
        self.rows = rows
        self.keys = keys

    # Rows by their number, for a walk over all of them.

    def row_at_or_after(self, place: int) -> int:
        """Return the number of the first row whose place is not before `place`."""
        if self.keys is not None:
            return self.bisect(place)
        return min(place, layout.row_count(self.rows))

    def row_place(self, i: int) -> int:
        """Return the place of row `i`."""
        return i if self.keys is None else numbers.u16(self.keys, i)

    def clear_up(self, count: int) -> None:
        """Count `count` emptied rows."""
        self.live -= count
        if self.live and (self.keys is not None or layout.has_row(self.rows, self.live * 4)):
            self._thin_out()

    def offset(self, i: int) -> int:
        """Return where the message of row `i` is."""
        return layout.get(self.rows, i, layout.ROW_OFFSET)

    def size(self, i: int) -> int:
        """Return what the message of row `i` counts towards the bytes."""
        return layout.get(self.rows, i, layout.ROW_SIZE)

    def subject(self, i: int) -> int:
        """Return the number of the subject of the message of row `i`."""
        return layout.get(self.rows, i, layout.ROW_SUBJECT)

    def set_offset(self, i: int, offset: int) -> None:
        """Note that the message of row `i` has moved."""
        self.set(i, layout.ROW_OFFSET, offset)

    def set(self, i: int, field: int, value: int) -> None:
        """Set a field of row `i`, but not its size; `rows` may be another object then."""
        if layout.is_plain(self.rows):
            numbers.set_u32_at(self.rows, layout.HEAD + i * layout.ROW + field, value)
        elif not layout.try_put(self.rows, i, field, value):
            plain = _plain(self.rows)
            numbers.set_u32_at(plain, layout.HEAD + i * layout.ROW + field, value)
            self.rows = _packed(plain, self.rows, field)

    def next_place(self, place: int) -> int:
        """Return the first place from `place` on that has a message; -1 for none."""
        if self.keys is not None:
            i = self.bisect(place)
            return numbers.u16(self.keys, i) if i * 2 < len(self.keys) else -1
        for i in range(place, layout.row_count(self.rows)):
            if layout.is_live(self.rows, i):
                return i
        return -1

    def previous_place(self, place: int) -> int:
        """Return the last place up to `place` that has a message; -1 for none."""
        if self.keys is not None:
            i = self.bisect(place + 1) - 1
            return numbers.u16(self.keys, i) if i >= 0 else -1
        i = min(place, layout.row_count(self.rows) - 1)
        while i >= 0 and not layout.is_live(self.rows, i):
            i -= 1
        return i

    def next_of(self, subject: int, place: int) -> int:
        """Return the first place from `place` on that has a message of a subject; -1 for none."""
        rows = self.rows
        for i in range(self.row_at_or_after(place), layout.row_count(rows)):
            if layout.is_live(rows, i) and layout.get(rows, i, layout.ROW_SUBJECT) == subject:
                return self.row_place(i)
        return -1

    def next_wanted(self, wanted: bytearray, place: int) -> int:
        """Return the first place from `place` on that is not known to be unwanted; -1 for none."""
        rows = self.rows
        for i in range(self.row_at_or_after(place), layout.row_count(rows)):
            if layout.is_live(rows, i):
                subject = layout.get(rows, i, layout.ROW_SUBJECT)
                if subject >= len(wanted) or wanted[subject] != _UNWANTED:
                    return self.row_place(i)
        return -1

    def count_from(self, place: int) -> int:
        """Count the messages from `place` on."""
        if place == 0:
            return self.live
        if self.keys is not None:
            return (len(self.keys) >> 1) - self.bisect(place)
        count = 0
        for i in range(place, layout.row_count(self.rows)):
            if layout.is_live(self.rows, i):
                count += 1
        return count


def _plain(rows: bytearray) -> bytearray:
    """Return the same rows, plain: field after field, so that the head is read once for each."""
    if layout.is_plain(rows):
        return rows
    plain = layout.plain_rows()
    count = layout.row_count(rows)
    numbers.resize(plain, layout.HEAD + count * layout.ROW)
    row_bits = numbers.u32_at(rows, layout.HEAD_BITS)
    for field in _SIZE_FIRST:
        value = numbers.u32_at(rows, field * 4)
        step = numbers.u32_at(rows, field * 4 + layout.HEAD_STEP)
        mask = numbers.u32_at(rows, field * 4 + layout.HEAD_MASK)
        start = numbers.u16(rows, (field * 4 + layout.HEAD_START) >> 1)
        end = numbers.u16(rows, (field * 4 + layout.HEAD_END) >> 1)
        row = layout.HEAD
        for _ in range(count):
            deviation = layout.bits_at(rows, start, end) & mask if mask else 0
            size = (
                deviation
                if field == layout.ROW_SIZE
                else numbers.u32_at(plain, row + layout.ROW_SIZE)
            )
            if size != 0:
                numbers.set_u32_at(plain, row + field, numbers.plus(value, deviation))
            start += row_bits
            end += row_bits
            row += layout.ROW
            value = numbers.plus(value, step)
    return plain


def _packed(plain: bytearray, before: bytearray, widened: int) -> bytearray:
    """Return plain rows in few bits, or itself if that takes as many.

    `before` are the same rows as they have been. If those were packed, no field gets fewer bits
    than it had, and the field `widened` gets more.
    """
    packed = _head_for(plain)
    bits = 0
    for field in range(0, layout.ROW, 4):
        wanted = _bits(numbers.u32_at(packed, field * 4 + layout.HEAD_MASK))
        if not layout.is_plain(before):
            least = _bits(numbers.u32_at(before, field * 4 + layout.HEAD_MASK))
            wanted = max(wanted, least + (_WIDER if field == widened else 0))
        elif field == layout.ROW_AFTER:
            wanted = max(wanted, _bits(numbers.u32_at(packed, _BEFORE_MASK)) + 1)
        wanted = min(wanted, 32)
        base = numbers.u32_at(packed, field * 4)
        step = numbers.u32_at(packed, field * 4 + layout.HEAD_STEP)
        layout.describe(packed, field, base, step, wanted, bits)
        bits += wanted
    if bits >= layout.ROW * 8:
        return plain
    numbers.set_u32_at(packed, layout.HEAD_BITS, bits)
    _write(plain, packed)
    return packed


def _head_for(rows: bytearray) -> bytearray:
    """Return a head with the base, step and mask of each field that plain rows need.

    Places and subjects may grow evenly, by what lies between the first message and the last one.
    The distance to the next message of a subject is zero as long as there is none, and will mostly
    be about as large as that to the one before it. That one becomes zero where limits remove the
    message before it, so that it has no other base.
    """
    count = layout.row_count(rows)
    first = 0
    while first < count - 1 and _field(rows, first, layout.ROW_SIZE) == 0:
        first += 1
    last = count - 1
    while last > first and _field(rows, last, layout.ROW_SIZE) == 0:
        last -= 1
    apart = max(last - first, 1)
    start = _field(rows, first, layout.ROW_OFFSET)
    grown = _field(rows, last, layout.ROW_OFFSET) - start
    step = grown // apart if grown > 0 else 0
    number = _field(rows, first, layout.ROW_SUBJECT)
    grown = _field(rows, last, layout.ROW_SUBJECT) - number
    stride = grown // apart if grown > 0 else 0
    low = high = start - step * first
    lowest = highest = number - stride * first
    least = most = _field(rows, first, layout.ROW_SIZE)
    before = after = 0
    for i in range(first, last + 1):
        size = _field(rows, i, layout.ROW_SIZE)
        if size != 0:
            least = min(least, size)
            most = max(most, size)
            value = _field(rows, i, layout.ROW_OFFSET) - step * i
            low = min(low, value)
            high = max(high, value)
            value = _field(rows, i, layout.ROW_SUBJECT) - stride * i
            lowest = min(lowest, value)
            highest = max(highest, value)
            before |= _field(rows, i, layout.ROW_BEFORE)
            after |= _field(rows, i, layout.ROW_AFTER)
    head = layout.plain_rows()
    layout.describe(head, layout.ROW_OFFSET, low & _WORD, step, _bits(high - low), 0)
    layout.describe(  # less one, for rows without a message
        head, layout.ROW_SIZE, least - 1 & _WORD, 0, _bits(most - least + 1), 0
    )
    layout.describe(head, layout.ROW_SUBJECT, lowest & _WORD, stride, _bits(highest - lowest), 0)
    layout.describe(head, layout.ROW_BEFORE, 0, 0, _bits(before), 0)
    layout.describe(head, layout.ROW_AFTER, 0, 0, _bits(after), 0)
    return head


def _write(plain: bytearray, packed: bytearray) -> None:
    """Write plain rows behind the head of packed ones."""
    count = layout.row_count(plain)
    row_bits = numbers.u32_at(packed, layout.HEAD_BITS)
    numbers.resize(packed, layout.HEAD + (count * row_bits + 7) // 8)
    if _write_rows(plain, packed, count, row_bits):
        return
    for field in range(0, layout.ROW, 4):
        bits = _bits(numbers.u32_at(packed, field * 4 + layout.HEAD_MASK))
        if bits == 0:
            continue
        value = numbers.u32_at(packed, field * 4)
        step = numbers.u32_at(packed, field * 4 + layout.HEAD_STEP)
        end = numbers.u16(packed, (field * 4 + layout.HEAD_END) >> 1)
        row = layout.HEAD
        for _ in range(count):
            if numbers.u32_at(plain, row + layout.ROW_SIZE) != 0:
                deviation = numbers.minus(numbers.u32_at(plain, row + field), value)
                layout.add_bits(packed, bits, end, deviation)
            end += row_bits
            row += layout.ROW
            value = numbers.plus(value, step)


def _write_rows(plain: bytearray, packed: bytearray, count: int, row_bits: int) -> bool:
    """Write rows of few bits in two words each, twice as fast as their five fields.

    Returns False if they have too many bits.
    """
    size_bits = _bits(numbers.u32_at(packed, layout.ROW_SIZE * 4 + layout.HEAD_MASK))
    subject_bits = _bits(numbers.u32_at(packed, layout.ROW_SUBJECT * 4 + layout.HEAD_MASK))
    before_bits = _bits(numbers.u32_at(packed, _BEFORE_MASK))
    offset_bits = _bits(numbers.u32_at(packed, layout.ROW_OFFSET * 4 + layout.HEAD_MASK))
    last_bits = row_bits - offset_bits - size_bits - subject_bits
    if offset_bits + size_bits + subject_bits > layout.MOST_ADDED or last_bits > layout.MOST_ADDED:
        return False
    offset = numbers.u32_at(packed, layout.ROW_OFFSET * 4)
    step = numbers.u32_at(packed, layout.ROW_OFFSET * 4 + layout.HEAD_STEP)
    least = numbers.u32_at(packed, layout.ROW_SIZE * 4)
    subject = numbers.u32_at(packed, layout.ROW_SUBJECT * 4)
    stride = numbers.u32_at(packed, layout.ROW_SUBJECT * 4 + layout.HEAD_STEP)
    end = row_bits + 7
    row = layout.HEAD
    for _ in range(count):
        size = numbers.u32_at(plain, row + layout.ROW_SIZE)
        if size != 0:
            word = numbers.u32_at(plain, row + layout.ROW_AFTER)
            word = word << before_bits | numbers.u32_at(plain, row + layout.ROW_BEFORE)
            layout.add_bits(packed, last_bits, end, word)
            number = numbers.u32_at(plain, row + layout.ROW_SUBJECT)
            word = numbers.minus(number, subject)
            word = word << size_bits | numbers.minus(size, least)
            place = numbers.u32_at(plain, row + layout.ROW_OFFSET)
            word = word << offset_bits | numbers.minus(place, offset)
            layout.add_bits(packed, row_bits - last_bits, end - last_bits, word)
        end += row_bits
        row += layout.ROW
        offset = numbers.plus(offset, step)
        subject = numbers.plus(subject, stride)
    return True


def _field(plain: bytearray, i: int, field: int) -> int:
    """Return a field of plain rows."""
    return numbers.u32_at(plain, layout.HEAD + i * layout.ROW + field)


def _bits(value: int) -> int:
    """Return how many bits a number has, at most 32: more would only go round once more."""
    return min(numbers.bit_length(value), 32)
