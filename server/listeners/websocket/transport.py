"""A WebSocket as the transport of a Connection: what is written becomes binary frames."""

import asyncio
from collections.abc import Callable
from typing import Any

from websockets.frames import Close, Frame, Opcode

from midge.server.clients.closed_reason import ClosedReason

_COMPRESS_FROM_BYTES = 64  # below it compression costs more than it saves
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


class WebSocketTransport:
    """What a Connection writes to: every write becomes one frame on the transport below.

    `resumed` is called when the Connection, which has paused reading, reads on.
    """

    def __init__(
        self,
        below: asyncio.Transport,
        extensions: list[Any],
        reason: Callable[[], Any],
        resumed: Callable[[], object] | None = None,
    ) -> None:
        self._below = below
        self._extensions = extensions
        self._reason = reason
        self._resumed = resumed
        self._said_close = False
        self._is_lost = False
        self._pauses = set[str]()
        self._pong: bytes | None = None

    def write(self, data: memoryview) -> None:
        """Send `data` in a binary frame, compressed if that was agreed and is worth it."""
        if self._said_close or self._is_lost:
            return
        extensions = self._extensions if len(data) > _COMPRESS_FROM_BYTES else []
        frame = Frame(Opcode.BINARY, bytes(data))
        self._below.write(frame.serialize(mask=False, extensions=extensions))

    def control(self, opcode: Opcode, data: bytes) -> None:
        """Send a control frame."""
        if not (self._said_close or self._is_lost or self._below.is_closing()):
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

    def lost(self) -> None:
        """Write nothing more and call nothing: the transport below is gone."""
        self._is_lost = True
        self._resumed = None
        self._pauses.clear()

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
        """Read on, what waits in frames first."""
        self.resume("connection")
        if self._resumed is not None:
            self._resumed()

    @property
    def is_held(self) -> bool:
        """Whether the Connection has paused reading."""
        return "connection" in self._pauses

    def pause(self, whose: str) -> None:
        """Read nothing more until everybody who paused has resumed."""
        self._pauses.add(whose)
        if not (self._is_lost or self._below.is_closing()):
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
