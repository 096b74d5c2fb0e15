"""A stream's records as they go into the open group of the log."""

from __future__ import annotations

from midge.jetstream.store import numbers
from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.record_reader import FIXED_BYTES, RecordReader
from midge.jetstream.store.file.space import RESERVE
from midge.jetstream.store.indexes import AppendedMessage, Indexes, Run
from midge.jetstream.store.published import PublishedLines

_HEAD = 48  # records.HEAD and records.MESSAGE, as C numbers
_MESSAGE = 2

_RESERVE = RESERVE  # as a C number
_FIXED = FIXED_BYTES  # as a C number

_BEYOND = 128
"""How much longer a record may be than what its message counts, without being read twice."""

LONGEST_WINDOW_NS = 1 << 62
"""146 years, which a longer window is cut to. Ids are kept so long until their window is known."""

_ID = 20  # bytes noted of an id: sequence 8, time 8, length 4, and the id
_TTL = 16  # of a TTL: sequence 8, seconds 8
_NOTES_MIN = 4096  # bytes of either that are always kept


class RecordWriter(RecordReader):
    """Writes messages, removals and the configuration down.

    Removals are gathered, and written when the group is closed. `configured_in`, `bounded_in` and
    `ends_in` are the numbers of the segments with the last records of the configuration, of the
    bounds, and of a message. `lost_from` is the first sequence that is lost; 0 for none. `ids`
    has the message ids of the duplicate window, and `ttls` the messages with a TTL, for the
    checkpoint and the start; the useless ones go when there are twice as many as after the last
    time.
    """

    def __init__(self, index: Indexes, log: Log, number: int) -> None:
        super().__init__(index, log, number)
        self.removals = bytearray()
        self.is_moved = False
        self.configured_in = 0
        self.bounded_in = 0
        self.ends_in = 0
        self.lost_from = 0
        self.ids = bytearray()
        self._ids_max = 0
        self.ttls = bytearray()
        self._ttls_max = 0
        self.dedup_window_ns = LONGEST_WINDOW_NS

    def close_group(self) -> int:
        """Write the records of removals, before the group goes to the disk; return `last_seq`."""
        if self.removals:
            removals = bytes(self.removals)
            self.removals = bytearray()
            self.write(records.REMOVE, 0, 0, removals)
        if self.is_moved:
            self.is_moved = False
            last = self.index.last_seq.to_bytes(8, "little")
            first = self.index.first_seq
            if 0 < self.lost_from < first:  # the file with lost messages may be put back
                first = self.lost_from
            self.write(records.BOUNDS, first, self.index.last_time_ns, last)
        return self.index.last_seq

    def made_durable(self, last_seq: int) -> None:
        """Make the messages up to `last_seq` visible: they are on the disk."""
        self.index.visible_seq = max(self.index.visible_seq, last_seq)

    def place(self, incoming: AppendedMessage) -> int:
        """See `Medium.place`."""
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
        if self.index.group != group.number:
            self.index.group = log.join(self)
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
            if flags:
                self.note_ttl(incoming.seq, extra)
            if incoming.msg_id:
                self.note_id(incoming.msg_id, incoming.seq, incoming.time_ns)
        self.note_run(incoming.seq, group.segment, self.index.counted(
            subject_length, headers_length, length - middle
        ))  # fmt: skip
        return group.base + at

    def place_lines(self, lines: PublishedLines, first: int) -> int:
        """See `Medium.place_lines`."""
        log = self._log
        if self.index.group != log.group or log.full or log.failure is not None:
            return 0  # the next message opens or joins the group, or gets the error
        group = log.opened()
        end = min(len(group.data), group.segment.promised - _RESERVE - group.base)
        if not log.is_pressed:
            end = min(end, log.pressed_bytes)
        placed = records.put_lines(
            group.data, group.used, end, lines, first, self.number, self.index.last_seq + 1,
            group.base,
        )  # fmt: skip
        if placed > 0:
            group.used = records.end_of_line(lines, first + placed - 1) - group.base
            group.count += placed
            size = lines.part_bytes(first, placed) + placed * _FIXED
            self.note_run(self.index.last_seq + 1, group.segment, size)
        return placed

    def note_run(self, seq: int, segment: Segment, size: int) -> None:
        """Begin a run if this message is the first one in its segment."""
        segment.live_bytes += size
        segment.message_bytes += size
        if self.index.runs:
            run = self.index.runs[-1]
            if run.place is segment:
                return
        self.index.runs.append(Run(seq, segment))
        self.ends_in = segment.number

    def admit(self) -> None:
        """See `Medium.admit`."""
        self._log.admit()

    def moved(self) -> None:
        """See `Medium.moved`."""
        self.is_moved = True
        self._touch()

    def removed(self, seq: int) -> None:
        """See `Medium.removed`."""
        position = len(self.removals)
        numbers.resize(self.removals, position + 8)
        numbers.set_u64_at(self.removals, position, seq)
        self._touch()

    def purged(self, subject: bytes, upto: int) -> None:
        """Write down that what matches is gone: no later message is below `upto`."""
        self.write(records.PURGED, upto, 0, subject)

    def _touch(self) -> None:
        """Join the open group."""
        if self.index.group != self._log.group:
            self.index.group = self._log.join(self)
        if self.index.is_async:
            self.index.visible_seq = self.index.last_seq

    def run_shrank(self, i: int, run: Run, size: int) -> None:
        """See `Medium.run_shrank`."""
        segment: Segment = run.place
        segment.live_bytes -= size

    def write(self, kind: int, seq: int, time_ns: int, body: bytes) -> None:
        """Add a record other than a message to the open group."""
        self._touch()
        length = _HEAD + len(body)
        at = self._log.reserve(length, False)
        group = self._log.opened()
        records.start_record(group.data, at, length, kind, self.number, seq, time_ns)
        numbers.put(group.data, at + _HEAD, body, 0, len(body))
        self.note_kind(kind, group.segment)

    def note_kind(self, kind: int, segment: Segment) -> None:
        """Record that a segment has records other than messages."""
        if kind == records.STREAM:
            self.configured_in = segment.number
        elif kind == records.BOUNDS:
            self.bounded_in = segment.number
        else:
            segment.holds_more = True

    def note_id(self, msg_id: bytes, seq: int, time_ns: int) -> None:
        """Remember a message's id, and forget others that are out of the duplicate window."""
        if len(self.ids) > self._ids_max:
            self.forget_ids(max(time_ns - self.dedup_window_ns, 0))
        at = numbers.grow(self.ids, _ID + len(msg_id))
        numbers.set_u64_at(self.ids, at, seq)
        numbers.set_u64_at(self.ids, at + 8, time_ns)
        numbers.set_u32_at(self.ids, at + 16, len(msg_id))
        numbers.put(self.ids, at + _ID, msg_id, 0, len(msg_id))

    def forget_ids(self, before_ns: int) -> None:
        """Forget the oldest ids as long as their messages came before a time."""
        at = 0
        while at < len(self.ids) and numbers.u64_at(self.ids, at + 8) < before_ns:
            at += _ID + numbers.u32_at(self.ids, at + 16)
        self.ids = self.ids[at:]
        self._ids_max = len(self.ids) * 2 + _NOTES_MIN

    def note_ttl(self, seq: int, seconds: bytes) -> None:
        """Remember a TTL, of which the record has the eight bytes; forget those of no message."""
        if len(self.ttls) > self._ttls_max:
            kept = bytearray()
            for at in range(0, len(self.ttls), _TTL):
                if self.index.message_index.locate(numbers.u64_at(self.ttls, at)) >= 0:
                    kept += self.ttls[at : at + _TTL]
            self.ttls = kept
            self._ttls_max = len(kept) * 2 + _NOTES_MIN
        at = numbers.grow(self.ttls, _TTL)
        numbers.set_u64_at(self.ttls, at, seq)
        numbers.put(self.ttls, at + 8, seconds, 0, 8)

    def noted_ids(self) -> list[tuple[bytes, int, int]]:
        """Return the ids that are noted: id, sequence and time."""
        found = []
        at = 0
        while at < len(self.ids):
            end = at + 20 + numbers.u32_at(self.ids, at + 16)
            seq, time_ns = numbers.u64_at(self.ids, at), numbers.u64_at(self.ids, at + 8)
            found.append((bytes(self.ids[at + 20 : end]), seq, time_ns))
            at = end
        return found

    def noted_ttls(self) -> list[tuple[int, int]]:
        """Return the TTLs that are noted: sequence and seconds."""
        found = []
        for at in range(0, len(self.ttls), 16):
            seconds = int.from_bytes(self.ttls[at + 8 : at + 16], "little", signed=True)
            found.append((numbers.u64_at(self.ttls, at), seconds))
        return found

    def erasure(self, seq: int) -> tuple[Segment, int, int] | None:
        """Return which bytes of a message to overwrite: subject, headers and payload.

        The record's head stays, so that the message is known to be removed. Its id is written
        again, because the checksum over the body no longer matches.
        """
        row = self.index.message_index.locate(seq)
        block = self.index.message_index.block
        offset = block.offset(row)
        run = self.index.runs[self.index.run_index(seq)]
        at = self._bytes_at(run.place, offset, block.size(row) + _BEYOND)
        if at < 0:
            return None
        data = self._ahead
        extra = numbers.u32_at(data, at + 40)
        length = numbers.u32_at(data, at + 8) - extra
        start = at + length + (8 if data[at + 13] & records.FLAG_TTL else 0)
        msg_id = bytes(data[start : at + length + extra])
        if msg_id:
            self.write(records.MESSAGE_ID, seq, numbers.u64_at(data, at + 32), msg_id)
        return run.place, offset + _HEAD, length - _HEAD
