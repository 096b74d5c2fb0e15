"""Look-ups in a store's indexes: by sequence, subject, pattern and time.

None of them reads a message. Filters and sequences are those of `Store`.
"""

from __future__ import annotations

from collections.abc import Iterator

from midge.jetstream.store import layout
from midge.jetstream.store.block import WANTED
from midge.jetstream.store.filters import Filters, count_wanted
from midge.jetstream.store.indexes import Indexes
from midge.jetstream.store.interface import SubjectState
from midge.jetstream.store.message_index import MessageIndex
from midge.protocol import lines

_CHAIN_MAX = 256  # messages of one subject that are walked rather than the rows of all messages
_ROWS_MAX = 4096  # rows looked through before all subjects are
_PWC = ord("*")  # numbers: to look for bytes in bytes, CPython raises and catches an exception
_FWC = ord(">")
_ROWS_PER_SUBJECT = 8
"""Subjects for each row that is visited before all subjects are compared.

A row takes 44 ns and a subject 11, so the rows take half of the time of all subjects.
"""
_NOTED_ROWS = 4
"""Most subjects for each row where comparing all subjects is preferred to visiting the rows."""
_WANTED = WANTED  # a C number where this is compiled

# Work, in items of 10 ns; see `Store.work`.
_ROWS_PER_WORK = 3  # rows that a scan passes
_ROW_WORK = 4  # a row that is looked up by its sequence


def next_seq(store: Indexes, filters: tuple[bytes, ...], start_seq: int, end_seq: int) -> int:
    """Return the sequence of the first message that matches any filter; 0 for none."""
    end = end_seq or store.last_seq
    start = max(start_seq, store.first_seq)
    if store.messages == 0 or start > end:
        return 0
    wanted = store.filters_of(filters)
    if wanted.literal is not None:
        number = store.subject_index.find(wanted.literal, 0, len(wanted.literal))
        return _next_of(store, number, start, end) if number >= 0 else 0
    if wanted.takes_all():
        seq = store.message_index.next_live(start)
        return seq if seq <= end else 0
    seq = store.message_index.next_wanted(wanted.noted(), start, end)
    looked = 0
    before = wanted.work
    while seq and not wanted.is_match(_subject_number(store, seq)):
        looked += 1
        if looked == _ROWS_MAX:
            wanted.note_all()
        seq = store.message_index.next_wanted(wanted.noted(), seq + 1, end) if seq < end else 0
    passed = (seq or end) - start
    passed = min(passed, store.messages)
    store.work += wanted.work - before + looked * _ROW_WORK + passed // _ROWS_PER_WORK
    return seq


def next_last_seq(store: Indexes, filters: tuple[bytes, ...], start_seq: int, upto_seq: int) -> int:
    """Return the first sequence from `start_seq` on that is its subject's last; 0 for none."""
    upto = upto_seq or store.last_seq
    start = max(start_seq, store.first_seq)
    left = max(_ROWS_MAX, store.subject_index.limit() // _ROWS_PER_SUBJECT)
    seq = next_seq(store, filters, start_seq, upto)
    while seq:
        after = store.message_index.after(seq)
        if after == 0 or seq + after > upto:
            return seq
        left -= 1
        if left == 0:
            return _first_last(store, store.filters_of(filters), start, upto)
        seq = next_seq(store, filters, seq + 1, upto)
    return 0


def _first_last(store: Indexes, wanted: Filters, start: int, upto: int) -> int:
    """Return the first sequence from `start` on that is its subject's last; 0 for none."""
    found = 0
    _charge_all(store, wanted)
    for number in range(store.subject_index.limit()):
        if _is_wanted(store, wanted, number):
            last = _last_upto(store, number, upto)
            if last >= start and (found == 0 or last < found):
                found = last
    return found


def last_matching(store: Indexes, subject: bytes, upto_seq: int, is_near: bool) -> int:
    """Return the last sequence, up to `upto_seq`, that matches `subject`; 0 for none.

    With `is_near` only the last messages are looked at.
    """
    upto = min(upto_seq, store.last_seq) if upto_seq else store.last_seq
    if _PWC not in subject and _FWC not in subject:
        number = store.subject_index.find(subject, 0, len(subject))
        return _last_upto(store, number, upto) if number >= 0 else 0
    wanted = store.filters_of((subject,))
    if wanted.literal is not None:
        number = store.subject_index.find(subject, 0, len(subject))
        return _last_upto(store, number, upto) if number >= 0 else 0
    seq = store.message_index.previous_live(upto)
    looked = 0
    is_whole = upto == store.last_seq
    before = wanted.work
    while seq and not wanted.takes_all() and not wanted.is_match(_subject_number(store, seq)):
        if is_whole and seq <= wanted.last_upto <= upto and _is_noted_last(store, wanted):
            seq = wanted.last_seq
            break
        if looked == _ROWS_MAX:
            if is_near:
                return 0
            seq = _last_of_all(store, wanted, seq)
            break
        looked += 1
        seq = store.message_index.previous_live(seq - 1)
    store.work += wanted.work - before + looked * _ROW_WORK
    if is_whole:
        wanted.last_upto = upto
        wanted.last_seq = seq
    return seq


def _is_noted_last(store: Indexes, wanted: Filters) -> bool:
    """Return True if the last match noted is still there, or there was none."""
    return wanted.last_seq == 0 or store.message_index.locate(wanted.last_seq) >= 0


def subjects(store: Indexes, subject: bytes) -> Iterator[SubjectState]:
    """Iterate over the stored subjects that match, in no order."""
    wanted = store.filters_of((subject,))
    found: list[SubjectState] = []
    for number in range(store.subject_index.limit()):
        if _is_wanted(store, wanted, number):
            found.append(_state(store, number))
    return iter(found)


def subjects_over_limit(
    store: Indexes, limit: int, number: int, count: int
) -> tuple[list[bytes], int]:
    """Return the subjects with more than `limit` messages, of `count` subjects from `number`.

    Subjects are numbered from 0 on. Behind them stands the number to go on with; -1 when
    all were given.
    """
    found = []
    end = min(number + count, store.subject_index.limit())
    for subject in range(number, end):
        if store.subject_index.count(subject) > limit:
            found.append(store.subject_index.name(subject))
    return found, _number_after(store, end)


def _number_after(store: Indexes, end: int) -> int:
    """Return the number to go on with behind those below `end`; -1 at the end."""
    return end if end < store.subject_index.limit() else -1


def subject_names(
    store: Indexes, subject: bytes, number: int, count: int
) -> tuple[list[bytes], int]:
    """Return the subjects that match, in no order, of `count` numbers from `number`.

    Behind them stands the number to go on with; -1 when all were given.
    """
    wanted = store.filters_of((subject,))
    found = []
    end = min(number + count, store.subject_index.limit())
    for one in range(number, end):
        if _is_wanted(store, wanted, one):
            found.append(store.subject_index.name(one))
    return found, _number_after(store, end)


def note_subjects(store: Indexes, filters: tuple[bytes, ...], number: int, count: int) -> int:
    """Compare `count` subjects from `number` with filters, and cache the results.

    Returns the number to continue with; -1 when there are no more.
    """
    end = min(number + count, store.subject_index.limit())
    store.filters_of(filters).note_some(number, end)
    return _number_after(store, end)


def newest(
    store: Indexes, filters: tuple[bytes, ...], number: int, count: int, upto_seq: int, most: int
) -> tuple[list[int], int]:
    """Return the last sequences up to `upto_seq` of `count` subjects from `number` that match.

    They are in no order, and at most `most`. Behind them stands the number to go on with; -1
    when there are no more. That looks at every message behind `upto_seq`.
    """
    wanted = store.filters_of(filters)
    before = wanted.work
    found: list[int] = []
    end = min(number + count, store.subject_index.limit())
    one = number
    while one < end and len(found) < most:
        if _is_wanted(store, wanted, one):
            seq = _last_upto(store, one, upto_seq)
            if seq:
                found.append(seq)
        one += 1
    store.work += wanted.work - before + one - number
    return found, _number_after(store, one)


def newest_between(
    store: Indexes,
    filters: tuple[bytes, ...],
    start_seq: int,
    end_seq: int,
    upto_seq: int,
    most: int,
) -> list[int]:
    """Return the first `most` sequences from `start_seq` to `end_seq` that match and are last.

    Last means: of the messages of their subject up to `upto_seq`.
    """
    found: list[int] = []
    seq = next_seq(store, filters, start_seq, end_seq)
    while seq and len(found) < most:
        store.work += _ROW_WORK
        after = store.message_index.after(seq)
        if after == 0 or seq + after > upto_seq:
            found.append(seq)
        seq = next_seq(store, filters, seq + 1, end_seq) if seq < end_seq else 0
    return found


def count_pending(
    store: Indexes,
    filters: tuple[bytes, ...],
    start_seq: int,
    last_per_subject: bool,
    end_seq: int,
) -> int:
    """Count the messages from `start_seq` to `end_seq` that match any filter, exactly."""
    end = min(end_seq, store.last_seq) if end_seq else store.last_seq
    start = max(start_seq, store.first_seq)
    if store.messages == 0 or start > end:
        return 0
    wanted = store.filters_of(filters)
    if last_per_subject:
        return _count_last(store, wanted, start, end)
    if wanted.takes_all():
        return store.message_index.count_from(start) - store.message_index.count_from(end + 1)
    if wanted.literal is not None:
        number = store.subject_index.find(wanted.literal, 0, len(wanted.literal))
        return _count_of(store, number, start, end) if number >= 0 else 0
    if end == store.last_seq and start - store.first_seq < end - start:
        return _count_all(store, wanted) - _count_rows(store, wanted, store.first_seq, start - 1)
    return _count_rows(store, wanted, start, end)


def around_time(store: Indexes, time_ns: int) -> tuple[int, int]:
    """Return between which sequences times have to be read; see `Store`."""
    end = store.last_seq + 1
    if store.messages == 0 or time_ns > store.last_time_ns:
        return end, end
    low = max(store.message_index.at_time(time_ns), store.first_seq)
    high = store.message_index.until_time(time_ns)
    return low, high if high > 0 else end


def deleted_count(store: Indexes) -> int:
    """Return how many sequences from the first to the last are without a message."""
    if store.first_seq > store.last_seq or store.first_seq == 0:
        return 0
    return store.last_seq - store.first_seq + 1 - store.messages


def deleted(store: Indexes) -> Iterator[int]:
    """Iterate over those sequences."""
    seq = store.first_seq or 1
    while True:
        start, end = gap(store, seq)
        if start == end:
            return
        yield from range(start, end)
        seq = end + 1


def gap(store: Indexes, seq: int) -> tuple[int, int]:
    """Return the first of those sequences from `seq` on, and the next one with a message.

    Behind the last message that is the sequence after `last_seq`. Two zeros: there is none.
    """
    start = next_missing(store.message_index, seq, store.last_seq)
    if start == 0:
        return 0, 0
    return start, store.message_index.next_live(start) or store.last_seq + 1


def next_missing(index: MessageIndex, seq: int, last: int) -> int:
    """Return the first sequence from `seq` to `last` without a message; 0 for none."""
    while seq <= last:
        number = (seq - 1) >> layout.BITS
        i = index.block_at_or_after(seq)
        if i == index.block_count():
            return seq
        block = index.block_number(i)
        if block.number != number:
            return seq
        place = (seq - 1) & layout.MASK
        if block.live == layout.SPAN:
            place = layout.SPAN
        while place < layout.SPAN and block.row(place) >= 0:
            place += 1
        seq = (number << layout.BITS) + place + 1
        if place < layout.SPAN:
            return seq if seq <= last else 0
    return 0


def unsendable_subject(store: Indexes) -> bytes | None:
    """Return a stored subject that no line of the protocol can carry; None for none.

    No message is taken under such a subject: a store that was written before may hold some.
    """
    if not store.subject_index.holds_unsendable:
        return None
    for number in range(store.subject_index.limit()):
        if store.subject_index.count(number) > 0:
            name = store.subject_index.name(number)
            if lines.has_blank(name, 0, len(name)):
                return name
    return None


def _subject_number(store: Indexes, seq: int) -> int:
    """Return the number of the subject of a message that is there."""
    row = store.message_index.locate(seq)
    return store.message_index.block.subject(row)


def _state(store: Indexes, number: int) -> SubjectState:
    subjects = store.subject_index
    return SubjectState(
        subjects.name(number),
        subjects.count(number),
        subjects.first(number),
        subjects.last(number),
    )


def _is_wanted(store: Indexes, wanted: Filters, number: int) -> bool:
    return store.subject_index.count(number) > 0 and (wanted.takes_all() or wanted.is_match(number))


def _next_of(store: Indexes, number: int, start: int, end: int) -> int:
    """Return the first sequence from `start` to `end` of a subject; 0 for none."""
    subjects = store.subject_index
    first = subjects.first(number)
    if first >= start:
        return first if first <= end else 0
    if subjects.last(number) < start:
        return 0
    before = start - 1
    row = store.message_index.locate(before)
    if row >= 0 and store.message_index.block.subject(row) == number:
        seq = before + store.message_index.after(before)
    elif subjects.count(number) <= _CHAIN_MAX:
        seq = _chain_back(store, number, start)
    else:
        seq = store.message_index.next_of(number, start, end)
        passed = min((seq or end) - start, store.messages)
        store.work += passed // _ROWS_PER_WORK
        return seq
    return seq if seq <= end else 0


def _chain_back(store: Indexes, number: int, start: int) -> int:
    """Return the first sequence from `start` on of a subject whose last is not before it."""
    seq = store.subject_index.last(number)
    while True:
        before = store.message_index.before(seq)
        if before == 0 or seq - before < start:
            return seq
        seq -= before


def _last_upto(store: Indexes, number: int, upto: int) -> int:
    """Return the last sequence of a subject up to `upto`; 0 for none."""
    seq = store.subject_index.last(number)
    while seq > upto:
        before = store.message_index.before(seq)
        if before == 0:
            return 0
        seq -= before
    return seq


def _last_of_all(store: Indexes, wanted: Filters, upto: int) -> int:
    """Return the last sequence up to `upto` of all subjects that match; 0 for none."""
    wanted.note_all()
    store.work += store.subject_index.limit()
    found = 0
    for number in range(store.subject_index.limit()):
        if _is_wanted(store, wanted, number) and store.subject_index.last(number) > found:
            found = max(found, _last_upto(store, number, upto))
    return found


def _count_last(store: Indexes, wanted: Filters, start: int, end: int) -> int:
    """Count the subjects that match and of which the last up to `end` is from `start` on."""
    if wanted.takes_all() and start <= store.first_seq and end >= store.last_seq:
        return store.subject_count
    if wanted.literal is not None:
        number = store.subject_index.find(wanted.literal, 0, len(wanted.literal))
        return 1 if number >= 0 and _last_upto(store, number, end) >= start else 0
    count = 0
    _charge_all(store, wanted)
    for number in range(store.subject_index.limit()):
        if _is_wanted(store, wanted, number) and _last_upto(store, number, end) >= start:
            count += 1
    return count


def _charge_all(store: Indexes, wanted: Filters) -> None:
    """Count that all subjects are compared, and looked at."""
    before = wanted.work
    wanted.note_all()
    store.work += wanted.work - before + store.subject_index.limit()


def _count_all(store: Indexes, wanted: Filters) -> int:
    _charge_all(store, wanted)
    noted = wanted.noted()
    count = 0
    for number in range(store.subject_index.limit()):
        if noted[number] == _WANTED:
            count += store.subject_index.count(number)
    return count


def _count_rows(store: Indexes, wanted: Filters, start: int, end: int) -> int:
    rows = min(end + 1 - start, store.messages)
    if (end + 1 - start) * _NOTED_ROWS >= store.subject_index.limit():
        _charge_all(store, wanted)
        store.work += rows // _ROWS_PER_WORK
        return count_wanted(store.message_index, wanted.noted(), start, end)
    store.work += rows * _ROW_WORK
    count = 0
    seq = store.message_index.next_live(start)
    while seq and seq <= end:
        if wanted.is_match(_subject_number(store, seq)):
            count += 1
        seq = store.message_index.next_live(seq + 1)
    return count


def _count_of(store: Indexes, number: int, start: int, end: int) -> int:
    """Count the messages of one subject from `start` to `end`."""
    subjects = store.subject_index
    if subjects.first(number) >= start and subjects.last(number) <= end:
        return subjects.count(number)
    count = 0
    seq = _next_of(store, number, start, end)
    while seq and seq <= end:
        count += 1
        after = store.message_index.after(seq)
        seq = seq + after if after else 0
    store.work += count * _ROW_WORK
    return count
