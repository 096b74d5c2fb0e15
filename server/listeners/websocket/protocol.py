"""One client of a WebSocket listener: its HTTP request, then its frames, to a Connection.

The sans-I/O protocol of the `websockets` library parses the frames. Their data goes to midge's
parser in pieces, each charged to a turn, and only while the parser accepts more.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import CTRL_OPCODES, Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Protocol

from midge.server.channels.channel import ChannelOwner
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.fair_turns import FairTurns
from midge.server.channels.transports import rest_of_tls, shut
from midge.server.listeners.websocket.messages import (
    INFLATED_MAX_BYTES,
    PIECE_BYTES,
    DeflatedFrame,
    WaitingFrames,
)
from midge.server.listeners.websocket.transport import WebSocketTransport
from midge.server.listeners.websocket.upgrade_request import (
    MAX_HEAD_BYTES,
    Upgrade,
    UpgradeRefusal,
    UpgradeRequest,
)
from midge.server.log.logger import get_logger

_MESSAGE_PAYLOADS = 8  # payloads of the largest size that fit one WebSocket message
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_MAX_UNAUTHENTICATED_BYTES = 64 * 1024
_SLICE_BYTES = 4 * 1024  # bytes of input parsed at a time, each charged as one copied: 2.6 µs
_FRAME_BYTES = 32 * 1024  # the charge for a frame
_OWN_BYTES = 40 * 1024  # the work after a read in any case: one small frame

_REQUEST_BYTES = 4 * 1024  # read at a time before the upgrade; a browser sends 0.5 to 2 KiB

# Bytes to read from a socket in a round of the loop once other sockets have used up the turn: the
# loop still reads every ready socket. Without this bound, 1,500 clients that send 61 KiB each at
# once take 0.15 s.
_LATE_READ_BYTES = 4 * 1024

log = get_logger()


class InflatedBytes:
    """The inflated bytes that the connections of one server hold, and which of them must wait.

    Over the limit only the connection that holds the most goes on, so that it can finish its
    command; when it has no data to go on with, it is closed.
    """

    def __init__(self, most: int = INFLATED_MAX_BYTES) -> None:
        self._most = most
        self._held: dict[FrameProtocol, int] = {}
        self._waiting: dict[FrameProtocol, None] = {}
        self.total = 0

    def note(self, holder: FrameProtocol, held: int) -> None:
        """Record the bytes that `holder` holds; less than one piece does not count."""
        before = self._held.pop(holder, 0)
        if held >= PIECE_BYTES:
            self._held[holder] = held
            self.total += held
        self.total -= before
        if self._waiting and self.total + PIECE_BYTES <= self._most:
            waiting, self._waiting = self._waiting, {}
            for one in waiting:
                one.wake()

    def may_inflate(self, holder: FrameProtocol) -> bool:
        """Return whether `holder` may take another piece; if not, it is called when it may."""
        if self.total + PIECE_BYTES <= self._most:
            return True
        largest = max(self._held, key=self._held.__getitem__)
        if largest is holder:
            return True
        self._waiting[holder] = None
        if not largest.has_more:
            largest.evict()
        return False

    def forget(self, holder: FrameProtocol) -> None:
        """Remove `holder` from the count."""
        self._waiting.pop(holder, None)
        self.note(holder, 0)


class FrameProtocol(asyncio.BufferedProtocol):
    """The asyncio protocol of one end of a WebSocket.

    Its Connection's `more_input` is set while data waits here for the parser. A subclass handles
    the handshake before the frames: `_begin` gets its HTTP head.
    """

    def __init__(self, inflated: InflatedBytes) -> None:
        self._inflated = inflated
        self._transport: asyncio.Transport | None = None
        self._tls: Any = None  # the SSL object of an encrypted transport
        self._below: WebSocketTransport | None = None
        self._frames: Protocol | None = None
        self._connection: ChannelOwner | None = None
        self._room = memoryview(b"")  # what the read under way goes into
        self._rest = bytearray()  # of the request, and later of an incomplete frame
        self._waiting = WaitingFrames()
        self._error: Exception | None = None  # of the frames; reported after the data before it
        self._is_working = False
        self._waits_for_turn = False
        self._is_late = False  # whether the turn was over before the read under way
        self.upgraded = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Start; asyncio calls this once."""
        self._transport = transport
        self._tls = transport.get_extra_info("ssl_object")

    def get_buffer(self, size_hint: int) -> memoryview:
        """Return the room for the next read, which is small when the turn is over."""
        connection = self._connection
        if connection is None:
            self._room = memoryview(bytearray(_REQUEST_BYTES))
        else:
            host = connection.channel.host
            self._is_late = host.turns.is_over()
            room = host.shared_buffer.view
            self._room = room[:_LATE_READ_BYTES] if self._is_late else room
        return self._room

    def buffer_updated(self, count: int) -> None:
        """Take the `count` bytes just read; when the turn is over, more waits for another one."""
        connection = self._connection
        room, self._room = self._room, memoryview(b"")
        if connection is None or not self._is_late or count < len(room):
            self.data_received(room[:count])
            return
        self._rest += room
        self.wake()
        self._note_rest(connection)

    def data_received(self, data: bytes | memoryview) -> None:
        """Take input, and handle what can be handled now."""
        self._rest += data
        if self._connection is not None:
            self._go_on()
            return
        end = self._rest.find(b"\r\n\r\n")
        if end >= 0:
            head = bytes(self._rest[:end])
            del self._rest[: end + 4]
            self._begin(head)
        elif len(self._rest) > MAX_HEAD_BYTES and self._transport is not None:
            self._transport.close()

    def eof_received(self) -> bool:
        """Return whether to keep the transport open for pending output."""
        return self._connection is not None and self._connection.channel.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything; input before an orderly end is handled first."""
        self._settle()
        if self._below is not None:
            self._below.lost()
        connection, tls = self._connection, self._tls
        self._transport = self._below = self._tls = None
        if connection is not None:
            if exc is None:
                for data in rest_of_tls(tls):
                    self._rest += data
                if self._has_input:
                    connection.channel.more_input = self._go_on
            connection.channel.connection_lost(exc)
        if connection is None or not connection.channel.finishes:
            self._let_go()

    def pause_writing(self) -> None:
        """Called by asyncio when the write buffer fills; passed on to the Connection."""
        if self._connection is not None:
            self._connection.channel.pause_writing()

    def resume_writing(self) -> None:
        """Called by asyncio when the write buffer has drained."""
        if self._below is not None:
            self._below.caught_up()
        if self._connection is not None:
            self._connection.channel.resume_writing()

    def _let_go(self) -> None:
        """Drop waiting input, and break the reference cycles."""
        if self._frames is not None:
            # The library's parser is a suspended generator that references its owner.
            self._frames.parser.close()
        self._frames = self._connection = self._below = None
        self._forget_input()

    def _forget_input(self) -> None:
        """Drop waiting input."""
        self._inflated.forget(self)
        self._rest.clear()
        self._waiting.clear()
        self._error = None

    # The upgrade.

    def _begin(self, head: bytes) -> None:
        """Handle the head of the HTTP request or response, up to and without its blank line."""
        raise NotImplementedError

    def _exchange(
        self,
        transport: asyncio.Transport,
        connection: ChannelOwner,
        frames: Protocol,
        extensions: list[Any],
        *,
        is_masked: bool = False,
    ) -> None:
        """Pass frames between `transport` and `connection` from now on."""
        self._frames = frames
        frames.extensions = list(extensions)
        self._connection = connection
        self._below = WebSocketTransport(
            transport,
            frames.extensions,
            lambda: connection.reason,
            self._go_on,
            is_masked=is_masked,
        )
        connection.channel.connection_made(self._below)
        self._go_on()

    def _settle(self) -> None:
        """Cancel the time limit of the request."""
        if not self.upgraded.done():
            self.upgraded.set_result(None)

    # Pending input.

    @property
    def has_more(self) -> bool:
        """Whether frames wait for the parser."""
        return bool(self._waiting)

    def wake(self) -> None:
        """Go on in another turn."""
        if self._connection is not None and not self._waits_for_turn:
            turns = self._connection.channel.host.turns
            self._waits_for_turn = True
            turns.wait(partial(self._take_turn, turns))

    def evict(self) -> None:
        """Close this connection, which holds the most inflated bytes when all hold too many."""
        if self._connection is not None:
            self._connection.channel.host.limit_hits["inflated_bytes"] += 1
            self._connection.close(ClosedReason.MAXIMUM_PAYLOAD)
            self._inflated.forget(self)

    def _take_turn(self, turns: FairTurns) -> None:
        self._waits_for_turn = False
        share = turns.share()
        if self._connection is None:
            turns.give_back(share)
        else:
            self._go_on(share, 0)

    @property
    def _has_input(self) -> bool:
        """Whether input waits that could be handled now."""
        return bool(self._waiting or self._rest or self._error)

    def _go_on(self, share_bytes: int = 0, own_bytes: int = _OWN_BYTES) -> None:
        """Handle waiting input, unless that is running or scheduled.

        That may take `share_bytes` and what else can be drawn of the turn, besides `own_bytes`.
        """
        connection = self._connection
        if connection is None or self._is_working or self._waits_for_turn:
            return
        self._is_working = True
        try:
            left = self._work(connection, share_bytes + own_bytes)
        finally:
            self._is_working = False
        if left > own_bytes:
            connection.channel.host.turns.give_back(left - own_bytes)
        self._note_rest(connection)

    def _note_rest(self, connection: ChannelOwner) -> None:
        """Pause reading while input waits, and set the Connection's `more_input`."""
        if connection.reason is not None:
            self._forget_input()
            if self._transport is None:
                self._let_go()
        elif self._has_input:
            connection.channel.more_input = self._go_on
            if self._below is not None:
                self._below.pause("frames")
        elif connection.channel.more_input is not None:
            connection.channel.more_input = None
            if self._below is not None:
                self._below.resume("frames")
            connection.channel.resume()

    def _work(self, connection: ChannelOwner, turn_bytes: int) -> int:
        """Handle waiting input until it is used up, the turn is over or the parser takes no more.

        Returns the rest of the turn.
        """
        while connection.reason is None and self._has_input:
            if self._waiting and not self._may_take(connection):
                break
            if turn_bytes <= 0:
                drawn = connection.channel.host.turns.draw(-turn_bytes)
                if not drawn:
                    self.wake()
                    break
                turn_bytes += drawn
            if self._waiting:
                turn_bytes -= self._take(connection)
            elif self._error is not None:
                self._fail(self._error, connection)
            else:
                turn_bytes -= self._parse(connection)
        return turn_bytes

    def _may_take(self, connection: ChannelOwner) -> bool:
        """Return whether the next piece may go to the parser; if not, `_go_on` is called later."""
        if connection.channel.parser.halted or (self._below is not None and self._below.is_held):
            return False
        if not isinstance(self._waiting.first(), DeflatedFrame):
            return True
        return self._inflated.may_inflate(self)

    # Frames.

    def _parse(self, connection: ChannelOwner) -> int:
        """Parse a slice of the input into frames; return the charge."""
        frames = self._frames
        if frames is None:
            self._rest.clear()
            return 0
        most = _most_bytes(connection)
        frames.max_message_size = most
        piece = self._rest[:_SLICE_BYTES]
        frames.receive_data(piece)
        del self._rest[:_SLICE_BYTES]
        frames.data_to_send()  # replies of the library are sent here instead, unmasked
        events = frames.events_received()
        for event in events:
            if isinstance(event, Frame):
                self._waiting.add(event, most)
        if frames.parser_exc is not None:
            self._error, frames.parser_exc = frames.parser_exc, None
            self._rest.clear()
        return len(piece) + len(events) * _FRAME_BYTES

    def _take(self, connection: ChannelOwner) -> int:
        """Take the next frame, or a piece of it; return the charge besides the parser's."""
        frame = self._waiting.first()
        if frame.opcode in CTRL_OPCODES:
            data = bytes(frame.data)
            self._waiting.drop_first()
            self._answer(frame.opcode, data, connection)
            return 0
        try:
            piece, cost = self._waiting.take()
        except (PayloadTooBig, ProtocolError) as error:
            self._fail(error, connection)
            return 0
        connection.channel.feed(piece)
        if isinstance(frame, DeflatedFrame):
            self._inflated.note(self, connection.channel.inbound.held_bytes())
        return cost

    def _answer(self, opcode: Opcode, data: bytes, connection: ChannelOwner) -> None:
        """Answer a ping or a close frame; input behind a close frame is ignored."""
        if opcode is Opcode.PING and self._below is not None:
            self._below.answer_ping(data)
        elif opcode is Opcode.CLOSE:
            self._forget_input()
            connection.channel.more_input = None
            if self._below is not None:
                self._below.control(Opcode.CLOSE, data)
            connection.channel.eof_received()

    def _fail(self, error: Exception, connection: ChannelOwner) -> None:
        """Close after invalid frames."""
        too_big = isinstance(error, PayloadTooBig)
        if too_big and connection.channel.parser.connect_required:
            connection.channel.host.limit_hits["bytes_before_authentication"] += 1
        reason = ClosedReason.MAXIMUM_PAYLOAD if too_big else ClosedReason.PROTOCOL_VIOLATION
        connection.close(reason)


class WebSocketProtocol(FrameProtocol):
    """The asyncio protocol of one client of a listener.

    `judge` makes an Upgrade of the request, and `make_connection` a Connection of both.
    """

    def __init__(
        self,
        judge: Callable[[UpgradeRequest, bool], Upgrade],
        make_connection: Callable[[UpgradeRequest], ChannelOwner],
        peer: tuple[str, int],
        inflated: InflatedBytes,
    ) -> None:
        super().__init__(inflated)
        self._judge = judge
        self._make_connection = make_connection
        self._peer = peer
        self.is_cut_off = False

    def cut_off(self, accepted: socket.socket) -> bool:
        """End the connection on the socket `accepted` unless it is upgraded; return whether it did.

        It does not answer a request that has been read in part.
        """
        if self.upgraded.done():
            return False
        self.is_cut_off = True
        if self._transport is None:
            shut(accepted)
        else:
            self._transport.abort()
        return True

    def _begin(self, head: bytes) -> None:
        """Answer the request; an upgrade makes the Connection."""
        transport = self._transport
        if transport is None or transport.is_closing() or self.is_cut_off:
            return
        self._settle()
        try:
            request = UpgradeRequest(head)
            upgrade = self._judge(request, self._tls is not None)
        except UpgradeRefusal as refusal:
            peer = f"{self._peer[0]}:{self._peer[1]}"
            log.error("websocket_refused", peer=peer, error=str(refusal))
            transport.write(refusal.answer())
            transport.close()
            return
        transport.write(upgrade.answer())
        self._exchange(
            transport,
            self._make_connection(request),
            Protocol(CLIENT if upgrade.unmasked else SERVER, max_size=_MAX_UNAUTHENTICATED_BYTES),
            upgrade.extensions(),
        )


def _most_bytes(connection: ChannelOwner) -> int:
    """Return the size that a message may inflate to: small before authentication."""
    if connection.channel.parser.connect_required:
        return _MAX_UNAUTHENTICATED_BYTES
    most = _MESSAGE_PAYLOADS * connection.channel.parser.max_payload
    return min(most, _MAX_MESSAGE_BYTES) if most > 0 else _MAX_MESSAGE_BYTES
