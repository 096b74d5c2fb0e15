"""A WebSocket as the transport of a Connection: writes become binary frames."""

import asyncio
from collections.abc import Callable
from typing import Any

from websockets.frames import Close, Frame, Opcode

from midge.server.channels.closed_reason import ClosedReason

_COMPRESS_FROM_BYTES = 64  # smaller frames cost more to compress than it saves
_LONGEST_REASON_BYTES = 123  # room in a control frame

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
"""Status codes of the close frame; a reason that is not here is an internal error."""


class WebSocketTransport:
    """The transport of a Connection: every write becomes one frame on the transport below.

    `resumed` is called when the Connection resumes reading after a pause. `is_masked` is True for
    a client's end, whose frames are masked.
    """

    def __init__(
        self,
        below: asyncio.Transport,
        extensions: list[Any],
        reason: Callable[[], Any],
        resumed: Callable[[], object] | None = None,
        *,
        is_masked: bool = False,
    ) -> None:
        self._below = below
        self._extensions = extensions
        self._reason = reason
        self._resumed = resumed
        self._is_masked = is_masked
        self._said_close = False
        self._is_lost = False
        self._pauses = set[str]()
        self._pong: bytes | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Send `data` in a binary frame, compressed if negotiated and worthwhile."""
        if self._said_close or self._is_lost:
            return
        extensions = self._extensions if len(data) > _COMPRESS_FROM_BYTES else []
        frame = Frame(Opcode.BINARY, bytes(data))
        self._below.write(frame.serialize(mask=self._is_masked, extensions=extensions))

    def control(self, opcode: Opcode, data: bytes) -> None:
        """Send a control frame."""
        if not (self._said_close or self._is_lost or self._below.is_closing()):
            self._said_close = opcode is Opcode.CLOSE
            self._below.write(Frame(opcode, data).serialize(mask=self._is_masked))

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
        """Send the delayed pong: the write buffer has drained."""
        data, self._pong = self._pong, None
        if data is not None:
            self.control(Opcode.PONG, data)

    def lost(self) -> None:
        """Stop writing and calling back: the transport below is lost."""
        self._is_lost = True
        self._resumed = None
        self._pauses.clear()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the socket has not taken yet."""
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the number of waiting bytes above which the writer is paused."""
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Pause reading."""
        self.pause("connection")

    def resume_reading(self) -> None:
        """Resume reading, with waiting frames first."""
        self.resume("connection")
        if self._resumed is not None:
            self._resumed()

    @property
    def is_held(self) -> bool:
        """Whether the Connection has paused reading."""
        return "connection" in self._pauses

    def pause(self, whose: str) -> None:
        """Pause reading for `whose` reason; reading resumes when all reasons have ended."""
        self._pauses.add(whose)
        if not (self._is_lost or self._below.is_closing()):
            self._below.pause_reading()

    def resume(self, whose: str) -> None:
        """End the pause of `whose`."""
        self._pauses.discard(whose)
        if not self._pauses and not self._below.is_closing():
            self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the transport below."""
        return self._below.get_extra_info(name, default)

    def can_write_eof(self) -> bool:
        """Return True: a close frame ends the output without closing the transport."""
        return True

    def write_eof(self) -> None:
        """Send the close frame, and read the input under way."""
        self._say_close()
        if self._below.can_write_eof():
            self._below.write_eof()

    def close(self) -> None:
        """Send the close frame, and close once everything is written."""
        self._say_close()
        self._below.close()

    def abort(self) -> None:
        """Close at once, dropping unsent output."""
        self._below.abort()

    def _say_close(self) -> None:
        reason = self._reason()
        code = CLOSE_CODES.get(reason, _INTERNAL_ERROR)
        text = reason.value.encode()[:_LONGEST_REASON_BYTES].decode() if reason else ""
        self.control(Opcode.CLOSE, Close(code, text).serialize())
