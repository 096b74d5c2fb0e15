"""The store of a memory stream: the messages lie in chunks of memory, the oldest first.

Everything is durable at once, for nothing outlives the process. A chunk goes with its last message;
one of which most has gone is copied into a smaller one.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.indexes import AppendedMessage, Indexes, Medium, Run
from midge.jetstream.store.interface import MessageView
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.store import Store
from midge.jetstream.store.turns import Turns
from midge.protocol import memory

_HEAD = 16  # bytes before a message: time 8, length of the headers 4, of the payload 4

_CHUNK_MIN = 4 * 1024
_CHUNK_MAX = 1024 * 1024
"""A full chunk; larger ones would make copying one a pause of more than a millisecond."""

_READY = 256 * 1024
"""Memory that is requested at once for many messages, because a page then takes a third of the
time. It is little enough to be filled soon."""

_FIXED = 16  # what nats-server counts for a message in memory beside its parts


class Chunk:
    """A piece of memory with messages one after the other, `used` bytes of it."""

    __slots__ = ("_ready", "data", "used")

    def __init__(self, capacity: int) -> None:
        self.data = memory.allocate(capacity)
        self.used = 0
        self._ready = 0

    def make_ready(self, length: int) -> None:
        """Request memory for `length` more bytes, if this is one of the larger chunks."""
        if self.used + length > self._ready and len(self.data) >= _CHUNK_MAX:
            ready = min(self.used + max(length, _READY), len(self.data))
            memory.populate(self.data, max(self._ready, self.used), ready)
            self._ready = ready


class MemoryStore(Store):
    """Keeps a stream's messages in memory."""

    def __init__(self, seed: int = 0, turns: Turns | None = None) -> None:
        super().__init__(Chunks(self), seed, turns, _FIXED, _FIXED)

    def delete(self) -> None:
        """Delete the stream with everything stored for it; see `Store`."""
        super().delete()
        self.medium.leave()

    def memory_bytes(self) -> int:
        """Return the bytes of memory that messages and index take."""
        total = self.message_index.size() + self.subject_index.size()
        for run in self.runs:
            total += len(run.place.data)
        return total


class Chunks(Medium):
    """The chunks of a store: each run has one."""

    def __init__(self, index: Indexes) -> None:
        super().__init__(index)
        self._thin: list[Run] = []
        self._chunk: Chunk | None = None  # of the last run, where there is one

    def place(self, incoming: AppendedMessage) -> int:
        """See `Medium.place`."""
        middle = _HEAD + incoming.headers_end - incoming.headers_start
        length = middle + incoming.payload_end - incoming.payload_start
        chunk = self._chunk
        if chunk is None or chunk.used + length > len(chunk.data):
            chunk = self._chunk_for(incoming.seq, length)
            self._chunk = chunk
        data = chunk.data
        offset = chunk.used
        numbers.set_u64_at(data, offset, incoming.time_ns)
        numbers.set_u32_at(data, offset + 8, middle - _HEAD)
        numbers.set_u32_at(data, offset + 12, length - middle)
        numbers.put(
            data, offset + _HEAD, incoming.headers, incoming.headers_start, incoming.headers_end
        )
        numbers.put(
            data, offset + middle, incoming.payload, incoming.payload_start, incoming.payload_end
        )
        chunk.used = offset + length
        return offset

    def place_lines(self, lines: PublishedLines, first: int) -> int:
        """See `Medium.place_lines`."""
        rows = lines.rows
        row = first * layout.LINE
        length = _HEAD + numbers.u32_at(rows, row + layout.LINE_PAYLOAD_LENGTH)
        chunk = self._chunk
        if chunk is None or chunk.used + length > len(chunk.data):
            chunk = self._chunk_for(self.index.last_seq + 1, length)
            self._chunk = chunk
        chunk.make_ready(lines.payload_bytes + lines.count * _HEAD)
        data = chunk.data
        end = lines.count * layout.LINE
        while row < end:
            size = numbers.u32_at(rows, row + layout.LINE_PAYLOAD_LENGTH)
            offset = chunk.used
            if offset + _HEAD + size > len(data):
                break
            numbers.set_u64_at(data, offset, lines.time_ns)
            numbers.set_u32_at(data, offset + 8, 0)
            numbers.set_u32_at(data, offset + 12, size)
            start = lines.base + numbers.u32_at(rows, row + layout.LINE_PAYLOAD)
            numbers.put(data, offset + _HEAD, lines.data, start, start + size)
            numbers.set_u32_at(rows, row + layout.LINE_PLACE, offset)
            chunk.used = offset + _HEAD + size
            row += layout.LINE
        return row // layout.LINE - first

    def _chunk_for(self, seq: int, length: int) -> Chunk:
        """Return a chunk with room for `length` more bytes, in which the last one has none."""
        if self.index.runs:
            run = self.index.runs[-1]
            chunk: Chunk = run.place
            if len(chunk.data) * 2 <= _CHUNK_MAX:  # a small stream takes little memory
                numbers.resize(chunk.data, max(len(chunk.data) * 2, chunk.used + length))
                return chunk
        size = _CHUNK_MAX if self.index.runs else _CHUNK_MIN
        chunk = Chunk(max(size, length))
        self.index.runs.append(Run(seq, chunk))
        return chunk

    def time_of(self, seq: int) -> int:
        """Return when the message of this sequence, which must exist, was stored."""
        row = self.index.message_index.locate(seq)
        run = self.index.runs[self.index.run_index(seq)]
        chunk = run.place
        return numbers.u64_at(chunk.data, self.index.message_index.block.offset(row))

    def view_at(self, view: MessageView, run: Run, offset: int, size: int, number: int) -> bool:
        """See `Medium.view_at`."""
        chunk = run.place
        data = chunk.data
        view.time_ns = numbers.u64_at(data, offset)
        self.index.subject_index.show(number, view)
        view.body = data
        view.headers_start = offset + _HEAD
        view.payload_start = view.headers_start + numbers.u32_at(data, offset + 8)
        view.payload_end = view.payload_start + numbers.u32_at(data, offset + 12)
        return True

    def run_shrank(self, i: int, run: Run, size: int) -> None:
        """Drop a chunk without messages; copy one of which little is left.

        `live_bytes` counts the subject as well, which is not in the chunk, so that it is an upper
        bound.
        """
        if i < 0:
            self._chunk = None
        if i < 0 or i == len(self.index.runs) - 1:
            return
        chunk = run.place
        left = run.live_bytes + run.live * _HEAD
        if run.live == 0:
            del self.index.runs[i]
        elif left * 2 < chunk.used and run not in self._thin:
            self._thin.append(run)
            if len(self._thin) == 1:
                self.index.turns.add(self.shrink_next)

    def shrink_next(self) -> bool:
        """Copy the remaining messages of a thin chunk; return False if no chunk is thin.

        That is 0.3 ms a chunk, and a purge may leave hundreds of them.
        """
        run = self._thin.pop()
        i = self.index.runs.index(run) if run in self.index.runs else len(self.index.runs)
        if i + 1 < len(self.index.runs):  # neither gone nor the one that is being filled
            self._shrink(i, run, run.live_bytes + run.live * _HEAD)
        return bool(self._thin)

    def _shrink(self, i: int, run: Run, left: int) -> None:
        """Copy the up to `left` bytes left of a chunk into a smaller one, or the one before it."""
        following = self.index.runs[i + 1]
        end = following.first_seq
        old = run.place
        new = Chunk(left)
        if i > 0:
            before = self.index.runs[i - 1]
            merged = before.place
            if merged.used + left <= _CHUNK_MAX:
                new = merged
                numbers.resize(new.data, new.used + left)
                before.live += run.live
                before.live_bytes += run.live_bytes
                del self.index.runs[i]
        seq = self.index.message_index.next_live(run.first_seq)
        while seq and seq < end:
            row = self.index.message_index.locate(seq)
            offset = self.index.message_index.block.offset(row)
            length = _HEAD + numbers.u32_at(old.data, offset + 8)
            length += numbers.u32_at(old.data, offset + 12)
            numbers.put(new.data, new.used, old.data, offset, offset + length)
            self.index.message_index.block.set_offset(row, new.used)
            new.used += length
            seq = self.index.message_index.next_live(seq + 1)
        run.place = new
