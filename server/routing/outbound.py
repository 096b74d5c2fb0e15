"""The sending side of one connection: frames pile up in a chunk, and a flush writes them at once.

A chunk comes from a pool that all connections share and goes back when it has been written, so a
quiet connection holds none. A plain socket is written to by a system call, since a transport's
`write` takes 1,700 instructions more, and nothing waits in the transport then. What a socket does
not take stays with its transport; while it is behind, further chunks queue here.
"""

from collections import deque
from typing import Protocol

from midge.protocol import lines, memory
from midge.protocol.frame import Frame
from midge.server.routing import plain_socket

CHUNK_BYTES = 64 * 1024

_CHUNK_BYTES = CHUNK_BYTES  # a C number where this is compiled

_SPACE = 0x20
_CR = 0x0D
_LF = 0x0A
_MSG = b"MSG "
_HMSG = b"HMSG "
_NOTHING = bytearray()
_CHUNKS_KEPT = 64  # as many as a fan-out of the usual width fills; the rest is given back


class OutputTransport(Protocol):
    """The methods of an asyncio transport that output uses."""

    def write(self, data: bytes | memoryview) -> None:
        """Send `data`, or keep it until the socket takes it; the caller does not change it."""

    def get_write_buffer_size(self) -> int:
        """Count the bytes that the socket has not taken yet."""


class ChunkPool:
    """Buffers of CHUNK_BYTES for the connections of one loop to pile their output up in.

    The one that was given back last is kept apart: where each is given back before the next one is
    taken, a list would give its memory back and get it again each time, 600 instructions a message.
    """

    __slots__ = ("_free", "_last")

    def __init__(self) -> None:
        self._last: bytearray | None = None
        self._free: list[bytearray] = []

    def take(self) -> bytearray:
        """Return an unused chunk; its content is undefined."""
        chunk = self._last
        if chunk is not None:
            self._last = None
            return chunk
        if self._free:
            return self._free.pop()
        return memory.allocate(CHUNK_BYTES)

    def give_back(self, chunk: bytearray) -> None:
        """Return `chunk` to the pool; the caller must not use it any more."""
        if len(chunk) != _CHUNK_BYTES:
            return
        if self._last is None:
            self._last = chunk
        elif len(self._free) < _CHUNKS_KEPT - 1:
            self._free.append(chunk)


class Outbound:
    """Output for one transport.

    `behind` is true while the transport holds bytes that the socket did not take; until
    `caught_up` is called nothing more is written to it.
    """

    __slots__ = (
        "_capacity",
        "_chunk",
        "_data",
        "_descriptor",
        "_pool",
        "_queue",
        "_queued_bytes",
        "_transport",
        "_transport_bytes",
        "_used",
        "behind",
    )

    def __init__(self, pool: ChunkPool) -> None:
        self.behind = False
        self._pool = pool
        self._transport: OutputTransport | None = None
        self._descriptor = -1
        self._transport_bytes = 0  # what the transport held when it fell behind
        self._queue: deque[memoryview] | None = None  # made when it first falls behind: 600 bytes
        self._queued_bytes = 0
        self._chunk: bytearray | None = None
        self._data = _NOTHING
        self._capacity = 0
        self._used = 0

    def attach(self, transport: OutputTransport, descriptor: int = -1) -> None:
        """Write to `transport` from now on.

        `descriptor` is the socket's if bytes are sent unchanged, else -1. The
        transport must hold no output then, and must not close the socket before `detach`.
        """
        self._transport = transport
        self._descriptor = descriptor

    def detach(self) -> None:
        """Drop all pending output, and all later output."""
        self._transport = None
        self._descriptor = -1
        self._queue = None
        self._queued_bytes = 0
        self._transport_bytes = 0
        self.behind = False
        self._drop_chunk()

    def pending_bytes(self) -> int:
        """Return the pending bytes; the transport's share is as it last reported."""
        return self._used + self._queued_bytes + self._transport_bytes

    def has_shrunk(self) -> bool:
        """Ask the transport what it holds; return whether that is less than at the last report."""
        before = self._transport_bytes
        if self._transport is not None:
            self._transport_bytes = self._transport.get_write_buffer_size()
        return self._transport_bytes < before

    def append(self, piece: bytes) -> None:
        """Add `piece` to the output."""
        length = len(piece)
        if self._capacity - self._used < length:
            self._make_room(length)
        memory.copy_bytes(self._data, self._used, piece)
        self._used += length

    def append_message(self, frame: Frame, sid: bytes) -> None:
        """Add `frame` as the MSG or HMSG that delivers it to the subscription `sid`."""
        verb = _MSG if frame.header_size < 0 else _HMSG
        base = frame.base
        subject, subject_end = base + frame.subject_start, base + frame.subject_end
        tail, end = base + frame.tail, base + frame.end
        length = len(verb) + subject_end - subject + len(sid) + end - tail + 2
        if self._capacity - self._used < length:
            self._make_room(length)
        data = self._data
        at = self._used
        self._used += length
        if (
            self._capacity - self._used >= lines.LOOSE_BYTES
            and len(frame.buffer) - end >= lines.LOOSE_BYTES
        ):
            lines.write_loosely(data, at, verb, frame, sid)
        else:
            memory.copy_bytes(data, at, verb)
            at += len(verb)
            memory.copy(data, at, frame.data, subject, subject_end)
            at += subject_end - subject
            data[at] = _SPACE
            at += 1
            memory.copy_bytes(data, at, sid)
            at += len(sid)
            data[at] = _SPACE
            memory.copy(data, at + 1, frame.data, tail, end)

    def append_parts(
        self, head: bytearray, head_end: int, data: bytearray | bytes, start: int, end: int
    ) -> None:
        """Add ``head[:head_end]``, ``data[start:end]`` and the end of a line."""
        length = head_end + end - start + 2
        if self._capacity - self._used < length:
            self._make_room(length)
        target = self._data
        at = self._used
        memory.copy(target, at, head, 0, head_end)
        at += head_end
        memory.copy(target, at, data, start, end)
        at += end - start
        target[at] = _CR
        target[at + 1] = _LF
        self._used = at + 2

    def append_run(self, frame: Frame, sid: bytes, count: int) -> None:
        """Add `count` messages, `frame` the first, that differ in their payloads only.

        They lie one behind the other, each `frame.end` bytes long.
        """
        base = frame.base
        verb = _MSG if frame.header_size < 0 else _HMSG
        prefix_length = len(verb) + frame.subject_end - frame.subject_start + len(sid) + 2
        tail_length = frame.end - frame.tail
        length = prefix_length + tail_length
        last = base + (count - 1) * frame.end
        while True:
            self.append_message(frame, sid)
            # The others that have room too begin like this one.
            data = self._data
            at = self._used
            while frame.base < last and self._capacity - at >= length:
                frame.base += frame.end
                start = frame.base + frame.tail
                memory.copy(data, at, data, at - length, at - tail_length)
                memory.copy(data, at + prefix_length, frame.data, start, start + tail_length)
                at += length
            self._used = at
            if frame.base == last:
                break
            frame.base += frame.end
        frame.base = base

    def flush(self) -> None:
        """Write the pending output, unless the transport is behind."""
        if self._used > 0 and not self.behind:
            self._write_chunk()
            self._drop_chunk()

    def caught_up(self) -> None:
        """Go on writing, now that the transport has got rid of what it held."""
        self.behind = False
        self._transport_bytes = 0
        while self._queue and not self.behind:
            piece = self._queue.popleft()
            self._queued_bytes -= len(piece)
            self._write(piece)
        if not self.behind:
            self._queue = None
        self.flush()

    def finish(self) -> None:
        """Pass everything that waits to the transport, behind or not, and drop later output."""
        transport = self._transport
        if transport is None:
            return
        pieces = list(self._queue or ())
        if self._used > 0:
            pieces.append(memoryview(self._taken_chunk())[: self._used])
            self._forget_chunk()
        self.detach()  # first: from inside `write` the transport may report that it has caught up
        for piece in pieces:
            transport.write(piece)

    def _make_room(self, length: int) -> None:
        """Make the chunk one that has room for `length` more bytes, by writing or queueing it."""
        if self._used > 0:
            if self.behind:
                if self._queue is None:
                    self._queue = deque()
                self._queue.append(memoryview(self._taken_chunk())[: self._used])
                self._queued_bytes += self._used
                self._forget_chunk()
            else:
                self._write_chunk()
        if self._capacity < length:
            self._drop_chunk()
            self._fill(self._pool.take() if length <= _CHUNK_BYTES else memory.allocate(length))

    def _write_chunk(self) -> None:
        """Write the chunk; it can be filled again if the socket took all of it, else it is gone."""
        chunk = self._taken_chunk()
        sent = 0
        if self._descriptor >= 0:
            sent = plain_socket.send(self._descriptor, self._data, self._used)
            if sent == self._used:
                self._used = 0
                return
            sent = max(sent, 0)
        self._pass_on(chunk, sent)

    def _pass_on(self, chunk: bytearray, start: int) -> None:
        """Pass the chunk from `start` on to the transport."""
        piece: bytes | memoryview
        if (self._used - start) * 64 <= _CHUNK_BYTES:  # to copy 1 KiB takes 50 ns, a view of it 400
            piece = memory.take(self._data, start, self._used)
        else:
            piece = memoryview(chunk)[start : self._used]
        transport = self._transport
        # From inside its `write` a TLS transport may report that it has caught up. The chunk
        # in this call must not be written again then, nor be given to another connection.
        self._forget_chunk()
        self._write(piece)
        if not self.behind and self._transport is transport and self._chunk is None:
            self._fill(chunk)

    def _fill(self, chunk: bytearray) -> None:
        """Use `chunk` for the next output, from its start."""
        self._chunk = chunk
        self._data = chunk
        self._capacity = len(chunk)
        self._used = 0

    def _write(self, piece: bytes | memoryview) -> None:
        transport = self._transport
        if transport is None:
            return
        transport.write(piece)
        left = transport.get_write_buffer_size()
        if left > 0:
            self.behind = True
            self._transport_bytes = left

    def _taken_chunk(self) -> bytearray:
        assert self._chunk is not None, "there is output, so there is a chunk"
        return self._chunk

    def _drop_chunk(self) -> None:
        """Return the chunk to the pool."""
        if self._chunk is not None:
            self._pool.give_back(self._chunk)
            self._forget_chunk()

    def _forget_chunk(self) -> None:
        """Forget the chunk: it belongs to the transport or the queue now."""
        self._chunk = None
        self._data = _NOTHING
        self._capacity = 0
        self._used = 0
