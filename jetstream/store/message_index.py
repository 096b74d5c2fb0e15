"""Where the messages of a stream are, by sequence: a row of five numbers each.

A row notes the place and the size of the message, its subject, and how far away the messages of the
same subject before and after it are. Rows lie in blocks of 1,024 sequences. A block of which most
has been removed keeps only the rows that are left, so that what a key-value stream takes depends on
its keys and not on its revisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream.store import layout, numbers

if TYPE_CHECKING:
    from midge.jetstream.store.file.frames import CheckpointReader, CheckpointWriter

UNWANTED = 1
"""Byte of a subject that `next_wanted` passes over."""

WANTED = 2
"""Byte of a subject that is known to be wanted."""

_UNWANTED = UNWANTED  # a C number where this is compiled

_BLOCK = 40  # bytes of a block's head in a checkpoint

_FAR = 0xFFFFFFFF
"""A distance that does not fit into 32 bits; `MessageIndex` notes those apart."""


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
        self.rows = bytearray()
        self.keys: bytearray | None = None

    def position(self, place: int) -> int:
        """Return the byte position of the row of a place; -1 without a message."""
        if self.keys is None:
            position = place * layout.ROW
            if (
                position >= len(self.rows)
                or numbers.u32_at(self.rows, position + layout.ROW_SIZE) == 0
            ):
                return -1
            return position
        i = self.bisect(place)
        if i * 2 >= len(self.keys) or numbers.u16(self.keys, i) != place:
            return -1
        return i * layout.ROW

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
        self.live += 1
        rows = self.rows
        if self.keys is not None:
            at = numbers.grow(self.keys, 2)
            numbers.set_u16(self.keys, at >> 1, place)
        elif len(rows) < place * layout.ROW:
            numbers.resize(rows, place * layout.ROW)
        position = numbers.grow_in_steps(rows, layout.ROW, layout.SPAN * layout.ROW)
        numbers.set_u32_at(rows, position + layout.ROW_OFFSET, offset)
        numbers.set_u32_at(rows, position + layout.ROW_SIZE, size)
        numbers.set_u32_at(rows, position + layout.ROW_SUBJECT, subject)
        numbers.set_u32_at(rows, position + layout.ROW_BEFORE, before)
        numbers.set_u32_at(rows, position + layout.ROW_AFTER, 0)

    def discard(self, place: int) -> None:
        """Remove the row of a place, which is there."""
        self.live -= 1
        if self.keys is None:
            numbers.set_u32_at(self.rows, place * layout.ROW + layout.ROW_SIZE, 0)
            if self.live * 4 * layout.ROW < len(self.rows):
                self._thin_out()
            return
        i = self.bisect(place)
        numbers.move(self.keys, i * 2, i * 2 + 2, len(self.keys))
        numbers.resize(self.keys, len(self.keys) - 2)
        numbers.move(self.rows, i * layout.ROW, (i + 1) * layout.ROW, len(self.rows))
        numbers.resize(self.rows, len(self.rows) - layout.ROW)

    def _thin_out(self) -> None:
        """Keep the rows that are left, and their places."""
        rows = bytearray()
        keys = bytearray()
        numbers.resize(rows, self.live * layout.ROW)
        numbers.resize(keys, self.live * 2)
        kept = 0
        for i in range(len(self.rows) // layout.ROW):
            position = i * layout.ROW
            if numbers.u32_at(self.rows, position + layout.ROW_SIZE) != 0:
                numbers.put(rows, kept * layout.ROW, self.rows, position, position + layout.ROW)
                numbers.set_u16(keys, kept, self.row_place(i))
                kept += 1
        self.rows = rows
        self.keys = keys

    # Rows by their number, for a walk over all of them.

    def row_at_or_after(self, place: int) -> int:
        """Return the number of the first row whose place is not before `place`."""
        if self.keys is not None:
            return self.bisect(place)
        return min(place, len(self.rows) // layout.ROW)

    def row_place(self, i: int) -> int:
        """Return the place of row `i`."""
        return i if self.keys is None else numbers.u16(self.keys, i)

    def clear_up(self, count: int) -> None:
        """Count `count` emptied rows."""
        self.live -= count
        if self.live and (self.keys is not None or self.live * 4 * layout.ROW < len(self.rows)):
            self._thin_out()

    def offset(self, position: int) -> int:
        """Return where the message is whose row begins at `position`."""
        return numbers.u32_at(self.rows, position + layout.ROW_OFFSET)

    def size(self, position: int) -> int:
        """Return what the message whose row begins at `position` counts towards the bytes."""
        return numbers.u32_at(self.rows, position + layout.ROW_SIZE)

    def subject(self, position: int) -> int:
        """Return the number of the subject of the message whose row begins at `position`."""
        return numbers.u32_at(self.rows, position + layout.ROW_SUBJECT)

    def set_offset(self, position: int, offset: int) -> None:
        """Note that the message whose row begins at `position` has moved."""
        numbers.set_u32_at(self.rows, position + layout.ROW_OFFSET, offset)

    def next_place(self, place: int) -> int:
        """Return the first place from `place` on that has a message; -1 for none."""
        if self.keys is not None:
            i = self.bisect(place)
            return numbers.u16(self.keys, i) if i * 2 < len(self.keys) else -1
        position = place * layout.ROW + layout.ROW_SIZE
        while position < len(self.rows):
            if numbers.u32_at(self.rows, position) != 0:
                return place
            place += 1
            position += layout.ROW
        return -1

    def previous_place(self, place: int) -> int:
        """Return the last place up to `place` that has a message; -1 for none."""
        if self.keys is not None:
            i = self.bisect(place + 1) - 1
            return numbers.u16(self.keys, i) if i >= 0 else -1
        position = place * layout.ROW
        while place >= 0:
            if (
                position < len(self.rows)
                and numbers.u32_at(self.rows, position + layout.ROW_SIZE) != 0
            ):
                return place
            place -= 1
            position -= layout.ROW
        return -1

    def next_of(self, subject: int, place: int) -> int:
        """Return the first place from `place` on that has a message of a subject; -1 for none."""
        i = place if self.keys is None else self.bisect(place)
        position = i * layout.ROW
        while position < len(self.rows):
            if (
                numbers.u32_at(self.rows, position + layout.ROW_SUBJECT) == subject
                and numbers.u32_at(self.rows, position + layout.ROW_SIZE) != 0
            ):
                return i if self.keys is None else numbers.u16(self.keys, i)
            i += 1
            position += layout.ROW
        return -1

    def next_wanted(self, wanted: bytearray, place: int) -> int:
        """Return the first place from `place` on that is not known to be unwanted; -1 for none."""
        i = place if self.keys is None else self.bisect(place)
        rows = self.rows
        position = i * layout.ROW
        while position < len(rows):
            if numbers.u32_at(rows, position + layout.ROW_SIZE) != 0:
                subject = numbers.u32_at(rows, position + layout.ROW_SUBJECT)
                if subject >= len(wanted) or wanted[subject] != _UNWANTED:
                    return i if self.keys is None else numbers.u16(self.keys, i)
            i += 1
            position += layout.ROW
        return -1

    def count_from(self, place: int) -> int:
        """Count the messages from `place` on."""
        if place == 0:
            return self.live
        if self.keys is not None:
            return (len(self.keys) >> 1) - self.bisect(place)
        count = 0
        position = place * layout.ROW + layout.ROW_SIZE
        while position < len(self.rows):
            if numbers.u32_at(self.rows, position) != 0:
                count += 1
            position += layout.ROW
        return count


class MessageIndex:
    """All blocks in order, the empty ones left out.

    `locate` leaves the block it found in `block`; the rows are read and written there.
    """

    __slots__ = ("_blocks", "_far", "block")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget every message."""
        self._blocks: list[Block] = []
        self._far: dict[tuple[int, int], int] = {}
        self.block = Block(0, 0, 0)

    def locate(self, seq: int) -> int:
        """Find the row of a sequence: its byte position in ``block.rows``, -1 for none."""
        if seq == 0:
            return -1
        number = (seq - 1) >> layout.BITS
        if self.block.number != number or self.block.live == 0:
            i = self._bisect(number)
            if i >= len(self._blocks):
                return -1
            block = self._blocks[i]
            if block.number != number:
                return -1
            self.block = block
        return self.block.position((seq - 1) & layout.MASK)

    def enter(
        self, seq: int, time_ns: int, offset: int, size: int, subject: int, before: int
    ) -> None:
        """Make the row of a sequence after all others.

        `before` is the last sequence of its subject so far, 0 for none.
        """
        block = self.block
        if block.number != (seq - 1) >> layout.BITS or block.live == 0:
            block = self.tail_for(seq, time_ns)
        distance = seq - before if before > 0 else 0
        is_far = distance >= _FAR
        block.append((seq - 1) & layout.MASK, offset, size, subject, 0 if is_far else distance)
        if is_far:
            self.set_before(seq, distance)
            self.set_after(before, distance)
        elif distance > 0:
            number = (before - 1) >> layout.BITS
            if block.number != number:
                block = self._blocks[self._bisect(number)]
            position = block.position((before - 1) & layout.MASK)
            numbers.set_u32_at(block.rows, position + layout.ROW_AFTER, distance)

    def tail_for(self, seq: int, time_ns: int) -> Block:
        """Return the block of a sequence after all others, a new one if there is none."""
        number = (seq - 1) >> layout.BITS
        if not self._blocks or self._blocks[-1].number != number:
            self._blocks.append(Block(number, (seq - 1) & layout.MASK, time_ns))
        self.block = self._blocks[-1]
        return self.block

    def discard(self, seq: int) -> None:
        """Remove the row of a sequence that has one."""
        self.locate(seq)
        block = self.block
        block.discard((seq - 1) & layout.MASK)
        if block.live == 0:
            del self._blocks[self._bisect(block.number)]
        if self._far:
            self._far.pop((seq, layout.ROW_BEFORE), None)
            self._far.pop((seq, layout.ROW_AFTER), None)

    def knows_time(self, seq: int) -> bool:
        """Return whether the block of a message has its time; store the block in `block`.

        So it has of its first one, until that goes.
        """
        place = (seq - 1) & layout.MASK
        return self.locate(seq) >= 0 and self.block.timed_place == place

    def note_time(self, seq: int, time_ns: int) -> None:
        """Note when the message was stored that is the first one left of its block."""
        if self.locate(seq) >= 0:
            self.block.timed_place = (seq - 1) & layout.MASK
            self.block.time_ns = time_ns

    def block_count(self) -> int:
        """Return how many blocks there are."""
        return len(self._blocks)

    def block_number(self, i: int) -> Block:
        """Return block `i` of those that there are."""
        return self._blocks[i]

    def block_at_or_after(self, seq: int) -> int:
        """Return the index of the first block that does not end before `seq`."""
        return self._bisect((seq - 1) >> layout.BITS)

    def seq_after(self, seq: int, count: int) -> int:
        """Return a sequence before which lie at least `count` messages from `seq` on.

        It is the first one of a block, or behind all of them.
        """
        number = (seq - 1) >> layout.BITS
        for i in range(self._bisect(number), len(self._blocks)):
            block = self._blocks[i]
            number = block.number
            count -= block.live
            if count <= 0:
                break
        return ((number + 1) << layout.BITS) + 1

    def drop_empty(self) -> None:
        """Forget the blocks in which a sweep has left nothing, and the distances it has left."""
        self._blocks = [block for block in self._blocks if block.live]
        for seq, field in list(self._far):
            if self.locate(seq) < 0:
                del self._far[seq, field]

    def save(self, out: CheckpointWriter) -> None:
        """Write the index down: a head of each block, then all rows.

        The rows may be copied later, while messages are stored, but not removed. Then nothing
        changes of them but how far the message after the last one of its subject is.
        """
        heads = bytearray(len(self._blocks) * _BLOCK)
        for i in range(len(self._blocks)):
            block = self._blocks[i]
            numbers.set_u64_at(heads, i * _BLOCK, block.number)
            numbers.set_u64_at(heads, i * _BLOCK + 8, block.timed_place)
            numbers.set_u64_at(heads, i * _BLOCK + 16, block.time_ns)
            numbers.set_u64_at(heads, i * _BLOCK + 24, block.live)
            numbers.set_u64_at(heads, i * _BLOCK + 32, block.keys is not None)
        out.octets(heads)
        out.number(len(self._far))
        for (seq, field), distance in self._far.items():
            out.number(seq)
            out.number(field)
            out.number(distance)
        for block in self._blocks:
            out.rows(block.rows)
            if block.keys is not None:
                out.octets(block.keys)

    def restore(self, source: CheckpointReader) -> int:
        """Become what `save` has written down, and return how many messages there are.

        Raises Unfit if that cannot be an index.
        """
        self.clear()
        total = 0
        heads = source.octets()
        for _ in range(source.number()):
            place = source.number(), source.number()
            self._far[place] = source.number()
        for at in range(0, len(heads), _BLOCK):
            block = Block(
                numbers.u64_at(heads, at),
                numbers.u64_at(heads, at + 8),
                numbers.u64_at(heads, at + 16),
            )
            block.live = numbers.u64_at(heads, at + 24)
            block.rows = source.octets()
            most = layout.SPAN
            if numbers.u64_at(heads, at + 32):
                block.keys = source.octets()
                most = len(block.keys) >> 1
            is_sound = 0 < block.live <= len(block.rows) // layout.ROW <= most
            source.expect(is_sound, "a block has not as many rows as messages")
            total += block.live
            self._blocks.append(block)
        return total

    def before(self, seq: int) -> int:
        """Return how far back the message before `seq` of its subject is; 0 for none."""
        return self._distance(seq, layout.ROW_BEFORE)

    def after(self, seq: int) -> int:
        """Return how far on the message after `seq` of its subject is; 0 for none."""
        return self._distance(seq, layout.ROW_AFTER)

    def set_before(self, seq: int, distance: int) -> None:
        """Set how far back the message before `seq` of its subject is."""
        self._set_distance(seq, layout.ROW_BEFORE, distance)

    def set_after(self, seq: int, distance: int) -> None:
        """Set how far on the message after `seq` of its subject is."""
        self._set_distance(seq, layout.ROW_AFTER, distance)

    def _distance(self, seq: int, field: int) -> int:
        position = self.locate(seq)
        value = numbers.u32_at(self.block.rows, position + field)
        return self._far[seq, field] if value == _FAR else value

    def _set_distance(self, seq: int, field: int, value: int) -> None:
        position = self.locate(seq)
        if value >= _FAR:
            self._far[seq, field] = value
            value = _FAR
        numbers.set_u32_at(self.block.rows, position + field, value)

    def next_live(self, seq: int) -> int:
        """Return the first sequence from `seq` on that has a message; 0 for none."""
        if seq == 0:
            seq = 1
        place = (seq - 1) & layout.MASK
        i = self._bisect((seq - 1) >> layout.BITS)
        while i < len(self._blocks):
            block = self._blocks[i]
            if block.number != (seq - 1) >> layout.BITS:
                place = 0
            place = block.next_place(place)
            if place >= 0:
                self.block = block
                return (block.number << layout.BITS) + place + 1
            place = 0
            i += 1
        return 0

    def previous_live(self, seq: int) -> int:
        """Return the last sequence up to `seq` that has a message; 0 for none."""
        if seq == 0:
            return 0
        number = (seq - 1) >> layout.BITS
        place = (seq - 1) & layout.MASK
        i = self._bisect(number)
        if i == len(self._blocks) or self._blocks[i].number != number:
            i -= 1
            place = layout.MASK
        while i >= 0:
            block = self._blocks[i]
            place = block.previous_place(place)
            if place >= 0:
                return (block.number << layout.BITS) + place + 1
            place = layout.MASK
            i -= 1
        return 0

    def next_wanted(self, wanted: bytearray, seq: int, end: int) -> int:
        """Return the first sequence from `seq` to `end` not known to be unwanted; 0 for none.

        `wanted` has a byte for the number of each subject: `UNWANTED` for those that are not.
        """
        number = (seq - 1) >> layout.BITS
        place = (seq - 1) & layout.MASK
        for i in range(self._bisect(number), len(self._blocks)):
            block = self._blocks[i]
            if block.number << layout.BITS >= end:
                return 0
            place = block.next_wanted(wanted, place if block.number == number else 0)
            if place >= 0:
                self.block = block
                found = (block.number << layout.BITS) + place + 1
                return found if found <= end else 0
        return 0

    def next_of(self, subject: int, seq: int, end: int) -> int:
        """Return the first sequence from `seq` to `end` of a subject; 0 for none."""
        number = (seq - 1) >> layout.BITS
        place = (seq - 1) & layout.MASK
        i = self._bisect(number)
        while i < len(self._blocks):
            block = self._blocks[i]
            if block.number << layout.BITS >= end:
                return 0
            place = block.next_of(subject, place if block.number == number else 0)
            if place >= 0:
                found = (block.number << layout.BITS) + place + 1
                return found if found <= end else 0
            i += 1
        return 0

    def count_from(self, seq: int) -> int:
        """Count the messages from `seq` on."""
        if seq == 0:
            seq = 1
        number = (seq - 1) >> layout.BITS
        count = 0
        for i in range(self._bisect(number), len(self._blocks)):
            block = self._blocks[i]
            place = (seq - 1) & layout.MASK if block.number == number else 0
            count += block.count_from(place)
        return count

    def at_time(self, time_ns: int) -> int:
        """Return a sequence before which everything is older than `time_ns`.

        It is the first of the last block that begins before that time, so that at most one block
        is left to look through.
        """
        i = self._bisect_time(time_ns)
        if i == 0:
            return 1
        block = self._blocks[i - 1]
        return (block.number << layout.BITS) + 1

    def until_time(self, time_ns: int) -> int:
        """Return a sequence from which on nothing is older than `time_ns`; 0 for none.

        It is the first of the block behind that of `at_time`.
        """
        i = self._bisect_time(time_ns)
        if i == len(self._blocks):
            return 0
        block = self._blocks[i]
        return (block.number << layout.BITS) + 1

    def _bisect_time(self, time_ns: int) -> int:
        """Return the index of the first block that does not begin before `time_ns`."""
        low = 0
        high = len(self._blocks)
        while low < high:
            middle = (low + high) >> 1
            block = self._blocks[middle]
            if block.time_ns < time_ns:
                low = middle + 1
            else:
                high = middle
        return low

    def size(self) -> int:
        """Return the bytes of memory that the rows take."""
        total = 0
        for block in self._blocks:
            total += len(block.rows)
        return total

    def _bisect(self, number: int) -> int:
        """Return the index of the first block not before block `number`."""
        count = len(self._blocks)
        if count == 0:
            return 0
        block = self._blocks[0]
        low = 0
        if number <= block.number:
            return 0
        low = number - block.number
        if low < count:  # where it is as long as no block is missing
            block = self._blocks[low]
            if block.number == number:
                return low
        low = 0
        high = count
        while low < high:
            middle = (low + high) >> 1
            block = self._blocks[middle]
            if block.number < number:
                low = middle + 1
            else:
                high = middle
        return low
