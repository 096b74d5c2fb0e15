"""A WebSocket as the transport of a Connection: bytes in and out of binary frames.

Frames are parsed by the sans-I/O protocol of the `websockets` library, which also bounds what a
compressed message may inflate to.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from websockets.exceptions import PayloadTooBig
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Protocol

from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.clients.fair_turns import PORTION_BYTES, FairTurns
from midge.server.listeners.websocket.upgrade_request import (
    MAX_HEAD_BYTES,
    Refusal,
    Request,
    Upgrade,
)
from midge.server.log.logger import get_logger

_DATA = frozenset({Opcode.BINARY, Opcode.TEXT, Opcode.CONT})
_COMPRESS_FROM_BYTES = 64  # below it compression costs more than it saves
_MESSAGE_PAYLOADS = 8  # payloads of the largest size that fit one WebSocket message
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_MAX_UNAUTHENTICATED_BYTES = 64 * 1024
_SLICE_BYTES = 4 * 1024  # taken at a time
_FRAME_BYTES = 32 * 1024  # what a frame uses up of a turn
_LONGEST_REASON_BYTES = 123  # what a control frame has room for

_NORMAL = 1000
_GOING_AWAY = 1001
_PROTOCOL_ERROR = 1002
_POLICY_VIOLATION = 1008
_TOO_BIG = 1009
_INTERNAL_ERROR = 1011
_TLS_HANDSHAKE = 1015

CLOSE_CODES = {
    ClosedReason.CLIENT_CLOSED: _NORMAL,
    ClosedReason.SERVER_SHUTDOWN: _GOING_AWAY,
    ClosedReason.STALE_CONNECTION: _GOING_AWAY,
    ClosedReason.READ_ERROR: _GOING_AWAY,
    ClosedReason.WRITE_ERROR: _GOING_AWAY,
    ClosedReason.PROTOCOL_VIOLATION: _PROTOCOL_ERROR,
    ClosedReason.BAD_CLIENT_PROTOCOL: _PROTOCOL_ERROR,
    ClosedReason.MAXIMUM_PAYLOAD: _TOO_BIG,
    ClosedReason.TLS_HANDSHAKE_FAILURE: _TLS_HANDSHAKE,
    ClosedReason.AUTHENTICATION_TIMEOUT: _POLICY_VIOLATION,
    ClosedReason.AUTHENTICATION_FAILURE: _POLICY_VIOLATION,
    ClosedReason.AUTHENTICATION_EXPIRED: _POLICY_VIOLATION,
    ClosedReason.CREDENTIALS_REVOKED: _POLICY_VIOLATION,
    ClosedReason.MISSING_ACCOUNT: _POLICY_VIOLATION,
    ClosedReason.MAXIMUM_CONNECTIONS: _POLICY_VIOLATION,
    ClosedReason.MAXIMUM_ACCOUNT_CONNECTIONS: _POLICY_VIOLATION,
    ClosedReason.MAXIMUM_CONTROL_LINE: _POLICY_VIOLATION,
    ClosedReason.MAXIMUM_SUBSCRIPTIONS: _POLICY_VIOLATION,
    ClosedReason.SLOW_CONSUMER_PENDING: _POLICY_VIOLATION,
    ClosedReason.SLOW_CONSUMER_DEADLINE: _POLICY_VIOLATION,
}
"""What the close frame says; a reason that is not here is an internal error."""

log = get_logger()


class WebSocketTransport:
    """What a Connection writes to: every write becomes one frame on the transport below."""

    def __init__(
        self, below: asyncio.Transport, extensions: list[Any], reason: Callable[[], Any]
    ) -> None:
        self._below = below
        self._extensions = extensions
        self._reason = reason
        self._said_close = False
        self._pauses = set[str]()
        self._pong: bytes | None = None

    def write(self, data: memoryview) -> None:
        """Send `data` in a binary frame, compressed if that was agreed and is worth it."""
        extensions = self._extensions if len(data) > _COMPRESS_FROM_BYTES else []
        frame = Frame(Opcode.BINARY, bytes(data))
        self._below.write(frame.serialize(mask=False, extensions=extensions))

    def control(self, opcode: Opcode, data: bytes) -> None:
        """Send a control frame."""
        if not self._said_close and not self._below.is_closing():
            self._said_close = opcode is Opcode.CLOSE
            self._below.write(Frame(opcode, data).serialize(mask=False))

    def answer_ping(self, data: bytes) -> None:
        """Send a pong; while the client does not read, only its last ping is answered.

        RFC 6455, 5.5.3: "may elect to send a Pong frame for only the most recently processed Ping
        frame".
        """
        if self._below.get_write_buffer_size():
            self._pong = data
        else:
            self.control(Opcode.PONG, data)

    def caught_up(self) -> None:
        """Send the pong that has waited; the socket has taken everything before it."""
        data, self._pong = self._pong, None
        if data is not None:
            self.control(Opcode.PONG, data)

    def get_write_buffer_size(self) -> int:
        """Count the bytes that the socket has not taken yet."""
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say from how many waiting bytes on the writer is told to pause."""
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Read nothing more for now."""
        self.pause("connection")

    def resume_reading(self) -> None:
        """Read on."""
        self.resume("connection")

    def pause(self, whose: str) -> None:
        """Read nothing more until everybody who paused has resumed."""
        self._pauses.add(whose)
        if not self._below.is_closing():
            self._below.pause_reading()

    def resume(self, whose: str) -> None:
        """Read on, for all that `whose` pause was about."""
        self._pauses.discard(whose)
        if not self._pauses and not self._below.is_closing():
            self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Tell about the transport below."""
        return self._below.get_extra_info(name, default)

    def can_write_eof(self) -> bool:
        """Tell that the end can be said without closing: by a close frame."""
        return True

    def write_eof(self) -> None:
        """Say the end, and read on for what is under way."""
        self._say_close()
        if self._below.can_write_eof():
            self._below.write_eof()

    def close(self) -> None:
        """Say the end and close once everything is written."""
        self._say_close()
        self._below.close()

    def abort(self) -> None:
        """Close now, whatever waits."""
        self._below.abort()

    def _say_close(self) -> None:
        reason = self._reason()
        code = CLOSE_CODES.get(reason, _INTERNAL_ERROR)
        text = reason.value.encode()[:_LONGEST_REASON_BYTES].decode() if reason else ""
        self.control(Opcode.CLOSE, Close(code, text).serialize())


class WebSocketProtocol(asyncio.Protocol):
    """One client of a WebSocket listener, from its HTTP request on.

    `judge` turns the request into an Upgrade, and `make_connection` the two into a Connection.
    """

    def __init__(
        self,
        judge: Callable[[Request, bool], Upgrade],
        make_connection: Callable[[Request], Connection],
        peer: tuple[str, int],
    ) -> None:
        self._judge = judge
        self._make_connection = make_connection
        self._peer = peer
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._below: WebSocketTransport | None = None
        self._frames: Protocol | None = None
        self._connection: Connection | None = None
        self._rest = b""
        self.upgraded = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Start; asyncio calls this once."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take what has been read."""
        if self._rest:
            self._rest += data  # in order, should the transport not heed a pause at once
            return
        if self._connection is not None:
            self._receive(data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end >= 0:
            head, rest = bytes(self._head[:end]), bytes(self._head[end + 4 :])
            self._head = bytearray()
            self._begin(head, rest)
        elif len(self._head) > MAX_HEAD_BYTES:
            self._refuse_quietly()

    def eof_received(self) -> bool:
        """Hear that the client sends no more."""
        if self._connection is None:
            return False
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the transport is gone."""
        self._settle()
        if self._connection is not None:
            self._connection.connection_lost(exc)
        # The library's parser is a circle, and may hold a message that nobody wants any more.
        self._frames = self._below = None
        self._rest = b""

    def pause_writing(self) -> None:
        """Hear that the socket is full."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Hear that the socket has taken everything."""
        if self._below is not None:
            self._below.caught_up()
        if self._connection is not None:
            self._connection.resume_writing()

    # The upgrade.

    def _begin(self, head: bytes, rest: bytes) -> None:
        """Answer the request; when it is an upgrade, be a Connection from now on."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._settle()
        try:
            request = Request(head)
            encrypted = transport.get_extra_info("ssl_object") is not None
            upgrade = self._judge(request, encrypted)
        except Refusal as refusal:
            peer = f"{self._peer[0]}:{self._peer[1]}"
            log.error("websocket_refused", peer=peer, error=str(refusal))
            transport.write(refusal.answer())
            transport.close()
            return
        transport.write(upgrade.answer())
        self._frames = Protocol(
            CLIENT if upgrade.unmasked else SERVER, max_size=_MAX_UNAUTHENTICATED_BYTES
        )
        self._frames.extensions = list(upgrade.extensions())
        connection = self._make_connection(request)
        self._connection = connection
        self._below = WebSocketTransport(
            transport, self._frames.extensions, lambda: connection.reason
        )
        self._below.write(memoryview(connection.broker.info_line(connection)))
        connection.has_info = True
        connection.connection_made(self._below)
        if rest:
            self._receive(rest)

    def _refuse_quietly(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _settle(self) -> None:
        """Note that the time for the request is no longer needed."""
        if not self.upgraded.done():
            self.upgraded.set_result(None)

    # Frames.

    def _receive(self, data: bytes, turn_bytes: int = PORTION_BYTES) -> None:
        """Take frames; when the turn is over, the rest waits until others had theirs."""
        frames, connection, below = self._frames, self._connection, self._below
        if frames is None or connection is None or below is None:
            return
        turns = connection.broker.turns
        for start in range(0, len(data), _SLICE_BYTES):
            if connection.reason is not None:
                return
            if turn_bytes <= 0 and not (turn_bytes := turns.draw()):
                self._rest = data[start:]
                below.pause("frames")
                turns.wait(partial(self._take_turn, turns))
                return
            count = self._take(data[start : start + _SLICE_BYTES], frames, connection, below)
            turn_bytes -= count * _FRAME_BYTES
        if turn_bytes > PORTION_BYTES:
            turns.give_back(turn_bytes)

    def _take_turn(self, turns: FairTurns) -> None:
        """Go on with the frames that wait."""
        rest, self._rest = self._rest, b""
        if self._below is not None:
            self._below.resume("frames")
        self._receive(rest, turns.share())

    def _take(
        self, data: bytes, frames: Protocol, connection: Connection, below: WebSocketTransport
    ) -> int:
        """Hand the bytes of the frames in `data` to the Connection; count the frames."""
        frames.max_message_size = self._most_bytes(connection)
        frames.receive_data(data)
        frames.data_to_send()  # what the library would answer is answered here, unmasked
        events = frames.events_received()
        for event in events:
            if not isinstance(event, Frame):
                continue
            if event.opcode in _DATA:
                connection.feed(bytes(event.data))
            elif event.opcode is Opcode.PING:
                below.answer_ping(bytes(event.data))
            elif event.opcode is Opcode.CLOSE:
                below.control(Opcode.CLOSE, bytes(event.data))
                connection.eof_received()
        if frames.parser_exc is not None:
            self._fail(frames.parser_exc, connection)
        return len(events)

    def _fail(self, error: Exception, connection: Connection) -> None:
        """End on frames that cannot be."""
        error.__traceback__ = None  # its frames hold what came
        too_big = isinstance(error, PayloadTooBig)
        if too_big and connection.parser.connect_required:
            connection.broker.limit_hits["bytes_before_authentication"] += 1
        reason = ClosedReason.MAXIMUM_PAYLOAD if too_big else ClosedReason.PROTOCOL_VIOLATION
        connection.close(reason)

    def _most_bytes(self, connection: Connection) -> int:
        """Give the size that a message may inflate to: little until it is known who sends it."""
        if connection.parser.connect_required:
            return _MAX_UNAUTHENTICATED_BYTES
        most = _MESSAGE_PAYLOADS * connection.parser.max_payload
        return min(most, _MAX_MESSAGE_BYTES) if most > 0 else _MAX_MESSAGE_BYTES
