"""Look-ups in a store's index: by sequence, subject, pattern and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from midge.jetstream.store.counting import count_wanted, next_missing
from midge.jetstream.store.filters import Filters
from midge.jetstream.store.indexed import Run
from midge.jetstream.store.interface import MessageView, StoredMessage, SubjectState, Waiter
from midge.jetstream.store.message_index import WANTED
from midge.jetstream.store.removing import RemovingStore

_CHAIN_MAX = 256  # messages of one subject that are walked rather than the rows of all messages
_ROWS_MAX = 4096  # rows looked through before all subjects are
_PWC = ord("*")  # numbers: to look for bytes in bytes, CPython raises and catches an exception
_FWC = ord(">")
_ROWS_PER_SUBJECT = 8
"""Rows that are looked through before all subjects are: one for so many subjects.

A row takes 44 ns and a subject 11, so that is half of the time that all subjects take.
"""
_NOTED_ROWS = 4
"""Subjects that are compared rather than each row looked up: at most so many for one row."""
_WANTED = WANTED  # a C number where this is compiled

# Work, in items of 10 ns; see `StreamStore.work`.
_ROWS_PER_WORK = 3  # rows that a scan passes
_ROW_WORK = 4  # a row that is looked up by its sequence


class SearchableStore(RemovingStore):
    """Answers every question but for where the bytes of a message are."""

    def load(self, seq: int) -> StoredMessage | None:
        """Return the message of this sequence, or None."""
        return self._view.copied() if self.show(seq, self._view) else None

    def load_departing(self, seq: int, take: Callable[[StoredMessage | None], object]) -> None:
        """Hand over a message that is about to be removed; see `StreamStore`."""
        take(self.load(seq))

    def load_next(
        self, filters: tuple[bytes, ...], start_seq: int, end_seq: int = 0
    ) -> StoredMessage | None:
        """Return the first message from `start_seq` to `end_seq` that matches any filter."""
        seq = self.next_seq(filters, start_seq, end_seq)
        return self.load(seq) if seq else None

    def show_next(
        self, filters: tuple[bytes, ...], start_seq: int, end_seq: int, view: MessageView
    ) -> bool:
        """Set `view` to what `load_next` would return; False instead of None."""
        seq = 0
        if not filters and start_seq <= end_seq and self._index.locate(start_seq) >= 0:
            seq = start_seq  # as nearly always, when a consumer takes them all
        else:
            seq = self.next_seq(filters, start_seq, end_seq)
        return seq != 0 and self.show(seq, view)

    def try_next(
        self,
        filters: tuple[bytes, ...],
        start_seq: int,
        end_seq: int,
        view: MessageView,
        waiter: Waiter,
    ) -> int:
        """Do what `show_next` does, without waiting for a disk; see `StreamStore`."""
        return 1 if self.show_next(filters, start_seq, end_seq, view) else 0

    def is_at_hand(self, seq: int, waiter: Waiter) -> bool:
        """Return whether a message can be loaded without waiting for a disk; see `StreamStore`."""
        return True

    def is_time_at_hand(self, seq: int, waiter: Waiter) -> bool:
        """Return whether `time_of` can be told without waiting for a disk; see `StreamStore`."""
        return True

    def is_first_time_at_hand(self, waiter: Waiter) -> bool:
        """Return whether `first_time_ns` can be told without waiting; see `StreamStore`."""
        return True

    def show(self, seq: int, view: MessageView) -> bool:
        """Set `view` to the message of this sequence; False if there is none."""
        position = self._index.locate(seq)
        if position < 0:
            return False
        block = self._index.block
        view.seq = seq
        run = self._runs[self._run_index(seq)]
        return self._view_at(
            view, run, block.offset(position), block.size(position), block.subject(position)
        )

    def next_seq(self, filters: tuple[bytes, ...], start_seq: int, end_seq: int = 0) -> int:
        """Return the sequence that `load_next` would return the message of; 0 for none."""
        end = end_seq or self.last_seq
        start = max(start_seq, self.first_seq)
        if self.messages == 0 or start > end:
            return 0
        wanted = self._filters_of(filters)
        if wanted.literal is not None:
            number = self._subjects.find(wanted.literal, 0, len(wanted.literal))
            return self._next_of(number, start, end) if number >= 0 else 0
        if wanted.takes_all():
            seq = self._index.next_live(start)
            return seq if seq <= end else 0
        seq = self._index.next_wanted(wanted.noted(), start, end)
        looked = 0
        before = wanted.work
        while seq and not wanted.is_match(self._subject_number(seq)):
            looked += 1
            if looked == _ROWS_MAX:
                wanted.note_all()
            seq = self._index.next_wanted(wanted.noted(), seq + 1, end) if seq < end else 0
        passed = (seq or end) - start
        passed = min(passed, self.messages)
        self.work += wanted.work - before + looked * _ROW_WORK + passed // _ROWS_PER_WORK
        return seq

    def next_last_seq(self, filters: tuple[bytes, ...], start_seq: int, upto_seq: int = 0) -> int:
        """Return the first sequence from `start_seq` on that is its subject's last; 0 for none."""
        upto = upto_seq or self.last_seq
        start = max(start_seq, self.first_seq)
        left = max(_ROWS_MAX, self._subjects.limit() // _ROWS_PER_SUBJECT)
        seq = self.next_seq(filters, start_seq, upto)
        while seq:
            after = self._index.after(seq)
            if after == 0 or seq + after > upto:
                return seq
            left -= 1
            if left == 0:
                return self._first_last(self._filters_of(filters), start, upto)
            seq = self.next_seq(filters, seq + 1, upto)
        return 0

    def _first_last(self, wanted: Filters, start: int, upto: int) -> int:
        """Return the first sequence from `start` on that is its subject's last; 0 for none."""
        found = 0
        self._charge_all(wanted)
        for number in range(self._subjects.limit()):
            if self._is_wanted(wanted, number):
                last = self._last_upto(number, upto)
                if last >= start and (found == 0 or last < found):
                    found = last
        return found

    def exists(self, seq: int) -> bool:
        """Return whether there is a message of this sequence."""
        return self._index.locate(seq) >= 0

    def subject_of(self, seq: int) -> bytes | None:
        """Return the subject of the message of this sequence; None for none."""
        if self._index.locate(seq) < 0:
            return None
        return self._subjects.name(self._subject_number(seq))

    def size_of(self, seq: int) -> int:
        """Return what the message of this sequence counts towards `bytes`; 0 for none."""
        position = self._index.locate(seq)
        return self._index.block.size(position) if position >= 0 else 0

    def first_time_ns(self) -> int:
        """Return when the first message was stored; 0 without messages."""
        return self.time_of(self.first_seq) if self.messages > 0 else 0

    def first_for_subject(self, subject: bytes) -> int:
        """Return the first sequence of a literal subject; 0 for none."""
        number = self._subjects.find(subject, 0, len(subject))
        return self._subjects.first(number) if number >= 0 else 0

    def last_for_subject(self, subject: bytes) -> int:
        """Return the last sequence of a literal subject; 0 for none."""
        number = self._subjects.find(subject, 0, len(subject))
        return self._subjects.last(number) if number >= 0 else 0

    def count_for_subject(self, subject: bytes) -> int:
        """Return how many messages of a literal subject are stored."""
        number = self._subjects.find(subject, 0, len(subject))
        return self._subjects.count(number) if number >= 0 else 0

    def last_matching(self, subject: bytes, upto_seq: int = 0, is_near: bool = False) -> int:
        """Return the last sequence, up to `upto_seq`, that matches `subject`; 0 for none.

        With `is_near` only the last messages are looked at.
        """
        upto = min(upto_seq, self.last_seq) if upto_seq else self.last_seq
        if _PWC not in subject and _FWC not in subject:
            number = self._subjects.find(subject, 0, len(subject))
            return self._last_upto(number, upto) if number >= 0 else 0
        wanted = self._filters_of((subject,))
        if wanted.literal is not None:
            number = self._subjects.find(subject, 0, len(subject))
            return self._last_upto(number, upto) if number >= 0 else 0
        seq = self._index.previous_live(upto)
        looked = 0
        is_whole = upto == self.last_seq
        before = wanted.work
        while seq and not wanted.takes_all() and not wanted.is_match(self._subject_number(seq)):
            if is_whole and seq <= wanted.last_upto <= upto and self._is_noted_last(wanted):
                seq = wanted.last_seq
                break
            if looked == _ROWS_MAX:
                if is_near:
                    return 0
                seq = self._last_of_all(wanted, seq)
                break
            looked += 1
            seq = self._index.previous_live(seq - 1)
        self.work += wanted.work - before + looked * _ROW_WORK
        if is_whole:
            wanted.last_upto = upto
            wanted.last_seq = seq
        return seq

    def _is_noted_last(self, wanted: Filters) -> bool:
        """Return True if the last match noted is still there, or there was none."""
        return wanted.last_seq == 0 or self._index.locate(wanted.last_seq) >= 0

    def subjects(self, subject: bytes = b">") -> Iterator[SubjectState]:
        """Iterate over the stored subjects that match, in no order."""
        wanted = self._filters_of((subject,))
        found: list[SubjectState] = []
        for number in range(self._subjects.limit()):
            if self._is_wanted(wanted, number):
                found.append(self._state(number))
        return iter(found)

    def crowded(self, limit: int, number: int, count: int) -> tuple[list[bytes], int]:
        """Return the subjects with more than `limit` messages, of `count` subjects from `number`.

        Behind them stands the number to go on with; -1 at the end.
        """
        found = []
        end = min(number + count, self._subjects.limit())
        for subject in range(number, end):
            if self._subjects.count(subject) > limit:
                found.append(self._subjects.name(subject))
        return found, self._number_after(end)

    def _number_after(self, end: int) -> int:
        """Return the number to go on with behind those below `end`; -1 at the end."""
        return end if end < self._subjects.limit() else -1

    def subject_numbers(self) -> int:
        """Return the number that is above those of all stored subjects."""
        return self._subjects.limit()

    def subject_names(self, subject: bytes, number: int, count: int) -> tuple[list[bytes], int]:
        """Return the subjects that match, in no order, of `count` numbers from `number`."""
        wanted = self._filters_of((subject,))
        found = []
        end = min(number + count, self._subjects.limit())
        for one in range(number, end):
            if self._is_wanted(wanted, one):
                found.append(self._subjects.name(one))
        return found, self._number_after(end)

    def note_subjects(self, filters: tuple[bytes, ...], number: int, count: int) -> int:
        """Compare `count` subjects from `number` with filters, for what is asked of them next."""
        end = min(number + count, self._subjects.limit())
        self._filters_of(filters).note_some(number, end)
        return self._number_after(end)

    def newest(
        self, filters: tuple[bytes, ...], number: int, count: int, upto_seq: int, most: int
    ) -> tuple[list[int], int]:
        """Return the last sequences up to `upto_seq` of `count` subjects from `number` that match.

        They are at most `most`. Behind them stands the number to continue with, -1 at the end.
        """
        wanted = self._filters_of(filters)
        before = wanted.work
        found: list[int] = []
        end = min(number + count, self._subjects.limit())
        one = number
        while one < end and len(found) < most:
            if self._is_wanted(wanted, one):
                seq = self._last_upto(one, upto_seq)
                if seq:
                    found.append(seq)
            one += 1
        self.work += wanted.work - before + one - number
        return found, self._number_after(one)

    def newest_between(
        self, filters: tuple[bytes, ...], start_seq: int, end_seq: int, upto_seq: int, most: int
    ) -> list[int]:
        """Return the first `most` sequences of a range that are last up to `upto_seq`."""
        found: list[int] = []
        seq = self.next_seq(filters, start_seq, end_seq)
        while seq and len(found) < most:
            self.work += _ROW_WORK
            after = self._index.after(seq)
            if after == 0 or seq + after > upto_seq:
                found.append(seq)
            seq = self.next_seq(filters, seq + 1, end_seq) if seq < end_seq else 0
        return found

    def stretch_end(self, start_seq: int, messages: int) -> int:
        """Return a sequence before which lie at least so many messages from `start_seq` on."""
        return self._index.stretch_end(start_seq, messages)

    def count_subjects(self, subject: bytes = b">") -> int:
        """Return how many stored subjects match."""
        return self._count_last(self._filters_of((subject,)), 1, self.last_seq)

    def count_pending(
        self,
        filters: tuple[bytes, ...],
        start_seq: int,
        last_per_subject: bool = False,
        end_seq: int = 0,
    ) -> int:
        """Count the messages from `start_seq` to `end_seq` that match any filter, exactly."""
        end = min(end_seq, self.last_seq) if end_seq else self.last_seq
        start = max(start_seq, self.first_seq)
        if self.messages == 0 or start > end:
            return 0
        wanted = self._filters_of(filters)
        if last_per_subject:
            return self._count_last(wanted, start, end)
        if wanted.takes_all():
            return self._index.count_from(start) - self._index.count_from(end + 1)
        if wanted.literal is not None:
            number = self._subjects.find(wanted.literal, 0, len(wanted.literal))
            return self._count_of(number, start, end) if number >= 0 else 0
        if end == self.last_seq and start - self.first_seq < end - start:
            return self._count_all(wanted) - self._count_rows(wanted, self.first_seq, start - 1)
        return self._count_rows(wanted, start, end)

    def seq_at_time(self, time_ns: int) -> int:
        """Return the first sequence stored at or after `time_ns`; `last_seq` + 1 for none."""
        low, high = self.around_time(time_ns)
        while low < high:
            middle = (low + high) >> 1
            seq = self._index.next_live(middle)
            if seq == 0 or self.time_of(seq) >= time_ns:
                high = middle
            else:
                low = seq + 1
        found = self._index.next_live(low)
        return found or self.last_seq + 1

    def around_time(self, time_ns: int) -> tuple[int, int]:
        """Return between which sequences times have to be read; see `StreamStore`."""
        end = self.last_seq + 1
        if self.messages == 0 or time_ns > self.last_time_ns:
            return end, end
        low = max(self._index.at_time(time_ns), self.first_seq)
        high = self._index.until_time(time_ns)
        return low, high if high > 0 else end

    def deleted_count(self) -> int:
        """Return how many sequences from the first to the last are without a message."""
        if self.first_seq > self.last_seq or self.first_seq == 0:
            return 0
        return self.last_seq - self.first_seq + 1 - self.messages

    def deleted(self) -> Iterator[int]:
        """Iterate over those sequences."""
        seq = self.first_seq or 1
        while True:
            start, end = self.gap(seq)
            if start == end:
                return
            yield from range(start, end)
            seq = end + 1

    def gap(self, seq: int) -> tuple[int, int]:
        """Return the next sequences without a message from `seq` on; see `StreamStore`."""
        start = next_missing(self._index, seq, self.last_seq)
        if start == 0:
            return 0, 0
        return start, self._index.next_live(start) or self.last_seq + 1

    def _subject_number(self, seq: int) -> int:
        """Return the number of the subject of a message that is there."""
        position = self._index.locate(seq)
        return self._index.block.subject(position)

    def _state(self, number: int) -> SubjectState:
        subjects = self._subjects
        return SubjectState(
            subjects.name(number),
            subjects.count(number),
            subjects.first(number),
            subjects.last(number),
        )

    def _is_wanted(self, wanted: Filters, number: int) -> bool:
        return self._subjects.count(number) > 0 and (wanted.takes_all() or wanted.is_match(number))

    def _next_of(self, number: int, start: int, end: int) -> int:
        """Return the first sequence from `start` to `end` of a subject; 0 for none."""
        subjects = self._subjects
        first = subjects.first(number)
        if first >= start:
            return first if first <= end else 0
        if subjects.last(number) < start:
            return 0
        before = start - 1
        position = self._index.locate(before)
        if position >= 0 and self._index.block.subject(position) == number:
            seq = before + self._index.after(before)
        elif subjects.count(number) <= _CHAIN_MAX:
            seq = self._chain_back(number, start)
        else:
            seq = self._index.next_of(number, start, end)
            passed = min((seq or end) - start, self.messages)
            self.work += passed // _ROWS_PER_WORK
            return seq
        return seq if seq <= end else 0

    def _chain_back(self, number: int, start: int) -> int:
        """Return the first sequence from `start` on of a subject whose last is not before it."""
        seq = self._subjects.last(number)
        while True:
            before = self._index.before(seq)
            if before == 0 or seq - before < start:
                return seq
            seq -= before

    def _last_upto(self, number: int, upto: int) -> int:
        """Return the last sequence of a subject up to `upto`; 0 for none."""
        seq = self._subjects.last(number)
        while seq > upto:
            before = self._index.before(seq)
            if before == 0:
                return 0
            seq -= before
        return seq

    def _last_of_all(self, wanted: Filters, upto: int) -> int:
        """Return the last sequence up to `upto` of all subjects that match; 0 for none."""
        wanted.note_all()
        self.work += self._subjects.limit()
        found = 0
        for number in range(self._subjects.limit()):
            if self._is_wanted(wanted, number) and self._subjects.last(number) > found:
                found = max(found, self._last_upto(number, upto))
        return found

    def _count_last(self, wanted: Filters, start: int, end: int) -> int:
        """Count the subjects that match and of which the last up to `end` is from `start` on."""
        if wanted.takes_all() and start <= self.first_seq and end >= self.last_seq:
            return self.subject_count
        if wanted.literal is not None:
            number = self._subjects.find(wanted.literal, 0, len(wanted.literal))
            return 1 if number >= 0 and self._last_upto(number, end) >= start else 0
        count = 0
        self._charge_all(wanted)
        for number in range(self._subjects.limit()):
            if self._is_wanted(wanted, number) and self._last_upto(number, end) >= start:
                count += 1
        return count

    def _charge_all(self, wanted: Filters) -> None:
        """Count that all subjects are compared, and looked at."""
        before = wanted.work
        wanted.note_all()
        self.work += wanted.work - before + self._subjects.limit()

    def _count_all(self, wanted: Filters) -> int:
        self._charge_all(wanted)
        noted = wanted.noted()
        count = 0
        for number in range(self._subjects.limit()):
            if noted[number] == _WANTED:
                count += self._subjects.count(number)
        return count

    def _count_rows(self, wanted: Filters, start: int, end: int) -> int:
        rows = min(end + 1 - start, self.messages)
        if (end + 1 - start) * _NOTED_ROWS >= self._subjects.limit():
            self._charge_all(wanted)
            self.work += rows // _ROWS_PER_WORK
            return count_wanted(self._index, wanted.noted(), start, end)
        self.work += rows * _ROW_WORK
        count = 0
        seq = self._index.next_live(start)
        while seq and seq <= end:
            if wanted.is_match(self._subject_number(seq)):
                count += 1
            seq = self._index.next_live(seq + 1)
        return count

    def _count_of(self, number: int, start: int, end: int) -> int:
        """Count the messages of one subject from `start` to `end`."""
        subjects = self._subjects
        if subjects.first(number) >= start and subjects.last(number) <= end:
            return subjects.count(number)
        count = 0
        seq = self._next_of(number, start, end)
        while seq and seq <= end:
            count += 1
            after = self._index.after(seq)
            seq = seq + after if after else 0
        self.work += count * _ROW_WORK
        return count

    # What an implementation adds.

    def _view_at(self, view: MessageView, run: Run, offset: int, size: int, number: int) -> bool:
        """Have `view`, whose sequence is set, show the message that lies at `offset` of a run.

        It counts `size` bytes, and its subject has this number. False when it cannot be read.
        """
        raise NotImplementedError
