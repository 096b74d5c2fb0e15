"""The store of a file stream: its index, and its records in the log of the store directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.record_reader import FIXED_BYTES, FIXED_BYTES_WITH_HEADERS
from midge.jetstream.store.file.record_writer import LONGEST_WINDOW_NS, RecordWriter
from midge.jetstream.store.interface import MessageView, Waiter
from midge.jetstream.store.store import Store


class StoredConsumers:
    """The stored state of a stream's consumers.

    `states` has the last saved state of each consumer, and `operations` those since, of consumers
    that have any. `written_in` says in which segments there are records of a name, from the first
    to the last, other than of its deletion.
    """

    def __init__(self) -> None:
        self.states: dict[bytes, bytes] = {}
        self.operations: dict[bytes, list[bytes]] = {}
        self.written_in: dict[bytes, tuple[int, int]] = {}
        self._latest = (0, 0)

    def save(self, name: bytes, state: bytes) -> None:
        """Replace a consumer's state and the operations on it."""
        self.states[name] = state
        self.operations.pop(name, None)

    def log(self, name: bytes, operation: bytes) -> None:
        """Add an operation on a consumer."""
        self.states.setdefault(name, b"")
        self.operations.setdefault(name, []).append(operation)

    def delete(self, name: bytes) -> bool:
        """Delete the stored state of a consumer; return False if there is none."""
        self.operations.pop(name, None)
        return self.states.pop(name, None) is not None

    def note_written(self, name: bytes, number: int) -> None:
        """Record that a segment has a record of a consumer other than its deletion."""
        first, last = self.written_in.get(name, (number, 0))
        if number != last:
            self.note_range(name, (first, number))

    def note_range(self, name: bytes, found: tuple[int, int]) -> None:
        """Record in which segments there are records of a consumer."""
        if self._latest != found:
            self._latest = found
        self.written_in[name] = self._latest  # the same object for many names: 30 B a name

    def clear(self) -> None:
        """Forget all consumers."""
        self.states.clear()
        self.operations.clear()
        self.written_in.clear()


class FileStore(Store):
    """Keeps a stream's messages in the log.

    `number` names the stream in the log; it is never given to another one. `is_async` streams do
    not wait for the disk: their changes count as durable at once. `lost` has the sequences that
    could not be read. `lost_bytes` are lost from the end of the log, in which there may have been
    messages of any stream, of unknown sequences.

    `records` reads and writes the messages, `stored` has its consumers, and
    `segments` says what compaction must keep. replayed.py fills the store at the start; until then
    `removed_below`, `is_behind_hole` and `hole_from` are its notes.
    """

    def __init__(self, log: Log, number: int, seed: int) -> None:
        self.records = RecordWriter(self, log, number)
        super().__init__(self.records, seed, log.turns, FIXED_BYTES, FIXED_BYTES_WITH_HEADERS)
        self.is_async = False
        self.number = number
        self.account = b""
        self.name = b""
        self.version = 0
        self.lost = self.records.lost
        self.lost_bytes = 0
        self.log = log
        self.stored = StoredConsumers()
        self.segments = StreamSegments(self)
        self.removed_below = 0
        self.is_behind_hole = False
        self.hole_from = 0

    def try_next(
        self,
        filters: tuple[bytes, ...],
        start_seq: int,
        end_seq: int,
        view: MessageView,
        waiter: Waiter,
    ) -> int:
        """Do what `show_next` does, without waiting for a disk; see `Store`."""
        found = self.records
        found.is_trying = True
        found.is_away = False
        try:
            if self.show_next(filters, start_seq, end_seq, view):
                return 1
        finally:
            found.is_trying = False
        if not found.is_away:
            return 0
        if not found.is_cached(view.seq, waiter):
            return -1
        return 1 if self.show(view.seq, view) else 0

    def remove(self, seq: int, erase: bool = False) -> bool:
        """Remove one message; `erase` also overwrites its bytes, once the removal is durable."""
        self.records.admit()
        row = self.message_index.locate(seq)
        if row < 0:
            return False
        erasure = self.records.erasure(seq) if erase else None
        self.records.is_erasing = erase
        try:
            self.drop(seq)
        finally:
            self.records.is_erasing = False
        self.records.removed(seq)
        if erasure is not None:
            self.log.opened().erasures.append(erasure)
            erasure[0].has_erasures = True
            erasure[0].erasures += 1
        return True

    def ids(self) -> Iterator[tuple[bytes, int, int]]:
        """Iterate over the message ids to be known: id, sequence and time, oldest first."""
        return iter(sorted(set(self.records.noted_ids()), key=lambda entry: entry[1]))

    def ttls(self) -> Iterator[tuple[int, int]]:
        """Iterate over the messages with a TTL: sequence and seconds."""
        return iter([entry for entry in self.records.noted_ttls() if self.exists(entry[0])])

    def save_config(self, config: bytes) -> None:
        """Replace the stream's stored configuration, of which the log keeps two copies."""
        self.records.admit()
        self.saved_config = config
        self.version += 1
        self.write_config()
        self.write_config()

    def write_config(self) -> None:
        """Write another copy of the configuration, so that the newest log names the stream."""
        body = len(self.account).to_bytes(4, "little") + self.account
        body += len(self.name).to_bytes(4, "little") + self.name + self.saved_config
        self.records.write(records.STREAM, self.version, 0, body)

    def save_consumer(self, name: bytes, state: bytes) -> None:
        """Replace all that is stored for a consumer: its state and the operations on it."""
        self.records.admit()
        self.stored.save(name, state)
        self.write_consumer(records.CONSUMER, 0, name, state)

    def log_consumer(self, name: bytes, operation: bytes, remove_seq: int = 0) -> None:
        """Append an operation to the stored state of a consumer."""
        self.records.admit()
        self.stored.log(name, operation)
        self.write_consumer(records.CONSUMER_STEP, remove_seq, name, operation)
        if remove_seq:
            self.drop(remove_seq)

    def delete_consumer(self, name: bytes) -> None:
        """Forget a consumer."""
        self.records.admit()
        if self.stored.delete(name):
            self.records.write(records.CONSUMER_DELETED, 0, 0, prefixed(name))

    def write_consumer(self, kind: int, remove_seq: int, name: bytes, body: bytes) -> None:
        """Write a record of a consumer, other than of its deletion."""
        self.records.write(kind, remove_seq, 0, prefixed(name) + body)
        self.stored.note_written(name, self.log.opened().segment.number)

    def consumers(self) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        """Iterate over the stored consumers: name, state and the operations since."""
        states, operations = self.stored.states, self.stored.operations
        return iter([(name, state, operations.get(name, [])) for name, state in states.items()])

    def barrier(self, callback: Callable[[], object]) -> None:
        """Call back on the loop once all changes so far are durable."""
        if self.is_async:
            callback()
        else:
            self.log.barrier(callback)

    def is_held(self, then: Callable[[], object]) -> bool:
        """Return whether a busy publisher has to wait; see `Store`."""
        if not self.log.is_pressed:
            return False
        self.log.barrier(then)
        return True

    def set_dedup_window(self, window_ns: int) -> None:
        """Set the time for which ids must be known after a restart."""
        self.records.dedup_window_ns = min(window_ns, LONGEST_WINDOW_NS)
        self.records.forget_ids(max(self.last_time_ns - window_ns, 0))

    def delete(self) -> None:
        """Delete the stream with everything stored for it."""
        self.records.admit()
        self.clear()
        self.records.write(records.STREAM_DELETED, 0, 0, b"")
        self.stored.clear()
        self.records.ids = bytearray()
        self.records.ttls = bytearray()
        self.log.buffers.emptied(self.records)
        self.records.drop_ahead()
        self.segments = cast("StreamSegments", None)  # compaction asks known streams only
        self.log.barrier(self.records.leave)

    def show_copies(self, origin: Store, upto: int) -> None:
        """Make copies visible that `origin` has on the disk; see `Store`."""
        if isinstance(origin, FileStore) and origin.log is self.log and not origin.is_async:
            self.visible_seq = max(self.visible_seq, min(upto, self.last_seq))


class StreamSegments:
    """Where the records of a stream lie, and which of them compaction must keep."""

    def __init__(self, stream: FileStore) -> None:
        self.stream = stream

    def is_at(self, seq: int, segment: Segment, offset: int) -> bool:
        """Return whether there is a message of this sequence, and it lies there."""
        stream = self.stream
        row = stream.message_index.locate(seq)
        if row < 0 or stream.message_index.block.offset(row) != offset:
            return False
        run = stream.runs[stream.run_index(seq)]
        return run.place is segment

    def move(self, seq: int, segment: Segment, offset: int, target: int) -> None:
        """Record the new offset of a message in its segment, unless it has been removed."""
        stream = self.stream
        if self.is_at(seq, segment, offset):
            row = stream.message_index.locate(seq)
            stream.message_index.block.set_offset(row, target)
            stream.records.forget_ahead()

    def live_in(self, segment: Segment, start: int, end: int) -> list[int]:
        """Return the messages whose records begin from `start` to `end` of a segment."""
        stream = self.stream
        found = []
        for i in range(len(stream.runs)):
            run = stream.runs[i]
            seq = run.first_seq if run.place is segment else 0
            while seq and stream.run_index(seq) == i:
                row = stream.message_index.locate(seq)
                if row >= 0 and start <= stream.message_index.block.offset(row) < end:
                    found.append(seq)
                seq = stream.message_index.next_live(seq + 1)
        return found

    def forget(self, segment: Segment) -> None:
        """Forget a removed segment, in which no message was left."""
        self.stream.runs = [run for run in self.stream.runs if run.place is not segment]
        self.stream.records.forget_ahead()

    def is_recorded_in(self, segment: Segment) -> bool:
        """Return whether a segment may be the only one that has a configuration or a sequence."""
        records = self.stream.records
        return segment.number in {records.configured_in, records.bounded_in, records.ends_in}

    def needs_tombstone(self, seq: int, group: int, segment: Segment) -> bool:
        """Return whether a removal noted in `group` and in `segment` must be kept in mind.

        It need not when the message is in no file any more, or only in `segment`, which goes.
        """
        stream = self.stream
        if seq < stream.first_seq or not stream.runs:
            return False
        run = stream.runs[0]
        if seq < run.first_seq:
            return False
        run = stream.runs[stream.run_index(seq)]
        place: Segment = run.place
        return place is not segment and place.purged_group < group

    def needs_purge(self, upto: int, group: int, segment: Segment) -> bool:
        """Return whether a purge noted in `group` and in `segment` must be kept in mind.

        It need not when what it removed is in no file any more, or only in `segment`, which goes.
        """
        stream = self.stream
        for i in range(len(stream.runs)):
            run = stream.runs[i]
            if run.first_seq >= upto:
                return False
            place: Segment = run.place
            if place is not segment and place.purged_group < group:
                return True
        return False

    def needs_deletion(self, name: bytes, segment: Segment) -> bool:
        """Return whether a consumer's deletion, noted in `segment`, must be kept in mind.

        It need not when what else was written of that name was only in `segment`, which goes, or in
        others that are gone or have been rewritten: a rewritten one has no record of a consumer.
        """
        first, last = self.stream.stored.written_in.get(name, (0, 0))
        return any(
            first <= one.number <= last and one is not segment and not one.is_rewritten
            for one in self.stream.log.segments
        )

    def forget_deletions(self, names: set[bytes], segment: Segment) -> None:
        """Forget where records of deleted consumers were, now that `segment` has none of them."""
        for name in names:
            if name not in self.stream.stored.states and not self.needs_deletion(name, segment):
                self.stream.stored.written_in.pop(name, None)

    def carry(
        self,
        segment: Segment,
        names: set[bytes],
        removals: list[int],
        ids: list[tuple[bytes, int, int]],
        purges: dict[bytes, int],
    ) -> None:
        """Write down again what `segment`, which is to go, says beside its messages.

        That is the configuration, the bounds, the consumers of these names, these removals, these
        ids, and these purges by their subject.
        """
        self.stream.write_config()
        self.stream.write_config()
        self.stream.records.moved()
        for name in sorted(names):
            self._carry_consumer(name, segment)
        for seq in removals:
            self.stream.records.removed(seq)
        for subject, upto in purges.items():
            self.stream.records.purged(subject, upto)
        for msg_id, seq, time_ns in ids:
            self.stream.records.write(records.MESSAGE_ID, seq, time_ns, msg_id)

    def _carry_consumer(self, name: bytes, segment: Segment) -> None:
        stored = self.stream.stored
        state = stored.states.get(name)
        if state is not None:
            self.stream.write_consumer(records.CONSUMER, 0, name, state)
            for operation in stored.operations.get(name, ()):
                self.stream.write_consumer(records.CONSUMER_STEP, 0, name, operation)
        elif self.needs_deletion(name, segment):
            self.stream.records.write(records.CONSUMER_DELETED, 0, 0, prefixed(name))


def prefixed(name: bytes) -> bytes:
    """Return a consumer's name as its records begin with it."""
    return len(name).to_bytes(2, "little") + name
