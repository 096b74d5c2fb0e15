"""The store of a file stream: its index, and its records in the log of the store directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.replayed import ReplayedStore
from midge.jetstream.store.store import Store

_UNKNOWN_WINDOW = 1 << 62
"""Nanoseconds: every id is kept until it has been said how long it must be known."""


class FileStore(ReplayedStore):
    """Keeps a stream's messages in the log.

    `number` names the stream in the log; it is never given to another one. `is_async` streams do
    not wait for the disk: their changes count as durable at once. `lost_bytes` are lost from the
    end of the log, in which there may have been messages of any stream, of unknown sequences.
    """

    def __init__(self, log: Log, number: int, seed: int) -> None:
        super().__init__(log, number, seed)
        self.dedup_window_ns = _UNKNOWN_WINDOW
        self.lost_bytes = 0

    def remove(self, seq: int, erase: bool = False) -> bool:
        """Remove one message; `erase` also overwrites its bytes, once the removal is durable."""
        self.admit()
        position = self.message_index.locate(seq)
        if position < 0:
            return False
        erasure = self._erasure(seq) if erase else None
        self._is_erasing = erase
        try:
            self.drop(seq)
        finally:
            self._is_erasing = False
        self.removed(seq, erase)
        if erasure is not None:
            self._log.opened().erasures.append(erasure)
            erasure[0].has_erasures = True
            erasure[0].erasures += 1
        return True

    def ids(self) -> Iterator[tuple[bytes, int, int]]:
        """Iterate over the message ids found at the start: id, sequence and time, oldest first."""
        return iter(sorted(set(self._ids), key=lambda entry: entry[1]))

    def ttls(self) -> Iterator[tuple[int, int]]:
        """Iterate over the messages with a TTL found at the start: sequence and seconds."""
        return iter([entry for entry in self._ttls if self.exists(entry[0])])

    def save_config(self, config: bytes) -> None:
        """Replace the stream's stored configuration, of which the log keeps two copies."""
        self.admit()
        self._config = config
        self.version += 1
        self._write_config()
        self._write_config()

    def repeat_config(self) -> None:
        """Write another copy of the configuration, so that the newest log names the stream."""
        self._write_config()

    def configured_in(self) -> int:
        """Return the number of the newest segment that has the configuration."""
        return self._configured_in

    def save_consumer(self, name: bytes, state: bytes) -> None:
        """Replace all that is stored for a consumer: its state and the operations on it."""
        self.admit()
        self._keep_consumer(name, state)
        self._write_consumer(records.CONSUMER, 0, name, state)

    def log_consumer(self, name: bytes, operation: bytes, remove_seq: int = 0) -> None:
        """Add an operation to what is stored for a consumer."""
        self.admit()
        self._keep_operation(name, operation)
        self._write_consumer(records.CONSUMER_STEP, remove_seq, name, operation)
        if remove_seq:
            self.drop(remove_seq)

    def delete_consumer(self, name: bytes) -> None:
        """Forget a consumer."""
        self.admit()
        if self._drop_consumer(name):
            self._write(records.CONSUMER_DELETED, 0, 0, _prefixed(name))

    def consumers(self) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        """Iterate over the stored consumers: name, state and the operations since."""
        stored = self._consumers.items()
        return iter([(name, state, self._operations.get(name, [])) for name, state in stored])

    def barrier(self, callback: Callable[[], object]) -> None:
        """Call back on the loop once all changes so far are durable."""
        if self.is_async:
            callback()
        else:
            self._log.barrier(callback)

    def is_held(self, then: Callable[[], object]) -> bool:
        """Return whether who writes much has to wait; see `Store`."""
        if not self._log.is_pressed:
            return False
        self._log.barrier(then)
        return True

    def set_dedup_window(self, window_ns: int) -> None:
        """Say how long ids must be known after a restart."""
        self.dedup_window_ns = window_ns

    def delete(self) -> None:
        """Delete the stream with everything stored for it."""
        self.admit()
        self.clear()
        self._write(records.STREAM_DELETED, 0, 0, b"")
        self._consumers.clear()
        self._operations.clear()
        self._written_in.clear()
        self._log.buffers.emptied(self)
        self.drop_ahead()

    def made_durable(self, last_seq: int) -> None:
        """Take note that everything up to `last_seq` is on the disk."""
        self.visible_seq = max(self.visible_seq, last_seq)

    def is_in(self, log: object) -> bool:
        """Return whether the changes of this store are written to `log`."""
        return self._log is log

    def show_copies(self, origin: Store, upto: int) -> None:
        """Make copies visible that `origin` has on the disk; see `Store`."""
        if origin.is_in(self._log) and not origin.is_async:
            self.visible_seq = max(self.visible_seq, min(upto, self.last_seq))

    def is_at(self, seq: int, segment: Segment, offset: int) -> bool:
        """Return whether there is a message of this sequence, and it lies there."""
        position = self.message_index.locate(seq)
        if position < 0 or self.message_index.block.offset(position) != offset:
            return False
        run = self.runs[self.run_index(seq)]
        return run.place is segment

    def move(self, seq: int, segment: Segment, offset: int, target: int) -> None:
        """Take note that a message lies elsewhere in its segment now, if it is still there."""
        if self.is_at(seq, segment, offset):
            self.message_index.block.set_offset(self.message_index.locate(seq), target)
            self._ahead_segment = 0

    def forget_segment(self, segment: Segment) -> None:
        """Take note that a segment is gone, in which no message was left."""
        self.runs = [run for run in self.runs if run.place is not segment]
        self._ahead_segment = 0

    def is_told_in(self, segment: Segment) -> bool:
        """Return whether a segment may be the only one that tells a configuration or a sequence."""
        return segment.number in {self._configured_in, self._bounded_in, self._ends_in}

    def needs_tombstone(self, seq: int, group: int, segment: Segment) -> bool:
        """Return whether a removal noted in `group` and in `segment` must be kept in mind.

        It need not when the message is in no file any more, or only in `segment`, which goes.
        """
        if seq < self.first_seq or not self.runs:
            return False
        run = self.runs[0]
        if seq < run.first_seq:
            return False
        run = self.runs[self.run_index(seq)]
        place: Segment = run.place
        return place is not segment and place.purged_group < group

    def needs_purge(self, upto: int, group: int, segment: Segment) -> bool:
        """Return whether a purge noted in `group` and in `segment` must be kept in mind.

        It need not when what it removed is in no file any more, or only in `segment`, which goes.
        """
        for i in range(len(self.runs)):
            run = self.runs[i]
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
        first, last = self._written_in.get(name, (0, 0))
        return any(
            first <= one.number <= last and one is not segment and not one.is_rewritten
            for one in self._log.segments
        )

    def forget_deletions(self, names: set[bytes], segment: Segment) -> None:
        """Forget where records of deleted consumers were, now that `segment` has none of them."""
        for name in names:
            if name not in self._consumers and not self.needs_deletion(name, segment):
                self._written_in.pop(name, None)

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
        self._write_config()
        self._write_config()
        self.moved()
        for name in sorted(names):
            self._carry_consumer(name, segment)
        for seq in removals:
            self.removed(seq, False)
        for subject, upto in purges.items():
            self.purged(subject, upto)
        for msg_id, seq, time_ns in ids:
            self._write(records.MESSAGE_ID, seq, time_ns, msg_id)

    def _carry_consumer(self, name: bytes, segment: Segment) -> None:
        state = self._consumers.get(name)
        if state is not None:
            self._write_consumer(records.CONSUMER, 0, name, state)
            for operation in self._operations.get(name, ()):
                self._write_consumer(records.CONSUMER_STEP, 0, name, operation)
        elif self.needs_deletion(name, segment):
            self._write(records.CONSUMER_DELETED, 0, 0, _prefixed(name))

    def _write_consumer(self, kind: int, remove_seq: int, name: bytes, body: bytes) -> None:
        self._write(kind, remove_seq, 0, _prefixed(name) + body)
        self._note_written(name, self._log.opened().segment)


def _prefixed(name: bytes) -> bytes:
    return len(name).to_bytes(2, "little") + name
