"""The subjects of a stream with their message counts and chains, found by name or by pattern.

A subject has a number as long as a message with it is stored. The names lie one after the other in
one buffer, the figures in rows of a second one, and a third is an open-addressed hash table of
numbers: about 60 bytes a subject beside its name, where a dictionary of objects takes 300.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.interface import MessageView
from midge.jetstream.store.numbers import BytesLike
from midge.protocol import lines

if TYPE_CHECKING:
    from midge.jetstream.store.file.frames import CheckpointReader, CheckpointWriter

_SMALLEST_TABLE = 8
_NONE = 0xFFFFFFFFFFFFFFFF

_MOVED_AT_ONCE = 8
"""Numbers entered into a larger table for each new subject.

With the table between half and three quarters full, three for each would do.
"""

_WASTE_MIN = 64 * 1024  # bytes of names no longer used before they are squeezed out


class SubjectIndex:
    """Numbers subjects from 0 on; a number is used again once its subject has gone."""

    __slots__ = (
        "_common",
        "_free",
        "_larger",
        "_moved",
        "_names",
        "_rows",
        "_seed",
        "_table",
        "_used",
        "_vacated",
        "_waste",
        "_watched",
        "before",
        "holds_unsendable",
        "known",
        "narrowed",
        "subject_count",
    )

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.before = 0
        self.holds_unsendable = False  # since `clear`; looked at once for each new subject
        self.known: bytearray | None = None  # eight bytes for a number, as in `KnownSubjects`
        self._watched: list[bytearray] = []
        self.narrowed = 0  # grows whenever `are_all_below` may answer otherwise than before
        self.clear()

    def clear(self) -> None:
        """Forget every subject."""
        self._names = bytearray()
        self._rows = bytearray()
        self._table = bytearray(_SMALLEST_TABLE * 4)
        self._larger = bytearray()  # the table to come, as long as it is being filled
        self._moved = 0  # the numbers below this one are in it
        self._used = 0  # rows in use or free
        self._free = _NONE  # the first free row; the next one stands in its field for the first
        self._waste = 0
        self._vacated = bytearray()  # numbers of subjects of which nothing is left, to be released
        self.subject_count = 0
        self.holds_unsendable = False
        self._common = bytearray()  # what all names begin with that were entered since `clear`
        self.narrowed += 1
        if self.known is not None:
            numbers.resize(self.known, 0)
        for notes in self._watched:
            numbers.resize(notes, 0)

    def watch(self, notes: bytearray) -> None:
        """Set the byte of a number in `notes` to zero when another subject gets the number.

        All watched buffers are dropped when every subject is removed at once.
        """
        self._watched.append(notes)

    def unwatch_all(self) -> None:
        """Leave all notes as they are from now on."""
        self._watched.clear()

    def find(self, data: numbers.BytesLike, start: int, end: int) -> int:
        """Return the number of the subject ``data[start:end]``, or -1."""
        hashed = numbers.seeded_hash(data, start, end, self._seed)
        table = self._table
        rows = self._rows
        mask = (len(table) >> 2) - 1
        slot = hashed & mask
        while True:
            entry = numbers.u32(table, slot)
            if entry == 0:
                return -1
            row = (entry - 1) * layout.SUBJECT
            if (
                numbers.u32_at(rows, row + layout.SUBJECT_HASH) == hashed
                and numbers.u32_at(rows, row + layout.SUBJECT_LENGTH) == end - start
                and numbers.is_same(self._names, numbers.u64_at(rows, row), data, start, end)
            ):
                return entry - 1
            slot = (slot + 1) & mask

    def ensure(self, data: numbers.BytesLike, start: int, end: int) -> int:
        """Return the number of the subject ``data[start:end]``, a new one if it has none."""
        subject = self.find(data, start, end)
        if subject >= 0:
            if self.count(subject) == 0:  # it had been vacated
                self.subject_count += 1
            return subject
        self._grow()
        subject = self._take_row()
        row = subject * layout.SUBJECT
        position = len(self._names)
        numbers.resize(self._names, position + end - start)
        numbers.put(self._names, position, data, start, end)
        self._narrow(position, position + end - start)
        if lines.has_blank(self._names, position, position + end - start):
            self.holds_unsendable = True
        numbers.set_u64_at(self._rows, row, position)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_COUNT, 0)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_FIRST, 0)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_LAST, 0)
        hashed = numbers.seeded_hash(data, start, end, self._seed)
        numbers.set_u32_at(self._rows, row + layout.SUBJECT_HASH, hashed)
        numbers.set_u32_at(self._rows, row + layout.SUBJECT_LENGTH, end - start)
        self._enter(self._table, subject, hashed)
        if subject < self._moved:
            self._enter(self._larger, subject, hashed)
        self.subject_count += 1
        self._unmark(subject)
        return subject

    def _unmark(self, subject: int) -> None:
        """Forget that a subject is known, until it is marked again."""
        if self.known is not None and subject * 8 < len(self.known):
            numbers.set_u64_at(self.known, subject * 8, 0)

    def append(self, data: numbers.BytesLike, start: int, end: int, seq: int) -> int:
        """Count a message, the last of the subject ``data[start:end]``; return its number.

        `before` is the one before it of the subject then, 0 for none.
        """
        subject = self.ensure(data, start, end)
        rows = self._rows
        row = subject * layout.SUBJECT
        count = numbers.u64_at(rows, row + layout.SUBJECT_COUNT)
        if count > 0:
            self.before = numbers.u64_at(rows, row + layout.SUBJECT_LAST)
        else:
            self.before = 0
            numbers.set_u64_at(rows, row + layout.SUBJECT_FIRST, seq)
        numbers.set_u64_at(rows, row + layout.SUBJECT_LAST, seq)
        numbers.set_u64_at(rows, row + layout.SUBJECT_COUNT, count + 1)
        return subject

    def append_known(self, subject: int, seq: int) -> int:
        """Count a new last message of a subject that has others; return the one before."""
        rows = self._rows
        row = subject * layout.SUBJECT
        before = numbers.u64_at(rows, row + layout.SUBJECT_LAST)
        numbers.set_u64_at(rows, row + layout.SUBJECT_LAST, seq)
        numbers.set_u64_at(
            rows, row + layout.SUBJECT_COUNT, numbers.u64_at(rows, row + layout.SUBJECT_COUNT) + 1
        )
        return before

    def shorten(self, subject: int, first: int) -> None:
        """Count the removal of a subject's first message; `first` is the new first one."""
        row = subject * layout.SUBJECT
        count = numbers.u64_at(self._rows, row + layout.SUBJECT_COUNT) - 1
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_COUNT, count)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_FIRST, first)

    def vacate(self, subject: int) -> None:
        """Count the removal of a subject's last message; `release_vacated` frees the number."""
        row = subject * layout.SUBJECT
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_COUNT, 0)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_FIRST, 0)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_LAST, 0)
        self._unmark(subject)
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
            is_free = numbers.u64_at(self._rows, subject * layout.SUBJECT) == _NONE
            if not is_free and self.count(subject) == 0:
                self.subject_count += 1
                self.release(subject)
        numbers.resize(self._vacated, left * 4)
        return left > 0

    def release(self, subject: int) -> None:
        """Forget a subject; its number may be given to another one."""
        row = subject * layout.SUBJECT
        self._leave(self._table, subject)
        if subject < self._moved:
            self._leave(self._larger, subject)
        self._waste += numbers.u32_at(self._rows, row + layout.SUBJECT_LENGTH)
        numbers.set_u64_at(self._rows, row, _NONE)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_COUNT, 0)
        numbers.set_u64_at(self._rows, row + layout.SUBJECT_FIRST, self._free)
        self._free = subject
        self.subject_count -= 1
        if self._waste > _WASTE_MIN and self._waste * 2 > len(self._names):
            self._squeeze()

    def limit(self) -> int:
        """Return the number that is larger than that of any subject."""
        return self._used

    def name(self, subject: int) -> bytes:
        """Return the subject of a number."""
        start = numbers.u64_at(self._rows, subject * layout.SUBJECT)
        length = numbers.u32_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_LENGTH)
        return numbers.take(self._names, start, start + length)

    def show(self, subject: int, view: MessageView) -> None:
        """Set `view` to the subject of a number."""
        view.subject = self._names
        view.subject_start = numbers.u64_at(self._rows, subject * layout.SUBJECT)
        length = numbers.u32_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_LENGTH)
        view.subject_end = view.subject_start + length

    def count(self, subject: int) -> int:
        """Return how many messages are stored; 0 for a number that is not in use."""
        return numbers.u64_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_COUNT)

    def set_count(self, subject: int, count: int) -> None:
        """Set how many messages are stored."""
        numbers.set_u64_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_COUNT, count)

    def first(self, subject: int) -> int:
        """Return the first sequence."""
        return numbers.u64_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_FIRST)

    def set_first(self, subject: int, seq: int) -> None:
        """Set the first sequence."""
        numbers.set_u64_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_FIRST, seq)

    def last(self, subject: int) -> int:
        """Return the last sequence."""
        return numbers.u64_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_LAST)

    def set_last(self, subject: int, seq: int) -> None:
        """Set the last sequence."""
        numbers.set_u64_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_LAST, seq)

    def is_match(self, subject: int, pattern: Pattern) -> bool:
        """Return whether `pattern` matches the subject of a number in use."""
        row = subject * layout.SUBJECT
        start = numbers.u64_at(self._rows, row)
        end = start + numbers.u32_at(self._rows, row + layout.SUBJECT_LENGTH)
        return pattern.is_match(self._names, start, end)

    def note(
        self, pattern: Pattern, notes: bytearray, yes: int, no: int, start: int, end: int
    ) -> int:
        """Compare each stored subject whose byte in `notes` is zero; note `yes` or `no` there.

        That goes for the subjects with the numbers from `start` up to but not including `end`.
        Returns how many were compared.
        """
        compared = 0
        for subject in range(start, min(end, self._used)):
            if notes[subject] == 0 and self.count(subject) > 0:
                notes[subject] = yes if self.is_match(subject, pattern) else no
                compared += 1
        return compared

    def size(self) -> int:
        """Return the bytes of memory that the index takes."""
        return len(self._names) + len(self._rows) + len(self._table) + len(self._larger)

    def are_all_below(self, pattern: Pattern) -> bool:
        """Return whether every subject here is sure to match, such as all of one bucket.

        That is so for a pattern whose only wildcard is a ``>`` behind what all begin with.
        """
        size = pattern.prefix_size
        return 0 < size <= len(self._common) and numbers.is_same(
            self._common, 0, pattern.text, 0, size
        )

    def save(self, out: CheckpointWriter) -> None:
        """Write the index down, but for the table, which another process hashes with its seed."""
        self.release_vacated(len(self._vacated))
        if self._waste:
            self._squeeze()
        out.number(self._free)
        out.number(self.holds_unsendable)
        out.octets(self._common)
        out.octets(self._names)
        out.octets(self._rows)

    def restore(self, source: CheckpointReader) -> None:
        """Become what `save` has written down; raise UnfitCheckpoint if that cannot be an index."""
        self.clear()
        self._free = source.number()
        self.holds_unsendable = source.number() != 0
        self._common = source.octets()
        names = self._names = source.octets()
        rows = self._rows = source.octets()
        self._used = len(rows) // layout.SUBJECT
        slots = _SMALLEST_TABLE
        while slots <= self._used * 2:
            slots *= 2
        self._table = bytearray(slots * 4)
        for subject in range(self._used):
            row = subject * layout.SUBJECT
            start = numbers.u64_at(rows, row)
            if start == _NONE:
                continue
            end = start + numbers.u32_at(rows, row + layout.SUBJECT_LENGTH)
            source.expect(end <= len(names), "a subject lies outside the names")
            hashed = numbers.seeded_hash(names, start, end, self._seed)
            numbers.set_u32_at(rows, row + layout.SUBJECT_HASH, hashed)
            self._enter(self._table, subject, hashed)
            self.subject_count += 1

    def _narrow(self, start: int, end: int) -> None:
        """Shorten the common prefix of all names for a new one, ``_names[start:end]``."""
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
            self._free = numbers.u64_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_FIRST)
            for notes in self._watched:
                if subject < len(notes):
                    notes[subject] = 0
            return subject
        subject = self._used
        self._used += 1
        numbers.resize(self._rows, self._used * layout.SUBJECT)
        return subject

    def _enter(self, table: bytearray, subject: int, hashed: int) -> None:
        """Put a number into a hash table."""
        mask = (len(table) >> 2) - 1
        slot = hashed & mask
        while numbers.u32(table, slot) != 0:
            slot = (slot + 1) & mask
        numbers.set_u32(table, slot, subject + 1)

    def _leave(self, table: bytearray, subject: int) -> None:
        """Take a number out of a hash table."""
        mask = (len(table) >> 2) - 1
        hole = numbers.u32_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_HASH) & mask
        while numbers.u32(table, hole) != subject + 1:
            hole = (hole + 1) & mask
        slot = hole
        while True:  # close the gap, so that no search ends before what it looks for
            slot = (slot + 1) & mask
            entry = numbers.u32(table, slot)
            if entry == 0:
                break
            wanted = (
                numbers.u32_at(self._rows, (entry - 1) * layout.SUBJECT + layout.SUBJECT_HASH)
                & mask
            )
            if ((slot - wanted) & mask) >= ((slot - hole) & mask):
                numbers.set_u32(table, hole, entry)
                hole = slot
        numbers.set_u32(table, hole, 0)

    def _grow(self) -> None:
        """Fill a larger table, some numbers for each new subject; then go over to it.

        To fill it at once would take 35 ms with a million subjects. It is begun when half of the
        slots are taken and used from three quarters on at the latest.
        """
        taken = self.subject_count + (len(self._vacated) >> 2)
        slots = len(self._table) >> 2
        if taken * 2 < slots:
            return
        if not self._larger:
            self._larger = bytearray(slots * 8)
        self._move(_MOVED_AT_ONCE if taken * 4 < slots * 3 else self._used)
        if self._moved == self._used:
            self._table = self._larger
            self._larger = bytearray()
            self._moved = 0

    def _move(self, count: int) -> None:
        """Copy `count` more numbers into the larger table."""
        end = min(self._moved + count, self._used)
        for subject in range(self._moved, end):
            if numbers.u64_at(self._rows, subject * layout.SUBJECT) != _NONE:
                hashed = numbers.u32_at(self._rows, subject * layout.SUBJECT + layout.SUBJECT_HASH)
                self._enter(self._larger, subject, hashed)
        self._moved = end

    def _squeeze(self) -> None:
        """Copy the names that are in use into a buffer without the others."""
        names = bytearray()
        numbers.resize(names, len(self._names) - self._waste)
        position = 0
        for subject in range(self._used):
            row = subject * layout.SUBJECT
            start = numbers.u64_at(self._rows, row)
            if start == _NONE:
                continue
            end = start + numbers.u32_at(self._rows, row + layout.SUBJECT_LENGTH)
            numbers.put(names, position, self._names, start, end)
            numbers.set_u64_at(self._rows, row, position)
            position += end - start
        self._names = names
        self._waste = 0


class Pattern:
    """A subject that may hold wildcards, taken apart once to be compared with many."""

    __slots__ = ("_end", "_fixed", "is_all", "is_literal", "prefix_size", "subject", "text")

    def __init__(self, subject: bytes) -> None:
        tokens = subject.split(b".")
        wild = [i for i, token in enumerate(tokens) if token in {b"*", b">"}]
        self.subject = subject
        self.is_literal = not wild
        self.is_all = subject == b">"
        literal = b".".join(tokens[: wild[0]]) if wild else subject
        # What every match begins with, the dot before the first wildcard included.
        self._fixed = len(literal) + (1 if wild and wild[0] > 0 else 0)
        # And what every match ends with: nothing where the last token is a wildcard.
        self._end = len(b".".join(tokens[wild[-1] + 1 :])) if wild else 0
        self.text = bytearray(subject)
        # How long the beginning is where nothing but a ``>`` comes behind it; 0 otherwise.
        self.prefix_size = self._fixed if subject[self._fixed :] == b">" else 0

    def is_match(self, data: bytearray, start: int, end: int) -> bool:
        """Return whether the valid literal subject ``data[start:end]`` matches."""
        length = end - start
        if length < self._fixed + self._end:
            return False
        if self.is_literal and length != self._fixed:
            return False
        if not numbers.is_same(data, start, self.text, 0, self._fixed):
            return False
        if self.is_literal or self.is_all:
            return True
        whole = len(self.text)
        if not numbers.is_same(data, end - self._end, self.text, whole - self._end, whole):
            return False
        return self._is_tail_match(data, start + self._fixed, end, self.text)

    def _is_tail_match(self, data: BytesLike, i: int, end: int, text: BytesLike) -> bool:
        """Compare token by token from the first wildcard on; `text` is the whole pattern.

        `data` and `text` are C pointers where this is compiled: no byte of `data` from `end` on is
        read, and none of `text` from its length on.
        """
        p = self._fixed
        length = len(self.text)
        while p < length:
            if i >= end:
                return False
            token_ends = p + 1 == length or text[p + 1] == 0x2E
            if token_ends and text[p] == 0x3E:
                return True
            if token_ends and text[p] == 0x2A:
                while i < end and data[i] != 0x2E:
                    i += 1
                p += 1
            else:
                while p < length and text[p] != 0x2E:
                    if i >= end or data[i] != text[p]:
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
