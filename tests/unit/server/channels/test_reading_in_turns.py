"""No connection is read, or worked for, so long in a row that the others wait."""

from __future__ import annotations

from random import Random

from midge.server.broker.broker import Broker
from midge.server.channels.fair_turns import BUSY_S, PORTION_BYTES
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.support.transports import Transport

CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
READ = b"PUB a 100\r\n" + b"x" * 100 + b"\r\n"
READ_BYTES = 256 * 1024
IN_A_ROW = 4  # such reads make 1 MiB


class Ticking(ManualClock):
    """A clock whose every look at it takes so long as `look_s` says."""

    look_s = 0.0

    def monotonic(self) -> float:
        self.advance_by(self.look_s)
        return super().monotonic()

    def advance_by(self, seconds: float) -> None:
        self._now_ns += round(seconds * 1e9)


def connected(kind: type[Connection] = Connection) -> tuple[Ticking, Connection, Transport]:
    clock = Ticking()
    broker = Broker(Options(), clock, Random(1))
    connection = kind(broker, 9, ("127.0.0.1", 1), "STANDARD")
    transport = Transport()
    connection.channel.connection_made(transport)
    connection.channel.feed(CONNECT)
    clock.advance(0)
    return clock, connection, transport


def read(connection: Connection) -> None:
    """Feed it one read that fills the buffer."""
    connection.channel.feed(READ * (READ_BYTES // len(READ) + 1))


def read_to_the_limit(connection: Connection) -> None:
    """Feed it as many of them as are read in a row."""
    for _ in range(IN_A_ROW):
        read(connection)


def test_four_full_reads_in_a_row_and_then_the_others() -> None:
    clock, connection, transport = connected()
    for _ in range(IN_A_ROW - 1):
        read(connection)
        assert transport.is_reading
    read(connection)
    assert not transport.is_reading
    clock.advance(0)
    assert transport.is_reading


class Sender:
    """A stream of such lines, as a loop reads it into the buffer that the channel offers."""

    def __init__(self, connection: Connection) -> None:
        self._channel = connection.channel
        self._sent = 0

    def send(self, room_left: int = 0) -> None:
        """Read as many bytes as the buffer takes, minus `room_left`."""
        room = self._channel.get_buffer(-1)
        count = len(room) - room_left
        start = self._sent % len(READ)
        room[:count] = (READ * (count // len(READ) + 2))[start : start + count]
        self._sent += count
        self._channel.buffer_updated(count)


def test_reads_that_leave_room_are_not_in_a_row() -> None:
    """After a read that leaves room a loop goes on to others by itself."""
    clock, connection, transport = connected()
    sender = Sender(connection)
    for _ in range(2 * IN_A_ROW):
        sender.send(room_left=len(READ))
        assert transport.is_reading
    for _ in range(IN_A_ROW):
        sender.send()
        assert transport.is_reading
    sender.send()  # what a piece of a line takes of the buffer is missing in the reads before
    assert not transport.is_reading
    clock.advance(0)
    assert transport.is_reading


def test_what_others_have_read_counts_in_any_case() -> None:
    """Pieces fed by a WebSocket, however small, do not show what its loop does next."""
    _, connection, transport = connected()
    Sender(connection).send(room_left=len(connection.channel.get_buffer(-1)) - len(READ))
    for _ in range(8 * IN_A_ROW - 1):
        connection.channel.feed(READ * (READ_BYTES // 8 // len(READ)))
        assert transport.is_reading
    for _ in range(2):
        connection.channel.feed(READ * (READ_BYTES // 8 // len(READ)))
    assert not transport.is_reading


def test_resting_is_a_reason_of_its_own() -> None:
    clock, connection, transport = connected()
    connection.channel.reading.hold_back()  # a receiver is far behind
    read_to_the_limit(connection)
    clock.advance(0)
    assert not transport.is_reading
    connection.channel.reading.release()
    assert transport.is_reading
    read_to_the_limit(connection)
    connection.channel.reading.hold_back()
    connection.channel.reading.release()
    assert not transport.is_reading
    clock.advance(0)
    assert transport.is_reading


def test_who_has_ended_while_resting_is_left_alone() -> None:
    clock, connection, transport = connected()
    read_to_the_limit(connection)
    transport.resume_reading = None  # type: ignore[assignment,method-assign]
    connection.channel.connection_lost(None)
    clock.advance(0)


def test_who_was_busy_for_long_waits_whatever_was_charged() -> None:
    clock, connection, _ = connected()
    clock.look_s = BUSY_S
    connection.channel.feed(b"PING\r\n" * (4 * PORTION_BYTES))
    assert connection.parser.halted
    clock.look_s = 0.0
    clock.advance(0)
    assert not connection.parser.halted


class Greedy(Connection):
    """What a connection would be that never leaves the others a turn."""

    def on_budget_spent(self) -> None:
        self.parser.budget = 1 << 40


def waits_for_others(kind: type[Connection]) -> bool:
    """Return whether such a connection stops within a flood that takes many turns."""
    _, connection, _ = connected(kind)
    connection.channel.feed(b"".join(b"SUB a.%d %d\r\n" % (i, i) for i in range(20_000)))
    return bool(connection.parser.halted)


def test_a_missing_turn_is_found() -> None:
    assert waits_for_others(Connection)
    assert not waits_for_others(Greedy)


def test_what_many_leave_behind_is_removed_in_turns() -> None:
    """A slice of each of them in one turn of the loop would make the others wait."""
    clock = ManualClock()
    broker = Broker(Options(), clock, Random(1))
    deep = b".a" * 500
    gone = []
    for i in range(40):
        connection = broker.make_connection(("127.0.0.1", 1))
        connection.channel.connection_made(Transport())
        lines = (b"SUB %d.%d%b.* %d\r\n" % (i, n, deep, n) for n in range(40))
        connection.channel.feed(CONNECT + b"".join(lines))
        while connection.parser.halted:
            clock.advance(0)
        gone.append(connection)
    sublist = broker.global_account.sublist
    for connection in gone:
        connection.channel.connection_lost(None)
    # A turn is enough for some 200 of these; all at once they were removed before.
    assert len(sublist) > 40 * 40 // 2
    clock.advance(0)
    assert len(sublist) == 0
