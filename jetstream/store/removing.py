"""Removal from a store: single messages, the oldest ones, or those of some subjects.

A few messages are taken out of the indexes one after the other; many by a sweep over the rows.
Either way all that is removed is gone when a function returns; only the names of subjects of which
nothing is left are forgotten in later turns.
"""

from __future__ import annotations

from functools import partial

from midge.jetstream.store import layout, lookups
from midge.jetstream.store.block import Block
from midge.jetstream.store.filters import Filters
from midge.jetstream.store.indexes import Indexes
from midge.jetstream.store.message_index import MessageIndex
from midge.jetstream.store.subject_index import SubjectIndex

_FAR = 0xFFFFFFFF
_NO_LIMIT = 0xFFFFFFFFFFFFFFFF

_SINGLY = 16
"""Most messages that a limit removes one by one: publishing one makes one or two go."""

_CHAIN_SHARE = 32
"""A subject with a smaller share of all messages is followed from message to message.

That costs 130 to 320 ns each, where a sweep looks at all rows at some 5 ns each.
"""

# Work, in items of 10 ns; see `Store.work`.
_ROW_WORK = 4  # a row that is looked up by its sequence
_DROP_WORK = 20  # a message that is taken out of the index

_TURN_SUBJECTS = 5000  # forgotten in one turn, at 100 to 200 ns each


class Sweep:
    """Removes what matches `wanted`, up to but not including `upto_seq`, in one walk over the rows.

    A sweep removes the oldest messages of each subject, so a removed message is always the first of
    its subject, and only the new beginning of the chain needs an update. That takes some 5 to 10 ns
    a row; removing messages from the index one by one takes 130 to 320 ns each.

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
        for i in range(block.row_at_or_after(low), block.row_at_or_after(high + 1)):
            rows = block.rows
            if not layout.is_live(rows, i):
                continue
            number = layout.get(rows, i, layout.ROW_SUBJECT)
            if self._wanted.is_all or self._wanted.is_match(number):
                self.count += 1
                self.size += layout.get(rows, i, layout.ROW_SIZE)
                layout.set_deviation(rows, i, layout.ROW_SIZE, 0)
                self._shorten(block, i, number)
                if self._is_open and self._is_done():
                    break
        if self.count != before:
            block.clear_up(self.count - before)

    def _shorten(self, block: Block, i: int, number: int) -> None:
        """Move the start of a subject's chain past the message of a row, its first."""
        after = layout.get(block.rows, i, layout.ROW_AFTER)
        if after == 0:
            self._subjects.vacate(number)
            return
        seq = (block.number << layout.BITS) + block.row_place(i) + 1
        seq += after if after != _FAR else self._index.after(seq)
        self._subjects.shorten(number, seq)
        if self._is_open or seq >= self._upto:
            self._index.set_before(seq, 0)


def enforce(store: Indexes, max_messages: int, max_bytes: int) -> int:
    """Remove the oldest messages until both limits hold."""
    store.medium.admit()
    count = 0
    most_messages = max_messages if max_messages >= 0 else _NO_LIMIT
    most_bytes = max_bytes if max_bytes >= 0 else _NO_LIMIT
    while store.messages > most_messages or store.bytes > most_bytes:
        if count == _SINGLY:
            surplus = store.messages - most_messages if store.messages > most_messages else 0
            size = store.bytes - most_bytes if store.bytes > most_bytes else 0
            count += _sweep(store, (), _NO_LIMIT, surplus, size)
            break
        store.drop(store.first_seq)
        count += 1
    if count:
        store.medium.moved()
    return count


def trim_subject(store: Indexes, subject: bytes, keep: int) -> int:
    """Remove the oldest messages of the literal `subject` but `keep`."""
    store.medium.admit()
    number = store.subject_index.find(subject, 0, len(subject))
    count = 0
    while number >= 0 and store.subject_index.count(number) > keep:
        is_last = store.subject_index.count(number) == 1
        _drop_and_note(store, store.subject_index.first(number))
        count += 1
        if is_last:
            break
    return count


def purge(store: Indexes, subject: bytes | None, upto_seq: int, keep: int) -> int:
    """Remove messages of `subject`, below `upto_seq`, but the newest `keep`."""
    store.medium.admit()
    upto = store.last_seq + 1
    if upto_seq and upto_seq < upto:
        upto = upto_seq
    if subject is None or subject == b">":
        return _purge_head(store, upto, keep)
    if keep > 0:
        return _purge_but(store, subject, upto, keep)
    count = remove_matching(store, subject, upto)
    if count:
        store.medium.purged(subject, upto)
    return count


def _drop_and_note(store: Indexes, seq: int) -> None:
    """Remove a message and note it, as one of those at the head or on its own."""
    at_head = seq == store.first_seq
    if store.drop(seq):
        if at_head:
            store.medium.moved()
        else:
            store.medium.removed(seq)


def _purge_head(store: Indexes, upto: int, keep: int) -> int:
    before = store.messages
    if keep == 0 and upto > store.last_seq:
        store.clear()
    elif before > keep and store.first_seq < upto:
        if keep:
            upto = min(upto, seq_number(store.message_index, before - keep) + 1)
        _sweep(store, (), upto, _NO_LIMIT, 0)
    if before != store.messages:
        store.medium.moved()
    return before - store.messages


def seq_number(index: MessageIndex, count: int) -> int:
    """Return the sequence of message number `count`, of which there must be as many."""
    for i in range(index.block_count()):
        block = index.block_number(i)
        if count > block.live:
            count -= block.live
            continue
        place = block.next_place(0)
        while count > 1:
            place = block.next_place(place + 1)
            count -= 1
        return (block.number << layout.BITS) + place + 1
    return 0


def _purge_but(store: Indexes, subject: bytes, upto: int, keep: int) -> int:
    """Remove the oldest that match, as long as more than `keep` are left."""
    if store.filters_of((subject,)).literal is not None:
        return _purge_chain_but(store, subject, upto, keep)
    matching = lookups.count_pending(store, (subject,), 1, False, 0)
    if matching <= keep:
        return 0
    last = _nth_matching(store, (subject,), matching - keep)
    if last >= upto:
        last = upto - 1
    count = remove_matching(store, subject, last + 1)
    if count:
        store.medium.purged(subject, last + 1)
    return count


def _purge_chain_but(store: Indexes, subject: bytes, upto: int, keep: int) -> int:
    """Do the same for one subject: its messages are walked, from the nearer end on."""
    number = store.subject_index.find(subject, 0, len(subject))
    if number < 0 or store.subject_index.count(number) <= keep:
        return 0
    gone = store.subject_index.count(number) - keep
    if gone * _CHAIN_SHARE >= store.messages:
        count = remove_matching(store, subject, min(_stays_from(store, number, keep), upto))
    else:
        count = 0
        while gone > 0 and store.subject_index.first(number) < upto:
            store.drop(store.subject_index.first(number))
            count += 1
            gone -= 1
        store.work += count * _DROP_WORK
    if count:
        first = store.subject_index.first(number) if store.subject_index.count(number) else upto
        store.medium.purged(subject, min(first, upto))
    return count


def _stays_from(store: Indexes, number: int, keep: int) -> int:
    """Return the first of the last `keep` messages of a subject that has more than those."""
    seq = store.subject_index.last(number)
    store.work += keep
    while keep > 1:
        seq -= store.message_index.before(seq)
        keep -= 1
    return seq


def _nth_matching(store: Indexes, filters: tuple[bytes, ...], count: int) -> int:
    """Return the sequence of message number `count` of those that match, which is there."""
    wanted = store.filters_of(filters)
    index = store.message_index
    store.work += store.messages * _ROW_WORK
    seq = index.next_live(1)
    while True:
        position = index.locate(seq)
        if wanted.is_all or wanted.is_match(index.block.subject(position)):
            count -= 1
            if count == 0:
                return seq
        seq = index.next_live(seq + 1)


def remove_matching(store: Indexes, subject: bytes, upto: int) -> int:
    """Remove the messages below `upto` with a subject, which may have wildcards."""
    filters = store.filters_of((subject,))
    if filters.literal is not None:
        number = store.subject_index.find(subject, 0, len(subject))
        if number < 0:
            return 0
        if store.subject_index.count(number) * _CHAIN_SHARE < store.messages:
            return _remove_chain(store, number, upto)
    return _sweep(store, (subject,), upto, _NO_LIMIT, 0)


def _remove_chain(store: Indexes, number: int, upto: int) -> int:
    """Remove the messages below `upto` with one subject, along its chain."""
    count = 0
    left = store.subject_index.count(number)
    while left > 0:
        seq = store.subject_index.first(number)
        if seq >= upto:
            break
        store.drop(seq)
        count += 1
        left -= 1
    store.work += count * _DROP_WORK
    return count


def _sweep(
    store: Indexes, filters: tuple[bytes, ...], upto: int, least_count: int, least_size: int
) -> int:
    """Remove the oldest matching messages below `upto`; return their number.

    It ends when at least `least_count` messages and `least_size` bytes have been removed.
    """
    if store.keepers:
        _keep_before(store, filters, upto, least_count, least_size)
    wanted = store.filters_of(filters)
    sweep = Sweep(store.message_index, store.subject_index, wanted, upto, least_count, least_size)
    runs = store.runs
    sizes: list[int] = []
    for i in range(len(runs)):
        run = runs[i]
        end = _NO_LIMIT
        if i + 1 < len(runs):
            following = runs[i + 1]
            end = following.first_seq
        sweep.take(run.first_seq, end)
        run.live -= sweep.count
        run.live_bytes -= sweep.size
        sizes.append(sweep.size)
    store.work += sweep.total_count if wanted.is_all else store.messages
    _swept(store, sweep)
    for i in range(len(sizes) - 1, -1, -1):
        if sizes[i]:
            store.medium.run_shrank(i, runs[i], sizes[i])
    return sweep.total_count


def _keep_before(
    store: Indexes, filters: tuple[bytes, ...], upto: int, least_count: int, least_size: int
) -> None:
    """Show the keepers, if any, what a sweep is going to remove."""
    end = min(upto - 1, store.last_seq)
    count = size = 0
    seq = lookups.next_seq(store, filters, store.first_seq, end) if end else 0
    while seq and store.keepers and (count < least_count or size < least_size):
        count += 1
        size += store.message_index.block.size(store.message_index.locate(seq))
        store.keep(seq)
        seq = lookups.next_seq(store, filters, seq + 1, end) if seq < end else 0


def _swept(store: Indexes, sweep: Sweep) -> None:
    """Update the indexes after a sweep."""
    if sweep.total_count == 0:
        return
    store.message_index.drop_empty()
    store.messages -= sweep.total_count
    store.bytes -= sweep.total_size
    store.removals += sweep.total_count
    store.subject_count = store.subject_index.subject_count
    first = store.message_index.next_live(store.first_seq) if store.messages > 0 else 0
    store.first_seq = first or store.last_seq + 1
    if not store.is_releasing:
        store.is_releasing = True
        store.turns.add(partial(release_subjects, store))


def release_subjects(store: Indexes) -> bool:
    """Forget some of the subjects of which nothing is left; False when that is done."""
    store.is_releasing = store.subject_index.release_vacated(_TURN_SUBJECTS)
    return store.is_releasing
