"""The subjects of a stream: what is stored of each, found by name or by pattern.

A subject has a number as long as something of it is stored. The names lie one after the other in
one buffer, the figures in rows of a second one, and a third is an open-addressed hash table of
numbers: about 60 bytes a subject beside its name, where a dictionary of objects takes 300.
"""

from __future__ import annotations

from midge.jetstream.store import numbers
from midge.jetstream.store.interface import MessageView

_ROW = 40  # bytes: name's place 8, count 8, first 8, last 8, hash 4, name's length 4
_COUNT = 8
_FIRST = 16
_LAST = 24
_HASH = 32
_LENGTH = 36

_SMALLEST_TABLE = 8
_NONE = 0xFFFFFFFFFFFFFFFF

_WASTE_MIN = 64 * 1024  # bytes of names no longer used before they are squeezed out


class SubjectIndex:
    """Numbers subjects from 0 on; a number is used again once its subject has gone."""

    __slots__ = (
        "_common",
        "_free",
        "_names",
        "_rows",
        "_seed",
        "_table",
        "_used",
        "_vacated",
        "_waste",
        "narrowed",
        "reused",
        "subject_count",
    )

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.reused = 0  # grows whenever a number comes to stand for another subject
        self.narrowed = 0  # grows whenever `are_all_below` may answer otherwise than before
        self.clear()

    def clear(self) -> None:
        """Forget every subject."""
        self._names = bytearray()
        self._rows = bytearray()
        self._table = bytearray(_SMALLEST_TABLE * 4)
        self._used = 0  # rows in use or free
        self._free = _NONE  # the first free row; the next one stands in its field for the first
        self._waste = 0
        self._vacated = bytearray()  # numbers of subjects of which nothing is left, to be released
        self.subject_count = 0
        self.reused += 1
        self._common = bytearray()  # what all names begin with that were entered since `clear`
        self.narrowed += 1

    def find(self, data: numbers.Octets, start: int, end: int) -> int:
        """Return the number of the subject ``data[start:end]``, or -1."""
        hashed = numbers.seeded_hash(data, start, end, self._seed)
        mask = (len(self._table) >> 2) - 1
        slot = hashed & mask
        while True:
            entry = numbers.u32(self._table, slot)
            if entry == 0:
                return -1
            row = (entry - 1) * _ROW
            if (
                numbers.u32_at(self._rows, row + _HASH) == hashed
                and numbers.u32_at(self._rows, row + _LENGTH) == end - start
                and numbers.is_same(self._names, numbers.u64_at(self._rows, row), data, start, end)
            ):
                return entry - 1
            slot = (slot + 1) & mask

    def ensure(self, data: numbers.Octets, start: int, end: int) -> int:
        """Return the number of the subject ``data[start:end]``, a new one if it has none."""
        subject = self.find(data, start, end)
        if subject >= 0:
            if self.count(subject) == 0:  # it had been vacated
                self.subject_count += 1
            return subject
        if (self.subject_count + (len(self._vacated) >> 2)) * 4 >= (len(self._table) >> 2) * 3:
            self._rehash((len(self._table) >> 2) * 2)
        subject = self._take_row()
        row = subject * _ROW
        position = len(self._names)
        numbers.resize(self._names, position + end - start)
        numbers.put(self._names, position, data, start, end)
        self._narrow(position, position + end - start)
        numbers.set_u64_at(self._rows, row, position)
        numbers.set_u64_at(self._rows, row + _COUNT, 0)
        numbers.set_u64_at(self._rows, row + _FIRST, 0)
        numbers.set_u64_at(self._rows, row + _LAST, 0)
        hashed = numbers.seeded_hash(data, start, end, self._seed)
        numbers.set_u32_at(self._rows, row + _HASH, hashed)
        numbers.set_u32_at(self._rows, row + _LENGTH, end - start)
        self._enter(subject, hashed)
        self.subject_count += 1
        return subject

    def shorten(self, subject: int, first: int) -> None:
        """Take note that the first message of a subject has gone, and which is the next one."""
        row = subject * _ROW
        count = numbers.u64_at(self._rows, row + _COUNT) - 1
        numbers.set_u64_at(self._rows, row + _COUNT, count)
        numbers.set_u64_at(self._rows, row + _FIRST, first)

    def vacate(self, subject: int) -> None:
        """Take note that nothing of a subject is left; `release_vacated` is to forget it later."""
        row = subject * _ROW
        numbers.set_u64_at(self._rows, row + _COUNT, 0)
        numbers.set_u64_at(self._rows, row + _FIRST, 0)
        numbers.set_u64_at(self._rows, row + _LAST, 0)
        end = len(self._vacated)
        numbers.resize(self._vacated, end + 4)
        numbers.set_u32(self._vacated, end >> 2, subject)
        self.subject_count -= 1

    def release_vacated(self, limit: int) -> bool:
        """Forget up to `limit` subjects that have been vacated; False when none is left."""
        left = len(self._vacated) >> 2
        while left > 0 and limit > 0:
            limit -= 1
            left -= 1
            subject = numbers.u32(self._vacated, left)
            is_free = numbers.u64_at(self._rows, subject * _ROW) == _NONE
            if not is_free and self.count(subject) == 0:
                self.subject_count += 1
                self.release(subject)
        numbers.resize(self._vacated, left * 4)
        return left > 0

    def release(self, subject: int) -> None:
        """Forget a subject; its number may be given to another one."""
        row = subject * _ROW
        mask = (len(self._table) >> 2) - 1
        hole = numbers.u32_at(self._rows, row + _HASH) & mask
        while numbers.u32(self._table, hole) != subject + 1:
            hole = (hole + 1) & mask
        slot = hole
        while True:  # close the gap, so that no search ends before what it looks for
            slot = (slot + 1) & mask
            entry = numbers.u32(self._table, slot)
            if entry == 0:
                break
            wanted = numbers.u32_at(self._rows, (entry - 1) * _ROW + _HASH) & mask
            if ((slot - wanted) & mask) >= ((slot - hole) & mask):
                numbers.set_u32(self._table, hole, entry)
                hole = slot
        numbers.set_u32(self._table, hole, 0)
        self._waste += numbers.u32_at(self._rows, row + _LENGTH)
        numbers.set_u64_at(self._rows, row, _NONE)
        numbers.set_u64_at(self._rows, row + _COUNT, 0)
        numbers.set_u64_at(self._rows, row + _FIRST, self._free)
        self._free = subject
        self.subject_count -= 1
        if self._waste > _WASTE_MIN and self._waste * 2 > len(self._names):
            self._squeeze()

    def limit(self) -> int:
        """Return the number that is larger than that of any subject."""
        return self._used

    def name(self, subject: int) -> bytes:
        """Return the subject of a number."""
        start = numbers.u64_at(self._rows, subject * _ROW)
        length = numbers.u32_at(self._rows, subject * _ROW + _LENGTH)
        return numbers.take(self._names, start, start + length)

    def show(self, subject: int, view: MessageView) -> None:
        """Set `view` to the subject of a number."""
        view.subject = self._names
        view.subject_start = numbers.u64_at(self._rows, subject * _ROW)
        length = numbers.u32_at(self._rows, subject * _ROW + _LENGTH)
        view.subject_end = view.subject_start + length

    def count(self, subject: int) -> int:
        """Return how many messages are stored; 0 for a number that is not in use."""
        return numbers.u64_at(self._rows, subject * _ROW + _COUNT)

    def set_count(self, subject: int, count: int) -> None:
        """Set how many messages are stored."""
        numbers.set_u64_at(self._rows, subject * _ROW + _COUNT, count)

    def first(self, subject: int) -> int:
        """Return the first sequence."""
        return numbers.u64_at(self._rows, subject * _ROW + _FIRST)

    def set_first(self, subject: int, seq: int) -> None:
        """Set the first sequence."""
        numbers.set_u64_at(self._rows, subject * _ROW + _FIRST, seq)

    def last(self, subject: int) -> int:
        """Return the last sequence."""
        return numbers.u64_at(self._rows, subject * _ROW + _LAST)

    def set_last(self, subject: int, seq: int) -> None:
        """Set the last sequence."""
        numbers.set_u64_at(self._rows, subject * _ROW + _LAST, seq)

    def is_match(self, subject: int, pattern: Pattern) -> bool:
        """Tell whether the subject of a number in use is one that `pattern` stands for."""
        row = subject * _ROW
        start = numbers.u64_at(self._rows, row)
        end = start + numbers.u32_at(self._rows, row + _LENGTH)
        return pattern.is_match(self._names, start, end)

    def size(self) -> int:
        """Return the bytes of memory that the index takes."""
        return len(self._names) + len(self._rows) + len(self._table)

    def are_all_below(self, pattern: Pattern) -> bool:
        """Tell whether every subject here is sure to match, such as all of one bucket.

        That is so for a pattern whose only wildcard is a ``>`` behind what all begin with.
        """
        size = pattern.prefix_size
        return 0 < size <= len(self._common) and numbers.is_same(
            self._common, 0, pattern.text, 0, size
        )

    def _narrow(self, start: int, end: int) -> None:
        """Take note of a new name, ``_names[start:end]``: what is common to all may be less."""
        size = len(self._common)
        if end - start >= size > 0 and numbers.is_same(self._names, start, self._common, 0, size):
            return
        if size == 0 and self._used > 1:
            return  # nothing was common to the others
        self.narrowed += 1
        if size == 0:
            self._common = bytearray(numbers.take(self._names, start, end))
            return
        same = 0
        while same < min(size, end - start) and self._common[same] == self._names[start + same]:
            same += 1
        numbers.resize(self._common, same)

    def _take_row(self) -> int:
        if self._free != _NONE:
            subject = self._free
            self._free = numbers.u64_at(self._rows, subject * _ROW + _FIRST)
            self.reused += 1
            return subject
        subject = self._used
        self._used += 1
        numbers.resize(self._rows, self._used * _ROW)
        return subject

    def _enter(self, subject: int, hashed: int) -> None:
        """Put a number into the hash table."""
        mask = (len(self._table) >> 2) - 1
        slot = hashed & mask
        while numbers.u32(self._table, slot) != 0:
            slot = (slot + 1) & mask
        numbers.set_u32(self._table, slot, subject + 1)

    def _rehash(self, slots: int) -> None:
        self._table = bytearray(slots * 4)
        for subject in range(self._used):
            if numbers.u64_at(self._rows, subject * _ROW) != _NONE:
                self._enter(subject, numbers.u32_at(self._rows, subject * _ROW + _HASH))

    def _squeeze(self) -> None:
        """Copy the names that are in use into a buffer without the others."""
        names = bytearray()
        numbers.resize(names, len(self._names) - self._waste)
        position = 0
        for subject in range(self._used):
            row = subject * _ROW
            start = numbers.u64_at(self._rows, row)
            if start == _NONE:
                continue
            end = start + numbers.u32_at(self._rows, row + _LENGTH)
            numbers.put(names, position, self._names, start, end)
            numbers.set_u64_at(self._rows, row, position)
            position += end - start
        self._names = names
        self._waste = 0


class Pattern:
    """A subject that may hold wildcards, taken apart once to be compared with many."""

    __slots__ = ("_fixed", "is_all", "is_literal", "prefix_size", "subject", "text")

    def __init__(self, subject: bytes) -> None:
        tokens = subject.split(b".")
        wild = [i for i, token in enumerate(tokens) if token in {b"*", b">"}]
        self.subject = subject
        self.is_literal = not wild
        self.is_all = subject == b">"
        literal = b".".join(tokens[: wild[0]]) if wild else subject
        # What every match begins with, the dot before the first wildcard included.
        self._fixed = len(literal) + (1 if wild and wild[0] > 0 else 0)
        self.text = bytearray(subject)
        # How long that is where nothing but a ``>`` comes behind it; 0 otherwise.
        self.prefix_size = self._fixed if subject[self._fixed :] == b">" else 0

    def is_match(self, data: bytearray, start: int, end: int) -> bool:
        """Tell whether the valid literal subject ``data[start:end]`` matches."""
        length = end - start
        if length < self._fixed:
            return False
        if self.is_literal and length != self._fixed:
            return False
        if not numbers.is_same(data, start, self.text, 0, self._fixed):
            return False
        if self.is_literal or self.is_all:
            return True
        return self._is_tail_match(data, start + self._fixed, end)

    def _is_tail_match(self, data: bytearray, i: int, end: int) -> bool:
        """Compare token by token from the first wildcard on."""
        p = self._fixed
        length = len(self.text)
        while p < length:
            if i >= end:
                return False
            token_ends = p + 1 == length or self.text[p + 1] == 0x2E
            if token_ends and self.text[p] == 0x3E:
                return True
            if token_ends and self.text[p] == 0x2A:
                while i < end and data[i] != 0x2E:
                    i += 1
                p += 1
            else:
                while p < length and self.text[p] != 0x2E:
                    if i >= end or data[i] != self.text[p]:
                        return False
                    i += 1
                    p += 1
            if p == length:
                return i == end
            if i >= end or data[i] != 0x2E:
                return False
            i += 1
            p += 1
        return False
