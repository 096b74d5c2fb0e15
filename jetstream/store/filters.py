"""Filters of consumers and requests, compared with the subjects of a stream only once each.

`count_wanted` counts the messages that match by the noted results.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.block import UNWANTED, WANTED
from midge.jetstream.store.message_index import MessageIndex
from midge.jetstream.store.subject_index import Pattern, SubjectIndex
from midge.sublist.overlaps import OverlapIndex

_UNKNOWN = 0
_NO = UNWANTED
_YES = WANTED

_MANY = 16
"""Patterns from which on a set of them is asked, at 0.5 us a subject, and not each, at 10 ns."""

_SET_COST = 50  # what that counts as work
_SCANNED_PER_WORK = 8  # notes that are looked at in 10 ns


class Filters:
    """Several patterns, of which a message must match one.

    The result for a subject is cached under its number, in one byte: 0 for unknown, 1 for no, 2 for
    yes. The subject index clears this byte when it gives the number to another subject.

    `last_seq` is the last matching message up to `last_upto`; the store sets both.
    `work` counts the comparisons, see `Store.work`.
    """

    __slots__ = (
        "_cost",
        "_narrowed",
        "_noted",
        "_patterns",
        "_set",
        "_subjects",
        "_takes_all",
        "is_all",
        "last_seq",
        "last_upto",
        "literal",
        "work",
    )

    def __init__(self, subjects: SubjectIndex, filters: tuple[bytes, ...]) -> None:
        self._subjects = subjects
        self._patterns = [Pattern(subject) for subject in filters]
        self._set: OverlapIndex | None = None
        self._cost = len(filters)
        if len(filters) > _MANY:
            self._cost = _SET_COST
            self._set = OverlapIndex()
            for one in filters:
                self._set.insert(one)
        self.work = 0
        self.last_seq = 0
        self.last_upto = 0
        self._noted = bytearray()
        subjects.watch(self._noted)
        self._takes_all = False
        self._narrowed = 0
        self.is_all = not filters or b">" in filters
        self.literal: bytes | None = None
        if len(filters) == 1 and self._patterns[0].is_literal:
            self.literal = filters[0]

    def takes_all(self) -> bool:
        """Return whether every subject that is stored now matches."""
        if self.is_all:
            return True
        if self._narrowed != self._subjects.narrowed:
            self._narrowed = self._subjects.narrowed
            self._takes_all = False
            for pattern in self._patterns:
                self._takes_all = self._takes_all or self._subjects.are_all_below(pattern)
        return self._takes_all

    def is_match(self, subject: int) -> bool:
        """Return whether the subject of a number in use matches."""
        if subject >= len(self._noted):
            numbers.resize(self._noted, self._subjects.limit())
        noted = self._noted[subject]
        if noted == _UNKNOWN:
            noted = _YES if self._compare(subject) else _NO
            self._noted[subject] = noted
        return noted == _YES

    def noted(self) -> bytearray:
        """Return the cached results: a byte for the number of each subject."""
        return self._noted

    def note_all(self) -> bytearray:
        """Compare all subjects with unknown result; return the results.

        That takes some 10 ns a subject; comparing them in the order of messages takes 45.
        """
        self.note_some(0, self._subjects.limit())
        return self._noted

    def note_some(self, start: int, end: int) -> None:
        """Compare the subjects with numbers from `start` up to, but not including, `end`."""
        limit = self._subjects.limit()
        if limit > len(self._noted):
            numbers.resize(self._noted, limit)
        self.work += (end - start) // _SCANNED_PER_WORK
        if self._set is not None:
            for subject in range(start, min(end, limit)):
                if self._noted[subject] == _UNKNOWN and self._subjects.count(subject) > 0:
                    self._noted[subject] = _YES if self._compare(subject) else _NO
            return
        left = len(self._patterns)
        for pattern in self._patterns:
            left -= 1
            no = _UNKNOWN if left else _NO
            self.work += self._subjects.note(pattern, self._noted, _YES, no, start, end)

    def _compare(self, subject: int) -> bool:
        self.work += self._cost
        if self._set is not None:
            return self._set.matches(self._subjects.name(subject))
        found = False
        for pattern in self._patterns:
            found = found or self._subjects.is_match(subject, pattern)
        return found


def count_wanted(index: MessageIndex, noted: bytearray, start: int, end: int) -> int:
    """Count the messages from sequence `start` to `end` whose subject is noted as wanted.

    `noted` has a byte for the number of each subject that is stored. The walk over the rows takes
    some 3 ns a message, where the look-up of each message by its sequence takes 44.
    """
    count = 0
    for i in range(index.block_at_or_after(start), index.block_count()):
        block = index.block_number(i)
        first = (block.number << layout.BITS) + 1
        if first > end:
            break
        low = (start - 1) & layout.MASK if start > first else 0
        high = (end - 1) & layout.MASK if (end - 1) >> layout.BITS == block.number else layout.MASK
        rows = block.rows
        for j in range(block.row_at_or_after(low), block.row_at_or_after(high + 1)):
            if layout.is_live(rows, j) and noted[layout.get(rows, j, layout.ROW_SUBJECT)] == _YES:
                count += 1
    return count
