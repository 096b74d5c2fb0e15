"""One server's connections without a loop: a Broker, sockets by script, a clock by hand.

Memory that has no owner any more, such as a shared read buffer after the read, is overwritten, so
that a use of it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from midge.protocol.inbound import SharedBuffer
from midge.server.broker.broker import Broker
from midge.server.broker.server_keys import ServerKeys
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.fuzz.framing import Framing, damaged
from tests.fuzz.ledger import CHECKED_SUBJECTS, Ledger
from tests.fuzz.sockets import Socket
from tests.fuzz.traffic import Script, Step

Splitter = Callable[[bytes], Iterable[bytes]]

Outcome = tuple[list[bytes], tuple[int, int, int, int]]
"""What each connection was sent, in the order in which they came, and messages and bytes in and
out."""

KEYS = ServerKeys()
POISON = 0xA5


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
        framing: str = "",
    ) -> None:
        """Start a server; unless it `is_observed`, there is no ledger and no observer.

        If it `is_coalescing` it writes once for all sockets that are read in one round, as it does
        on a loop. The `framing` of its clients is one of `framing.FRAMINGS`, or none.
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
        self._framing = Framing(framing, self.broker, self.clock) if framing else None
        self._damage: Random | None = None  # of the next bytes
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
        return [socket.received() for socket in self.sockets], counts

    def _match_as_the_ledger_does(self) -> None:
        """Build the same results: where the turns of a queue group begin goes with their number."""
        for account in self.broker.accounts.values():
            for subject in CHECKED_SUBJECTS:
                account.sublist.match(subject)

    def take(self, step: Step, introductions: list[bytes], split: Splitter) -> None:
        """Do one step of a script, with its consequences."""
        match step:
            case ("pass", float(seconds)):
                self.clock.advance(seconds)
            case ("reload",):
                self.broker.prepare_reload(self.broker.options)()
                self.broker.router.flush()
            case ("garble", int(seed)):
                self._damage = Random(seed)
            case (kind, int(client), *rest):
                socket = self._socket_of(client, introductions, split)
                if socket.is_lost:
                    return  # it was sent away at once
                self._act(socket, kind, rest, split)
        self._settle()

    def _act(self, socket: Socket, kind: object, rest: list[object], split: Splitter) -> None:
        """Do one thing to a client that is there."""
        match kind, rest:
            case "feed", [bytes(data)]:
                self._feed(socket, data, split)
            case "eof", _:
                self._end(socket, split)
            case "lost", _:
                self._lose(socket)
            case "reset", _:
                self._lose(socket, ConnectionResetError())
            case "clog", [int(room)]:
                socket.clog(room)
            case "break", _:
                socket.is_broken = True
            case "drain", _:
                socket.drain()

    def _socket_of(self, client: int, introductions: list[bytes], split: Splitter) -> Socket:
        """Give the socket of a client; it comes again if the last one has ended."""
        socket = self._current.get(client)
        if socket is None or not socket.is_usable():
            socket = self._open(client, split)
            self._feed(socket, introductions[client], split)
        return socket

    def _open(self, client: int, split: Splitter) -> Socket:
        """Connect a client."""
        address = ("127.0.0.1", 1000 + client)
        self._split = split
        end = None if self._framing is None else self._framing.end(len(self.sockets))
        socket = Socket(is_tls=self._is_tls, end=end)
        self._current[client] = socket
        self.sockets.append(socket)
        if self._framing is not None:
            self._framing.open(socket, address, self._attend)
            self._arrive(socket, socket.open(), split)
            return socket
        connection = self.broker.make_connection(address)
        socket.protocol = connection.channel
        self._attend(socket, connection)
        connection.channel.connection_made(socket)
        if socket.connection is not None:
            connection.send_info()
            self.broker.router.flush()
        return socket

    def _attend(self, socket: Socket, connection: Connection) -> None:
        """Note the connection that a socket is of."""
        socket.connection = connection
        if self.ledger is not None:
            self.ledger.attend(connection, socket)

    def _feed(self, socket: Socket, data: bytes, split: Splitter) -> None:
        self._arrive(socket, data if socket.end is None else socket.end.send(data), split)

    def _arrive(self, socket: Socket, wire: bytes, split: Splitter) -> None:
        for piece in split(self._damaged(socket, wire)):
            if piece:
                socket.unread.append(piece)
                self._settle()

    def _damaged(self, socket: Socket, wire: bytes) -> bytes:
        """Return `wire`, damaged if it is to be damaged."""
        if not wire or self._damage is None:
            return wire
        socket.is_damaged()
        damage, self._damage = self._damage, None
        return damaged(wire, damage)

    def _end(self, socket: Socket, split: Splitter) -> None:
        """End a client's side, in one of the ways of its framing."""
        if socket.end is not None:
            socket.was_torn = True  # its answers may be dropped
            self._arrive(socket, socket.end.end(), split)
        socket.unread.append(None)

    def _settle(self) -> None:
        """Do what a loop would do until nothing is left to do at this time."""
        self.clock.advance(0)
        busy = True
        while busy:
            busy = False
            for socket in self.sockets:
                if socket.is_done():
                    self._lose(socket)
                    busy = True
                elif socket.may_be_read():
                    self._read(socket, socket.unread.popleft())
                    busy = True
                elif answer := socket.answer():
                    wire = self._damaged(socket, answer)
                    socket.unread.extend(piece for piece in self._split(wire) if piece)
                    busy = True
            if busy:
                self.clock.advance(0)
        self._raise_reported()

    def _read(self, socket: Socket, data: bytes | None) -> None:
        """Hand `data` to the connection, or to what it is framed by, as a loop does."""
        protocol = socket.protocol
        if data is None:
            if not protocol.eof_received():
                socket.close()
        elif not hasattr(protocol, "get_buffer"):
            protocol.data_received(data)
        else:
            room = protocol.get_buffer(-1)
            count = min(len(room), len(data))
            assert count > 0, "no room to read into"
            room[:count] = data[:count]
            protocol.buffer_updated(count)
            if count < len(data):
                socket.unread.appendleft(data[count:])
        self.broker.shared_buffer.view[:] = self._poison

    def _raise_reported(self) -> None:
        """Raise what a framing has caught."""
        if self._framing is not None and self._framing.loop.reported:
            context = self._framing.loop.reported.pop()
            raise AssertionError(context["message"]) from context.get("exception")

    def _lose(self, socket: Socket, error: Exception | None = None) -> None:
        """Close a socket, with the consequences that need no loop."""
        socket.lose(error)
        if self._framing is not None:
            self._framing.lost(socket)
        self.clock.advance(0)

    # The end.

    def _finish(self) -> None:
        """Disconnect every client, and check that nothing is left of them."""
        for socket in self.sockets:
            if not socket.is_lost:
                socket.drain()
                self._settle()
        for socket in self.sockets:
            if not socket.is_lost:
                self._lose(socket)
        self._settle()
        if self.ledger is not None:
            self.ledger.check_end(self.sockets)
