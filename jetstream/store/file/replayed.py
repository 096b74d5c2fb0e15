"""A stream's records done again, one after the other, when a store is opened."""

from __future__ import annotations

from midge.jetstream.store import numbers, removing
from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.writer import RecordWriter

_HEAD = 48  # records.HEAD and records.MESSAGE, as C numbers
_MESSAGE = 2
_ALL = b">"

_LOST_MAX = 100_000
"""Sequences of a stream that are listed as lost: each takes 60 bytes, and an answer lists all."""


class ReplayedStore(RecordWriter):
    """Becomes what its records say.

    `_consumers` has the last saved state of each consumer, and `_operations` those since, of
    consumers that have any. `_written_in` says in which segments there are records of a name, from
    the first to the last, other than of its deletion.
    """

    def __init__(self, log: Log, number: int, seed: int) -> None:
        super().__init__(log, number, seed)
        self._consumers: dict[bytes, bytes] = {}
        self._operations: dict[bytes, list[bytes]] = {}
        self._written_in: dict[bytes, tuple[int, int]] = {}
        self._latest = (0, 0)
        self._ids: list[tuple[bytes, int, int]] = []
        self._ttls: list[tuple[int, int]] = []
        self._removed_below = 0
        self._is_behind_hole = False
        self._hole_from = 0

    def replay(self, data: bytearray, at: int, segment: Segment, offset: int) -> None:
        """Replay the record at ``data[at]``, which lies at `offset` of a segment."""
        kind = data[at + 12]
        seq = numbers.u64_at(data, at + 24)
        end = at + numbers.u32_at(data, at + 8)
        if kind == _MESSAGE:
            self._replay_message(data, at, segment, offset)
            return
        self._note_kind(kind, segment)
        if kind == records.REMOVE:
            for position in range(at + _HEAD, end, 8):
                self._forget(numbers.u64_at(data, position))
        elif kind == records.BOUNDS:
            self._replay_bounds(seq, numbers.u64_at(data, at + _HEAD))
            time_ns = numbers.u64_at(data, at + 32)
            self.last_time_ns = max(self.last_time_ns, time_ns)
        elif kind == records.PURGED:
            subject = bytes(data[at + _HEAD : end])
            removing.remove_matching(self, subject, seq)
            if subject == _ALL:
                self._removed_below = max(self._removed_below, seq)
        elif kind == records.MESSAGE_ID:
            msg_id = bytes(data[at + _HEAD : end])
            self._ids.append((msg_id, seq, numbers.u64_at(data, at + 32)))
        elif kind == records.STREAM:
            self._replay_config(seq, bytes(data[at + _HEAD : end]))
        else:
            self._replay_consumer(kind, seq, bytes(data[at + _HEAD : end]), segment)

    def lose(self, seq: int) -> None:
        """Take note that the message of a sequence cannot be read, unless it is gone anyway."""
        self.lost.add(seq)
        self.last_seq = max(self.last_seq, seq)
        if self.messages == 0:
            self.first_seq = self.last_seq + 1

    def pass_hole(self) -> None:
        """Note that records before the next ones are lost: sequences left out are lost messages."""
        self._is_behind_hole = True

    def begin_behind_hole(self, first_seq: int) -> None:
        """Note that all messages from `first_seq` to the first one found are lost.

        Records of messages below it may be there, because of their ids.
        """
        self._hole_from = first_seq
        self._is_behind_hole = True

    def lose_through(self, last_seq: int) -> None:
        """List all sequences after the last one to `last_seq` as lost; none is used again."""
        first = max(self.last_seq + 1, self._hole_from)
        listed = min(last_seq + 1, first + max(_LOST_MAX - len(self.lost), 0))
        self.lost.update(range(first, listed))
        self.last_seq = last_seq
        if self.messages == 0:
            self.first_seq = last_seq + 1

    def finish_replay(self) -> set[int]:
        """Serve what has been recovered; return the messages that are lost and were not removed."""
        self.visible_seq = self.last_seq
        self.lost = {seq for seq in self.lost if seq >= self._removed_below}
        self._lost_from = min(self.lost, default=0)
        self._is_behind_hole = False
        return set(self.lost)

    def reset(self) -> None:
        """Forget everything, to be replayed anew."""
        self.clear()
        self.first_seq = self.last_seq = self.visible_seq = self.last_time_ns = 0
        self.version = 0
        self.lost.clear()
        self._consumers.clear()
        self._operations.clear()
        self._written_in.clear()
        self._ids = []
        self._ttls = []
        self._removals = bytearray()
        self._removed_below = self._lost_from = self._hole_from = 0
        self._is_moved = self._is_behind_hole = False
        self._configured_in = self._bounded_in = self._ends_in = 0
        self._ahead_segment = 0

    def _replay_message(self, data: bytearray, at: int, segment: Segment, offset: int) -> None:
        seq = numbers.u64_at(data, at + 24)
        if seq <= self.last_seq:
            return
        if self._is_behind_hole:
            self._is_behind_hole = False
            self.lose_through(seq - 1)
        kind = numbers.u32_at(data, at + 12)
        extra = numbers.u32_at(data, at + 40)
        if extra:
            segment.holds_more = True
        end = at + numbers.u32_at(data, at + 8) - extra
        incoming = self._incoming
        incoming.seq = seq
        incoming.time_ns = numbers.u64_at(data, at + 32)
        incoming.subject = data
        incoming.subject_start = at + _HEAD
        incoming.subject_end = at + _HEAD + (kind >> 16)
        headers = numbers.u32_at(data, at + 20)
        size = self.counted(kind >> 16, headers, end - incoming.subject_end - headers)
        self._note_run(seq, segment, size)
        self.enter(incoming, offset, size)
        if not extra:
            return
        if kind >> 8 & records.FLAG_TTL:
            ttl_s = int.from_bytes(data[end : end + 8], "little", signed=True)
            self._ttls.append((seq, ttl_s))
            end += 8
            extra -= 8
        if extra:
            self._ids.append((bytes(data[end : end + extra]), seq, incoming.time_ns))

    def _replay_bounds(self, first_seq: int, last_seq: int) -> None:
        self._removed_below = max(self._removed_below, first_seq)
        if self._is_behind_hole and last_seq > self.last_seq:
            self.lose_through(last_seq)
        if first_seq > self.last_seq:
            self.clear()
        while self.messages > 0 and self.first_seq < first_seq:
            self.drop(self.first_seq)
        self.last_seq = max(self.last_seq, last_seq)
        if self.messages == 0:
            self.first_seq = self.last_seq + 1

    def _replay_config(self, version: int, body: bytes) -> None:
        if version < self.version:
            return
        self.version = version
        length = int.from_bytes(body[:4], "little")
        self.account = body[4 : 4 + length]
        body = body[4 + length :]
        length = int.from_bytes(body[:4], "little")
        self.name = body[4 : 4 + length]
        self._config = body[4 + length :]

    def _replay_consumer(self, kind: int, seq: int, body: bytes, segment: Segment) -> None:
        length = int.from_bytes(body[:2], "little")
        name = body[2 : 2 + length]
        if kind != records.CONSUMER_DELETED:
            self._note_written(name, segment)
        if kind == records.CONSUMER:
            self._keep_consumer(name, body[2 + length :])
        elif kind == records.CONSUMER_DELETED:
            self._drop_consumer(name)
        elif kind == records.CONSUMER_STEP:
            self._keep_operation(name, body[2 + length :])
            if seq:
                self._forget(seq)

    def _note_written(self, name: bytes, segment: Segment) -> None:
        """Take note that a segment has a record of a consumer, not of its deletion."""
        first, last = self._written_in.get(name, (segment.number, 0))
        if segment.number != last:
            if self._latest != (first, segment.number):
                self._latest = (first, segment.number)
            self._written_in[name] = self._latest  # the same object for many names: 30 B a name

    def _keep_consumer(self, name: bytes, state: bytes) -> None:
        self._consumers[name] = state
        self._operations.pop(name, None)

    def _keep_operation(self, name: bytes, operation: bytes) -> None:
        self._consumers.setdefault(name, b"")
        self._operations.setdefault(name, []).append(operation)

    def _drop_consumer(self, name: bytes) -> bool:
        """Forget what is stored for a consumer; False when nothing is."""
        self._operations.pop(name, None)
        return self._consumers.pop(name, None) is not None

    def _forget(self, seq: int) -> None:
        """Drop a message, or what is known of it being lost."""
        if not self.drop(seq):
            self.lost.discard(seq)
