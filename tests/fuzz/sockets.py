"""Sockets by script: what a server's transport does, without a loop.

They behave as those of asyncio and uvloop do where the server could notice: what they have not sent
they keep without copying it, callbacks come later and not from inside a call, except that a TLS
transport may report from inside `write` that it has caught up.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from midge.server.clients.connection import Connection
from tests.fuzz.framing import PlainEnd


class Socket:
    """A transport; `room` bytes are still taken, None for any number.

    `end` is the client's side of the framing or encryption. A socket below such a framing is as
    lenient as asyncio's: it drops data that is written after it is closed.
    """

    def __init__(self, *, is_tls: bool, end: PlainEnd | None = None) -> None:
        self.connection: Connection | None = None
        self.protocol: Any = None  # what a loop would call
        self.end = end
        self.sent = bytearray()
        self.unread: deque[bytes | None] = deque()  # None is the end
        self.is_reading = True
        self.ends = False  # closed by the server
        self.is_lost = False
        self.is_broken = False
        self._has_failed = False  # broken, and found to be by a write
        self.was_torn = False  # whether something it was given never left
        self._taken = 0  # bytes of the sent data that `end` has taken
        self._is_paused = False
        self._room: int | None = None
        self._kept: deque[memoryview] = deque()
        self._kept_bytes = 0
        self._is_tls = is_tls
        self._said_eof = False

    # What the server calls.

    def write(self, data: bytes | memoryview) -> None:
        assert len(data) > 0, "wrote nothing"
        is_last_word_said = self.ends or self._said_eof
        if self.is_lost or self._has_failed or (is_last_word_said and self.end is not None):
            return  # as asyncio does
        assert not is_last_word_said, "wrote after it"
        if self.is_broken:
            self.was_torn = self._has_failed = True
            self.abort()
            return
        self._kept.append(memoryview(data))
        self._kept_bytes += len(data)
        if self._is_tls:
            self._pause()
        self._send()
        if self._kept_bytes:
            self._pause()
        elif self._is_tls:
            self._resume()

    def get_write_buffer_size(self) -> int:
        return self._kept_bytes

    def set_write_buffer_limits(self, high: int | None, low: int | None = None) -> None:
        assert high == 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def is_closing(self) -> bool:
        return self.ends

    def can_write_eof(self) -> bool:
        return not self._is_tls

    def write_eof(self) -> None:
        assert not self._is_tls
        self._said_eof = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.ends = True

    def abort(self) -> None:
        self.ends = True
        self._forget()

    def _force_close(self, error: Exception | None) -> None:
        self.abort()  # asyncio's SSL protocol calls this

    # What the script does.

    def clog(self, room: int) -> None:
        """Take `room` bytes more, and then none."""
        self._room = room

    def drain(self) -> None:
        """Take everything again."""
        self._room = None
        self._send()
        if not self.is_lost:
            self._resume()

    def is_done(self) -> bool:
        """Return whether the loop would now report to the connection that it is lost."""
        return self.ends and not self.is_lost and not self._kept_bytes

    def may_be_read(self) -> bool:
        """Return whether the loop would read: it does not read on behalf of a framing that ends."""
        is_over = self.ends and self.end is not None
        return bool(self.unread) and self.is_reading and not self.is_lost and not is_over

    def is_usable(self) -> bool:
        """Return whether the client may go on using it."""
        if self.is_lost or (self.connection is None and (self.end is None or self.ends)):
            return False
        return self.connection is None or self.connection.reason is None

    def open(self) -> bytes:
        """Return what the client's side of the framing begins with."""
        assert self.end is not None
        return self.end.open()

    def is_damaged(self) -> None:
        """Note that what the client sends does not arrive as it was."""
        self.was_torn = True
        if self.end is not None:
            self.end.is_damaged = True

    def answer(self) -> bytes:
        """Return the answer of the client's side of the framing to the data sent since."""
        new, self._taken = bytes(self.sent[self._taken :]), len(self.sent)
        return self.end.receive(new) if self.end is not None and new else b""

    def received(self) -> bytes:
        """Return what the client makes of what it was sent."""
        return bytes(self.sent if self.end is None else self.end.received)

    def lose(self, error: Exception | None = None) -> None:
        """Report to the connection that this transport is gone."""
        connection = self.connection
        self.is_lost = True
        self.ends = True
        if connection is not None and connection.outbound.pending_bytes() > 0:
            self.was_torn = True
        self._forget()
        self.protocol.connection_lost(error)
        self.protocol = self.connection = None
        if connection is not None and self.end is None:
            assert connection.outbound.pending_bytes() == 0

    def _forget(self) -> None:
        self.was_torn = self.was_torn or self._kept_bytes > 0
        self._kept.clear()
        self._kept_bytes = 0

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.protocol.resume_writing()

    def _send(self) -> None:
        """Send what there is room for."""
        while self._kept and self._room != 0:
            piece = self._kept.popleft()
            taken = len(piece) if self._room is None else min(len(piece), self._room)
            self.sent += piece[:taken]
            self._kept_bytes -= taken
            if self._room is not None:
                self._room -= taken
            if taken < len(piece):
                self._kept.appendleft(piece[taken:])
