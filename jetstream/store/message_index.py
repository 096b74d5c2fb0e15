"""Where the messages of a stream are, by sequence: blocks of rows, in order.

A row notes the place and the size of the message, its subject, and how far away the messages of the
same subject before and after it are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.block import Block

if TYPE_CHECKING:
    from midge.jetstream.store.file.frames import CheckpointReader, CheckpointWriter

_HEAD = 40  # bytes of a block's head in a checkpoint

_FAR = 0xFFFFFFFF
"""A distance that does not fit into 32 bits; `MessageIndex` notes those apart."""


class MessageIndex:
    """All blocks in order, the empty ones left out.

    `locate` leaves the block it found in `block`; rows are read and written there.
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
        """Find the row of a sequence: its number in `block`, -1 for none."""
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
        return self.block.row((seq - 1) & layout.MASK)

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
            place = (before - 1) & layout.MASK
            row = place if block.keys is None else block.bisect(place)
            block.set(row, layout.ROW_AFTER, distance)

    def tail_for(self, seq: int, time_ns: int) -> Block:
        """Return the block of a sequence after all others, a new one if there is none."""
        number = (seq - 1) >> layout.BITS
        if not self._blocks or self._blocks[-1].number != number:
            if self._blocks:
                block = self._blocks[-1]
                block.pack()
            self._blocks.append(Block(number, (seq - 1) & layout.MASK, time_ns))
        self.block = self._blocks[-1]
        return self.block

    def discard(self, seq: int, row: int) -> None:
        """Remove the row of a sequence, which `locate` has found."""
        block = self.block
        block.discard(row)
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
        changes of them but how far the message after the last one of its subject is; a block that
        is packed gets other rows.
        """
        heads = bytearray(len(self._blocks) * _HEAD)
        for i in range(len(self._blocks)):
            block = self._blocks[i]
            numbers.set_u64_at(heads, i * _HEAD, block.number)
            numbers.set_u64_at(heads, i * _HEAD + 8, block.timed_place)
            numbers.set_u64_at(heads, i * _HEAD + 16, block.time_ns)
            numbers.set_u64_at(heads, i * _HEAD + 24, block.live)
            numbers.set_u64_at(heads, i * _HEAD + 32, block.keys is not None)
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

        Raises UnfitCheckpoint if that cannot be an index.
        """
        self.clear()
        total = 0
        heads = source.octets()
        for _ in range(source.number()):
            place = source.number(), source.number()
            self._far[place] = source.number()
        for at in range(0, len(heads), _HEAD):
            block = Block(
                numbers.u64_at(heads, at),
                numbers.u64_at(heads, at + 8),
                numbers.u64_at(heads, at + 16),
            )
            block.live = numbers.u64_at(heads, at + 24)
            block.rows = source.octets()
            if numbers.u64_at(heads, at + 32):
                block.keys = source.octets()
            source.expect(block.is_sound(), "the rows of a block are no rows")
            total += block.live
            self._blocks.append(block)
        return total

    def before(self, seq: int) -> int:
        """Return how far back the message before `seq` of its subject is; 0 for none."""
        return self.distance(seq, self.locate(seq), layout.ROW_BEFORE)

    def after(self, seq: int) -> int:
        """Return how far on the message after `seq` of its subject is; 0 for none."""
        return self.distance(seq, self.locate(seq), layout.ROW_AFTER)

    def set_before(self, seq: int, distance: int) -> None:
        """Set how far back the message before `seq` of its subject is."""
        self._set_distance(seq, layout.ROW_BEFORE, distance)

    def set_after(self, seq: int, distance: int) -> None:
        """Set how far on the message after `seq` of its subject is."""
        self._set_distance(seq, layout.ROW_AFTER, distance)

    def distance(self, seq: int, row: int, field: int) -> int:
        """Return a distance from the row of a sequence, which `locate` has found."""
        value = layout.get(self.block.rows, row, field)
        return self._far[seq, field] if value == _FAR else value

    def _set_distance(self, seq: int, field: int, value: int) -> None:
        i = self.locate(seq)
        if value >= _FAR:
            self._far[seq, field] = value
            value = _FAR
        self.block.set(i, field, value)

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
