"""The transport of a plain TCP socket, which reads directly into the channel's buffer.

An event loop's own transport asks its protocol for a buffer and then reports how much it has read:
two calls from C, each with the interpreter's lock, a context, a method and boxed numbers. Here
``ready_sockets.py`` calls the transport when the socket is readable, and the read is a system call
into a known buffer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from midge.server.channels.channel import Channel
from midge.server.channels.ready_sockets import Readable, ReadySockets
from midge.server.routing import plain_socket

if TYPE_CHECKING:
    import asyncio

_NOTHING_YET = frozenset({errno.EAGAIN, errno.EWOULDBLOCK})


class PlainTransport(Readable):
    """Reads `connected` for `channel` and writes what Outbound could not; call `start` once.

    `sockets` call it when the socket is readable.

    It has the methods of an asyncio transport that a channel uses, with the same meaning, on any
    loop that can watch a socket. It closes `connected` after `connection_lost` of the channel.
    """

    __slots__ = (
        "_channel",
        "_descriptor",
        "_eof_is_due",
        "_has_ended",
        "_has_more",
        "_is_closing",
        "_is_lost",
        "_is_paused",
        "_is_sending",
        "_is_watched",
        "_loop",
        "_socket",
        "_sockets",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: ReadySockets,
        connected: socket.socket,
        channel: Channel,
    ) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self._sockets = sockets
        self._socket = connected
        self._descriptor = connected.fileno()
        self._channel: Channel | None = channel
        self._is_watched = False  # whether `sockets` watch the socket
        self._is_paused = False
        self._has_more = False  # whether unread bytes may remain after the last epoll event
        self._has_ended = False  # the peer has sent its last byte
        self._is_closing = False
        self._is_lost = False  # `connection_lost` was called, or is scheduled
        self._eof_is_due = False  # whether to close the writing side once all is written
        self._is_sending = False  # whether the loop watches for room to write
        self._waiting: deque[memoryview] | None = None  # made on first use, as it takes 600 bytes
        self._waiting_bytes = 0

    def start(self) -> None:
        """Call `connection_made` of the channel, and start reading."""
        assert self._channel is not None, "it has not been lost yet"
        self._channel.connection_made(self)
        if not self._is_paused:
            self.resume_reading()

    def get_extra_info(self, name: str) -> Any:
        """Return the socket by that name; nothing else is known."""
        return self._socket if name == "socket" else None

    # Reading.

    def on_readable(self, is_ending: bool) -> None:
        """Read as long as each read fills its buffer.

        The channel pauses reading when it is the turn of others.
        """
        if self._is_paused:
            self._has_more = True
            return
        assert self._channel is not None, "a lost transport is not watched"
        inbound = self._channel.inbound
        try:
            buffer = inbound.make_room()
            count = plain_socket.receive(self._descriptor, buffer, inbound.start, inbound.offered)
            self._go_on(count, is_ending)
        except Exception as error:  # noqa: BLE001 - a loop's own transports catch everything
            self._fail(error)

    def read_next(self, others: int, longest_ns: int) -> int:
        """Wait for input without sleep, and read it; see `Readable.read_next`."""
        if not (self._is_watched and self._may_read()):
            return 0
        assert self._channel is not None, "a lost transport is not watched"
        inbound = self._channel.inbound
        try:
            buffer = inbound.make_room()
            count = plain_socket.receive_next(
                self._descriptor, buffer, inbound.start, inbound.offered, others, longest_ns
            )
            if count == plain_socket.OTHERS_FIRST:
                return 0
            if count == plain_socket.NOTHING_CAME:
                return -1
            self._go_on(count, False)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
        return 1

    def _go_on(self, count: int, is_ending: bool) -> None:
        """Process the `count` received bytes, and read on while each read fills its buffer."""
        channel = self._channel
        assert channel is not None, "a lost transport is not read"
        inbound = channel.inbound
        while count > 0:
            offered = inbound.offered
            channel.buffer_updated(count)
            if count < offered and not is_ending:
                return
            if not self._may_read():
                self._has_more = True
                return
            buffer = inbound.make_room()
            count = plain_socket.receive_more(
                self._descriptor, buffer, inbound.start, inbound.offered
            )
        self._read_nothing(-count)

    def _may_read(self) -> bool:
        """Return whether the channel takes input."""
        return not (self._is_paused or self._is_closing)

    def _read_nothing(self, number: int) -> None:
        """Handle a read without bytes: 0 is the peer's end, `number` an errno, maybe EAGAIN."""
        if number in _NOTHING_YET:
            return
        if number:
            self._fail(OSError(number, os.strerror(number)))
            return
        self._has_ended = True
        self._unwatch()
        assert self._channel is not None, "a lost transport is not read"
        if not self._channel.eof_received():
            self.close()

    def pause_reading(self) -> None:
        """Stop reading."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Resume reading."""
        self._is_paused = False
        if self._has_ended or self._is_closing:
            return
        if not self._is_watched:
            self._is_watched = True
            self._sockets.watch(self._descriptor, self)
        elif self._has_more:
            self._has_more = False
            self._sockets.look_again(self._descriptor)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._sockets.forget(self._descriptor)

    # Writing.

    def get_write_buffer_size(self) -> int:
        """Count the bytes that the socket has not taken yet."""
        return self._waiting_bytes

    def set_write_buffer_limits(self, *, high: int) -> None:
        """Do nothing: `resume_writing` always waits for the last byte, as with `high` of 0."""

    def write(self, data: bytes | memoryview) -> None:
        """Send `data`, or keep it until the socket takes it; the caller must not change it."""
        if self._is_lost or not data:
            return
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(memoryview(data))
        self._waiting_bytes += len(data)
        if self._waiting_bytes == len(data):
            self._send_waiting()
            if self._waiting_bytes and not self._is_sending:
                self._is_sending = True
                self._loop.add_writer(self._descriptor, self._on_writable)

    def _send_waiting(self) -> None:
        """Send as much of the waiting data as the socket takes."""
        while self._waiting:
            piece = self._waiting[0]
            try:
                sent = self._socket.send(piece)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._fail(error)
                return
            self._waiting_bytes -= sent
            if sent < len(piece):
                self._waiting[0] = piece[sent:]
                return
            self._waiting.popleft()
        self._waiting = None

    def _on_writable(self) -> None:
        """Send on, and call `resume_writing` of the channel when everything is sent."""
        self._send_waiting()
        if not self._is_drained():
            return
        assert self._channel is not None, "its loss is reported last"
        try:
            self._channel.resume_writing()  # the channel may write more
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
        if not self._is_drained():
            return
        self._stop_sending()
        if self._is_closing:
            self._lose(None)
        elif self._eof_is_due:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def _is_drained(self) -> bool:
        """Return whether everything is sent and the transport is not lost."""
        return self._waiting_bytes == 0 and not self._is_lost

    def _stop_sending(self) -> None:
        if self._is_sending:
            self._is_sending = False
            self._loop.remove_writer(self._descriptor)

    # The end.

    def can_write_eof(self) -> bool:
        """Return True: the writing side can be closed alone."""
        return True

    def write_eof(self) -> None:
        """Close the writing side once everything is written; reading continues.

        Raises:
            OSError: the peer has gone.
        """
        if self._eof_is_due or self._is_lost:
            return
        self._eof_is_due = True
        if not self._waiting_bytes:
            self._socket.shutdown(socket.SHUT_WR)

    def is_closing(self) -> bool:
        """Return whether it is closed, or will be once everything is written."""
        return self._is_closing

    def close(self) -> None:
        """Close, once everything is written."""
        if not self._is_closing:
            self._is_closing = True
            self._unwatch()
            if not self._waiting_bytes:
                self._lose(None)

    def abort(self) -> None:
        """Close at once."""
        self._lose(None)

    def _fail(self, error: Exception) -> None:
        """Close at once for an error, and report it unless it is the network's."""
        if not isinstance(error, OSError):
            self._loop.call_exception_handler(
                {"message": "Fatal error on transport", "exception": error, "transport": self}
            )
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        """Schedule `connection_lost` of the channel for the next turn of the loop."""
        if self._is_lost:
            return
        self._is_closing = self._is_lost = True
        self._unwatch()
        self._stop_sending()
        self._waiting = None
        self._waiting_bytes = 0
        self._loop.call_soon(self._report_lost, error)

    def _report_lost(self, error: Exception | None) -> None:
        channel, self._channel = self._channel, None
        try:
            if channel is not None:
                channel.connection_lost(error)
        finally:
            self._socket.close()
