"""Received WebSocket frames that wait for the parser, kept compressed until it takes them.

The `websockets` library inflates a whole frame at once: 1.6 MB on the wire can become 800 MB while
no other client is served. Here a frame stays compressed, and is inflated in pieces of 64 KiB, each
charged to the turn.
"""

import zlib
from collections import deque
from typing import Any

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import CTRL_OPCODES, Frame, Opcode

PIECE_BYTES = 64 * 1024
"""Bytes that are inflated, and passed to the parser, at a time."""

INFLATED_MAX_BYTES = 64 * 1024 * 1024
"""Most inflated bytes of all connections together: unfinished commands in the parsers' buffers."""

_SOURCE_BYTES = 4 * 1024  # compressed bytes passed to zlib at a time: it copies the unused rest
_MESSAGE_END = b"\x00\x00\xff\xff"  # RFC 7692, 7.2.2: the tail that the sender removes

# The charge for inflating, in the time to copy one byte (0.6 ns): an output byte takes 1 to 2 ns,
# whatever the data, and an input byte up to 5.
_COST_PER_INFLATED_BYTE = 3
_COST_PER_DEFLATED_BYTE = 8


class DeflatedFrame(Frame):
    """A data frame of a compressed message, still compressed."""


class KeepDeflated(PerMessageDeflate):
    """permessage-deflate that compresses output and leaves input compressed."""

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        """Return `frame`, marked by its class if it is deflated; `max_size` was checked before.

        Raises:
            ProtocolError: a continuation frame of a compressed message has the bit of a first one.
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
    """A queue of frames, read piece by piece."""

    def __init__(self) -> None:
        self._frames: deque[tuple[Frame, int]] = deque()  # each with the most its message may be
        self._source = memoryview(b"")  # the rest of the current frame
        self._inflater: Any = None  # of the current message, and its output so far:
        self._inflated_bytes = 0
        self._is_ended = False  # whether the inflater has had the end of the message

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
        """Return the next frame; there must be one."""
        return self._frames[0][0]

    def drop_first(self) -> None:
        """Drop the next frame."""
        frame, _ = self._frames.popleft()
        frame.data = b""  # the library's parser keeps its last frame until the next one comes
        self._source = memoryview(self._frames[0][0].data if self._frames else b"")

    def take(self) -> tuple[bytes, int]:
        """Take the next piece of data; return it and its charge.

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
        """Inflate the next bytes of `frame` to a piece, which may be empty."""
        if self._inflater is None:
            self._inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        source = self._next_source(self._inflater, frame)
        piece = self._inflated(self._inflater, source)
        self._inflated_bytes += len(piece)
        if self._inflated_bytes > message_max_bytes:
            raise PayloadTooBig(None, message_max_bytes)
        # After a full piece zlib may have more output, even when it has consumed all input.
        is_through = not (self._inflater.unconsumed_tail or self._source)
        if is_through and len(piece) < PIECE_BYTES and self._is_ended >= frame.fin:
            self._end_frame(frame)
        cost = _COST_PER_INFLATED_BYTE * len(piece) + _COST_PER_DEFLATED_BYTE * len(source)
        return piece, cost

    def _next_source(self, inflater: Any, frame: Frame) -> bytes:
        """Return the inflater's next input; at the end of a message, its tail."""
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
            return b""  # a final block: bytes behind it belong to no message
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
