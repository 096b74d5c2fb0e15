"""A checkpoint: what reading the whole log would find, in a file that makes that unnecessary.

A start must know where each message is, and the log says it record by record: some 0.4 us each, 8 s
for 20 million. A server that stops in good order writes the indexes into `checkpoint` as they lie
in memory, and the next start reads them back and replays only the segments after them. After a
SIGKILL the last checkpoint is still right, as the log is only ever appended to. A server that runs
writes another one when its log has grown by a quarter and no message is being removed.

The log always wins. A checkpoint is nothing but a copy, which a start uses only if

- its checksums match; they go on from the store's id, so that another store's never does;
- each segment it was made of is there, with its length, its first group and its last sector. Only
  one with nothing but streams' configurations and bounds may be gone: they are in the checkpoint,
  and a later change is in a later segment, which keeps it as long as any older segment is there;
- the store's head is not older than the checkpoint, as where a copy of the log has been put back;
- its own counts agree with each other.

Otherwise the start removes the file and reads the log from its begin. Compaction removes it before
it rewrites a segment of it, and so does damage: a full replay finds and reports what cannot be
read. A store that is damaged, or of which a change is not durable, gets none. As nothing depends
on it the file is not synced: one that a power failure leaves torn does not fit.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file import records, replayed
from midge.jetstream.store.file.frames import (
    CheckpointReader,
    CheckpointWriter,
    DeferredWriter,
    UnfitCheckpoint,
)
from midge.jetstream.store.file.log_identity import CHECKPOINT, NEW

if TYPE_CHECKING:
    from midge.jetstream.store.file.file_store import FileStore
    from midge.jetstream.store.file.group import Segment
    from midge.jetstream.store.file.log import Log

_SECTOR = 512

_COPIED_MAX = 32 * 1024 * 1024  # bytes copied at once while the server runs: some 10 ms
_STREAMS_MAX = 5_000

_ROOM = 4
"""A checkpoint takes at most this part of the free space, because messages need it more."""


class Checkpoint:
    """What a start finds: the streams, the segments with records, and the last group.

    `next_number` is the next stream's. `head_count` is the count of the store's head.
    """

    def __init__(self, group: int, next_number: int, head_count: int) -> None:
        self.group = group
        self.next_number = next_number
        self.head_count = head_count
        self.streams: dict[int, FileStore] = {}
        self.segments: list[Segment] = []

    def last(self) -> int:
        """Return the number of the last segment."""
        return self.segments[-1].number if self.segments else 0

    def removals(self) -> int:
        """Return how many messages have ever been removed."""
        return sum(stream.removals for stream in self.streams.values())

    def is_copied_soon(self) -> bool:
        """Return whether all but the rows can be copied in one turn."""
        size = sum(replayed.copied_size(stream) for stream in self.streams.values())
        return size <= _COPIED_MAX and len(self.streams) <= _STREAMS_MAX

    def is_sound(self) -> bool:
        """Return whether nothing is damaged or lost; else each start must find and report it."""
        return not any(one.is_damaged or one.has_erasures for one in self.segments) and not any(
            one.lost or one.lost_bytes or not one.version for one in self.streams.values()
        )

    def has_room(self, disk: Disk) -> bool:
        """Return whether the disk has enough room for it."""
        size = sum(replayed.index_size(stream) for stream in self.streams.values())
        return size * _ROOM <= disk.free_bytes()

    def write(self, disk: Disk, seed: int) -> bool:
        """Write the checkpoint, in place of any there is; False if there is no room for it."""
        if not self.has_room(disk):
            return False
        try:
            for segment in self.segments:
                segment.file.truncate(segment.end)
                segment.allocated = segment.end
            file = disk.create(CHECKPOINT + NEW)
            try:
                self._write_to(CheckpointWriter(file, seed))
            finally:
                file.close()
            disk.rename(CHECKPOINT + NEW, CHECKPOINT)
        except OSError:
            with contextlib.suppress(OSError):
                disk.unlink(CHECKPOINT + NEW)
            return False
        return True

    def _write_to(self, out: CheckpointWriter) -> None:
        for number in self.begin([one.live_bytes for one in self.segments]):
            out.number(number)
        self.write_streams(out)
        out.finish()

    def write_streams(self, out: CheckpointWriter) -> None:
        """Write the streams, which come last."""
        for number, stream in self.streams.items():
            out.number(number)
            replayed.save(stream, out)

    def begin(self, live_bytes: list[int]) -> list[int]:
        """Return the numbers that come first; the segments had these bytes of messages."""
        found = [self.group, self.next_number, self.head_count, len(self.segments)]
        for segment, live in zip(self.segments, live_bytes, strict=True):
            found += [segment.number, segment.end, live]
            found += [segment.message_bytes, segment.holds_more, *_prints(segment, segment.end)]
        return [*found, len(self.streams)]


class RunningCheckpoint:
    """Writes a checkpoint while the server goes on.

    It is made when the log goes on in a new segment, and nothing is in the open group: then the
    streams are what the older segments say. All but the rows of messages is copied at once, within
    some 20 ms for 20 million messages. The rows follow in a thread, a piece at a time. Messages
    that are stored meanwhile change nothing of them that counts; when one is removed, or a segment
    rewritten, `done` is called with False, and there is no checkpoint.
    """

    def __init__(
        self, disk: Disk, log: Log, new: Checkpoint, done: Callable[[bool], object]
    ) -> None:
        self.new = new
        self._disk = disk
        self._log = log
        self._done = done
        self._removals = new.removals()
        self._live_bytes = [one.live_bytes for one in new.segments]
        self._file = disk.create(CHECKPOINT + NEW)
        self._out = DeferredWriter(self._file, log.seed)
        self._is_more = True
        self._is_stopped = False
        new.write_streams(self._out)
        self._out.finish()

    def start(self) -> None:
        """Go on, now that the last group is on the disk."""
        if self._is_right():
            self._out.begin_with(self.new.begin(self._live_bytes))
        self._write_on()

    def stop(self) -> None:
        """Come to nothing."""
        self._is_stopped = True

    def close(self) -> None:
        """Close the file, when no thread writes to it any more."""
        self._file.close()

    def _is_right(self) -> bool:
        """Return whether the rows are still those that are to be written."""
        is_same = self._removals == self.new.removals()
        return is_same and not self._is_stopped and self._log.failure is None

    def _write_on(self) -> None:
        if self._is_more and self._is_right():
            self._disk.beside(self._write, self._write_on)
        else:
            self._end()

    def _write(self) -> None:
        """Write a piece, in a thread."""
        is_written = False
        try:
            with contextlib.suppress(OSError):
                self._is_more = self._out.write_piece()
                is_written = True
        finally:
            self._is_stopped = self._is_stopped or not is_written

    def _end(self) -> None:
        is_well = False
        self._file.close()
        with contextlib.suppress(OSError):
            if self._is_right():
                self._disk.rename(CHECKPOINT + NEW, CHECKPOINT)
                is_well = True
            else:
                self._disk.unlink(CHECKPOINT + NEW)
        self._done(is_well)


def read(
    disk: Disk,
    seed: int,
    segments: Iterable[Segment],
    head_count: int,
    make: Callable[[int], FileStore],
) -> Checkpoint:
    """Return the checkpoint of a store with these segments, which are changed only at success.

    `make` returns an empty stream of a number, and `head_count` is the count of the head now.

    Raises:
        UnfitCheckpoint: it cannot be used.
        OSError: it cannot be read.
    """
    file = disk.open(CHECKPOINT)
    try:
        if disk.is_outdated(file):
            raise UnfitCheckpoint("it is not encrypted as the store is")
        source = CheckpointReader(file, seed)
        found = Checkpoint(source.number(), source.number(), source.number())
        source.expect(found.head_count <= head_count, "it is newer than the store's head")
        there = {segment.number: segment for segment in segments if segment.allocated}
        known: dict[int, tuple[int, int, int, int]] = {}
        is_whole = True
        for _ in range(source.number()):
            number, end, live, written, more = (source.number() for _ in range(5))
            wanted = [source.number(), source.number()]
            segment = there.get(number)
            if segment is None:
                source.expect(not written and not more, f"segment {number} is missing")
                is_whole = False
                continue
            beyond = segment.file.read(end, max(segment.allocated - end, 0))
            is_same = segment.allocated >= end and beyond == bytes(len(beyond))
            source.expect(
                is_same and _prints(segment, end) == wanted, f"segment {number} is not as it was"
            )
            known[number] = end, live, written, more
            found.segments.append(segment)
        source.expect(is_whole or bool(known), "its segments are missing")
        is_known = all(number in known for number in there if number <= found.last())
        source.expect(is_known, "there are segments before its last one that it does not know")
        places = {segment.number: segment for segment in found.segments}
        for _ in range(source.number()):
            number = source.number()
            stream = found.streams[number] = make(number)
            replayed.restore(stream, source, places)
        source.finish()
    finally:
        file.close()
    for segment in found.segments:
        segment.end, segment.live_bytes, segment.message_bytes, more = known[segment.number]
        segment.holds_more = bool(more)
        segment.purged_group = int.from_bytes(segment.file.read(24, 8), "little") - 1
    return found


def _prints(segment: Segment, end: int) -> list[int]:
    """Return the checksums of a segment's first group head and of its last sector.

    The head of a group has a checksum over all of its records' checksums.
    """
    start = max(end - _SECTOR, 0)
    return [
        zlib.crc32(segment.file.read(0, records.GROUP_HEAD)),
        zlib.crc32(segment.file.read(start, end - start)),
    ]
