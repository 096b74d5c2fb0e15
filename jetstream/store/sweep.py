"""Removing many messages at once: one walk over the rows, in the order of sequences.

A sweep removes the oldest messages of each subject, so a removed message is always the first of its
subject, and only the new beginning of the chain needs an update. That takes some 5 to 10 ns a row;
removing messages from the index one by one takes 130 to 320 ns each.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.filters import Filters
from midge.jetstream.store.message_index import Block, MessageIndex
from midge.jetstream.store.subject_index import SubjectIndex

_FAR = 0xFFFFFFFF
_NO_LIMIT = 0xFFFFFFFFFFFFFFFF


class Sweep:
    """Removes what matches `wanted`, up to but not including `upto_seq`.

    It ends as soon as at least `least_count` messages and `least_size` bytes are gone. `take` is to
    be called for stretches of sequences in ascending order; `count` and `size` say how many
    messages the last one removed, and what they counted towards the bytes.
    """

    __slots__ = (
        "_index",
        "_is_open",
        "_least_count",
        "_least_size",
        "_subjects",
        "_upto",
        "_wanted",
        "count",
        "size",
        "total_count",
        "total_size",
    )

    def __init__(
        self,
        index: MessageIndex,
        subjects: SubjectIndex,
        wanted: Filters,
        upto_seq: int,
        least_count: int,
        least_size: int,
    ) -> None:
        self._index = index
        self._subjects = subjects
        self._wanted = wanted
        self._upto = upto_seq
        self._least_count = least_count
        self._least_size = least_size
        self._is_open = least_count != _NO_LIMIT  # where it will end is not known
        self.count = 0
        self.size = 0
        self.total_count = 0
        self.total_size = 0

    def take(self, start: int, end: int) -> None:
        """Remove what matches from sequence `start` on, and before `end`."""
        self.count = 0
        self.size = 0
        last = min(end, self._upto) - 1
        for i in range(self._index.block_at_or_after(start), self._index.block_count()):
            block = self._index.block_number(i)
            first = (block.number << layout.BITS) + 1
            if first > last or self._is_done():
                break
            low = (start - 1) & layout.MASK if start > first else 0
            high = (
                (last - 1) & layout.MASK
                if (last - 1) >> layout.BITS == block.number
                else layout.MASK
            )
            self._take_rows(block, low, high)
        self.total_count += self.count
        self.total_size += self.size

    def _is_done(self) -> bool:
        return (
            self.total_count + self.count >= self._least_count
            and self.total_size + self.size >= self._least_size
        )

    def _take_rows(self, block: Block, low: int, high: int) -> None:
        """Remove what matches from the place `low` to `high` of a block."""
        before = self.count
        rows = block.rows
        position = block.row_at_or_after(low) * layout.ROW
        end = block.row_at_or_after(high + 1) * layout.ROW
        while position < end:
            size = numbers.u32_at(rows, position + layout.ROW_SIZE)
            if size != 0:
                number = numbers.u32_at(rows, position + layout.ROW_SUBJECT)
                if self._wanted.is_all or self._wanted.is_match(number):
                    self.count += 1
                    self.size += size
                    numbers.set_u32_at(rows, position + layout.ROW_SIZE, 0)
                    self._shorten(block, position, number)
                    if self._is_open and self._is_done():
                        break
            position += layout.ROW
        if self.count != before:
            block.clear_up(self.count - before)

    def _shorten(self, block: Block, position: int, number: int) -> None:
        """Move the start of a subject's chain past the message of a row, its first."""
        after = numbers.u32_at(block.rows, position + layout.ROW_AFTER)
        if after == 0:
            self._subjects.vacate(number)
            return
        seq = (block.number << layout.BITS) + block.row_place(position // layout.ROW) + 1
        seq += after if after != _FAR else self._index.after(seq)
        self._subjects.shorten(number, seq)
        if self._is_open or seq >= self._upto:
            self._index.set_before(seq, 0)
