"""Giving back the room of what has been removed.

A segment of which most is dead is written anew with only the messages that are left. What else it
says, of streams, consumers, ids and removals, is first written down again at the end of the log; as
soon as that is durable, the new file takes the old one's place, or the old one goes. A crash at any
step leaves a log that says the same.
"""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream.store import numbers
from midge.jetstream.store.disk import DiskFile, Write
from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Segment, segment_name
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.stream import FileStore

_HEAD = 48
_GROUP_HEAD = 80


class Carried:
    """What a segment says of one stream beside its messages."""

    __slots__ = ("ids", "names", "removals")

    def __init__(self) -> None:
        self.names: set[bytes] = set()
        self.removals: list[int] = []
        self.ids: list[tuple[bytes, int, int]] = []


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
        self._carried: dict[int, Carried] = {}
        self._stream_deletions: set[int] = set()
        self._moves: list[tuple[int, int, int, int]] = []  # stream, sequence, from, to
        self._data = bytearray()
        self._used = _GROUP_HEAD
        self._file: DiskFile = segment.file
        self._group = log.group - 1  # what is removed up to here is not copied

    def start(self) -> None:
        """Read the segment, and write down again what is to be kept in mind."""
        segment = self.segment
        old = bytearray(segment.file.read(0, segment.end))
        self._data = bytearray(len(old) + _GROUP_HEAD)
        if not self._read(old):
            segment.is_damaged = True  # it stays, for a repair to read what is left
            self._done(False)
            return
        self.log.forget_recent(segment)
        for number, carried in sorted(self._carried.items()):
            stream = self._streams[number]
            stream.carry(carried.names, carried.removals, carried.ids)
        for number in sorted(self._stream_deletions):
            self.log.write_deletion(number)
        self.log.barrier(self._kept)
        self.log.flush()

    def _read(self, old: bytearray) -> bool:
        """Sort the records of the segment; False when one of them cannot be read."""
        at = 0
        group = 0
        end = len(old)
        seed = self.log.seed
        number = self.segment.number
        while at < end:
            whole = records.check(old, at, end, seed, number, at)
            if whole == 0:
                return False
            kind = old[at + 12]
            if kind == records.GROUP:
                group = numbers.u64_at(old, at + 24)
            elif kind == records.MESSAGE:
                if not self._sort_message(old, at, whole):
                    return False
            elif whole == 2:
                self._sort_other(old, at, kind, group)
            else:
                return False
            at += records.padded(numbers.u32_at(old, at + 8))
        return True

    def _sort_message(self, old: bytearray, at: int, whole: int) -> bool:
        """Copy a message if it is left; keep the id of another one."""
        number = numbers.u32_at(old, at + 16)
        stream = self._streams.get(number)
        if stream is None:
            return True
        seq = numbers.u64_at(old, at + 24)
        length = numbers.u32_at(old, at + 8)
        if stream.is_at(seq, self.segment, at):
            if whole != 2:
                return False
            size = records.padded(length)
            numbers.put(self._data, self._used, old, at, at + size)
            self._moves.append((number, seq, at, self._used))
            self._used += size
        elif seq in stream.lost:
            return False
        elif whole == 2:
            self._keep_id(stream, old, at, seq, length)
        return True

    def _keep_id(self, stream: FileStore, old: bytearray, at: int, seq: int, length: int) -> None:
        extra = numbers.u32_at(old, at + 40)
        if extra == 0:
            return
        start = at + length - extra + (8 if old[at + 13] & records.FLAG_TTL else 0)
        self._note_id(stream, bytes(old[start : at + length]), seq, numbers.u64_at(old, at + 32))

    def _note_id(self, stream: FileStore, msg_id: bytes, seq: int, time_ns: int) -> None:
        """Keep an id as long as its window is open at the time of the stream's last message."""
        if msg_id and time_ns + stream.dedup_window_ns >= stream.last_time_ns:
            self._of(stream.number).ids.append((msg_id, seq, time_ns))

    def _sort_other(self, old: bytearray, at: int, kind: int, group: int) -> None:
        """Note what is to be written down again."""
        number = numbers.u32_at(old, at + 16)
        stream = self._streams.get(number)
        if stream is None:
            # The first segment is the last one in which there was anything of the stream.
            if kind == records.STREAM_DELETED and self.segment is not self.log.segments[0]:
                self._stream_deletions.add(number)
            return
        seq = numbers.u64_at(old, at + 24)
        end = at + numbers.u32_at(old, at + 8)
        carried = self._of(number)
        if kind == records.REMOVE:
            for position in range(at + _HEAD, end, 8):
                self._note_removal(stream, numbers.u64_at(old, position), group)
        elif kind == records.MESSAGE_ID:
            time_ns = numbers.u64_at(old, at + 32)
            self._note_id(stream, bytes(old[at + _HEAD : end]), seq, time_ns)
        elif kind in {records.CONSUMER, records.CONSUMER_STEP, records.CONSUMER_DELETED}:
            length = old[at + _HEAD] | old[at + _HEAD + 1] << 8
            carried.names.add(bytes(old[at + _HEAD + 2 : at + _HEAD + 2 + length]))
            if kind == records.CONSUMER_STEP and seq:
                self._note_removal(stream, seq, group)

    def _note_removal(self, stream: FileStore, seq: int, group: int) -> None:
        if stream.needs_tombstone(seq, group, self.segment):
            self._of(stream.number).removals.append(seq)

    def _of(self, number: int) -> Carried:
        carried = self._carried.get(number)
        if carried is None:
            carried = self._carried[number] = Carried()
        return carried

    def _kept(self) -> None:
        """Write the new file, or remove the old one: what it said is durable elsewhere."""
        try:
            if self._moves:
                self._write()
            else:
                self.log.disk.unlink(segment_name(self.segment.number))
                self.log.chore(self._directory_sync(), self._removed)
        except OSError:
            self.segment.is_damaged = True
            self._done(False)

    def _write(self) -> None:
        segment = self.segment
        records.start_group(self._data, self._group)
        records.finish_group(
            self._data,
            self._used,
            len(self._moves) + 1,
            self.log.synced_segment,
            self.log.synced_position,
        )
        self._file = self.log.disk.create(segment_name(segment.number) + ".new")
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
            if not is_well or segment.has_erasures:
                self._file.close()
                self.log.disk.unlink(name + ".new")
                self._done(False)
                return
            self.log.disk.rename(name + ".new", name)
        except OSError:
            segment.is_damaged = True
            self._done(False)
            return
        segment.file.close()
        segment.file = self._file
        segment.end = self._used
        segment.allocated = self._used
        segment.message_bytes = segment.live_bytes
        segment.is_rewritten = True
        for number, seq, start, target in self._moves:
            stream = self._streams.get(number)
            if stream is not None:
                stream.move(seq, segment, start, target)
        self.log.chore(self._directory_sync(), self._replaced)

    def _replaced(self, is_well: bool) -> None:
        """From now on nobody needs to remember what has been left out."""
        if is_well:
            self.segment.purged_group = self._group
        self._done(is_well)

    def _removed(self, is_well: bool) -> None:
        if is_well:
            self.log.segments.remove(self.segment)
            for stream in self._streams.values():
                stream.forget_segment(self.segment)
            self.segment.file.close()
        else:
            self.segment.is_damaged = True  # it may be gone from the directory or not
        self._done(is_well)

    def _directory_sync(self) -> Write:
        """Return a write of nothing, which syncs the directory."""
        write = Write(self.log.segments[-1].file, bytearray(8), 0, 0)
        write.with_directory = True
        return write
