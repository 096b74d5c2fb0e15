"""Base of the memory and file stores: the index, and every change to it.

An implementation says where the bytes of a message go (`_place`) and how they are read. A `Run` is
a stretch of a stream's sequences that lie in one chunk of memory or in one segment file.
"""

from __future__ import annotations

from typing import Any

from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.store.entering import enter_lines
from midge.jetstream.store.filters import Filters
from midge.jetstream.store.interface import MessageView, StoreError, StreamStore
from midge.jetstream.store.known_subjects import KnownSubjects
from midge.jetstream.store.message_index import MessageIndex
from midge.jetstream.store.numbers import Octets
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.subject_index import SubjectIndex
from midge.protocol import lines as protocol_lines
from midge.protocol.frame import Frame

_SEQ_MAX = SEQ_MAX  # a C number where this is compiled
_SUBJECT_MAX = 0xFFFF  # what a record has room for
_FILTERS_KEPT = 64
_PATTERNS_KEPT = 8192  # of all of them together: some 6 MiB
_FAR = 0xFFFFFFFF  # a distance that a row of the index has no room for
_NEAR = _FAR - 1024  # so far apart messages may be of which many are stored at once


class Run:
    """The sequences from `first_seq` to that of the next run, and the `place` they lie in.

    `live` counts the messages left of them and `live_bytes` what those count towards the bytes.
    """

    __slots__ = ("first_seq", "live", "live_bytes", "place")

    def __init__(self, first_seq: int, place: Any) -> None:
        self.first_seq = first_seq
        self.place = place
        self.live = 0
        self.live_bytes = 0


class Incoming:
    """The message that is being stored: its parts are ranges of buffers.

    It is valid only while the message is being stored.
    """

    __slots__ = (
        "headers",
        "headers_end",
        "headers_start",
        "msg_id",
        "payload",
        "payload_end",
        "payload_start",
        "seq",
        "subject",
        "subject_end",
        "subject_start",
        "time_ns",
        "ttl_s",
    )

    def __init__(self) -> None:
        self.subject: Octets = b""
        self.subject_start = 0
        self.subject_end = 0
        self.headers: Octets = b""
        self.headers_start = 0
        self.headers_end = 0
        self.payload: Octets = b""
        self.payload_start = 0
        self.payload_end = 0
        self.seq = 0
        self.time_ns = 0
        self.ttl_s = 0
        self.msg_id: bytes | None = None


class IndexedStore(StreamStore):
    """A store with its index in memory."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._subjects = SubjectIndex(seed)
        self._index = MessageIndex()
        self._runs: list[Run] = []
        self._incoming = Incoming()
        self._view = MessageView()
        self._filters: dict[tuple[bytes, ...], Filters] = {}
        self._latest_filters: tuple[bytes, ...] | None = None
        self._latest_found: Filters | None = None
        self._known: KnownSubjects | None = None
        self._patterns_kept = 0

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
        """Store a message after the last one and return its sequence; see `StreamStore`."""
        if protocol_lines.has_blank(subject, 0, len(subject)):
            raise StoreError("a subject holds a blank, TAB, CR or LF")
        if seq == 0:
            seq = self.last_seq + 1
        incoming = self._incoming
        incoming.seq = seq
        incoming.time_ns = max(time_ns, self.last_time_ns)
        incoming.subject = subject
        incoming.subject_start = 0
        incoming.subject_end = len(subject)
        incoming.headers = headers
        incoming.headers_start = 0
        incoming.headers_end = len(headers)
        incoming.payload = payload
        incoming.payload_start = 0
        incoming.payload_end = len(payload)
        incoming.ttl_s = ttl_s
        incoming.msg_id = msg_id
        self._store(incoming)
        return seq

    def append_frame(self, frame: Frame, time_ns: int) -> int:
        """Store a published message as it lies in its connection's buffer."""
        incoming = self._incoming
        incoming.seq = self.last_seq + 1
        incoming.time_ns = max(time_ns, self.last_time_ns)
        incoming.subject = frame.data
        incoming.subject_start = frame.base + frame.subject_start
        incoming.subject_end = frame.base + frame.subject_end
        incoming.headers = frame.data
        incoming.headers_start = frame.base + frame.payload
        incoming.headers_end = incoming.headers_start
        if frame.header_size > 0:
            incoming.headers_end += frame.header_size
        incoming.payload = frame.data
        incoming.payload_start = incoming.headers_end
        incoming.payload_end = incoming.headers_start + frame.size
        incoming.ttl_s = 0
        incoming.msg_id = None
        self._store(incoming)
        return incoming.seq

    def unsendable_subject(self) -> bytes | None:
        """Return a stored subject that no line of the protocol can carry; None for none."""
        if not self._subjects.holds_unsendable:
            return None
        for number in range(self._subjects.limit()):
            if self._subjects.count(number) > 0:
                name = self._subjects.name(number)
                if protocol_lines.has_blank(name, 0, len(name)):
                    return name
        return None

    def begin_epoch(self) -> int:
        """Begin an epoch of known subjects; return its number."""
        if self._known is None:
            self._known = KnownSubjects(self._subjects)
        return self._known.begin_epoch()

    def know_subject(self, data: bytearray, start: int, end: int, epoch: int) -> None:
        """Take note that the subject ``data[start:end]`` is known in `epoch`, if it is stored."""
        if self._known is not None:
            self._known.mark(data, start, end, epoch)

    def resolve_lines(self, lines: PublishedLines, epoch: int) -> int:
        """Keep of `lines` those before the first one that `append_lines` cannot take."""
        known = self._known
        if (
            known is None
            or self.last_seq - self.first_seq > _NEAR
            or self.last_seq > _SEQ_MAX - _NEAR
        ):
            lines.keep(0)
            return 0
        return known.resolve(lines, epoch)

    def append_lines(self, lines: PublishedLines, time_ns: int) -> int:
        """Store the messages that `resolve_lines` kept; return how many there is room for."""
        known = self._known
        assert known is not None, "or none would have been kept"
        time_ns = lines.time_ns = max(time_ns, self.last_time_ns)
        done = 0
        while done < lines.count:
            placed = self._place_lines(lines, done)
            if placed == 0:
                break
            seq = self.last_seq + 1
            known.append(lines, done, placed, seq)
            size = enter_lines(
                self._index, lines, done, placed, seq, time_ns, self._counted(0, 0, 0)
            )
            run = self._runs[-1]
            run.live += placed
            run.live_bytes += size
            self.messages += placed
            self.bytes += size
            self.last_seq += placed
            self.last_time_ns = time_ns
            done += placed
        return done

    def skip_to(self, last_seq: int) -> None:
        """Use up all sequences to `last_seq` without storing anything."""
        if last_seq <= self.last_seq:
            return
        if last_seq > _SEQ_MAX:
            raise StoreError(f"sequence {last_seq} is above {_SEQ_MAX}")
        self._admit()
        self.last_seq = last_seq
        if self.messages == 0:
            self.first_seq = last_seq + 1
        self._moved()

    def _store(self, incoming: Incoming) -> None:
        """Place a message and enter it into the index."""
        length = incoming.subject_end - incoming.subject_start
        if incoming.seq <= self.last_seq:
            raise StoreError(f"sequence {incoming.seq} is not after the last, {self.last_seq}")
        if incoming.seq > _SEQ_MAX:
            raise StoreError(f"sequence {incoming.seq} is above {_SEQ_MAX}")
        if length > _SUBJECT_MAX:
            raise StoreError(f"a subject of {length} bytes is too long to be stored")
        offset = self._place(incoming)
        size = self._counted(
            length,
            incoming.headers_end - incoming.headers_start,
            incoming.payload_end - incoming.payload_start,
        )
        self._enter(incoming, offset, size)

    def _enter(self, incoming: Incoming, offset: int, size: int) -> None:
        """Put a message, of which the bytes are in their place, into the index."""
        subjects = self._subjects
        seq = incoming.seq
        number = subjects.append(
            incoming.subject, incoming.subject_start, incoming.subject_end, seq
        )  # fmt: skip
        self._index.enter(seq, incoming.time_ns, offset, size, number, subjects.before)
        self.subject_count = subjects.subject_count
        run = self._runs[-1]
        run.live += 1
        run.live_bytes += size
        if self.messages == 0:
            self.first_seq = seq
        self.messages += 1
        self.bytes += size
        self.last_seq = seq
        self.last_time_ns = incoming.time_ns

    def _drop(self, seq: int) -> bool:
        """Take a message out of the index; False if it is not there."""
        position = self._index.locate(seq)
        if position < 0:
            return False
        if self.keepers:
            self._keep(seq)
            position = self._index.locate(seq)
        size = self._index.block.size(position)
        self._unlink(seq, self._index.block.subject(position))
        self._index.discard(seq)
        self.messages -= 1
        self.bytes -= size
        self.removals += 1
        i = self._run_index(seq)
        run = self._runs[i]
        run.live -= 1
        run.live_bytes -= size
        if seq == self.first_seq:
            following = self._index.next_live(seq + 1) if self.messages > 0 else 0
            self.first_seq = following or self.last_seq + 1
        self._lost_bytes(i, run, size)
        return True

    def _unlink(self, seq: int, number: int) -> None:
        """Take a message out of the chain of its subject."""
        subjects = self._subjects
        count = subjects.count(number) - 1
        if count == 0:
            subjects.release(number)
            self.subject_count = subjects.subject_count
            return
        subjects.set_count(number, count)
        before = self._index.before(seq)
        after = self._index.after(seq)
        if before:
            self._index.set_after(seq - before, before + after if after else 0)
        else:
            subjects.set_first(number, seq + after)
        if after:
            self._index.set_before(seq + after, before + after if before else 0)
        else:
            subjects.set_last(number, seq - before)

    def _keep(self, seq: int) -> None:
        """Let the keepers read a message that is about to go."""
        for keeper in list(self.keepers):
            keeper.removing(seq)

    def _clear(self) -> None:
        """Take everything out of the index at once."""
        for keeper in list(self.keepers):
            keeper.removing_all()
        self.removals += self.messages
        self.messages = 0
        self.bytes = 0
        self.first_seq = self.last_seq + 1
        self._subjects.clear()
        self._index.clear()
        self.subject_count = 0
        runs = self._runs
        self._runs = []
        for run in runs:
            self._lost_run(run)

    def _run_index(self, seq: int) -> int:
        """Return the index of the run that `seq` belongs to."""
        runs = self._runs
        last = len(runs) - 1
        run = runs[last]
        if run.first_seq <= seq:
            return last
        low = 0
        high = last
        while low < high:
            middle = (low + high) >> 1
            run = runs[middle]
            if run.first_seq <= seq:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _filters_of(self, filters: tuple[bytes, ...]) -> Filters:
        if filters is self._latest_filters and self._latest_found is not None:
            return self._latest_found
        found = self._filters.get(filters)
        if found is None:
            self._patterns_kept += len(filters)
            if len(self._filters) >= _FILTERS_KEPT or self._patterns_kept > _PATTERNS_KEPT:
                self._filters.clear()
                self._subjects.unwatch_all()
                self._patterns_kept = len(filters)
            found = Filters(self._subjects, filters)
            self._filters[filters] = found
        self._latest_filters = filters
        self._latest_found = found
        return found

    # What an implementation adds.

    def _place(self, incoming: Incoming) -> int:
        """Write a message where the last run is, or begin a new one; return its offset."""
        raise NotImplementedError

    def _place_lines(self, lines: PublishedLines, first: int) -> int:
        """Write messages from number `first` on where the last run is, or begin a new one.

        Notes in their rows where they are. Returns how many have gone there, 0 if there is no room.
        """
        raise NotImplementedError

    def _counted(self, subject: int, headers: int, payload: int) -> int:
        """Return what a message with parts of these lengths counts towards the bytes."""
        raise NotImplementedError

    def _admit(self) -> None:
        """Raise if nothing may be changed."""

    def _moved(self) -> None:
        """Take note that messages at the head have gone, or that `last_seq` has moved."""

    def _removed(self, seq: int, erase: bool) -> None:
        """Take note that a message has been removed on its own."""

    def _lost_bytes(self, i: int, run: Run, size: int) -> None:
        """Take note that a message of the run with index `i` has gone."""

    def _lost_run(self, run: Run) -> None:
        """Take note that a run has gone with all its messages."""
