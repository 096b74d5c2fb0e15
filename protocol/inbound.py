"""The receiving side of one connection: its read buffer, and the unfinished frame between reads.

One large buffer serves all connections of a loop, because a read is parsed before the next one
starts. Only an unfinished frame is kept: a small one is copied out, and a large one gets its own
buffer, which later reads fill directly. That buffer grows with the bytes that have arrived, never
with the size that the client announced.
"""

from midge.protocol import memory
from midge.protocol.stream_parser import StreamParser

SHARED_BUFFER_BYTES = 256 * 1024
_OWN_BUFFER_BYTES = 128 * 1024


class SharedBuffer:
    """Scratch space for reads; `view` covers all of it.

    An unfinished frame of up to `small_rest` bytes is copied out of it and back again.
    """

    __slots__ = ("buffer", "small_rest", "view")

    def __init__(self, size: int = SHARED_BUFFER_BYTES) -> None:
        self.buffer = bytearray(size)
        self.view = memoryview(self.buffer)
        self.small_rest = size // 16


class Inbound:
    """Feeds received bytes to `parser`, in the two steps of asyncio's BufferedProtocol.

    Call `get_buffer` for room, fill part of it, and pass the count to `received`. Between the two
    calls no other connection may use the same `shared` buffer.
    """

    __slots__ = ("_filled", "_is_parsing", "_own", "_rest", "_shared", "offered", "parser", "start")

    def __init__(self, parser: StreamParser, shared: SharedBuffer) -> None:
        self.parser = parser
        self.offered = 0  # bytes of room in the last buffer, from its `start` on
        self.start = 0
        self._shared = shared
        self._rest = b""  # a small unfinished frame, between two reads
        self._own: bytearray | None = None  # the buffer of a large unfinished frame
        self._filled = 0  # how much of `_own` is filled
        self._is_parsing = False

    def held_bytes(self) -> int:
        """Count the bytes received that no command has used yet."""
        return len(self._rest) if self._own is None else self._filled

    def get_buffer(self) -> memoryview:
        """Return the room that the next bytes go into; never empty."""
        buffer = self.make_room()
        view = self._shared.view if buffer is self._shared.buffer else memoryview(buffer)
        return view[self.start :] if self.start else view

    def make_room(self) -> bytearray:
        """Return the buffer for the next bytes: up to `offered` of them, from `start` on."""
        own = self._own
        if own is not None:
            self.start = self._filled
            self.offered = len(own) - self._filled
            return own
        shared = self._shared.buffer
        rest = self._rest
        self.start = len(rest)
        self.offered = len(shared) - len(rest)
        if rest:
            shared[: len(rest)] = rest
        return shared

    def received(self, count: int) -> None:
        """Parse the `count` bytes just written into the buffer that `get_buffer` returned.

        Raises:
            ProtocolError: as the parser does.
        """
        own = self._own
        if own is None:
            self._parse(self._shared.buffer, len(self._rest) + count)
        else:
            self._parse(own, self._filled + count)

    def feed(self, data: bytes | bytearray) -> None:
        """Parse `data`, for transports that bring their own buffers.

        Raises:
            ProtocolError: as the parser does.
        """
        start = 0
        while start < len(data):
            room = self.get_buffer()
            count = min(len(room), len(data) - start)
            room[:count] = data[start : start + count]
            start += count
            self.received(count)

    def parse_by(self, parser: StreamParser) -> None:
        """Feed all later bytes to another parser; the present one, in a command, is halted."""
        self.parser = parser

    def resume(self) -> None:
        """Parse the held bytes after the parser was halted; within a command, only clear the halt.

        Raises:
            ProtocolError: as the parser does.
        """
        if self._is_parsing:
            return  # called from within a command: the running parse goes on without the halt
        if self._own is not None:
            self._parse(self._own, self._filled)
        elif self._rest:
            rest = bytearray(self._rest)
            self._parse(rest, len(rest))

    def forget(self) -> None:
        """Drop the held bytes; nothing is parsed after this."""
        if self._own is not None:
            self._own = None
            self.parser.forget_buffer()
        self._rest = b""

    def _parse(self, buffer: bytearray, end: int) -> None:
        """Parse ``buffer[:end]`` and keep the unused bytes."""
        self._is_parsing = True
        try:
            used = self.parser.feed(buffer, 0, end)
        finally:
            self._is_parsing = False
        own = self._own
        rest = end - used
        if rest <= self._shared.small_rest:
            self._rest = bytes(buffer[used:end]) if rest else b""
            if own is not None:
                self._own = None
                self.parser.forget_buffer()  # a quiet client keeps no large buffer
            return
        self._rest = b""
        if own is None or own is not buffer or (used == 0 and end == len(own)):
            # Double the buffer, so that each byte of a frame is moved about once, however large the
            # frame. The buffer is not cleared: pages without data take no memory and no time.
            own = memory.allocate(max(2 * rest, _OWN_BUFFER_BYTES))
            memory.copy(own, 0, buffer, used, end)
        elif used:
            own[:rest] = own[used:end]
        self._own = own
        self._filled = rest
