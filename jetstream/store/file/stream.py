"""The store of a file stream: its index, and its records in the log of the store directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from midge.jetstream.store import numbers
from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Group, Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.indexed import Incoming, Run
from midge.jetstream.store.interface import StoredMessage
from midge.jetstream.store.lookups import SearchableStore
from midge.protocol.frame import Frame

_HEAD = 48  # records.HEAD and records.MESSAGE, as C numbers
_MESSAGE = 2

_FIXED = 30  # what nats-server counts for a message in a file beside its parts
_FIXED_WITH_HEADERS = 34

_BEYOND = 128
"""How much longer a record may be than what its message counts, without being read twice."""

_UNKNOWN_WINDOW = 1 << 62
"""Nanoseconds: every id is kept until it has been said how long it must be known."""

_AHEAD = 64 * 1024  # read at once when messages are read one after the other


class StoredConsumer:
    """What is stored for a consumer: its last saved state, and the operations since."""

    __slots__ = ("operations", "state")

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.operations: list[bytes] = []


class FileStore(SearchableStore):
    """Keeps a stream's messages in the log.

    `number` names the stream in the log; it is never given to another one. `is_async` streams do
    not wait for the disk: their changes count as durable at once.
    """

    def __init__(self, log: Log, number: int, seed: int) -> None:
        super().__init__(seed)
        self.number = number
        self.is_async = False
        self.account = b""
        self.name = b""
        self.version = 0
        self.dedup_window_ns = _UNKNOWN_WINDOW
        self.lost: set[int] = set()
        self._log = log
        self._config = b""
        self._consumers: dict[bytes, StoredConsumer] = {}
        self._ids: list[tuple[bytes, int, int]] = []
        self._ttls: list[tuple[int, int]] = []
        self._removals = bytearray()
        self._is_moved = False
        self._ahead = bytearray()
        self._ahead_segment = 0
        self._ahead_start = 0
        self._read_segment = 0
        self._read_end = 0

    def append(
        self,
        subject: bytes,
        headers: bytes,
        payload: bytes,
        time_ns: int,
        seq: int = 0,
        ttl_s: int = 0,
        msg_id: bytes | None = None,
    ) -> int:
        """Store a message after the last one and return its sequence."""
        seq = SearchableStore.append(self, subject, headers, payload, time_ns, seq, ttl_s, msg_id)
        if self.is_async:
            self.visible_seq = seq
        return seq

    def append_frame(self, frame: Frame, time_ns: int) -> int:
        """Store a published message as it lies in its connection's buffer."""
        seq = SearchableStore.append_frame(self, frame, time_ns)
        if self.is_async:
            self.visible_seq = seq
        return seq

    def remove(self, seq: int, erase: bool = False) -> bool:
        """Remove one message; `erase` also overwrites its bytes, once the removal is durable."""
        self._admit()
        position = self._index.locate(seq)
        if position < 0:
            return False
        erasure = self._erasure(seq) if erase else None
        self._drop(seq)
        self._removed(seq, erase)
        if erasure is not None:
            self._log.opened().erasures.append(erasure)
            erasure[0].has_erasures = True
        return True

    def ids(self) -> Iterator[tuple[bytes, int, int]]:
        """Iterate over the message ids found at the start: id, sequence and time, oldest first."""
        return iter(sorted(set(self._ids), key=lambda entry: entry[1]))

    def ttls(self) -> Iterator[tuple[int, int]]:
        """Iterate over the messages with a TTL found at the start: sequence and seconds."""
        return iter([entry for entry in self._ttls if self.exists(entry[0])])

    def config(self) -> bytes:
        """Return the stored configuration."""
        return self._config

    def save_config(self, config: bytes) -> None:
        """Replace the stream's stored configuration, of which the log keeps two copies."""
        self._admit()
        self._config = config
        self.version += 1
        self._write_config()
        self._write_config()

    def save_consumer(self, name: bytes, state: bytes) -> None:
        """Replace all that is stored for a consumer: its state and the operations on it."""
        self._admit()
        self._consumers[name] = StoredConsumer(state)
        self._write(records.CONSUMER, 0, 0, len(name).to_bytes(2, "little") + name + state)

    def log_consumer(self, name: bytes, operation: bytes, remove_seq: int = 0) -> None:
        """Add an operation to what is stored for a consumer."""
        self._admit()
        consumer = self._consumers.get(name)
        if consumer is None:
            consumer = self._consumers[name] = StoredConsumer(b"")
        consumer.operations.append(operation)
        body = len(name).to_bytes(2, "little") + name + operation
        self._write(records.CONSUMER_STEP, remove_seq, 0, body)
        if remove_seq:
            self._drop(remove_seq)

    def delete_consumer(self, name: bytes) -> None:
        """Forget a consumer."""
        self._admit()
        if self._consumers.pop(name, None) is not None:
            self._write(records.CONSUMER_DELETED, 0, 0, len(name).to_bytes(2, "little") + name)

    def consumers(self) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        """Iterate over the stored consumers: name, state and the operations since."""
        return iter([(name, c.state, c.operations) for name, c in self._consumers.items()])

    def barrier(self, callback: Callable[[], object]) -> None:
        """Call back on the loop once all changes so far are durable."""
        if self.is_async:
            callback()
        else:
            self._log.barrier(callback)

    def set_dedup_window(self, window_ns: int) -> None:
        """Say how long ids must be known after a restart."""
        self.dedup_window_ns = window_ns

    def delete(self) -> None:
        """Delete the stream with everything stored for it."""
        self._admit()
        self._clear()
        self._write(records.STREAM_DELETED, 0, 0, b"")
        self._consumers.clear()

    def close_group(self) -> None:
        """Write down what has been removed, as the group is about to go to the disk."""
        if self._removals:
            removals = bytes(self._removals)
            self._removals = bytearray()
            self._write(records.REMOVE, 0, 0, removals)
        if self._is_moved:
            self._is_moved = False
            last = self.last_seq.to_bytes(8, "little")
            self._write(records.BOUNDS, self.first_seq, self.last_time_ns, last)

    def made_durable(self, last_seq: int) -> None:
        """Take note that everything up to `last_seq` is on the disk."""
        self.visible_seq = max(self.visible_seq, last_seq)

    def replay(self, data: bytearray, at: int, segment: Segment, offset: int) -> None:
        """Do again what the record at ``data[at]`` says, which lies at `offset` of a segment."""
        kind = data[at + 12]
        seq = numbers.u64_at(data, at + 24)
        end = at + numbers.u32_at(data, at + 8)
        if kind == _MESSAGE:
            self._replay_message(data, at, segment, offset)
        elif kind == records.REMOVE:
            for position in range(at + _HEAD, end, 8):
                self._forget(numbers.u64_at(data, position))
        elif kind == records.BOUNDS:
            self._replay_bounds(seq, numbers.u64_at(data, at + _HEAD))
            time_ns = numbers.u64_at(data, at + 32)
            self.last_time_ns = max(self.last_time_ns, time_ns)
        elif kind == records.MESSAGE_ID:
            msg_id = bytes(data[at + _HEAD : end])
            self._ids.append((msg_id, seq, numbers.u64_at(data, at + 32)))
        elif kind == records.STREAM:
            self._replay_config(seq, bytes(data[at + _HEAD : end]))
        else:
            self._replay_consumer(kind, seq, bytes(data[at + _HEAD : end]))

    def lose(self, seq: int) -> None:
        """Take note that the message of a sequence cannot be read, unless it is gone anyway."""
        self.lost.add(seq)
        self.last_seq = max(self.last_seq, seq)
        if self.messages == 0:
            self.first_seq = self.last_seq + 1

    def finish_replay(self) -> None:
        """Serve what has been recovered."""
        self.visible_seq = self.last_seq
        self.lost = {seq for seq in self.lost if seq >= self.first_seq}

    def reset(self) -> None:
        """Forget everything, to be replayed anew."""
        self._clear()
        self.first_seq = self.last_seq = self.visible_seq = self.last_time_ns = 0
        self.version = 0
        self.lost.clear()
        self._consumers.clear()
        self._ids = []
        self._ttls = []
        self._removals = bytearray()
        self._is_moved = False
        self._ahead_segment = 0

    def _replay_message(self, data: bytearray, at: int, segment: Segment, offset: int) -> None:
        seq = numbers.u64_at(data, at + 24)
        if seq <= self.last_seq:
            return
        kind = numbers.u32_at(data, at + 12)
        extra = numbers.u32_at(data, at + 40)
        end = at + numbers.u32_at(data, at + 8) - extra
        incoming = self._incoming
        incoming.seq = seq
        incoming.time_ns = numbers.u64_at(data, at + 32)
        incoming.subject = data
        incoming.subject_start = at + _HEAD
        incoming.subject_end = at + _HEAD + (kind >> 16)
        headers = numbers.u32_at(data, at + 20)
        size = self._counted(kind >> 16, headers, end - incoming.subject_end - headers)
        self._note_run(seq, segment, size)
        self._enter(incoming, offset, size)
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
        if first_seq > self.last_seq:
            self._clear()
        while self.messages > 0 and self.first_seq < first_seq:
            self._drop(self.first_seq)
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

    def _replay_consumer(self, kind: int, seq: int, body: bytes) -> None:
        length = int.from_bytes(body[:2], "little")
        name = body[2 : 2 + length]
        if kind == records.CONSUMER:
            self._consumers[name] = StoredConsumer(body[2 + length :])
        elif kind == records.CONSUMER_DELETED:
            self._consumers.pop(name, None)
        elif kind == records.CONSUMER_STEP:
            consumer = self._consumers.setdefault(name, StoredConsumer(b""))
            consumer.operations.append(body[2 + length :])
            if seq:
                self._forget(seq)

    def _forget(self, seq: int) -> None:
        """Drop a message, or what is known of it being lost."""
        if not self._drop(seq):
            self.lost.discard(seq)

    def is_at(self, seq: int, segment: Segment, offset: int) -> bool:
        """Tell whether there is a message of this sequence, and it lies there."""
        position = self._index.locate(seq)
        if position < 0 or self._index.block.offset(position) != offset:
            return False
        run = self._runs[self._run_index(seq)]
        return run.place is segment

    def move(self, seq: int, segment: Segment, offset: int, target: int) -> None:
        """Take note that a message lies elsewhere in its segment now, if it is still there."""
        if self.is_at(seq, segment, offset):
            self._index.block.set_offset(self._index.locate(seq), target)
            self._ahead_segment = 0

    def forget_segment(self, segment: Segment) -> None:
        """Take note that a segment is gone, in which no message was left."""
        self._runs = [run for run in self._runs if run.place is not segment]
        self._ahead_segment = 0

    def needs_tombstone(self, seq: int, group: int, segment: Segment) -> bool:
        """Tell whether a removal noted in `group` and in `segment` must be kept in mind.

        It need not when the message is in no file any more, or only in `segment`, which goes.
        """
        if seq < self.first_seq or not self._runs:
            return False
        run = self._runs[0]
        if seq < run.first_seq:
            return False
        run = self._runs[self._run_index(seq)]
        place: Segment = run.place
        return place is not segment and place.purged_group < group

    def carry(
        self, names: set[bytes], removals: list[int], ids: list[tuple[bytes, int, int]]
    ) -> None:
        """Write down again what a segment that is to go says beside its messages.

        That is the configuration, the bounds, the consumers of these names, these removals and
        these ids.
        """
        self._write_config()
        self._write_config()
        self._moved()
        for name in sorted(names):
            self._carry_consumer(name)
        for seq in removals:
            self._removed(seq, False)
        for msg_id, seq, time_ns in ids:
            self._write(records.MESSAGE_ID, seq, time_ns, msg_id)

    def _carry_consumer(self, name: bytes) -> None:
        prefix = len(name).to_bytes(2, "little") + name
        consumer = self._consumers.get(name)
        if consumer is None:
            self._write(records.CONSUMER_DELETED, 0, 0, prefix)
            return
        self._write(records.CONSUMER, 0, 0, prefix + consumer.state)
        for operation in consumer.operations:
            self._write(records.CONSUMER_STEP, 0, 0, prefix + operation)

    def _place(self, incoming: Incoming) -> int:
        log = self._log
        subject_length = incoming.subject_end - incoming.subject_start
        headers_length = incoming.headers_end - incoming.headers_start
        extra = b""
        flags = 0
        if incoming.ttl_s != 0 or incoming.msg_id is not None:
            extra = incoming.msg_id if incoming.msg_id is not None else b""
            if incoming.ttl_s != 0:
                flags = records.FLAG_TTL
                extra = (incoming.ttl_s).to_bytes(8, "little", signed=True) + extra
        middle = _HEAD + subject_length + headers_length
        length = middle + incoming.payload_end - incoming.payload_start
        at = log.reserve(length + len(extra), True)
        group = log.opened()
        if self.group != group.number:
            self.group = log.join(self)
        data = group.data
        records.start_record(
            data, at, length + len(extra), _MESSAGE, self.number, incoming.seq,
            incoming.time_ns,
        )  # fmt: skip
        numbers.set_u32_at(data, at + 12, _MESSAGE | flags << 8 | subject_length << 16)
        numbers.set_u32_at(data, at + 20, headers_length)
        numbers.set_u32_at(data, at + 40, len(extra))
        numbers.put(
            data,
            at + _HEAD,
            incoming.subject,
            incoming.subject_start,
            incoming.subject_end,
        )
        numbers.put(
            data,
            at + _HEAD + subject_length,
            incoming.headers,
            incoming.headers_start,
            incoming.headers_end,
        )
        numbers.put(
            data, at + middle, incoming.payload, incoming.payload_start, incoming.payload_end
        )
        if extra:
            numbers.put(data, at + length, extra, 0, len(extra))
        self._note_run(incoming.seq, group.segment, self._counted(
            subject_length, headers_length, length - middle
        ))  # fmt: skip
        return group.base + at

    def _note_run(self, seq: int, segment: Segment, size: int) -> None:
        """Begin a run if this message is the first one in its segment."""
        segment.live_bytes += size
        segment.message_bytes += size
        if self._runs:
            run = self._runs[-1]
            if run.place is segment:
                return
        self._runs.append(Run(seq, segment))

    def _counted(self, subject: int, headers: int, payload: int) -> int:
        fixed = _FIXED_WITH_HEADERS if headers else _FIXED
        return fixed + subject + headers + payload

    def _admit(self) -> None:
        self._log.admit()

    def _moved(self) -> None:
        self._is_moved = True
        self._touch()

    def _removed(self, seq: int, erase: bool) -> None:
        position = len(self._removals)
        numbers.resize(self._removals, position + 8)
        numbers.set_u64_at(self._removals, position, seq)
        self._touch()

    def _touch(self) -> None:
        """Join the open group."""
        if self.group != self._log.group:
            self.group = self._log.join(self)
        if self.is_async:
            self.visible_seq = self.last_seq

    def _lost_bytes(self, i: int, run: Run, size: int) -> None:
        segment: Segment = run.place
        segment.live_bytes -= size

    def _lost_run(self, run: Run) -> None:
        segment: Segment = run.place
        segment.live_bytes -= run.live_bytes

    def _write(self, kind: int, seq: int, time_ns: int, body: bytes) -> None:
        """Add a record other than a message to the open group."""
        self._touch()
        length = _HEAD + len(body)
        at = self._log.reserve(length, False)
        data = self._log.opened().data
        records.start_record(data, at, length, kind, self.number, seq, time_ns)
        numbers.put(data, at + _HEAD, body, 0, len(body))

    def _write_config(self) -> None:
        body = b"".join(
            len(part).to_bytes(4, "little") + part for part in (self.account, self.name)
        )
        self._write(records.STREAM, self.version, 0, body + self._config)

    def _time_of(self, seq: int) -> int:
        position = self._index.locate(seq)
        block = self._index.block
        run = self._runs[self._run_index(seq)]
        offset = block.offset(position)
        size = block.size(position)
        found = self._bytes_at(run.place, offset, size + _BEYOND)
        if found < 0:
            return self.last_time_ns
        return numbers.u64_at(self._ahead, found + 32)

    def _read(
        self, run: Run, seq: int, offset: int, size: int, number: int
    ) -> StoredMessage | None:
        segment: Segment = run.place
        group = self._log.find(segment, offset)
        if group is not None:
            return self._parse(group.data, offset - group.base, seq, number)
        at = self._bytes_at(segment, offset, size + _BEYOND)
        if at < 0 or numbers.u64_at(self._ahead, at + 24) != seq:
            self.lost.add(seq)
            return None
        return self._parse(self._ahead, at, seq, number)

    def _erasure(self, seq: int) -> tuple[Segment, int, int] | None:
        """Return which bytes of a message to overwrite: subject, headers and payload.

        The record's head stays, so that the message is known to be gone, and its id is written
        down anew, for the checksum over the body no longer holds.
        """
        position = self._index.locate(seq)
        block = self._index.block
        offset = block.offset(position)
        run = self._runs[self._run_index(seq)]
        at = self._bytes_at(run.place, offset, block.size(position) + _BEYOND)
        if at < 0:
            return None
        data = self._ahead
        extra = numbers.u32_at(data, at + 40)
        length = numbers.u32_at(data, at + 8) - extra
        start = at + length + (8 if data[at + 13] & records.FLAG_TTL else 0)
        msg_id = bytes(data[start : at + length + extra])
        if msg_id:
            self._write(records.MESSAGE_ID, seq, numbers.u64_at(data, at + 32), msg_id)
        return run.place, offset + _HEAD, length - _HEAD

    def _bytes_at(self, segment: Segment, offset: int, size: int) -> int:
        """Have a checked record in `_ahead`; return where it begins there, -1 when it is damaged.

        `size` is about as long as it is. What is read one after the other is read ahead.
        """
        group: Group | None = self._log.find(segment, offset)
        if group is not None:
            at = offset - group.base
            end = at + numbers.u32_at(group.data, at + 8)
            self._ahead = bytearray(numbers.take(group.data, at, end))
            self._ahead_segment = 0
            return 0
        at = offset - self._ahead_start
        if self._ahead_segment != segment.number or at < 0 or at + size > len(self._ahead):
            is_next = self._read_segment == segment.number and 0 <= offset - self._read_end < _AHEAD
            self._read_ahead(segment, offset, max(size, _AHEAD) if is_next else size)
            at = 0
        whole = records.check(
            self._ahead, at, len(self._ahead), self._log.seed, segment.number, offset
        )
        if whole == 1 and at + _HEAD <= len(self._ahead):
            length = numbers.u32_at(self._ahead, at + 8)
            if at + length > len(self._ahead) and length < records.LENGTH_MAX:
                self._read_ahead(segment, offset, length)
                at = 0
                whole = records.check(
                    self._ahead, 0, len(self._ahead), self._log.seed, segment.number, offset
                )
        self._read_segment = segment.number
        self._read_end = offset + size - _BEYOND
        return at if whole == 2 else -1

    def _read_ahead(self, segment: Segment, offset: int, size: int) -> None:
        self._ahead = bytearray(segment.file.read(offset, size))
        self._ahead_segment = segment.number
        self._ahead_start = offset

    def _parse(self, data: bytearray, at: int, seq: int, number: int) -> StoredMessage | None:
        """Take a record apart that is known to be whole."""
        subject_length = numbers.u32_at(data, at + 12) >> 16
        start = at + _HEAD + subject_length
        middle = start + numbers.u32_at(data, at + 20)
        end = at + numbers.u32_at(data, at + 8) - numbers.u32_at(data, at + 40)
        return StoredMessage(
            seq,
            numbers.u64_at(data, at + 32),
            self._subjects.name(number),
            numbers.take(data, start, middle),
            numbers.take(data, middle, end),
        )
