"""What a store knows of its messages without reading one: two indexes, and how many there are.

`message_index` has a row for each sequence that is stored, `subject_index` the names of the
subjects, with count, first and last sequence of each. A `Run` is a stretch of the sequences that
lie in one chunk of memory or in one segment file. Look-ups and removals are functions over these,
in lookups.py and removing.py. The messages themselves are in a `Medium`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from midge.jetstream.store import layout
from midge.jetstream.store.filters import Filters
from midge.jetstream.store.interface import Keeper, LoadedMessage, MessageView, Waiter
from midge.jetstream.store.message_index import MessageIndex
from midge.jetstream.store.numbers import BytesLike
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.subject_index import SubjectIndex
from midge.jetstream.store.turns import Turns

_FILTERS_KEPT = 64
_PATTERNS_KEPT = 8192  # of all of them together: some 6 MiB


class Run:
    """The sequences from `first_seq` to the next run's first one, and the `place` they lie in.

    `live` counts the remaining messages and `live_bytes` their bytes.
    """

    __slots__ = ("first_seq", "live", "live_bytes", "place")

    def __init__(self, first_seq: int, place: Any) -> None:
        self.first_seq = first_seq
        self.place = place
        self.live = 0
        self.live_bytes = 0


class AppendedMessage:
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
        self.subject: BytesLike = b""
        self.subject_start = 0
        self.subject_end = 0
        self.headers: BytesLike = b""
        self.headers_start = 0
        self.headers_end = 0
        self.payload: BytesLike = b""
        self.payload_start = 0
        self.payload_end = 0
        self.seq = 0
        self.time_ns = 0
        self.ttl_s = 0
        self.msg_id: bytes | None = None


class Medium:
    """Where the messages of a store lie: in memory, or in the log of a store directory.

    It writes and reads them, and the functions over the indexes report removals to it. `index` has
    their places: a run, and an offset in it. A medium in memory keeps most methods as they are.
    """

    def __init__(self, index: Indexes) -> None:
        self.index = index

    def leave(self) -> None:
        """Drop the indexes of a deleted store, which refer to their medium."""
        self.index = Indexes(Medium(cast("Indexes", None)), 0, None, 0, 0)

    def place(self, incoming: AppendedMessage) -> int:
        """Write a message where the last run is, or begin a new one; return its offset."""
        raise NotImplementedError

    def place_lines(self, lines: PublishedLines, first: int) -> int:
        """Write messages from number `first` on where the last run is, or begin a new one.

        Notes in their rows where they are. Returns how many have gone there, 0 if there is no room.
        """
        raise NotImplementedError

    def view_at(self, view: MessageView, run: Run, offset: int, size: int, number: int) -> bool:
        """Point `view`, whose sequence is set, at the message at `offset` of a run.

        The message counts `size` bytes, and `number` is its subject's. False if it is unreadable.
        """
        raise NotImplementedError

    def time_of(self, seq: int) -> int:
        """Return when the message of this sequence, which must exist, was stored."""
        raise NotImplementedError

    def first_time_ns(self) -> int:
        """Return when the first message, which must exist, was stored."""
        return self.time_of(self.index.first_seq)

    def is_cached(self, seq: int, waiter: Waiter) -> bool:
        """Return whether a message can be read without waiting for a disk; see `Store`."""
        return True

    def is_time_cached(self, seq: int, waiter: Waiter) -> bool:
        """Return whether `time_of` can return without waiting for a disk; see `Store`."""
        return True

    def is_first_time_cached(self, waiter: Waiter) -> bool:
        """Return whether `first_time_ns` can return without waiting for a disk."""
        return True

    def forget_fetch(self, waiter: Waiter) -> None:
        """Forget that a message was fetched for `waiter`, which has not read it at once.

        The message may have left memory again before it is read; then it is fetched again.
        """

    def fetch_departing(self, seq: int, take: Callable[[LoadedMessage | None], object]) -> bool:
        """Fetch a message from the disk that is about to be removed; False: it can be read now."""
        return False

    def admit(self) -> None:
        """Raise if nothing may be changed."""

    def moved(self) -> None:
        """Called after messages at the head have been removed, or `last_seq` has moved."""

    def removed(self, seq: int) -> None:
        """Called after a single message has been removed."""

    def purged(self, subject: bytes, upto: int) -> None:
        """Called after the removal of all messages below `upto` that match `subject`."""

    def run_shrank(self, i: int, run: Run, size: int) -> None:
        """Called after messages of a run have been removed: the run with index `i`.

        -1: the run has been removed with all its messages.
        """


class Indexes:
    """The indexes of one stream's store, and its counts.

    `removals` grows with every removed message, whatever the reason, so that an earlier count is
    known to be stale. `subject_count` is the number of distinct subjects stored.

    `work` counts the items that searches and removals have visited, 10 ns each, to charge a client.

    `keepers` are notified of every message before its removal, for snapshots in progress.

    With `is_async` changes count as durable at once, without waiting for their group: in memory,
    and in a file stream with `persist_mode: async`.

    A message counts `fixed_bytes` towards `bytes` beside its parts, one with headers
    `fixed_bytes_with_headers`. `medium` has the messages. `turns` does what can be done later.
    """

    def __init__(
        self,
        medium: Medium,
        seed: int,
        turns: Turns | None,
        fixed_bytes: int,
        fixed_bytes_with_headers: int,
    ) -> None:
        self.medium = medium
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
        self.is_releasing = False  # whether subjects without messages are being freed in pieces
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

    def enter(self, incoming: AppendedMessage, offset: int, size: int) -> None:
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
        row = self.message_index.locate(seq)
        if row < 0:
            return False
        if self.keepers:
            self.keep(seq)
            row = self.message_index.locate(seq)
        size = self.message_index.block.size(row)
        self._unlink(seq, row)
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
        self.medium.run_shrank(i, run, size)
        return True

    def _unlink(self, seq: int, row: int) -> None:
        """Remove the row of a message, and take it out of the chain of its subject."""
        subjects, index = self.subject_index, self.message_index
        number = index.block.subject(row)
        before = index.distance(seq, row, layout.ROW_BEFORE)
        after = index.distance(seq, row, layout.ROW_AFTER)
        index.discard(seq, row)
        count = subjects.count(number) - 1
        if count == 0:
            subjects.release(number)
            self.subject_count = subjects.subject_count
            return
        subjects.set_count(number, count)
        if before:
            index.set_after(seq - before, before + after if after else 0)
        else:
            subjects.set_first(number, seq + after)
        if after:
            index.set_before(seq + after, before + after if before else 0)
        else:
            subjects.set_last(number, seq - before)

    def keep(self, seq: int) -> None:
        """Notify the keepers of a message that is about to be removed."""
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
            self.medium.run_shrank(-1, run, run.live_bytes)

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
        """Return the filters with their cached results for the stored subjects."""
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
