"""A stream's records read back: from the groups in memory, or checked from the segments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from midge.jetstream.store import numbers
from midge.jetstream.store.disk import DiskFile
from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Group, Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.indexes import Indexes, Medium, Run
from midge.jetstream.store.interface import LoadedMessage, MessageView, Waiter
from midge.jetstream.store.numbers import BytesLike

_HEAD = 48  # records.HEAD, as a C number

FIXED_BYTES = 30  # what nats-server counts for a message in a file beside its parts
FIXED_BYTES_WITH_HEADERS = 34

_BEYOND = 128
"""How much longer a record may be than what its message counts, without being read twice."""

_AHEAD = 64 * 1024  # read at once when messages are read one after the other

_FETCHED = 1024 * 1024  # the same where they are not in the page cache

_LONG = 4096
"""Of a longer record only the head is read for its time: it has a checksum of its own."""


class RecordReader(Medium):
    """Reads what the index knows of. `lost` has the sequences that could not be read.

    `is_erasing` is whether the message being removed will be overwritten. With `is_trying` only
    records in memory are read, and `is_away` is set if the last one was not.
    """

    def __init__(self, index: Indexes, log: Log, number: int) -> None:
        super().__init__(index)
        self.number = number
        self.lost: set[int] = set()
        self._log = log
        self._ahead = bytearray()
        self._ahead_segment = 0
        self._ahead_start = 0
        self._ahead_end = 0
        self._read_segment = 0
        self._read_end = 0
        self.is_erasing = False
        self.is_trying = False
        self.is_away = False

    def fetch_departing(self, seq: int, take: Callable[[LoadedMessage | None], object]) -> bool:
        """See `Medium.fetch_departing`."""
        row = self.index.message_index.locate(seq)
        if row < 0 or self.is_erasing:  # an erased message cannot be read later
            return False
        offset = self.index.message_index.block.offset(row)
        size = self.index.message_index.block.size(row) + _BEYOND
        run = self.index.runs[self.index.run_index(seq)]
        segment: Segment = run.place
        if self._is_ahead(segment, offset, size) or self._log.find(segment, offset) is not None:
            return False
        size = min(size, segment.end - offset)
        data = segment.file.read_cached(offset, size)
        if data is not None and len(data) >= size:
            return False
        departed = partial(self._departed, segment.number, segment.file, offset, seq, take)
        self._log.fetches.departing.add(segment.file, offset, size, departed)
        return True

    def _departed(
        self,
        number: int,
        file: DiskFile,
        offset: int,
        seq: int,
        take: Callable[[LoadedMessage | None], object],
        data: BytesLike,
    ) -> None:
        """Hand over the message of a record, which no index knows any more."""
        record = bytearray(data)
        whole = records.check(record, 0, len(record), self._log.seed, number, offset)
        if whole == 1 and len(record) >= _HEAD:
            length = numbers.u32_at(record, 8)
            if len(record) < length < records.LENGTH_MAX:  # a long id is behind the message
                record = bytearray(file.read(offset, length))
                whole = records.check(record, 0, len(record), self._log.seed, number, offset)
        if whole != 2 or numbers.u64_at(record, 24) != seq:
            take(None)
            return
        view = MessageView()
        view.seq = seq
        self._show_record(view, record, 0)
        take(view.copied())

    def is_cached(self, seq: int, waiter: Waiter) -> bool:
        """Return whether a message can be loaded without waiting for a disk; see `Store`."""
        row = self.index.message_index.locate(seq)
        if row < 0:
            return True
        block = self.index.message_index.block
        offset = block.offset(row)
        size = block.size(row) + _BEYOND
        run = self.index.runs[self.index.run_index(seq)]
        segment: Segment = run.place
        return (
            self._is_ahead(segment, offset, size)
            or self._log.find(segment, offset) is not None
            or self._try_ahead(segment, offset, size, waiter)
        )

    def forget_fetch(self, waiter: Waiter) -> None:
        """See `Medium.forget_fetch`."""
        self._log.fetches.forget(waiter)

    def is_time_cached(self, seq: int, waiter: Waiter) -> bool:
        """Return whether `time_of` can return without waiting for a disk; see `Store`."""
        row = self.index.message_index.locate(seq)
        block = self.index.message_index.block
        if row < 0:
            return True
        size = block.size(row)
        if size <= _LONG:
            was_reading = len(self._ahead) > 0
            is_there = self.is_cached(seq, waiter)
            if not was_reading:
                self._drop_one(size)
            return is_there
        offset = block.offset(row)
        run = self.index.runs[self.index.run_index(seq)]
        segment: Segment = run.place
        if self._log.find(segment, offset) is not None:
            return True
        fetches = self._log.fetches
        return fetches.read(segment, offset, _HEAD, _HEAD, _HEAD, waiter) is not None

    def is_first_time_cached(self, waiter: Waiter) -> bool:
        """Return whether `first_time_ns` can return without waiting; see `Store`."""
        seq = self.index.first_seq
        if self.index.messages == 0 or self.index.message_index.knows_time(seq):
            return True
        row = self.index.message_index.locate(seq)
        offset = self.index.message_index.block.offset(row)
        run = self.index.runs[self.index.run_index(seq)]
        segment: Segment = run.place
        if self._log.find(segment, offset) is not None:
            return True
        # Others that may soon be the first one are fetched with it.
        data = self._log.fetches.read(segment, offset, _HEAD, _HEAD, _FETCHED, waiter)
        if data is None:
            return False
        time = self._checked_time(segment, offset, bytearray(data))
        if time >= 0:
            self.index.message_index.note_time(seq, time)
        return True

    def first_time_ns(self) -> int:
        """Return when the first message was stored; see `Medium`.

        The index remembers it: a stream is asked for that again and again, and its first message
        is the one that is most likely to be on the disk alone.
        """
        seq = self.index.first_seq
        if not self.index.message_index.knows_time(seq):
            row = self.index.message_index.locate(seq)
            run = self.index.runs[self.index.run_index(seq)]
            time = self._time_in_head(run.place, self.index.message_index.block.offset(row))
            if time < 0:
                return self.index.last_time_ns
            self.index.message_index.note_time(seq, time)
        return self.index.message_index.block.time_ns

    def forget_ahead(self) -> None:
        """Read the record again that is asked for next: it may lie elsewhere now."""
        self._ahead_segment = 0

    def drop_ahead(self) -> None:
        """Drop the bytes read ahead; a view of a message in them keeps them alive."""
        self._ahead = bytearray()
        self._ahead_segment = 0

    def time_of(self, seq: int) -> int:
        """Return when a message was stored; see `Medium`.

        Of one that cannot be read it is the time of the last message.
        """
        row = self.index.message_index.locate(seq)
        block = self.index.message_index.block
        run = self.index.runs[self.index.run_index(seq)]
        offset = block.offset(row)
        size = block.size(row)
        if size > _LONG:
            time = self._time_in_head(run.place, offset)
            return time if time >= 0 else self.index.last_time_ns
        was_reading = len(self._ahead) > 0
        found = self._bytes_at(run.place, offset, size + _BEYOND)
        time = self.index.last_time_ns if found < 0 else numbers.u64_at(self._ahead, found + 32)
        if not was_reading:
            self._drop_one(size)
        return time

    def _drop_one(self, size: int) -> None:
        """Drop the buffer if it has only one message, of `size`, that was read for its time.

        Such a read is no reason to keep new messages in the page cache.
        """
        if len(self._ahead) <= size + _BEYOND:
            self._log.buffers.emptied(self)
            self.drop_ahead()

    def _time_in_head(self, segment: Segment, offset: int) -> int:
        """Return the time of a record of which nothing but the head is read; -1: it is damaged."""
        group: Group | None = self._log.find(segment, offset)
        if group is not None:
            return numbers.u64_at(group.data, offset - group.base + 32)
        return self._checked_time(segment, offset, bytearray(segment.file.read(offset, _HEAD)))

    def _checked_time(self, segment: Segment, offset: int, head: bytearray) -> int:
        """Return the time in the head of a record; -1 when it is damaged."""
        if not records.check_head(head, 0, len(head), self._log.seed, segment.number, offset):
            return -1
        return numbers.u64_at(head, 32)

    def view_at(self, view: MessageView, run: Run, offset: int, size: int, number: int) -> bool:
        """See `Medium.view_at`."""
        segment: Segment = run.place
        if self._is_ahead(segment, offset, size):
            at = offset - self._ahead_start
            seed = self._log.seed
            whole = records.check(self._ahead, at, len(self._ahead), seed, segment.number, offset)
            if whole == 2 and numbers.u64_at(self._ahead, at + 24) == view.seq:
                self._read_segment = segment.number
                self._read_end = offset + size
                self._show_record(view, self._ahead, at)
                return True
        group = self._log.find(segment, offset)
        if group is not None:
            self._show_record(view, group.data, offset - group.base)
            return True
        if self.is_trying:
            self.is_away = True
            return False
        at = self._bytes_at(segment, offset, size + _BEYOND)
        if at < 0 or numbers.u64_at(self._ahead, at + 24) != view.seq:
            self.lost.add(view.seq)
            return False
        self._show_record(view, self._ahead, at)
        return True

    def _is_ahead(self, segment: Segment, offset: int, size: int) -> bool:
        """Return whether a record has been read ahead, when it was durable."""
        return (
            self._ahead_segment == segment.number
            and offset >= self._ahead_start
            and offset + size <= self._ahead_end
        )

    def _bytes_at(self, segment: Segment, offset: int, size: int) -> int:
        """Read a record into `_ahead` and check it; return its index there, -1 when it is damaged.

        `size` is its approximate length. Sequential reads read ahead.
        """
        group: Group | None = self._log.find(segment, offset)
        if group is not None:
            at = offset - group.base
            end = at + numbers.u32_at(group.data, at + 8)
            self._ahead = bytearray(numbers.take(group.data, at, end))
            self._ahead_segment = 0
            self._log.buffers.filled(self, len(self._ahead))
            return 0
        at = offset - self._ahead_start
        # Behind the bytes that were durable then, the buffer has zeros where there may be records
        # now. Records that end within `_BEYOND` of there are read again: their heads must be there.
        if not self._is_ahead(segment, offset, min(size, segment.end - offset)):
            is_next = self._is_next(segment, offset)
            self._read_ahead(segment, offset, max(size, _AHEAD) if is_next else size)
            at = 0
        whole = records.check(
            self._ahead, at, len(self._ahead), self._log.seed, segment.number, offset
        )
        if whole == 1 and at + _HEAD <= len(self._ahead):
            length = numbers.u32_at(self._ahead, at + 8)
            if at + length > len(self._ahead) and length < records.LENGTH_MAX:
                self._read_ahead(segment, offset, length)
                at = 0
                whole = records.check(
                    self._ahead, 0, len(self._ahead), self._log.seed, segment.number, offset
                )
        self._read_segment = segment.number
        self._read_end = offset + size - _BEYOND
        return at if whole == 2 else -1

    def _is_next(self, segment: Segment, offset: int) -> bool:
        """Return whether messages are read one after the other."""
        return self._read_segment == segment.number and 0 <= offset - self._read_end < _AHEAD

    def _try_ahead(self, segment: Segment, offset: int, size: int, waiter: Waiter) -> bool:
        """Read a record ahead without waiting for the disk; False: it is fetched for `waiter`."""
        is_next = self._is_next(segment, offset)
        data = self._log.fetches.read(
            segment,
            offset,
            max(size, _AHEAD) if is_next else size,
            min(size, segment.end - offset),
            max(size, _FETCHED) if is_next else size,
            waiter,
        )
        if data is None:
            return False
        self._have_ahead(segment, offset, data)
        return True

    def _read_ahead(self, segment: Segment, offset: int, size: int) -> None:
        self._have_ahead(segment, offset, segment.file.read(offset, size))

    def _have_ahead(self, segment: Segment, offset: int, data: BytesLike) -> None:
        self._ahead = bytearray(data)
        self._ahead_segment = segment.number
        self._ahead_start = offset
        self._ahead_end = min(offset + len(self._ahead), segment.end)
        self._log.buffers.filled(self, len(self._ahead))

    def _show_record(self, view: MessageView, data: bytearray, at: int) -> None:
        """Set `view` to the message of a record that is known to be whole."""
        view.time_ns = numbers.u64_at(data, at + 32)
        view.subject = data
        view.subject_start = at + _HEAD
        view.subject_end = view.subject_start + (numbers.u32_at(data, at + 12) >> 16)
        view.body = data
        view.headers_start = view.subject_end
        view.payload_start = view.headers_start + numbers.u32_at(data, at + 20)
        view.payload_end = at + numbers.u32_at(data, at + 8) - numbers.u32_at(data, at + 40)
