"""What a store knows of its messages without reading one: two indexes, and how many there are.

`message_index` has a row for each sequence that is stored, `subject_index` the names of the
subjects, with count, first and last sequence of each. A `Run` is a stretch of the sequences that
lie in one chunk of memory or in one segment file. Look-ups and removals are functions over these,
in lookups.py and removing.py.
"""

from __future__ import annotations

from typing import Any

from midge.jetstream.store.filters import Filters
from midge.jetstream.store.interface import Keeper
from midge.jetstream.store.message_index import MessageIndex
from midge.jetstream.store.numbers import Octets
from midge.jetstream.store.subject_index import SubjectIndex
from midge.jetstream.store.turns import Turns

_FILTERS_KEPT = 64
_PATTERNS_KEPT = 8192  # of all of them together: some 6 MiB


class Run:
    """The sequences from `first_seq` to that of the next run, and the `place` they lie in.

    `live` counts the messages left of them and `live_bytes` what those count towards the bytes.
    """

    __slots__ = ("first_seq", "live", "live_bytes", "place")

    def __init__(self, first_seq: int, place: Any) -> None:
        self.first_seq = first_seq
        self.place = place
        self.live = 0
        self.live_bytes = 0


class Incoming:
    """The message that is being stored: its parts are ranges of buffers.

    It is valid only while the message is being stored.
    """

    __slots__ = (
        "headers",
        "headers_end",
        "headers_start",
        "msg_id",
        "payload",
        "payload_end",
        "payload_start",
        "seq",
        "subject",
        "subject_end",
        "subject_start",
        "time_ns",
        "ttl_s",
    )

    def __init__(self) -> None:
        self.subject: Octets = b""
        self.subject_start = 0
        self.subject_end = 0
        self.headers: Octets = b""
        self.headers_start = 0
        self.headers_end = 0
        self.payload: Octets = b""
        self.payload_start = 0
        self.payload_end = 0
        self.seq = 0
        self.time_ns = 0
        self.ttl_s = 0
        self.msg_id: bytes | None = None


class Indexes:
    """The indexes of one stream's store, and its counts.

    `removals` grows with every message that goes, for whatever reason, so that a count made earlier
    can be known to be stale. `subject_count` is the number of distinct subjects stored.

    `work` counts the items that searches and removals looked at, 10 ns each, to charge a client.

    `keepers` are told of every message before it goes, as a snapshot needs that is being written.

    `is_async` tells that changes count as durable at once, without waiting for their group: so it
    is in memory, and in a file stream that is to be so.

    A message counts `fixed_bytes` towards `bytes` beside its parts, one with headers
    `fixed_bytes_with_headers`. `turns` does what can be done later.
    """

    def __init__(
        self, seed: int, turns: Turns | None, fixed_bytes: int, fixed_bytes_with_headers: int
    ) -> None:
        self.first_seq = 0  # last_seq + 1 once everything has been removed; 0 in a new store
        self.last_seq = 0
        self.visible_seq = 0
        self.messages = 0
        self.bytes = 0
        self.last_time_ns = 0
        self.subject_count = 0
        self.removals = 0
        self.work = 0
        self.group = 0
        self.is_async = True
        self.keepers: list[Keeper] = []
        self.subject_index = SubjectIndex(seed)
        self.message_index = MessageIndex()
        self.runs: list[Run] = []
        self.turns = turns if turns is not None else Turns()
        self.is_releasing = False  # subjects of which nothing is left are forgotten in turns
        self._fixed_bytes = fixed_bytes
        self._fixed_bytes_with_headers = fixed_bytes_with_headers
        self._filters: dict[tuple[bytes, ...], Filters] = {}
        self._latest_filters: tuple[bytes, ...] | None = None
        self._latest_found: Filters | None = None
        self._patterns_kept = 0

    def counted(self, subject: int, headers: int, payload: int) -> int:
        """Return what a message with parts of these lengths counts towards the bytes."""
        fixed = self._fixed_bytes_with_headers if headers else self._fixed_bytes
        return fixed + subject + headers + payload

    def enter(self, incoming: Incoming, offset: int, size: int) -> None:
        """Put a message, of which the bytes are in their place, into the index."""
        subjects = self.subject_index
        seq = incoming.seq
        number = subjects.append(
            incoming.subject, incoming.subject_start, incoming.subject_end, seq
        )  # fmt: skip
        self.message_index.enter(seq, incoming.time_ns, offset, size, number, subjects.before)
        self.subject_count = subjects.subject_count
        run = self.runs[-1]
        run.live += 1
        run.live_bytes += size
        if self.messages == 0:
            self.first_seq = seq
        self.messages += 1
        self.bytes += size
        self.last_seq = seq
        self.last_time_ns = incoming.time_ns

    def drop(self, seq: int) -> bool:
        """Take a message out of the index; False if it is not there."""
        position = self.message_index.locate(seq)
        if position < 0:
            return False
        if self.keepers:
            self.keep(seq)
            position = self.message_index.locate(seq)
        size = self.message_index.block.size(position)
        self.unlink(seq, self.message_index.block.subject(position))
        self.message_index.discard(seq)
        self.messages -= 1
        self.bytes -= size
        self.removals += 1
        i = self.run_index(seq)
        run = self.runs[i]
        run.live -= 1
        run.live_bytes -= size
        if seq == self.first_seq:
            following = self.message_index.next_live(seq + 1) if self.messages > 0 else 0
            self.first_seq = following or self.last_seq + 1
        self.run_shrank(i, run, size)
        return True

    def unlink(self, seq: int, number: int) -> None:
        """Take a message out of the chain of its subject."""
        subjects = self.subject_index
        count = subjects.count(number) - 1
        if count == 0:
            subjects.release(number)
            self.subject_count = subjects.subject_count
            return
        subjects.set_count(number, count)
        before = self.message_index.before(seq)
        after = self.message_index.after(seq)
        if before:
            self.message_index.set_after(seq - before, before + after if after else 0)
        else:
            subjects.set_first(number, seq + after)
        if after:
            self.message_index.set_before(seq + after, before + after if before else 0)
        else:
            subjects.set_last(number, seq - before)

    def keep(self, seq: int) -> None:
        """Let the keepers read a message that is about to go."""
        for keeper in list(self.keepers):
            keeper.removing(seq)

    def clear(self) -> None:
        """Take everything out of the index at once."""
        for keeper in list(self.keepers):
            keeper.removing_all()
        self.removals += self.messages
        self.messages = 0
        self.bytes = 0
        self.first_seq = self.last_seq + 1
        self.subject_index.clear()
        self.message_index.clear()
        self.subject_count = 0
        runs = self.runs
        self.runs = []
        for run in runs:
            self.run_gone(run)

    def run_index(self, seq: int) -> int:
        """Return the index of the run that `seq` belongs to."""
        runs = self.runs
        last = len(runs) - 1
        run = runs[last]
        if run.first_seq <= seq:
            return last
        low = 0
        high = last
        while low < high:
            middle = (low + high) >> 1
            run = runs[middle]
            if run.first_seq <= seq:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def filters_of(self, filters: tuple[bytes, ...]) -> Filters:
        """Return the filters with what is known of the stored subjects; they are kept."""
        if filters is self._latest_filters and self._latest_found is not None:
            return self._latest_found
        found = self._filters.get(filters)
        if found is None:
            self._patterns_kept += len(filters)
            if len(self._filters) >= _FILTERS_KEPT or self._patterns_kept > _PATTERNS_KEPT:
                self._filters.clear()
                self.subject_index.unwatch_all()
                self._patterns_kept = len(filters)
            found = Filters(self.subject_index, filters)
            self._filters[filters] = found
        self._latest_filters = filters
        self._latest_found = found
        return found

    # What a medium adds.

    def admit(self) -> None:
        """Raise if nothing may be changed."""

    def moved(self) -> None:
        """Take note that messages at the head have gone, or that `last_seq` has moved."""

    def removed(self, seq: int, erase: bool) -> None:
        """Take note that a message has been removed on its own."""

    def purged(self, subject: bytes, upto: int) -> None:
        """Take note that all that matches `subject` and is below `upto` has gone."""

    def run_shrank(self, i: int, run: Run, size: int) -> None:
        """Take note that messages of the run with index `i` have gone."""

    def run_gone(self, run: Run) -> None:
        """Take note that a run has gone with all its messages."""
