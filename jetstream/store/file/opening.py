"""Opening a store directory: the streams that its log describes, and what the log lacks.

The log's own records say which bytes are damaged or torn, see recovery.py. The store's head and the
begins of the segments name the missing files, and the missing ends of files. A hole in the log
loses messages of unknown streams, so that a stream's first record behind it says which sequences
are lost.
"""

from __future__ import annotations

from midge.jetstream.json.encode import text
from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file import checkpoint, records, replayed
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.frames import UnfitCheckpoint
from midge.jetstream.store.file.group import Segment, segment_name, segment_number
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.log_identity import (
    CHECKPOINT,
    NEW,
    Head,
    is_own,
    put_aside,
    without_aside,
)
from midge.jetstream.store.file.recovery import Damage, Replay, end_of_bytes, is_zero
from midge.jetstream.store.interface import StoreError

_HOMES_BEYOND = 1024  # numbers above the highest one that a misplaced file is tried with


class Opening:
    """The streams of a store directory, as its log describes them, and the flaws of that log.

    `missing` has the numbers of the logs that are not there, `short` the lengths that shorter ones
    had. `known_head` is the head as it was, and `checkpoint` the one that has been used; `unfit`
    says why there is none. `next_number` is the next stream's. See `StoreDirectory` for the rest.
    """

    def __init__(self, disk: Disk, log: Log, head: Head, hash_seed: int, is_checked: bool) -> None:
        self.streams: dict[int, FileStore] = {}
        self.deleted: set[int] = set()
        self.segments: list[Segment] = []
        self.next_number = 1
        self.last_number = 0
        self.damages: list[Damage] = []
        self.torn: list[Damage] = []
        self.aside: list[str] = []
        self.repaired = 0
        self.missing: set[int] = set()
        self.short: dict[int, int] = {}
        self.known_head = head.read()
        self.checkpoint: checkpoint.Checkpoint | None = None
        self.unfit = ""
        self._disk = disk
        self._log = log
        self._head = head
        self._hash_seed = hash_seed
        self.is_checked = is_checked
        self._has_hole = False
        self._hole_bytes = 0

    def is_whole(self) -> bool:
        """Return whether nothing is missing or damaged; else each start has to find that itself."""
        return not (self.damages or self.missing or self.short or self._has_hole)

    def read(self) -> None:
        """Read all segments."""
        self._open_segments()
        self._replay()
        self._disk.sync_directory()
        self._log.segments.extend(self.segments)
        if self.segments:
            self._log.synced_segment = self.segments[-1].number
            self._log.synced_position = self.segments[-1].end

    def create_stream(self, account: bytes, name: bytes, config: bytes) -> FileStore:
        """Make a stream; it is durable when the open group is."""
        number = self.next_number
        stream = FileStore(self._log, number, self._hash_seed)
        stream.account = account
        stream.name = name
        stream.save_config(config)
        self.next_number += 1
        self.streams[number] = stream
        return stream

    def _open_segments(self) -> None:
        for name in self._disk.names():
            number = segment_number(name)
            self.last_number = max(self.last_number, segment_number(without_aside(name)))
            if number:
                file = self._disk.open(name)
                self.segments.append(Segment(number, file, 0, file.size()))
            elif name.endswith(NEW) and is_own(name):
                self._disk.unlink(name)  # what it was to replace is still there

    def _replay(self) -> None:
        """Read the segments, cut off torn ends, and sync the rest."""
        head = self.known_head
        if head is not None:
            self.last_number = max(self.last_number, head.last())
            self.next_number = max([self.next_number - 1, *head.sequences]) + 1
        replay = Replay(
            self._log.seed, self._stream_of, self._forget_stream, self._is_followed, self._pass_hole
        )
        self._read_checkpoint()
        misplaced, headless = self._scan(replay)
        if misplaced:
            self._note_misplaced(replay, misplaced)
        for segment in headless:
            self.segments.remove(segment)
            segment.file.close()
            name = segment_name(segment.number)
            put_aside(self._disk, name)
            self.aside.append(f"{name}, whose begin is lost")
        self._find_end(replay)
        self._keep(replay)
        self._log.durable = max(replay.group, self.checkpoint.group if self.checkpoint else 0)
        self._log.group = self._log.durable + 1
        self.repaired = len(replay.repairs)
        missed = {number: replayed.finish(one) for number, one in self.streams.items()}
        # The bytes of a message that was erased do not check: that is no loss.
        self.damages = [
            one for one in replay.damages if not one.seq or one.seq in missed.get(one.stream, ())
        ]
        for damage in self.damages:
            stream = self.streams.get(damage.stream)
            if stream is not None:
                damage.owner = f"{text(stream.account)} > {text(stream.name)}"
        for number, stream in self.streams.items():
            if not stream.version and (stream.messages or stream.lost):
                damage = Damage(0, 0, 0, number, 0)
                damage.note = f"{stream.messages:,} messages of stream {number}, which has no name"
                self.damages.append(damage)

    def _read_checkpoint(self) -> None:
        """Restore the streams from the checkpoint, so that only later segments must be replayed."""
        if self.is_checked or CHECKPOINT not in self._disk.names():
            return
        head = self.known_head
        present = {one.number for one in self.segments}
        try:
            if head is None or head.short or not head.logs <= present:
                raise UnfitCheckpoint("the store's head is not as it was")
            found = checkpoint.read(
                self._disk,
                self._log.seed,
                self.segments,
                self._head.count,
                lambda number: FileStore(self._log, number, self._hash_seed),
            )
        except (StoreError, OSError, ValueError, OverflowError) as error:
            self.unfit = str(error)
            return
        self.checkpoint = found
        self.streams = found.streams
        self.next_number = max(self.next_number, found.next_number)

    def _scan(self, replay: Replay) -> tuple[list[Segment], list[Segment]]:
        """Replay all segments; return the misplaced ones, and those whose begin is lost."""
        misplaced: list[Segment] = []
        headless: list[Segment] = []
        before: Segment | None = None
        self._find_missing(replay)
        known = {one.number for one in self.checkpoint.segments} if self.checkpoint else set()
        for segment in self.segments:
            if segment.number in known:
                begin = bytearray(segment.file.read(0, records.GROUP_HEAD))
                self._see_begin(replay, before, segment, begin)
                before = segment
                continue
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
        head = self.known_head
        if head is None:
            return
        for segment in self.segments:
            if segment.number > head.last():
                begin = bytearray(segment.file.read(0, records.GROUP_HEAD))
                is_whole = replay.next_group(segment, begin, 0) == 0
                if is_whole and not begin[13] & records.FLAG_HEAD:
                    self.known_head = None
                    return
        present = {segment.number for segment in self.segments}
        self.missing = set(head.logs - present)
        for number in sorted(self.missing):
            length = head.length if number == head.last() else 0
            self._note_lost(replay, number, -1, length, "the file is missing")

    def _see_begin(
        self, replay: Replay, before: Segment | None, segment: Segment, data: bytearray
    ) -> None:
        """Note a hole if logs before `segment` are missing, or the last one is shorter than it was.

        The first group of a segment says how long the segment before it was. The group of a
        compacted segment was written later than the segments behind it.
        """
        first = before.number + 1 if before is not None else 1
        if any(number in self.missing for number in range(first, segment.number)):
            self._pass_hole()
        if replay.next_group(segment, data[: records.GROUP_HEAD], 0) != 0:
            return
        marked = int.from_bytes(data[64:72], "little")
        position = int.from_bytes(data[72:80], "little")
        if marked in self.missing:
            self._hole_bytes += position
        segment.is_rewritten = (marked, position) > (segment.number, 0)
        if before is not None and marked == before.number and not before.is_rewritten:
            self._note_short(replay, before, position)

    def _note_short(self, replay: Replay, segment: Segment, length: int) -> int:
        """Note how much of a segment is missing at its end; return it.

        Such a segment stays as it is, so that every start finds it.
        """
        missing = length - segment.end
        if missing <= 0 or segment.number in self.short:
            return max(missing, 0)
        self.short[segment.number] = length
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
        head = self.known_head
        if head is None:
            return
        lost_bytes = 0  # with messages of unknown sequences
        if head.last() in self.missing:
            lost_bytes = head.length
        for segment in self.segments:
            if segment.number in head.short:
                self._note_short(replay, segment, head.short[segment.number])
            if segment.number == head.last() and not segment.is_rewritten:
                lost_bytes = self._note_short(replay, segment, head.length)
        for number, (_, last_seq, _) in head.sequences.items():
            stream = self.streams.get(number)
            if stream is not None and stream.last_seq < last_seq:
                replayed.lose_through(stream, last_seq)
        for number, stream in self.streams.items():
            if stream.lost or not head.is_closed or number not in head.sequences:
                stream.lost_bytes += lost_bytes

    def _keep(self, replay: Replay) -> None:
        """Cut the segments where they end, and make their contents durable."""
        mark_segment, mark_position = replay.mark_segment, replay.mark_position
        if self.checkpoint is not None and mark_segment <= self.checkpoint.last():
            mark_segment, mark_position = self.checkpoint.last() + 1, 0
        for segment in self.segments[-2:]:
            start = mark_position if segment.number == mark_segment else 0
            if segment.number >= mark_segment and start < segment.end:
                segment.file.rewrite(start, segment.end)
        for segment in self.segments:
            if segment.end < segment.allocated:
                segment.file.truncate(segment.end)
                segment.allocated = segment.end
        for segment, position, value in replay.repairs:
            segment.file.write(position, bytes([value]))
        repaired = [segment for segment, _, _ in replay.repairs]
        unsynced = [one for one in self.segments if one.number >= mark_segment]
        for segment in dict.fromkeys([*repaired, *unsynced, *self.segments[-2:]]):
            segment.file.sync()

    def _stream_of(self, number: int) -> FileStore | None:
        """Return the store of a stream's number, a new one if it has not been deleted."""
        if number in self.deleted:
            return None
        stream = self.streams.get(number)
        if stream is None:
            stream = self.streams[number] = FileStore(self._log, number, self._hash_seed)
            bounds = self.known_head.sequences.get(number) if self.known_head else None
            if self._has_hole and bounds is not None and bounds[2]:
                first_seq, last_seq, messages = bounds
                if messages * 2 > last_seq - first_seq:
                    stream.hole_from = first_seq
                    stream.is_behind_hole = True
                else:  # most of the sequences had no message
                    stream.lost_bytes = max(self._hole_bytes, 1)
            self.next_number = max(self.next_number, number + 1)
        return stream

    def _forget_stream(self, number: int) -> None:
        self.deleted.add(number)
        stream = self.streams.pop(number, None)
        self.next_number = max(self.next_number, number + 1)
        if stream is not None:
            replayed.reset(stream)

    def _pass_hole(self) -> None:
        """Note that records are lost which came before the next ones."""
        self._has_hole = True
        for stream in self.streams.values():
            stream.is_behind_hole = True

    def _is_followed(self, segment: Segment) -> bool:
        """Return whether a later segment has a group, so that all of `segment` had been written."""
        reader = Replay(self._log.seed, self._stream_of, self._forget_stream, lambda _: False)
        return any(
            reader.next_group(later, bytearray(later.file.read(0, later.file.size())), 0) >= 0
            for later in self.segments
            if later.number > segment.number
        )

    def _note_misplaced(self, replay: Replay, misplaced: list[Segment]) -> None:
        """Add to the damages where files belong; raise StoreError unless the store is checked."""
        notes = {one.number: self._home_of(one) for one in misplaced}
        if not self.is_checked:
            what = "; ".join(f"{segment_name(number)} {note}" for number, note in notes.items())
            if len(misplaced) == sum(one.allocated > 0 for one in self.segments):
                what += "; store.a and store.b may be of another store"
            raise StoreError(f"{what}: put the right files back, or take these away")
        for damage in replay.damages:
            damage.note = notes.get(damage.segment, "")

    def _home_of(self, segment: Segment) -> str:
        """Describe the content of a misplaced file: another segment of this store, or unknown."""
        head = bytearray(segment.file.read(0, records.HEAD))
        for number in range(1, self.last_number + _HOMES_BEYOND):
            if records.check_head(head, 0, len(head), self._log.seed, number, 0):
                return f"has the records of {segment_name(number)}"
        return "has no record of this store"

    def read_again(self) -> None:
        """Undo the changes that a failed sync has lost: read the durable records again.

        A stream whose deletion is lost reappears as another object.
        """
        for stream in self.streams.values():
            replayed.reset(stream)
        self.deleted.clear()
        replay = Replay(self._log.seed, self._stream_of, self._forget_stream, lambda _: True)
        for segment in self._log.segments:
            replay.scan(segment, bytearray(segment.file.read(0, segment.end)))
        for number, stream in list(self.streams.items()):
            replayed.finish(stream)
            if stream.version == 0:
                del self.streams[number]
