"""A store directory: its streams, how it is opened, kept in order and closed."""

from __future__ import annotations

import contextlib
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file import records
from midge.jetstream.store.file.checkpoints import Checkpoints
from midge.jetstream.store.file.compaction import Compaction
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.group import Segment, segment_name
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.log_identity import (
    Head,
    LogContents,
    establish,
)
from midge.jetstream.store.file.opening import Opening
from midge.jetstream.store.file.recovery import Damage
from midge.jetstream.store.turns import Soon, Turns

if TYPE_CHECKING:
    from midge.jetstream.store.encrypted_disk import UserKeys

LEFT_MIN = 64 * 1024
"""Bytes of removed messages for which a segment is left early: the next one takes as many."""

_REPEATED_MAX = 1024 * 1024
"""Bytes of configurations that are written down again in each segment, a sixteenth of it."""

_REPEATED_AT_ONCE = 64  # of them in a turn

_RECORD_SIZE = 128  # of a configuration's record about, beside the configuration

_LISTED_MAX = 1000
"""Streams whose sequences the head lists while the server runs; at its stop it lists all."""


class StoreDirectory:
    """All file streams of a server.

    Opening reads the log, and syncs it before it returns. `damages` are the durable places that
    could not be read, `torn` the ends of unfinished writes that were cut off, and `aside` the names
    of unusable files that may have data: each has been renamed. `tick` should be called once a
    second.

    After an orderly stop opening reads the checkpoint and only the later segments, see
    checkpoint.py; `unfit` says why a checkpoint was not used. Later turns check the older segments,
    and call `on_damage` with each damage that they add to `damages`.

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
        self._seconds = 0
        self._sync_interval_s = 0
        hash_seed = int.from_bytes(disk.random_bytes(8), "little")
        seed = zlib.crc32(self.store_id)
        self.turns = Turns()  # what recovery leaves to later turns is done at once
        self.log = Log(disk, seed, request_flush, self.turns)
        self._head = Head(disk, seed)
        self._left_out: set[int] = set()
        self.on_damage: Callable[[Damage], object] = lambda _: None
        self._found = found = Opening(disk, self.log, self._head, hash_seed, is_checked)
        found.read()
        self.damages = found.damages
        self.torn = found.torn
        self.aside += found.aside
        self.repaired = found.repaired
        self.unfit = found.unfit
        self.checkpoints = Checkpoints(disk, self.log, self._head, found, self._found_damage)
        self.log.begin_segment(found.last_number + 1)
        self._write_head()
        self.log.on_failure = found.read_again
        self.log.on_records = self._repeat_configs
        self.log.on_begun = self._save_head
        self.log.before_removal = self._leave_out
        self._compaction: Compaction | None = None
        if soon is None:
            self.checkpoints.check_on(is_whole=True)
        self.turns.begin(soon)

    def streams(self) -> Iterator[FileStore]:
        """Iterate over the streams, in the order in which they were created.

        Messages of a stream that no record names stay in the store, and are damage.
        """
        streams = [self._found.streams[number] for number in sorted(self._found.streams)]
        return iter([stream for stream in streams if stream.version])

    def create_stream(self, account: bytes, name: bytes, config: bytes) -> FileStore:
        """Make a stream; it is durable when the open group is."""
        return self._found.create_stream(account, name, config)

    def delete_stream(self, stream: FileStore) -> None:
        """Delete a stream; that is durable when the open group is."""
        stream.delete()
        self._found.deleted.add(stream.number)
        self._found.streams.pop(stream.number, None)

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
        self.checkpoints.tick()
        self.checkpoints.check_on()

    def is_checking(self) -> bool:
        """Return whether `tick` is to be called although nothing is written."""
        return self.checkpoints.is_checking()

    def compact(self) -> None:
        """Rewrite the oldest segment of which most is dead, and then the next one.

        When room is short, the one with the least left is the first: its copy needs the least.
        """
        if self._compaction is not None or self.log.failure is not None:
            return
        due = [one for one in self.log.segments[:-1] if self._is_due(one)]
        if self.log.space.is_short:
            due.sort(key=lambda one: one.live_bytes)
        streams = self._found.streams
        for segment in due:
            if not self.log.is_written_to(segment):
                self.checkpoints.rewriting(segment)
                self._compaction = Compaction(self.log, streams, segment, self._compacted)
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
        self.checkpoints.is_compacting = False
        if is_well:
            self.compact()

    def size(self) -> int:
        """Return how many bytes of disk the log takes."""
        return sum(segment.allocated for segment in self.log.segments)

    def close(self) -> None:
        """Write and sync everything, and let go of the directory."""
        self.turns.clear()
        self.checkpoints.stop()
        self.log.finish()
        if self.log.failure is None:
            self._write_head(is_closed=True)
            self.checkpoints.write()
        self.log.close()
        self._head.close()
        self.log.fetches.departing.close()
        self._disk.close()
        self.checkpoints.close()

    def _found_damage(self, damage: Damage) -> None:
        """Report damage that was found after the start; the next start must find it again."""
        self.damages.append(damage)
        self.checkpoints.drop()
        self.on_damage(damage)

    def _contents(self, is_closed: bool = False, streams_max: int = sys.maxsize) -> LogContents:
        """Return the head that is right now, without sequences of more than `streams_max`."""
        known = {
            one.number: one.end
            for one in self.log.segments
            if one.end > 0 and one.number not in self._left_out
        }
        logs = frozenset(known) | self._found.missing
        last = max(logs, default=0)
        known_head = self._found.known_head
        length = known.get(last, known_head.length if known_head is not None else 0)
        if self.log.synced_segment == last and self.log.marked_position == length > 0:
            length -= records.GROUP_HEAD  # the last group only says how far the store is synced
        streams = self._found.streams if len(self._found.streams) <= streams_max else {}
        sequences = {
            number: (one.first_seq, one.visible_seq, one.messages)
            for number, one in streams.items()
            if one.version
        }
        return LogContents(logs, length, self._found.short, sequences, is_closed)

    def _write_head(self, is_closed: bool = False) -> None:
        """Write the head now, if it is to change and the disk has room for it."""
        contents = self._contents(is_closed)
        known_head = self._found.known_head
        if known_head is None or is_closed or contents != known_head._replace(is_closed=False):
            with contextlib.suppress(OSError):
                self._head.write(contents)

    def _save_head(self, done: Callable[[bool], object] = lambda _: None) -> None:
        """Write the head between two groups.

        Without sequences where there are many streams: writing them down takes 1 us each.
        """
        contents = partial(self._contents, streams_max=_LISTED_MAX)
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
                streams = self._found.streams
                waiting = sorted(streams, key=lambda number: -streams[number].records.configured_in)
            for _ in range(min(_REPEATED_AT_ONCE, len(waiting))):
                if self.log.failure is not None or self.log.full or self.log.space.is_short:
                    return False
                stream = self._found.streams.get(waiting.pop())
                if (
                    stream is None
                    or not stream.version
                    or stream.records.configured_in >= segment.number
                ):
                    continue
                left -= len(stream.config()) + _RECORD_SIZE
                if left < 0:
                    return False
                stream.write_config()
            return bool(waiting)

        self.turns.add(repeat)


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


__all__ = ["Damage", "StoreDirectory", "segment_name"]
