"""Compaction: reclaim the space of removed messages.

A segment that is mostly dead is rewritten with only its remaining messages. Its other records
(streams, their last sequences, consumers, ids, removals) are first repeated at the end of the log.
Once these are synced, the new file replaces the old one, or the old one is removed. After a crash
at any step the log has the same content.

A segment that has only removed messages, and perhaps bounds and configurations of streams, is not
read: the bounds and configurations are repeated from memory where no later segment has them. The 18
segments of two million messages of 128 B are then reclaimed in 0.03 s of CPU time instead of 0.21,
and without reading 314 MB.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from midge.jetstream.store import numbers
from midge.jetstream.store.disk import DiskFile, Write
from midge.jetstream.store.file import records
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.group import Segment, segment_name
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.log_identity import NEW
from midge.jetstream.store.numbers import BytesLike

_HEAD = 48
_GROUP_HEAD = 80

_GROUP = 1  # records.GROUP and records.MESSAGE, as C numbers
_MESSAGE = 2
_WHOLE = 2
_NONE = 0xFFFFFFFF  # the number of no stream

_MOVE = 24  # bytes noted of a message: number of its stream 8, sequence 8, from 4, to 4

SLICE_BYTES = 512 * 1024
"""Bytes of a segment that are read and sorted in one turn: some 1.5 ms of small messages."""


class KeptRecords:
    """Data of one stream in a segment besides the messages left; at the least its bounds."""

    __slots__ = ("ids", "names", "purges", "removals")

    def __init__(self) -> None:
        self.names: set[bytes] = set()
        self.removals: list[int] = []
        self.ids: list[tuple[bytes, int, int]] = []
        self.purges: dict[bytes, int] = {}


class Compaction:
    """Rewrites one segment, or removes it when no message is left.

    `done` is called at the end, with False when it came to nothing.
    """

    def __init__(
        self,
        log: Log,
        streams: dict[int, FileStore],
        segment: Segment,
        done: Callable[[bool], object],
    ) -> None:
        self.log = log
        self.segment = segment
        self._streams = streams
        self._done = done
        self._carried: dict[int, KeptRecords] = {}
        self._stream_deletions: set[int] = set()
        self._moves = bytearray()
        self._moved_count = 0
        self._has_ids = False  # in messages that are copied
        self._data = bytearray(_GROUP_HEAD)
        self._used = _GROUP_HEAD
        self._file: DiskFile = segment.file
        self._group = log.group - 1  # messages removed up to this group are not copied
        self._erasures = segment.erasures
        self._position = 0
        self._read_group = 0
        self._number = _NONE  # of the stream of the last message
        self._stream: FileStore | None = None

    def start(self) -> None:
        """Read the segment in pieces, and repeat its other records."""
        self.log.turns.add(self.read_on)

    def read_on(self) -> bool:
        """Sort another slice of the segment; return False after the last one, or a failure.

        Messages removed meanwhile are copied, and so are their removals.
        """
        segment = self.segment
        if self.log.failure is not None:
            self._done(False)
            return False
        if self._position == 0 and segment.live_bytes == 0 and not segment.holds_more:
            self._pass_over()
        else:
            is_sound = False
            with contextlib.suppress(OSError):
                data = self._read_slice()
                if data is None:
                    return False  # until it has been fetched
                is_sound = self._sort(bytearray(data))
            if not is_sound:
                segment.is_damaged = True  # it stays, so that a repair can read the rest
                self._done(False)
                return False
        if self._position < segment.end:
            return True
        self._carry()
        return False

    def _pass_over(self) -> None:
        """Skip reading a segment that has only removed messages."""
        for number, stream in self._streams.items():
            if stream.segments.is_recorded_in(self.segment):
                self._of(number)  # has the bounds carried
        self._position = self.segment.end

    def fetched(self) -> None:
        """Go on with the slice that was not in memory."""
        self.log.turns.add(self.read_on)

    def _read_slice(self) -> BytesLike | None:
        """Return the next slice of the segment; None while it is fetched from the disk."""
        size = min(SLICE_BYTES, self.segment.end - self._position)
        return self.log.fetches.read(self.segment, self._position, size, size, size, self)

    def _carry(self) -> None:
        """Repeat the records to be kept at the end of the log."""
        if self._moves and not self.log.space.has_room(self._used):
            self._done(False)  # before anything is written, which would take room once more
            return
        self.log.forget_recent(self.segment)
        for number, carried in sorted(self._carried.items()):
            stream = self._streams.get(number)
            if stream is not None:
                stream.segments.carry(
                    self.segment, carried.names, carried.removals, carried.ids, carried.purges
                )
        for number in sorted(self._stream_deletions):
            self.log.write_deletion(number)
        self.log.barrier(partial(self.log.sync_written, self._kept))
        self.log.flush()

    def _sort(self, old: bytearray) -> bool:
        """Sort the records of a slice but for a last one cut off; False when one is damaged."""
        at = 0
        end = len(old)
        seed = self.log.seed
        segment = self.segment
        self._number = _NONE  # streams may have been deleted since the last slice
        while at < end:
            has_head = records.check_head(old, at, end, seed, segment.number, self._position + at)
            length = numbers.u32_at(old, at + 8) if has_head else 0
            if (not has_head or length > end - at) and self._position + end < segment.end:
                if at > 0:
                    break  # the next slice begins with it
                if has_head and self._position + length <= segment.end:
                    return self._sort(bytearray(segment.file.read(self._position, length)))
            if not has_head or not self._sort_record(old, at):
                return False
            at += (length + 7) & ~7
        self._position += at
        return True

    def _sort_record(self, old: bytearray, at: int) -> bool:
        """Sort one record whose head is whole; False if its body is needed and was not read.

        The body of a message that is gone is not looked at, unless it has an id.
        """
        kind = old[at + 12]
        if kind == _GROUP:
            self._read_group = numbers.u64_at(old, at + 24)
        elif kind == _MESSAGE:
            return self._sort_message(old, at)
        elif self._is_whole(old, at):
            self._sort_other(old, at, kind, self._read_group)
        else:
            return False
        return True

    def _is_whole(self, old: bytearray, at: int) -> bool:
        """Return whether the body of a record is as it was written."""
        number = self.segment.number
        position = self._position + at
        return records.check(old, at, len(old), self.log.seed, number, position) == _WHOLE

    def _sort_message(self, old: bytearray, at: int) -> bool:
        """Copy a message if it is left; keep what another one says: its id, or the last sequence.

        The record of the stream's last message may be all that says how far its sequences go: a
        removal that names one of them does not.
        """
        number = numbers.u32_at(old, at + 16)
        if number != self._number:
            self._number = number
            self._stream = self._streams.get(number)
        stream = self._stream
        if stream is None:
            return True
        seq = numbers.u64_at(old, at + 24)
        length = numbers.u32_at(old, at + 8)
        if stream.segments.is_at(seq, self.segment, self._position + at):
            if not self._is_whole(old, at):
                return False
            self._copy(old, at, records.padded(length))
            if numbers.u32_at(old, at + 40) > 0:
                self._has_ids = True
            self._note_move(number, seq, self._position + at)
            self._used += records.padded(length)
        elif stream.lost and seq in stream.lost:
            return False
        else:
            if seq == stream.last_seq:
                self._of(number)  # has the bounds carried
            if numbers.u32_at(old, at + 40) > 0 and self._is_whole(old, at):
                self._keep_id(stream, old, at, seq, length)
        return True

    def _copy(self, old: bytearray, at: int, size: int) -> None:
        """Copy a record to the end of the new file's data; the last one may lack its padding."""
        if self._used + size > len(self._data):
            numbers.resize(self._data, max(self._used + size, len(self._data) * 2))
        numbers.put(self._data, self._used, old, at, min(at + size, len(old)))

    def _note_move(self, number: int, seq: int, start: int) -> None:
        at = len(self._moves)
        numbers.resize(self._moves, at + _MOVE)
        numbers.set_u64_at(self._moves, at, number)
        numbers.set_u64_at(self._moves, at + 8, seq)
        numbers.set_u32_at(self._moves, at + 16, start)
        numbers.set_u32_at(self._moves, at + 20, self._used)
        self._moved_count += 1

    def _move(self) -> None:
        """Set, in the streams, where their messages are in the new file."""
        for at in range(0, len(self._moves), _MOVE):
            stream = self._streams.get(numbers.u64_at(self._moves, at))
            if stream is not None:
                stream.segments.move(
                    numbers.u64_at(self._moves, at + 8),
                    self.segment,
                    numbers.u32_at(self._moves, at + 16),
                    numbers.u32_at(self._moves, at + 20),
                )

    def _keep_id(self, stream: FileStore, old: bytearray, at: int, seq: int, length: int) -> None:
        extra = numbers.u32_at(old, at + 40)
        start = at + length - extra + (8 if old[at + 13] & records.FLAG_TTL else 0)
        self._note_id(stream, bytes(old[start : at + length]), seq, numbers.u64_at(old, at + 32))

    def _note_id(self, stream: FileStore, msg_id: bytes, seq: int, time_ns: int) -> None:
        """Keep an id as long as its window is open at the time of the stream's last message."""
        if msg_id and time_ns + stream.records.dedup_window_ns >= stream.last_time_ns:
            self._of(stream.number).ids.append((msg_id, seq, time_ns))

    def _sort_other(self, old: bytearray, at: int, kind: int, group: int) -> None:
        """Collect a record that must be repeated."""
        number = numbers.u32_at(old, at + 16)
        stream = self._streams.get(number)
        if stream is None:
            # The first segment is the last one in which there was anything of the stream.
            if kind == records.STREAM_DELETED and self.segment is not self.log.segments[0]:
                self._stream_deletions.add(number)
            return
        if kind in {records.STREAM, records.BOUNDS}:
            if stream.segments.is_recorded_in(self.segment):  # else a later segment says it, too
                self._of(number)
            return
        seq = numbers.u64_at(old, at + 24)
        end = at + numbers.u32_at(old, at + 8)
        carried = self._of(number)
        if kind == records.REMOVE:
            for position in range(at + _HEAD, end, 8):
                self._note_removal(stream, numbers.u64_at(old, position), group)
        elif kind == records.PURGED:
            if stream.segments.needs_purge(seq, group, self.segment):
                subject = bytes(old[at + _HEAD : end])
                carried.purges[subject] = max(seq, carried.purges.get(subject, 0))
        elif kind == records.MESSAGE_ID:
            time_ns = numbers.u64_at(old, at + 32)
            self._note_id(stream, bytes(old[at + _HEAD : end]), seq, time_ns)
        elif kind in {records.CONSUMER, records.CONSUMER_STEP, records.CONSUMER_DELETED}:
            length = old[at + _HEAD] | old[at + _HEAD + 1] << 8
            carried.names.add(bytes(old[at + _HEAD + 2 : at + _HEAD + 2 + length]))
            if kind == records.CONSUMER_STEP and seq:
                self._note_removal(stream, seq, group)

    def _note_removal(self, stream: FileStore, seq: int, group: int) -> None:
        if stream.segments.needs_tombstone(seq, group, self.segment):
            self._of(stream.number).removals.append(seq)

    def _of(self, number: int) -> KeptRecords:
        carried = self._carried.get(number)
        if carried is None:
            carried = self._carried[number] = KeptRecords()
        return carried

    def _kept(self) -> None:
        """Write the new file, or remove the old one: what it said is durable elsewhere."""
        if self._moves:
            self._write()
            return
        self.log.before_removal(self.segment.number, self._unlink)

    def _unlink(self, is_well: bool) -> None:
        """Remove the old file, which the head names no more."""
        if not is_well:
            self._done(False)
            return
        try:
            self.log.disk.unlink(segment_name(self.segment.number))
        except OSError:
            self.segment.is_damaged = True
            self._done(False)
            return
        self.log.chore(self._directory_sync(self.segment.file), self._removed)

    def _write(self) -> None:
        segment = self.segment
        try:
            self._file = self.log.disk.create(segment_name(segment.number) + NEW)
        except OSError:  # there may be room for it later
            self._done(False)
            return
        records.start_group(self._data, self._group)
        records.finish_group(
            self._data,
            self._used,
            self._moved_count + 1,
            self.log.synced_segment,
            self.log.synced_position,
        )
        write = Write(self._file, self._data, self._used, 0)
        write.seal = True
        write.seed = self.log.seed
        write.segment = segment.number
        self.log.chore(write, self._written)

    def _written(self, is_well: bool) -> None:
        """Put the new file in the old one's place."""
        segment = self.segment
        name = segment_name(segment.number)
        try:
            if not is_well or segment.has_erasures or segment.erasures != self._erasures:
                self._file.close()
                self.log.disk.unlink(name + NEW)
                self._done(False)
                return
            self.log.disk.rename(name + NEW, name)
        except OSError:
            segment.is_damaged = True
            self._done(False)
            return
        old = segment.file
        segment.file = self._file
        segment.end = self._used
        segment.allocated = self._used
        segment.message_bytes = segment.live_bytes
        segment.holds_more = self._has_ids
        self._move()
        self.log.chore(self._directory_sync(old), partial(self._replaced, old))

    def _replaced(self, old: DiskFile, is_well: bool) -> None:
        """Forget the omitted records: no record refers to them any more."""
        if is_well:
            self.segment.purged_group = self._group
            self.segment.is_rewritten = True
            self._forget_deletions()
        self.log.fetches.departing.release(old, partial(self._done, is_well))

    def _removed(self, is_well: bool) -> None:
        if not is_well:
            self.segment.is_damaged = True  # it may be gone from the directory or not
            self._done(False)
            return
        self.log.segments.remove(self.segment)
        for stream in self._streams.values():
            stream.segments.forget(self.segment)
        self._forget_deletions()
        self.log.fetches.departing.release(self.segment.file, partial(self._done, True))

    def _forget_deletions(self) -> None:
        for number, carried in self._carried.items():
            stream = self._streams.get(number)
            if stream is not None:
                stream.segments.forget_deletions(carried.names, self.segment)

    def _directory_sync(self, removed: DiskFile) -> Write:
        """Return an empty write, which syncs the directory.

        A write also syncs its file: here the removed one, so that a failure loses nothing needed.
        """
        write = Write(removed, bytearray(8), 0, 0)
        write.with_directory = True
        return write
