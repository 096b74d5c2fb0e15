"""What has come in WebSocket frames and waits for the parser: deflated until the parser takes it.

The `websockets` library inflates a frame whole: 1.6 MB on the wire can become 800 MB while nobody
else is served. Here a frame stays as it came, and is inflated in pieces of 64 KiB, each of which
costs a part of the turn.
"""

import zlib
from collections import deque
from typing import Any, Protocol

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import CTRL_OPCODES, Frame, Opcode

PIECE_BYTES = 64 * 1024
"""What is inflated, and given to the parser, at a time."""

INFLATED_MAX_BYTES = 64 * 1024 * 1024
"""What all connections together may hold inflated: unfinished commands in the parser's buffers."""

_SOURCE_BYTES = 4 * 1024  # deflated bytes given to zlib at a time: it copies what it leaves over
_MESSAGE_END = b"\x00\x00\xff\xff"  # RFC 7692, 7.2.2: what the sender has cut off

# What inflating uses up of a turn, in bytes copied, which take 0.6 ns each: a byte that comes out
# takes 1 to 2 ns, whatever it is, and one that goes in up to 5.
_COST_PER_INFLATED_BYTE = 3
_COST_PER_DEFLATED_BYTE = 8


class DeflatedFrame(Frame):
    """A data frame of a compressed message, as it came."""


class KeepDeflated(PerMessageDeflate):
    """permessage-deflate that leaves what comes deflated, and deflates what is sent."""

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        """Return `frame`, marked by its class if it is deflated; `max_size` was checked before.

        Raises:
            ProtocolError: the frame goes on with a compressed message and says that it begins one.
        """
        if frame.opcode in CTRL_OPCODES:
            return frame
        if frame.opcode is Opcode.CONT:
            if not self.decode_cont_data:
                return frame
            if frame.rsv1:
                raise ProtocolError("RSV1 bit set in continuation frame")
        elif not frame.rsv1:
            self.decode_cont_data = False
            return frame
        self.decode_cont_data = not frame.fin
        return DeflatedFrame(frame.opcode, frame.data, frame.fin, False, frame.rsv2, frame.rsv3)


class WaitingFrames:
    """Frames in their order, taken piece by piece."""

    def __init__(self) -> None:
        self._frames: deque[tuple[Frame, int]] = deque()  # each with the most its message may be
        self._source = memoryview(b"")  # what is left of the frame at hand
        self._inflater: Any = None  # of the message at hand, of which so much has come out:
        self._inflated_bytes = 0
        self._is_ended = False  # whether the inflater has been given the end of the message

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: Frame, message_max_bytes: int) -> None:
        """Add `frame`, whose message may inflate to `message_max_bytes`."""
        self._frames.append((frame, message_max_bytes))
        if len(self._frames) == 1:
            self._source = memoryview(frame.data)

    def clear(self) -> None:
        """Drop everything."""
        self._frames.clear()
        self._source = memoryview(b"")
        self._end_message()

    def first(self) -> Frame:
        """Return the frame that comes next; there must be one."""
        return self._frames[0][0]

    def drop_first(self) -> None:
        """Drop the frame that comes next."""
        frame, _ = self._frames.popleft()
        frame.data = b""  # the library's parser keeps its last frame until the next one comes
        self._source = memoryview(self._frames[0][0].data if self._frames else b"")

    def take(self) -> tuple[bytes, int]:
        """Take a piece of the data that comes next; return it and what that has cost.

        Raises:
            PayloadTooBig: the message inflates to more than it may.
            ProtocolError: it cannot be inflated.
        """
        frame, message_max_bytes = self._frames[0]
        if isinstance(frame, DeflatedFrame):
            return self._inflate(frame, message_max_bytes)
        piece = bytes(self._source[:PIECE_BYTES])
        self._source = self._source[PIECE_BYTES:]
        if not self._source:
            self.drop_first()
        return piece, len(piece)

    def _inflate(self, frame: Frame, message_max_bytes: int) -> tuple[bytes, int]:
        """Inflate the next bytes of `frame` to a piece, an empty one perhaps."""
        if self._inflater is None:
            self._inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        source = self._next_source(self._inflater, frame)
        piece = self._inflated(self._inflater, source)
        self._inflated_bytes += len(piece)
        if self._inflated_bytes > message_max_bytes:
            raise PayloadTooBig(None, message_max_bytes)
        # After a full piece zlib may hold more back, even when it has taken all that there was.
        is_through = not (self._inflater.unconsumed_tail or self._source)
        if is_through and len(piece) < PIECE_BYTES and self._is_ended >= frame.fin:
            self._end_frame(frame)
        cost = _COST_PER_INFLATED_BYTE * len(piece) + _COST_PER_DEFLATED_BYTE * len(source)
        return piece, cost

    def _next_source(self, inflater: Any, frame: Frame) -> bytes:
        """Return what the inflater takes next; at the end of a message, what ends it."""
        tail: bytes = inflater.unconsumed_tail
        if tail:
            return tail
        source = bytes(self._source[:_SOURCE_BYTES])
        self._source = self._source[_SOURCE_BYTES:]
        if not source and frame.fin and not self._is_ended:
            self._is_ended = True
            return _MESSAGE_END
        return source

    @staticmethod
    def _inflated(inflater: Any, source: bytes) -> bytes:
        if inflater.eof:
            return b""  # a last block: what follows it belongs to no message
        try:
            piece: bytes = inflater.decompress(source, PIECE_BYTES)
        except zlib.error as error:
            raise ProtocolError(f"cannot inflate: {error}") from None
        return piece

    def _end_frame(self, frame: Frame) -> None:
        if frame.fin:
            self._end_message()
        self.drop_first()

    def _end_message(self) -> None:
        """Free the inflater, which takes 40 KiB."""
        self._inflater = None
        self._inflated_bytes = 0
        self._is_ended = False


class Holder(Protocol):
    """A connection that inflates."""

    @property
    def has_more(self) -> bool:
        """Whether more of what has come waits to be inflated."""

    def wake(self) -> None:
        """Go on soon; the room for it may be there."""

    def evict(self) -> None:
        """End: this holds more than any other and has nothing to go on with."""


class InflatedBytes:
    """How much the connections of one server hold inflated, and who must wait when it is too much.

    Over the limit only the one that holds most goes on, so that its command comes to an end; when
    it has nothing to go on with, it is ended.
    """

    def __init__(self, most: int = INFLATED_MAX_BYTES) -> None:
        self._most = most
        self._held: dict[Holder, int] = {}
        self._waiting: dict[Holder, None] = {}
        self.total = 0

    def note(self, holder: Holder, held: int) -> None:
        """Note what `holder` holds now; less than a piece does not count."""
        before = self._held.pop(holder, 0)
        if held >= PIECE_BYTES:
            self._held[holder] = held
            self.total += held
        self.total -= before
        if self._waiting and self.total + PIECE_BYTES <= self._most:
            waiting, self._waiting = self._waiting, {}
            for one in waiting:
                one.wake()

    def may_inflate(self, holder: Holder) -> bool:
        """Tell whether `holder` may take another piece; if not, it is woken when it may."""
        if self.total + PIECE_BYTES <= self._most:
            return True
        largest = max(self._held, key=self._held.__getitem__)
        if largest is holder:
            return True
        self._waiting[holder] = None
        if not largest.has_more:
            largest.evict()
        return False

    def forget(self, holder: Holder) -> None:
        """Count `holder` no more."""
        self._waiting.pop(holder, None)
        self.note(holder, 0)
