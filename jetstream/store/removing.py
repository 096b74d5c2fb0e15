"""Removal from a store: single messages, the oldest ones, or those of some subjects.

A few messages are taken out of the index one after the other; many by a sweep over the rows. Either
way all that is removed is gone when a method returns; only the names of subjects of which nothing
is left are forgotten in later turns.
"""

from __future__ import annotations

from midge.jetstream.store.counting import seq_number
from midge.jetstream.store.indexed import IndexedStore
from midge.jetstream.store.interface import Waiter
from midge.jetstream.store.sweep import Sweep
from midge.jetstream.store.turns import Turns

_NO_LIMIT = 0xFFFFFFFFFFFFFFFF

_SINGLY = 16
"""Most messages that a limit removes one by one: publishing one makes one or two go."""

_CHAIN_SHARE = 32
"""A subject with a smaller share of all messages is followed from message to message.

That costs 130 to 320 ns each, where a sweep looks at all rows at some 5 ns each.
"""

# Work, in items of 10 ns; see `StreamStore.work`.
_ROW_WORK = 4  # a row that is looked up by its sequence
_DROP_WORK = 20  # a message that is taken out of the index

_TURN_SUBJECTS = 5000  # forgotten in one turn, at 100 to 200 ns each


class RemovingStore(IndexedStore):
    """Removes messages; `turns` does what can be done later."""

    def __init__(self, seed: int = 0, turns: Turns | None = None) -> None:
        super().__init__(seed)
        self._turns = turns if turns is not None else Turns()
        self._is_releasing = False

    def remove(self, seq: int, erase: bool = False) -> bool:
        """Remove one message."""
        self._admit()
        if not self._drop(seq):
            return False
        self._removed(seq, erase)
        return True

    def enforce(self, max_messages: int, max_bytes: int) -> int:
        """Remove the oldest messages until both limits hold."""
        self._admit()
        count = 0
        most_messages = max_messages if max_messages >= 0 else _NO_LIMIT
        most_bytes = max_bytes if max_bytes >= 0 else _NO_LIMIT
        while self.messages > most_messages or self.bytes > most_bytes:
            if count == _SINGLY:
                surplus = self.messages - most_messages if self.messages > most_messages else 0
                size = self.bytes - most_bytes if self.bytes > most_bytes else 0
                count += self._sweep((), _NO_LIMIT, surplus, size)
                break
            self._drop(self.first_seq)
            count += 1
        if count:
            self._moved()
        return count

    def trim_subject(self, subject: bytes, keep: int) -> int:
        """Remove the oldest messages of the literal `subject` but `keep`."""
        self._admit()
        number = self._subjects.find(subject, 0, len(subject))
        count = 0
        while number >= 0 and self._subjects.count(number) > keep:
            is_last = self._subjects.count(number) == 1
            self._drop_and_note(self._subjects.first(number))
            count += 1
            if is_last:
                break
        return count

    def purge(self, subject: bytes | None = None, upto_seq: int = 0, keep: int = 0) -> int:
        """Remove messages of `subject`, below `upto_seq`, but the newest `keep`."""
        self._admit()
        upto = self.last_seq + 1
        if upto_seq and upto_seq < upto:
            upto = upto_seq
        if subject is None or subject == b">":
            return self._purge_head(upto, keep)
        if keep > 0:
            return self._purge_but(subject, upto, keep)
        count = self._remove_matching(subject, upto)
        if count:
            self._purged(subject, upto)
        return count

    def expire(self, before_ns: int, limit: int, waiter: Waiter | None = None) -> int:
        """Remove up to `limit` of the oldest messages stored before `before_ns`."""
        self._admit()
        # All before that is older, so that at most the times of one block of the index are read.
        unsure_seq = self._index.at_time(before_ns)
        count = 0
        while count < limit and self.messages > 0:
            seq = self.first_seq
            if seq >= unsure_seq:
                if waiter is not None and not self.is_time_at_hand(seq, waiter):
                    break
                if self.time_of(seq) >= before_ns:
                    break
            self._drop(seq)
            count += 1
        if count:
            self._moved()
        return count

    def release_subjects(self) -> bool:
        """Forget some of the subjects of which nothing is left; False when that is done."""
        self._is_releasing = self._subjects.release_vacated(_TURN_SUBJECTS)
        return self._is_releasing

    def _drop_and_note(self, seq: int) -> None:
        """Remove a message and note it, as one of those at the head or on its own."""
        at_head = seq == self.first_seq
        if self._drop(seq):
            if at_head:
                self._moved()
            else:
                self._removed(seq, False)

    def _purge_head(self, upto: int, keep: int) -> int:
        before = self.messages
        if keep == 0 and upto > self.last_seq:
            self._clear()
        elif before > keep and self.first_seq < upto:
            if keep:
                upto = min(upto, seq_number(self._index, before - keep) + 1)
            self._sweep((), upto, _NO_LIMIT, 0)
        if before != self.messages:
            self._moved()
        return before - self.messages

    def _purge_but(self, subject: bytes, upto: int, keep: int) -> int:
        """Remove the oldest that match, as long as more than `keep` are left."""
        if self._filters_of((subject,)).literal is not None:
            return self._purge_chain_but(subject, upto, keep)
        matching = self.count_pending((subject,), 1)
        if matching <= keep:
            return 0
        last = self._nth_matching((subject,), matching - keep)
        if last >= upto:
            last = upto - 1
        count = self._remove_matching(subject, last + 1)
        if count:
            self._purged(subject, last + 1)
        return count

    def _purge_chain_but(self, subject: bytes, upto: int, keep: int) -> int:
        """Do the same for one subject: its messages are walked, from the nearer end on."""
        number = self._subjects.find(subject, 0, len(subject))
        if number < 0 or self._subjects.count(number) <= keep:
            return 0
        gone = self._subjects.count(number) - keep
        if gone * _CHAIN_SHARE >= self.messages:
            count = self._remove_matching(subject, min(self._stays_from(number, keep), upto))
        else:
            count = 0
            while gone > 0 and self._subjects.first(number) < upto:
                self._drop(self._subjects.first(number))
                count += 1
                gone -= 1
            self.work += count * _DROP_WORK
        if count:
            first = self._subjects.first(number) if self._subjects.count(number) else upto
            self._purged(subject, min(first, upto))
        return count

    def _stays_from(self, number: int, keep: int) -> int:
        """Return the first of the last `keep` messages of a subject that has more than those."""
        seq = self._subjects.last(number)
        self.work += keep
        while keep > 1:
            seq -= self._index.before(seq)
            keep -= 1
        return seq

    def _nth_matching(self, filters: tuple[bytes, ...], count: int) -> int:
        """Return the sequence of message number `count` of those that match, which is there."""
        wanted = self._filters_of(filters)
        index = self._index
        self.work += self.messages * _ROW_WORK
        seq = index.next_live(1)
        while True:
            position = index.locate(seq)
            if wanted.is_all or wanted.is_match(index.block.subject(position)):
                count -= 1
                if count == 0:
                    return seq
            seq = index.next_live(seq + 1)

    def _remove_matching(self, subject: bytes, upto: int) -> int:
        """Remove what is stored of a subject, which may hold wildcards, below `upto`."""
        filters = self._filters_of((subject,))
        if filters.literal is not None:
            number = self._subjects.find(subject, 0, len(subject))
            if number < 0:
                return 0
            if self._subjects.count(number) * _CHAIN_SHARE < self.messages:
                return self._remove_chain(number, upto)
        return self._sweep((subject,), upto, _NO_LIMIT, 0)

    def _remove_chain(self, number: int, upto: int) -> int:
        """Remove what is stored of one subject below `upto`, from message to message."""
        count = 0
        left = self._subjects.count(number)
        while left > 0:
            seq = self._subjects.first(number)
            if seq >= upto:
                break
            self._drop(seq)
            count += 1
            left -= 1
        self.work += count * _DROP_WORK
        return count

    def _sweep(
        self, filters: tuple[bytes, ...], upto: int, least_count: int, least_size: int
    ) -> int:
        """Remove the oldest that match and are below `upto`; return how many.

        It ends as soon as at least so many messages and so many bytes are gone.
        """
        if self.keepers:
            self._keep_before(filters, upto, least_count, least_size)
        wanted = self._filters_of(filters)
        sweep = Sweep(self._index, self._subjects, wanted, upto, least_count, least_size)
        runs = self._runs
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
        self.work += sweep.total_count if wanted.is_all else self.messages
        self._swept(sweep)
        for i in range(len(sizes) - 1, -1, -1):
            if sizes[i]:
                self._lost_bytes(i, runs[i], sizes[i])
        return sweep.total_count

    def _keep_before(
        self, filters: tuple[bytes, ...], upto: int, least_count: int, least_size: int
    ) -> None:
        """Show the keepers, if any, what a sweep is going to remove."""
        end = min(upto - 1, self.last_seq)
        count = size = 0
        seq = self.next_seq(filters, self.first_seq, end) if end else 0
        while seq and self.keepers and (count < least_count or size < least_size):
            count += 1
            size += self.size_of(seq)
            self._keep(seq)
            seq = self.next_seq(filters, seq + 1, end) if seq < end else 0

    def _swept(self, sweep: Sweep) -> None:
        """Take note of what a sweep has removed."""
        if sweep.total_count == 0:
            return
        self._index.drop_empty()
        self.messages -= sweep.total_count
        self.bytes -= sweep.total_size
        self.removals += sweep.total_count
        self.subject_count = self._subjects.subject_count
        first = self._index.next_live(self.first_seq) if self.messages > 0 else 0
        self.first_seq = first or self.last_seq + 1
        if not self._is_releasing:
            self._is_releasing = True
            self._turns.add(self.release_subjects)

    # What an implementation adds.

    def _purged(self, subject: bytes, upto: int) -> None:
        """Take note that all that matches `subject` and is below `upto` has gone."""
