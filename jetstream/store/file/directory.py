"""A store directory: its streams, how it is opened, kept in order and closed."""

from __future__ import annotations

import contextlib
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from midge.jetstream.json.encode import text
from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file import records
from midge.jetstream.store.file.compaction import Compaction
from midge.jetstream.store.file.group import Segment, segment_name, segment_number
from midge.jetstream.store.file.head import Contents, Head
from midge.jetstream.store.file.identity import (
    NAMES,
    NEW,
    establish,
    put_aside,
    without_aside,
)
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.recovery import Damage, Replay, end_of_bytes, is_zero
from midge.jetstream.store.file.stream import FileStore
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.turns import Soon, Turns

if TYPE_CHECKING:
    from midge.jetstream.store.encryption import UserKeys

LEFT_MIN = 64 * 1024
"""Bytes of removed messages for which a segment is left early: the next one takes as many."""

_REPEATED_MAX = 1024 * 1024
"""Bytes of configurations that are written down again in each segment, a sixteenth of it."""

_REPEATED_AT_ONCE = 64  # of them in a turn

_RECORD_SIZE = 128  # of a configuration's record about, beside the configuration

_TOLD_MAX = 1000
"""Streams whose sequences the head tells while the server runs; at its stop it tells all."""

_HOMES_BEYOND = 1024  # numbers above the highest one that a misplaced file is tried with


class StoreDirectory:
    """All file streams of a server.

    Opening reads the log, and syncs it before it returns. `damages` are the durable places that
    could not be read, `torn` the ends of unfinished writes that were cut off, and `aside` the names
    of unusable files that may have data: each has been renamed. `tick` should be called once a
    second.

    Args:
        disk: The directory.
        request_flush: Called when there is data to write: `flush` should then be called at the end
            of the turn of the event loop.
        soon: Makes the event loop call a function in its next turn; long work is then done in
            pieces. Without it such work is done at once.
        keys: The keys of an encrypted store. A plain store opened with keys becomes encrypted.
        is_checked: Also open a store with misplaced files, because a check writes nothing.

    Raises:
        StoreError: the directory cannot be read, is of a newer version, has another key, or has
            files of another store or another place.
    """

    def __init__(
        self,
        disk: Disk,
        request_flush: Callable[[], object],
        soon: Soon | None = None,
        keys: UserKeys | None = None,
        is_checked: bool = False,
    ) -> None:
        established = establish(disk, keys)
        self.store_id, disk = established.store_id, established.disk
        self.aside = [f"{name} of another store" for name in established.foreign]
        self._disk = disk
        self._is_checked = is_checked
        self._streams: dict[int, FileStore] = {}
        self._deleted: set[int] = set()
        self._segments: list[Segment] = []
        self._next_number = 1
        self._seconds = 0
        self._sync_interval_s = 0
        self._seed = zlib.crc32(self.store_id)
        self._hash_seed = int.from_bytes(disk.random_bytes(8), "little")
        self.turns = Turns()  # what recovery leaves to later turns is done at once
        self.log = Log(disk, self._seed, request_flush, self.turns)
        self.damages: list[Damage] = []
        self.torn: list[Damage] = []
        self.repaired = 0
        self._last_number = 0
        self._has_hole = False
        self._hole_bytes = 0
        self._head = Head(disk, self._seed)
        self._head_read = self._head.read()
        self._missing: set[int] = set()
        self._short: dict[int, int] = {}
        self._left_out: set[int] = set()
        self._recover()
        self.log.on_failure = self._roll_back
        self.log.on_records = self._repeat_configs
        self.log.on_begun = self._save_head
        self.log.before_removal = self._leave_out
        self._compaction: Compaction | None = None
        self.turns.begin(soon)

    def streams(self) -> Iterator[FileStore]:
        """Iterate over the streams, in the order in which they were created.

        Messages of a stream that no record names stay in the store, and are damage.
        """
        streams = [self._streams[number] for number in sorted(self._streams)]
        return iter([stream for stream in streams if stream.version])

    def create_stream(self, account: bytes, name: bytes, config: bytes) -> FileStore:
        """Make a stream; it is durable when the open group is."""
        number = self._next_number
        stream = FileStore(self.log, number, self._hash_seed)
        stream.account = account
        stream.name = name
        stream.save_config(config)
        self._next_number += 1
        self._streams[number] = stream
        return stream

    def delete_stream(self, stream: FileStore) -> None:
        """Delete a stream; that is durable when the open group is."""
        stream.delete()
        self._deleted.add(stream.number)
        self._streams.pop(stream.number, None)

    def flush(self) -> None:
        """Write the open group."""
        self.log.flush()

    def set_sync_interval(self, seconds: int) -> None:
        """Sync every `seconds`; 0, the default, syncs every group before it is durable."""
        self._sync_interval_s = seconds
        self.log.sync_each = seconds == 0

    def tick(self) -> None:
        """Do the work of every second: sync, retry, compact.

        An idle store records its synced position.
        """
        self._seconds += 1
        if self._sync_interval_s and self._seconds % self._sync_interval_s == 0:
            self.log.sync_written()
        self.log.retry()
        self.log.rest()
        self.log.mark()
        self._leave_dead()
        self.compact()

    def compact(self) -> None:
        """Rewrite the oldest segment of which most is dead, and then the next one.

        When room is short, the one with the least left is the first: its copy needs the least.
        """
        if self._compaction is not None or self.log.failure is not None:
            return
        due = [one for one in self.log.segments[:-1] if self._is_due(one)]
        if self.log.space.is_short:
            due.sort(key=lambda one: one.live_bytes)
        for segment in due:
            if not self.log.is_written_to(segment):
                self._compaction = Compaction(self.log, self._streams, segment, self._compacted)
                self._compaction.start()
                return

    def _leave_dead(self) -> None:
        """Begin a new segment if space is short and most of the last segment is dead.

        Otherwise the last segment would keep its space until it has reached its full length.
        """
        segment = self.log.segments[-1]
        space = self.log.space
        if space.is_short and is_worth_leaving(segment) and space.has_room(segment.live_bytes):
            self.log.leave_segment()

    def _is_due(self, segment: Segment) -> bool:
        """Return whether to rewrite a segment, because of its space or its form."""
        if segment.is_damaged or segment.has_erasures:
            return False
        is_wanted = is_worth_it(segment) or self._disk.is_outdated(segment.file)
        return is_wanted and self.log.space.has_room(segment.live_bytes)

    def _compacted(self, is_well: bool) -> None:
        self._compaction = None
        if is_well:
            self.compact()

    def size(self) -> int:
        """Return how many bytes of disk the log takes."""
        return sum(segment.allocated for segment in self.log.segments)

    def close(self) -> None:
        """Write and sync everything, and let go of the directory."""
        self.turns.clear()
        self.log.close()
        if self.log.failure is None:
            self._write_head(is_closed=True)
        self._head.close()
        self.log.fetches.departing.close()
        self._disk.close()

    def _recover(self) -> None:
        """Read all segments, and begin a new one."""
        self._open_segments()
        self._replay()
        self._disk.sync_directory()
        self.log.segments.extend(self._segments)
        if self._segments:
            self.log.synced_segment = self._segments[-1].number
            self.log.synced_position = self._segments[-1].end
        self.log.begin_segment(self._last_number + 1)
        self._write_head()

    def _open_segments(self) -> None:
        for name in self._disk.names():
            number = segment_number(name)
            self._last_number = max(self._last_number, segment_number(without_aside(name)))
            if number:
                file = self._disk.open(name)
                self._segments.append(Segment(number, file, 0, file.size()))
            elif name.endswith(NEW) and is_own(name):
                self._disk.unlink(name)  # what it was to replace is still there

    def _replay(self) -> None:
        """Read the segments, cut off torn ends, and sync the rest."""
        told = self._head_read
        if told is not None:
            self._last_number = max(self._last_number, told.last())
            self._next_number = max([self._next_number - 1, *told.sequences]) + 1
        replay = Replay(
            self._seed, self._stream_of, self._forget_stream, self._is_followed, self._pass_hole
        )
        misplaced, headless = self._scan(replay)
        if misplaced:
            self._note_misplaced(replay, misplaced)
        for segment in headless:
            self._segments.remove(segment)
            segment.file.close()
            name = segment_name(segment.number)
            put_aside(self._disk, name)
            self.aside.append(f"{name}, whose begin is lost")
        self._find_end(replay)
        self._keep(replay)
        self.log.group = replay.group + 1
        self.log.durable = replay.group
        self.repaired = len(replay.repairs)
        missed = {number: one.finish_replay() for number, one in self._streams.items()}
        # The bytes of a message that was erased do not check: that is no loss.
        self.damages = [
            one for one in replay.damages if not one.seq or one.seq in missed.get(one.stream, ())
        ]
        for damage in self.damages:
            stream = self._streams.get(damage.stream)
            if stream is not None:
                damage.owner = f"{text(stream.account)} > {text(stream.name)}"
        for number, stream in self._streams.items():
            if not stream.version and (stream.messages or stream.lost):
                damage = Damage(0, 0, 0, number, 0)
                damage.note = f"{stream.messages:,} messages of stream {number}, which has no name"
                self.damages.append(damage)

    def _scan(self, replay: Replay) -> tuple[list[Segment], list[Segment]]:
        """Replay all segments; return the misplaced ones, and those whose begin is lost."""
        misplaced: list[Segment] = []
        headless: list[Segment] = []
        before: Segment | None = None
        self._find_missing(replay)
        for segment in self._segments:
            data = bytearray(segment.file.read(0, segment.file.size()))
            self._see_begin(replay, before, segment, data)
            before = segment
            segment.end = replay.scan(segment, data)
            if replay.is_misplaced(segment, data):
                misplaced.append(segment)
            elif not is_zero(data, segment.end):
                length = end_of_bytes(data) - segment.end
                self.torn.append(Damage(segment.number, segment.end, length, 0, 0))
                if segment.end == 0 and is_zero(data[: records.HEAD], 0):
                    headless.append(segment)
        return misplaced, headless

    def _find_missing(self, replay: Replay) -> None:
        """Note the logs that the head names and that are not there.

        A version of midge without a head may have removed them; its logs show that it was here.
        """
        told = self._head_read
        if told is None:
            return
        for segment in self._segments:
            if segment.number > told.last():
                begin = bytearray(segment.file.read(0, records.GROUP_HEAD))
                is_whole = replay.next_group(segment, begin, 0) == 0
                if is_whole and not begin[13] & records.FLAG_HEAD:
                    self._head_read = None
                    return
        present = {segment.number for segment in self._segments}
        self._missing = set(told.logs - present)
        for number in sorted(self._missing):
            length = told.length if number == told.last() else 0
            self._note_lost(replay, number, -1, length, "the file is missing")

    def _see_begin(
        self, replay: Replay, before: Segment | None, segment: Segment, data: bytearray
    ) -> None:
        """Note a hole if logs before `segment` are missing, or the last one is shorter than it was.

        The first group of a segment says how long the segment before it was. The group of a
        compacted segment was written later than the segments behind it.
        """
        first = before.number + 1 if before is not None else 1
        if any(number in self._missing for number in range(first, segment.number)):
            self._pass_hole()
        if replay.next_group(segment, data[: records.GROUP_HEAD], 0) != 0:
            return
        marked = int.from_bytes(data[64:72], "little")
        position = int.from_bytes(data[72:80], "little")
        if marked in self._missing:
            self._hole_bytes += position
        segment.is_rewritten = (marked, position) > (segment.number, 0)
        if before is not None and marked == before.number and not before.is_rewritten:
            self._note_short(replay, before, position)

    def _note_short(self, replay: Replay, segment: Segment, length: int) -> int:
        """Note how much of a segment is missing at its end; return it.

        Such a segment stays as it is, so that every start finds it.
        """
        missing = length - segment.end
        if missing <= 0 or segment.number in self._short:
            return max(missing, 0)
        self._short[segment.number] = length
        segment.is_damaged = True
        self._note_lost(replay, segment.number, segment.end, missing, "the file ends early")
        self._hole_bytes += missing
        self._pass_hole()
        return missing

    def _note_lost(
        self, replay: Replay, number: int, position: int, length: int, note: str
    ) -> None:
        damage = Damage(number, position, length, 0, 0)
        damage.note = note
        replay.damages.append(damage)

    def _find_end(self, replay: Replay) -> None:
        """Compare the end of the log with the head, and note the missing part."""
        told = self._head_read
        if told is None:
            return
        lost_bytes = 0  # with messages of unknown sequences
        if told.last() in self._missing:
            lost_bytes = told.length
        for segment in self._segments:
            if segment.number in told.short:
                self._note_short(replay, segment, told.short[segment.number])
            if segment.number == told.last() and not segment.is_rewritten:
                lost_bytes = self._note_short(replay, segment, told.length)
        for number, (_, last_seq, _) in told.sequences.items():
            stream = self._streams.get(number)
            if stream is not None and stream.last_seq < last_seq:
                stream.lose_through(last_seq)
        for number, stream in self._streams.items():
            if stream.lost or not told.is_closed or number not in told.sequences:
                stream.lost_bytes += lost_bytes

    def _keep(self, replay: Replay) -> None:
        """Cut the segments where they end, and make their contents durable."""
        for segment in self._segments[-2:]:
            start = replay.mark_position if segment.number == replay.mark_segment else 0
            if segment.number >= replay.mark_segment and start < segment.end:
                segment.file.rewrite(start, segment.end)
        for segment in self._segments:
            if segment.end < segment.allocated:
                segment.file.truncate(segment.end)
                segment.allocated = segment.end
        for segment, position, value in replay.repairs:
            segment.file.write(position, bytes([value]))
        repaired = [segment for segment, _, _ in replay.repairs]
        unsynced = [one for one in self._segments if one.number >= replay.mark_segment]
        for segment in dict.fromkeys([*repaired, *unsynced, *self._segments[-2:]]):
            segment.file.sync()

    def _stream_of(self, number: int) -> FileStore | None:
        """Return the store of a stream's number, a new one if it has not been deleted."""
        if number in self._deleted:
            return None
        stream = self._streams.get(number)
        if stream is None:
            stream = self._streams[number] = FileStore(self.log, number, self._hash_seed)
            told = self._head_read.sequences.get(number) if self._head_read else None
            if self._has_hole and told is not None and told[2]:
                first_seq, last_seq, messages = told
                if messages * 2 > last_seq - first_seq:
                    stream.begin_behind_hole(first_seq)
                else:  # most of the sequences had no message
                    stream.lost_bytes = max(self._hole_bytes, 1)
            self._next_number = max(self._next_number, number + 1)
        return stream

    def _forget_stream(self, number: int) -> None:
        self._deleted.add(number)
        stream = self._streams.pop(number, None)
        self._next_number = max(self._next_number, number + 1)
        if stream is not None:
            stream.reset()

    def _pass_hole(self) -> None:
        """Note that records are lost which came before the next ones."""
        self._has_hole = True
        for stream in self._streams.values():
            stream.pass_hole()

    def _contents(self, is_closed: bool = False, streams_max: int = sys.maxsize) -> Contents:
        """Return the head that is right now, without sequences of more than `streams_max`."""
        known = {
            one.number: one.end
            for one in self.log.segments
            if one.end > 0 and one.number not in self._left_out
        }
        logs = frozenset(known) | self._missing
        last = max(logs, default=0)
        told = self._head_read
        length = known.get(last, told.length if told is not None else 0)
        if self.log.synced_segment == last and self.log.marked_position == length > 0:
            length -= records.GROUP_HEAD  # the last group only says how far the store is synced
        sequences = {
            number: (one.first_seq, one.visible_seq, one.messages)
            for number, one in (self._streams.items() if len(self._streams) <= streams_max else ())
            if one.version
        }
        return Contents(logs, length, self._short, sequences, is_closed)

    def _write_head(self, is_closed: bool = False) -> None:
        """Write the head now, if it is to change and the disk has room for it."""
        contents = self._contents(is_closed)
        told = self._head_read
        if told is None or is_closed or contents != told._replace(is_closed=False):
            with contextlib.suppress(OSError):
                self._head.write(contents)

    def _save_head(self, done: Callable[[bool], object] = lambda _: None) -> None:
        """Write the head between two groups.

        Without sequences where there are many streams: writing them down takes 1 us each.
        """
        contents = self._contents(streams_max=_TOLD_MAX)
        self._head.save(contents, self.log.chore, done)

    def _leave_out(self, number: int, done: Callable[[bool], object]) -> None:
        """Write a head without a segment that is to be removed, and may be gone after a failure."""
        self._left_out.add(number)
        self._save_head(done)

    def _repeat_configs(self) -> None:
        """Write the streams' configurations into a new segment, a bounded number in each turn.

        The names of streams must not be lost with the first segment. Configurations take up to
        `_REPEATED_MAX` of a segment, and the oldest copies come first.
        """
        segment = self.log.segments[-1]
        waiting: list[int] | None = None
        left = _REPEATED_MAX

        def repeat() -> bool:
            nonlocal left, waiting
            if waiting is None:
                streams = self._streams
                waiting = sorted(streams, key=lambda number: -streams[number].configured_in())
            for _ in range(min(_REPEATED_AT_ONCE, len(waiting))):
                if self.log.failure is not None or self.log.full or self.log.space.is_short:
                    return False
                stream = self._streams.get(waiting.pop())
                if stream is None or not stream.version or stream.configured_in() >= segment.number:
                    continue
                left -= len(stream.config()) + _RECORD_SIZE
                if left < 0:
                    return False
                stream.repeat_config()
            return bool(waiting)

        self.turns.add(repeat)

    def _is_followed(self, segment: Segment) -> bool:
        """Return whether a later segment has a group, so that all of `segment` had been written."""
        reader = Replay(self._seed, self._stream_of, self._forget_stream, lambda _: False)
        return any(
            reader.next_group(later, bytearray(later.file.read(0, later.file.size())), 0) >= 0
            for later in self._segments
            if later.number > segment.number
        )

    def _note_misplaced(self, replay: Replay, misplaced: list[Segment]) -> None:
        """Add to the damages where files belong; raise StoreError unless the store is checked."""
        notes = {one.number: self._home_of(one) for one in misplaced}
        if not self._is_checked:
            what = "; ".join(f"{segment_name(number)} {note}" for number, note in notes.items())
            if len(misplaced) == sum(one.allocated > 0 for one in self._segments):
                what += "; store.a and store.b may be of another store"
            raise StoreError(f"{what}: put the right files back, or take these away")
        for damage in replay.damages:
            damage.note = notes.get(damage.segment, "")

    def _home_of(self, segment: Segment) -> str:
        """Describe the content of a misplaced file: another segment of this store, or unknown."""
        head = bytearray(segment.file.read(0, records.HEAD))
        for number in range(1, self._last_number + _HOMES_BEYOND):
            if records.check_head(head, 0, len(head), self._seed, number, 0):
                return f"has the records of {segment_name(number)}"
        return "has no record of this store"

    def _roll_back(self) -> None:
        """Undo the changes that a failed sync has lost: read the durable records again.

        A stream whose deletion is lost reappears as another object.
        """
        for stream in self._streams.values():
            stream.reset()
        self._deleted.clear()
        replay = Replay(self._seed, self._stream_of, self._forget_stream, lambda _: True)
        for segment in self.log.segments:
            replay.scan(segment, bytearray(segment.file.read(0, segment.end)))
        for number, stream in list(self._streams.items()):
            stream.finish_replay()
            if stream.version == 0:
                del self._streams[number]


def is_own(name: str) -> bool:
    """Return whether a store makes files of this name; all others are left alone."""
    whole = without_aside(name.removesuffix(NEW))
    return whole in NAMES or bool(segment_number(whole))


def is_worth_it(segment: Segment) -> bool:
    """Return whether rewriting a segment would reclaim at least half of it.

    For a rewritten segment only later removals count, so that it is not rewritten again and again
    where messages are small in comparison with their records.
    """
    whole = segment.message_bytes if segment.is_rewritten else segment.end
    return segment.live_bytes * 2 < whole or segment.live_bytes == 0


def is_worth_leaving(segment: Segment) -> bool:
    """Return whether a new segment would allow to reclaim enough of the last one.

    Removed messages must be a quarter of it, because the rest may have to be repeated.
    """
    dead = segment.message_bytes - segment.live_bytes
    return is_worth_it(segment) and dead >= LEFT_MIN and dead * 4 >= segment.end


__all__ = ["Damage", "StoreDirectory", "is_own", "segment_name"]
