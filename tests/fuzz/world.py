"""One server's connections without a loop: a Broker, sockets by script, a clock by hand.

The sockets behave as those of asyncio and uvloop do where the server could notice: what they have
not sent they keep without copying it, callbacks come later and not from inside a call, except that
a TLS transport may tell from inside `write` that it has caught up. What is no longer anybody's,
like a shared read buffer after the read, is overwritten, so that a use of it shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random

from midge.protocol.inbound import SharedBuffer
from midge.server.broker.broker import Broker
from midge.server.broker.server_keys import ServerKeys
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.fuzz.ledger import CHECKED_SUBJECTS, Ledger
from tests.fuzz.traffic import Script, Step

Splitter = Callable[[bytes], Iterable[bytes]]

Outcome = tuple[list[bytes], tuple[int, int, int, int]]
"""What each connection was sent, in the order in which they came, and messages and bytes in and
out."""

KEYS = ServerKeys()
POISON = 0xA5


class Socket:
    """A transport; `room` bytes are still taken, None for any number."""

    def __init__(self, *, is_tls: bool) -> None:
        self.connection: Connection | None = None
        self.sent = bytearray()
        self.unread: deque[bytes | None] = deque()  # None is the end
        self.is_reading = True
        self.is_closing = False
        self.is_lost = False
        self.is_broken = False
        self.was_torn = False  # whether something it was given never left
        self._room: int | None = None
        self._kept: deque[memoryview] = deque()
        self._kept_bytes = 0
        self._is_tls = is_tls
        self._said_eof = False

    # What the server calls.

    def write(self, data: bytes | memoryview) -> None:
        assert len(data) > 0, "wrote nothing"
        if self.is_lost:
            return  # as asyncio does
        is_last_word_said = self.is_closing or self._said_eof
        assert not is_last_word_said, "wrote after it"
        assert self.connection is not None
        if self.is_broken:
            self.was_torn = True
            self.abort()
            return
        self._kept.append(memoryview(data))
        self._kept_bytes += len(data)
        if self._is_tls:
            self.connection.channel.pause_writing()
        self._send()
        if self._kept_bytes:
            self.connection.channel.pause_writing()
        elif self._is_tls:
            self.connection.channel.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self._kept_bytes

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def get_extra_info(self, name: str) -> None:
        return None

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
        self.is_closing = True

    def abort(self) -> None:
        self.is_closing = True
        self._forget()

    # What the script does.

    def clog(self, room: int) -> None:
        """Take `room` bytes more, and then none."""
        self._room = room

    def drain(self) -> None:
        """Take everything again."""
        self._room = None
        had_kept = self._kept_bytes > 0
        self._send()
        if had_kept and self.connection is not None and not self.is_lost:
            self.connection.channel.resume_writing()

    def is_done(self) -> bool:
        """Tell whether the loop would now tell the connection that it is lost."""
        return self.is_closing and not self.is_lost and not self._kept_bytes

    def lose(self, error: Exception | None = None) -> None:
        """Tell the connection that this transport is gone."""
        connection = self.connection
        assert connection is not None
        self.is_lost = True
        self.is_closing = True
        self.was_torn = self.was_torn or connection.outbound.pending_bytes() > 0
        self._forget()
        connection.channel.connection_lost(error)
        assert connection.outbound.pending_bytes() == 0
        self.connection = None

    def _forget(self) -> None:
        self.was_torn = self.was_torn or self._kept_bytes > 0
        self._kept.clear()
        self._kept_bytes = 0

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


class World:
    """A Broker and its clients, by the number that a script gives them."""

    def __init__(
        self,
        options: Options,
        *,
        read_bytes: int = 512,
        is_tls: bool = False,
        is_observed: bool = True,
        is_coalescing: bool = False,
    ) -> None:
        """Start a server; unless it `is_observed` there is no ledger, and no message is told of.

        If it `is_coalescing` it writes once for all sockets that are read in one round, as it does
        on a loop.
        """
        self.clock = ManualClock()
        soon = (lambda flush: self.clock.call_later(0, flush)) if is_coalescing else None
        self.broker = Broker(options, self.clock, Random(1), soon)
        self.broker.keys = KEYS  # the same in every world, since INFO shows them
        self.broker.shared_buffer = SharedBuffer(read_bytes)
        self.ledger = Ledger(self.broker) if is_observed else None
        self.sockets: list[Socket] = []
        self._current: dict[int, Socket] = {}
        self._is_tls = is_tls
        self._poison = bytes([POISON]) * read_bytes

    def play(self, script: Script, split: Splitter) -> Outcome:
        """Do what `script` says; give what each connection was sent, and the counts of all."""
        for step in script.steps:
            self.take(step, script.introductions, split)
            if self.ledger is None:
                self._match_as_the_ledger_does()
            else:
                self.ledger.check()
        self._finish()
        counted = self.broker.totals
        counts = (
            counted.in_messages,
            counted.in_bytes,
            counted.out_messages,
            counted.out_bytes,
        )
        return [bytes(socket.sent) for socket in self.sockets], counts

    def _match_as_the_ledger_does(self) -> None:
        """Build the same results: where the turns of a queue group begin goes with their number."""
        for account in self.broker.accounts.values():
            for subject in CHECKED_SUBJECTS:
                account.sublist.match(subject)

    def take(self, step: Step, introductions: list[bytes], split: Splitter) -> None:
        """Do one thing of a script, and what comes of it."""
        match step:
            case ("pass", float(seconds)):
                self.clock.advance(seconds)
            case ("reload",):
                self.broker.prepare_reload(self.broker.options)()
                self.broker.router.flush()
            case (kind, int(client), *rest):
                socket = self._socket_of(client, introductions, split)
                if socket.is_lost:
                    return  # it was sent away at once
                match kind, rest:
                    case "feed", [bytes(data)]:
                        self._feed(socket, data, split)
                    case "eof", _:
                        socket.unread.append(None)
                    case "lost", _:
                        socket.lose()
                    case "reset", _:
                        socket.lose(ConnectionResetError())
                    case "clog", [int(room)]:
                        socket.clog(room)
                    case "break", _:
                        socket.is_broken = True
                    case "drain", _:
                        socket.drain()
        self._settle()

    def _socket_of(self, client: int, introductions: list[bytes], split: Splitter) -> Socket:
        """Give the socket of a client; it comes again if the last one has ended."""
        socket = self._current.get(client)
        connection = None if socket is None else socket.connection
        if socket is not None and connection is not None and connection.reason is None:
            return socket
        socket = Socket(is_tls=self._is_tls)
        connection = self.broker.make_connection(("127.0.0.1", 1000 + client))
        socket.connection = connection
        self._current[client] = socket
        self.sockets.append(socket)
        if self.ledger is not None:
            self.ledger.attend(connection, socket)
        connection.channel.connection_made(socket)
        if socket.connection is not None:
            connection.send_info()
            self.broker.router.flush()
        self._feed(socket, introductions[client], split)
        return socket

    def _feed(self, socket: Socket, data: bytes, split: Splitter) -> None:
        for piece in split(data):
            if piece:
                socket.unread.append(piece)
                self._settle()

    def _settle(self) -> None:
        """Do what a loop would do until nothing is left to do at this time."""
        self.clock.advance(0)
        busy = True
        while busy:
            busy = False
            for socket in self.sockets:
                if socket.is_done():
                    socket.lose()
                    busy = True
                elif socket.unread and socket.is_reading and not socket.is_lost:
                    self._read(socket, socket.unread.popleft())
                    busy = True
            if busy:
                self.clock.advance(0)

    def _read(self, socket: Socket, data: bytes | None) -> None:
        """Hand `data` to the connection as a BufferedProtocol gets it."""
        connection = socket.connection
        assert connection is not None
        if data is None:
            if not connection.channel.eof_received():
                socket.close()
            return
        room = connection.channel.get_buffer(-1)
        count = min(len(room), len(data))
        assert count > 0, "no room to read into"
        room[:count] = data[:count]
        connection.channel.buffer_updated(count)
        self.broker.shared_buffer.view[:] = self._poison
        if count < len(data):
            socket.unread.appendleft(data[count:])

    # The end.

    def _finish(self) -> None:
        """Disconnect every client, and check that nothing is left of them."""
        for socket in self.sockets:
            if not socket.is_lost:
                socket.drain()
                self._settle()
        for socket in self.sockets:
            if not socket.is_lost:
                socket.lose()
        self._settle()
        if self.ledger is not None:
            self.ledger.check_end(self.sockets)
