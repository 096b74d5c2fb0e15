"""A stream's records as they go into the open group of the log."""

from __future__ import annotations

from midge.jetstream.store import numbers
from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.reader import FIXED_BYTES, RecordReader
from midge.jetstream.store.file.space import RESERVE
from midge.jetstream.store.indexes import Incoming, Run
from midge.jetstream.store.published import PublishedLines

_HEAD = 48  # records.HEAD and records.MESSAGE, as C numbers
_MESSAGE = 2

_RESERVE = RESERVE  # as a C number
_FIXED = FIXED_BYTES  # as a C number

_BEYOND = 128
"""How much longer a record may be than what its message counts, without being read twice."""


class RecordWriter(RecordReader):
    """Writes messages, removals and the configuration down.

    Removals are gathered, and written when the group is closed. `_configured_in`, `_bounded_in` and
    `_ends_in` are the numbers of the segments with the last records of the configuration, of the
    bounds, and of a message. `_lost_from` is the first sequence that is lost; 0 for none.
    """

    def __init__(self, log: Log, number: int, seed: int) -> None:
        super().__init__(log, number, seed)
        self.is_async = False
        self.account = b""
        self.name = b""
        self.version = 0
        self._removals = bytearray()
        self._is_moved = False
        self._configured_in = 0
        self._bounded_in = 0
        self._ends_in = 0
        self._lost_from = 0

    def close_group(self) -> None:
        """Write down what has been removed, as the group is about to go to the disk."""
        if self._removals:
            removals = bytes(self._removals)
            self._removals = bytearray()
            self._write(records.REMOVE, 0, 0, removals)
        if self._is_moved:
            self._is_moved = False
            last = self.last_seq.to_bytes(8, "little")
            first = self.first_seq
            if 0 < self._lost_from < first:  # the file with lost messages may be put back
                first = self._lost_from
            self._write(records.BOUNDS, first, self.last_time_ns, last)

    def place(self, incoming: Incoming) -> int:
        """See `Store.place`."""
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
            group.segment.holds_more = True
        self._note_run(incoming.seq, group.segment, self.counted(
            subject_length, headers_length, length - middle
        ))  # fmt: skip
        return group.base + at

    def place_lines(self, lines: PublishedLines, first: int) -> int:
        """See `Store.place_lines`."""
        log = self._log
        if self.group != log.group or log.full or log.failure is not None:
            return 0  # the next message opens or joins the group, or is told why it cannot
        group = log.opened()
        end = min(len(group.data), group.segment.promised - _RESERVE - group.base)
        if not log.is_pressed:
            end = min(end, log.pressed_bytes)
        placed = records.put_lines(
            group.data, group.used, end, lines, first, self.number, self.last_seq + 1, group.base
        )
        if placed > 0:
            group.used = records.end_of_line(lines, first + placed - 1) - group.base
            group.count += placed
            size = lines.part_bytes(first, placed) + placed * _FIXED
            self._note_run(self.last_seq + 1, group.segment, size)
        return placed

    def _note_run(self, seq: int, segment: Segment, size: int) -> None:
        """Begin a run if this message is the first one in its segment."""
        segment.live_bytes += size
        segment.message_bytes += size
        if self.runs:
            run = self.runs[-1]
            if run.place is segment:
                return
        self.runs.append(Run(seq, segment))
        self._ends_in = segment.number

    def admit(self) -> None:
        """See `Indexes.admit`."""
        self._log.admit()

    def moved(self) -> None:
        """See `Indexes.moved`."""
        self._is_moved = True
        self._touch()

    def removed(self, seq: int, erase: bool) -> None:
        """See `Indexes.removed`."""
        position = len(self._removals)
        numbers.resize(self._removals, position + 8)
        numbers.set_u64_at(self._removals, position, seq)
        self._touch()

    def purged(self, subject: bytes, upto: int) -> None:
        """Write down that what matches is gone: no later message is below `upto`."""
        self._write(records.PURGED, upto, 0, subject)

    def _touch(self) -> None:
        """Join the open group."""
        if self.group != self._log.group:
            self.group = self._log.join(self)
        if self.is_async:
            self.visible_seq = self.last_seq

    def run_shrank(self, i: int, run: Run, size: int) -> None:
        """See `Indexes.run_shrank`."""
        segment: Segment = run.place
        segment.live_bytes -= size

    def run_gone(self, run: Run) -> None:
        """See `Indexes.run_gone`."""
        segment: Segment = run.place
        segment.live_bytes -= run.live_bytes

    def _write(self, kind: int, seq: int, time_ns: int, body: bytes) -> None:
        """Add a record other than a message to the open group."""
        self._touch()
        length = _HEAD + len(body)
        at = self._log.reserve(length, False)
        group = self._log.opened()
        records.start_record(group.data, at, length, kind, self.number, seq, time_ns)
        numbers.put(group.data, at + _HEAD, body, 0, len(body))
        self._note_kind(kind, group.segment)

    def _note_kind(self, kind: int, segment: Segment) -> None:
        """Take note of what a segment has besides messages."""
        if kind == records.STREAM:
            self._configured_in = segment.number
        elif kind == records.BOUNDS:
            self._bounded_in = segment.number
        else:
            segment.holds_more = True

    def _write_config(self) -> None:
        body = b"".join(
            len(part).to_bytes(4, "little") + part for part in (self.account, self.name)
        )
        self._write(records.STREAM, self.version, 0, body + self._config)

    def _erasure(self, seq: int) -> tuple[Segment, int, int] | None:
        """Return which bytes of a message to overwrite: subject, headers and payload.

        The record's head stays, so that the message is known to be gone, and its id is written
        down anew, for the checksum over the body no longer holds.
        """
        position = self.message_index.locate(seq)
        block = self.message_index.block
        offset = block.offset(position)
        run = self.runs[self.run_index(seq)]
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
