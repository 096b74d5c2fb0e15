"""When a store directory gets a checkpoint, and when it loses it.

A start with a checkpoint has not looked at the old records. `Scrub` checks them afterwards, in
pieces between other work, and reports damage.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial

from midge.jetstream.json.encode import text
from midge.jetstream.store import numbers
from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file import records
from midge.jetstream.store.file.checkpoint import Checkpoint, RunningCheckpoint
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.log_identity import CHECKPOINT, NEW, Head
from midge.jetstream.store.file.opening import Opening
from midge.jetstream.store.file.recovery import Damage, sound_end, sound_head

_REPLAYED_MAX = 256 * 1024 * 1024
"""Bytes of log, some 1 s of replay, after which a start writes a checkpoint for the next one."""

GROWN_MIN = 64 * 1024 * 1024
"""Bytes by which the log must have grown before a running server writes a checkpoint.

It must also have grown by a quarter, so that a start replays at most a fifth of the log, and all
checkpoints of a growing store together write five times its index.
"""

SHARE_BYTES = 32 * 1024 * 1024
"""Bytes of old segments that are checked in a second, in 20 to 40 ms of CPU time."""

_SLICE = 512 * 1024  # of them in a turn, in some 0.5 ms


class Checkpoints:
    """The checkpoint of an opened store directory: `current`, and `running` while one is written.

    `report` is called with each damage that the check of old segments finds.
    """

    def __init__(
        self, disk: Disk, log: Log, head: Head, found: Opening, report: Callable[[Damage], object]
    ) -> None:
        self.current = found.checkpoint
        self.running: RunningCheckpoint | None = None
        self.is_compacting = False  # while segments change, no checkpoint begins
        self._disk = disk
        self._log = log
        self._head = head
        self._found = found
        self._removals = 0
        self._saved_bytes = 0  # of the log when a checkpoint was written, or tried
        self._scrub: Scrub | None = None
        known = 0
        if self.current is not None:
            known = self.current.last()
            self._saved_bytes = sum(one.end for one in self.current.segments)
            self._scrub = Scrub(log, found.streams, self.current.segments, report)
        elif found.unfit:
            self.drop()
        if sum(one.end for one in log.segments if one.number > known) >= _REPLAYED_MAX:
            self.write()

    def write(self) -> None:
        """Write a checkpoint, unless each start has to find damage by itself."""
        if self._found.is_checked or not self._found.is_whole():
            return
        new = self._new(self._log.group - 1)
        if (
            new.is_sound()
            and not self._log.pending_bytes()
            and new.write(self._disk, self._log.seed)
        ):
            self.current = new
            self._saved_bytes = sum(one.end for one in new.segments)

    def tick(self) -> None:
        """Write a checkpoint if the log has grown enough, and nothing is being removed."""
        if self._log.space.is_short:
            self.drop()
            return
        size = sum(one.end for one in self._log.segments)
        grown = size - self._saved_bytes
        if self.running is not None or grown < GROWN_MIN or grown < size // 5:
            return
        removals = sum(stream.removals for stream in self._found.streams.values())
        if removals == self._removals and not self.is_compacting:
            self._saved_bytes = size
            self._log.barrier(self.begin)
        self._removals = removals

    def begin(self) -> None:
        """Go on in a new segment, and write what the older ones say."""
        if not self._found.is_whole() or self.running is not None or self.is_compacting:
            return
        before = self._log.segments[-1]
        new = self._new(0)
        new.streams = dict(new.streams)
        if not new.is_sound() or not new.is_copied_soon() or not new.has_room(self._disk):
            return
        self._log.flush()
        self._log.leave_segment()
        if self._log.failure is not None or self._log.segments[-1] is before:
            return  # there is an open group, or no room
        new.group = self._log.group - 1
        new.segments = [one for one in self._log.segments[:-1] if one.end or one is before]
        with contextlib.suppress(OSError):
            self.running = RunningCheckpoint(self._disk, self._log, new, self._ran)
        if self.running is not None:
            self._log.barrier(partial(self._log.sync_written, self.running.start))

    def _new(self, group: int) -> Checkpoint:
        new = Checkpoint(group, self._found.next_number, self._head.count)
        new.streams = self._found.streams
        new.segments = [one for one in self._log.segments if one.end]
        return new

    def _ran(self, is_well: bool) -> None:
        """Called when a running checkpoint is written, or has come to nothing."""
        if self.running is not None and is_well:
            self.current = self.running.new
            self.current.streams = {}
        self.running = None

    def rewriting(self, segment: Segment) -> None:
        """Called before a segment is rewritten, or removed because it has no message."""
        self.is_compacting = True
        if segment.live_bytes:  # one without messages may go
            self.drop(segment.number)
        if self.running is not None:
            self.running.stop()

    def drop(self, changed: int = 0) -> None:
        """Remove the checkpoint, which does not fit; only if it has a segment that is `changed`."""
        last = self.current.last() if self.current is not None else 0
        if changed <= last and (last or self._found.unfit):
            self.current = None
            with contextlib.suppress(OSError):
                self._disk.unlink(CHECKPOINT)

    def check_on(self, is_whole: bool = False) -> None:
        """Check a second's share of the segments that the start has not read, or the whole."""
        if self._scrub is not None:
            self._scrub.begin_share(is_whole)
            if self._scrub.is_done():
                self._scrub = None

    def is_checking(self) -> bool:
        """Return whether there are segments that the start has not read."""
        return self._scrub is not None

    def stop(self) -> None:
        """Leave an unfinished checkpoint."""
        if self.running is not None:
            self.running.stop()
            with contextlib.suppress(OSError):
                self._disk.unlink(CHECKPOINT + NEW)

    def close(self) -> None:
        """Close the file of an unfinished one, whose last piece no thread writes any more."""
        if self.running is not None:
            self.running.close()


class Scrub:
    """Checks the segments that a start has not read, a slice in a turn.

    `report` is called with each damage. Damaged messages are listed as lost, and stay in the index
    until a start reads the log.
    """

    def __init__(
        self,
        log: Log,
        streams: dict[int, FileStore],
        segments: list[Segment],
        report: Callable[[Damage], object],
    ) -> None:
        self._log = log
        self._streams = streams
        self._files = [(segment, segment.file) for segment in reversed(segments)]
        self._report = report
        self._position = 0
        self._wanted = _SLICE
        self._left = 0
        self._is_fetching = False

    def is_done(self) -> bool:
        """Return whether all has been checked."""
        return not self._files

    def begin_share(self, is_whole: bool) -> None:
        """Check more bytes in the next turns: the share of a second, or the whole rest."""
        is_waiting = self._left <= 0 and not self._is_fetching
        self._left = sys.maxsize if is_whole else SHARE_BYTES
        if is_waiting:
            self._log.turns.add(self.step)

    def fetched(self) -> None:
        """Go on with the slice that was not in memory."""
        self._is_fetching = False
        self._log.turns.add(self.step)

    def step(self) -> bool:
        """Check a slice; return False when the share is used up, or all is done."""
        if not self._files:
            return False
        segment, file = self._files[-1]
        is_there = segment.file is file and segment in self._log.segments
        if self._position >= segment.end or not is_there:  # it has been rewritten or removed
            self._files.pop()
            self._position = 0
            return True
        size = min(self._wanted, segment.end - self._position)
        data = bytearray()
        with contextlib.suppress(OSError):
            found = self._log.fetches.read(segment, self._position, size, size, size, self)
            self._is_fetching = found is None
            if found is None:
                return False
            data += found
        self._left -= size
        self._check(segment, data.ljust(size, b"\0"))
        return self._left > 0

    def _check(self, segment: Segment, data: bytearray) -> None:
        """Check whole records, or ask for more of one that does not fit into a slice."""
        seed, number, position = self._log.seed, segment.number, self._position
        end = sound_end(data, seed, number, position)
        self._wanted = _SLICE
        if end:
            self._position += end
            return
        is_whole = position + len(data) >= segment.end
        has_head = records.check_head(data, 0, len(data), seed, number, position)
        length = records.padded(numbers.u32_at(data, 8)) if has_head else segment.end
        if length > len(data) and not is_whole:
            self._wanted = length
            return
        if not has_head:
            length = sound_head(data, 8, seed, number, position)
        self._pass(segment, length, has_head and data[12] == records.MESSAGE)
        self._position += length

    def _pass(self, segment: Segment, length: int, is_message: bool) -> None:
        """Report bytes that do not check, unless they are of a message that is gone anyway."""
        start = self._position
        lost = [
            (stream, seq)
            for stream in self._streams.values()
            for seq in stream.segments.live_in(segment, start, start + length)
        ]
        if is_message and not lost:
            return
        segment.is_damaged = True
        for stream, seq in lost:
            stream.lost.add(seq)
            damage = Damage(segment.number, start, length, stream.number, seq)
            damage.owner = f"{text(stream.account)} > {text(stream.name)}"
            self._report(damage)
        if not lost:
            self._report(Damage(segment.number, start, length, 0, 0))
