"""Back-pressure, over a transport whose socket takes what the test says, by a manual clock."""

from __future__ import annotations

from random import Random

import pytest

from midge.server.broker.broker import Broker
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.config.options import Limits, Options
from midge.testing import ManualClock
from tests.support.transports import Transport

PENDING_BYTES = 100_000
DEADLINE_S = 5.0
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
MESSAGE = b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n"


class Socket(Transport):
    """A transport that keeps its output while it is `full`."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.kept = 0
        self.aborted = False

    def write(self, data: bytes | memoryview) -> None:
        if self.full:
            self.kept += len(data)

    def get_write_buffer_size(self) -> int:
        return self.kept

    def abort(self) -> None:
        self.aborted = True


class Fixture:
    """A broker with a publisher and a receiver of "a"."""

    def __init__(self, **limits: object) -> None:
        self.clock = ManualClock()
        limits = {"max_pending_bytes": PENDING_BYTES, "write_deadline_s": DEADLINE_S, **limits}
        self.broker = Broker(Options(limits=Limits(**limits)), self.clock, Random(1))
        self.receiver, self.socket = self.connect()
        self.receiver.channel.feed(b"SUB a 1\r\n")
        self.publisher, self.publishing = self.connect()

    def connect(self) -> tuple[Connection, Socket]:
        connection = self.broker.make_connection(("127.0.0.1", 1))
        socket = Socket()
        connection.channel.connection_made(socket)
        connection.channel.feed(CONNECT)
        assert connection.introduced
        return connection, socket

    def publish(self, times: int = 1) -> None:
        self.publisher.channel.feed(MESSAGE * times)

    def publish_until_held(self) -> None:
        while self.publishing.is_reading:
            self.publish()

    def fall_behind(self) -> None:
        self.socket.full = True
        self.publish()
        assert self.receiver.outbound.behind

    def drain(self) -> None:
        self.socket.full = False
        self.socket.kept = 0
        self.receiver.channel.resume_writing()


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_slow_consumer_is_cut_at_its_limit(fixture: Fixture) -> None:
    fixture.fall_behind()
    for _ in range(200):
        fixture.publish()
        fixture.clock.advance(0.01)
        if fixture.receiver.reason is not None:
            break
        assert fixture.receiver.outbound.pending_bytes() <= PENDING_BYTES + 2000
    assert fixture.receiver.reason is ClosedReason.SLOW_CONSUMER_PENDING
    assert fixture.socket.aborted
    assert fixture.receiver.outbound.pending_bytes() == 0
    assert fixture.broker.totals.slow_consumers == 1
    assert fixture.publisher.reason is None


def test_who_keeps_up_is_never_cut(fixture: Fixture) -> None:
    fixture.publish(500)
    assert fixture.receiver.reason is None
    assert fixture.receiver.out_messages == 500
    assert fixture.broker.stalled_clients == 0


def test_producer_is_held_until_the_receiver_has_caught_up(fixture: Fixture) -> None:
    fixture.fall_behind()
    assert fixture.publishing.is_reading
    fixture.publish(80)
    assert not fixture.publishing.is_reading
    assert fixture.broker.stalled_clients == 1
    fixture.drain()
    assert fixture.publishing.is_reading
    fixture.publish()
    assert fixture.publishing.is_reading
    assert fixture.receiver.out_messages == 82


def test_producer_is_held_for_a_moment_only(fixture: Fixture) -> None:
    fixture.fall_behind()
    fixture.publish(80)
    assert not fixture.publishing.is_reading
    fixture.clock.advance(0.01)
    assert fixture.publishing.is_reading


def test_a_receiver_that_never_catches_up_remembers_no_publisher_for_long(
    fixture: Fixture,
) -> None:
    fixture.fall_behind()
    for _ in range(5):
        fixture.publish_until_held()
        assert list(fixture.receiver.channel.pressure().holding) == [fixture.publisher]
        fixture.clock.advance(0.01)
        assert not fixture.receiver.channel.pressure().holding
        fixture.socket.kept = 0
        fixture.receiver.channel.resume_writing()
        assert fixture.receiver.outbound.behind
    fixture.publish_until_held()
    assert list(fixture.receiver.channel.pressure().holding) == [fixture.publisher]
    fixture.publisher.channel.connection_lost(None)
    assert not fixture.receiver.channel.pressure().holding


def test_who_does_not_take_its_last_words_is_cut(fixture: Fixture) -> None:
    fixture.fall_behind()
    fixture.receiver.close(ClosedReason.KICKED)
    fixture.clock.advance(DEADLINE_S - 0.01)
    assert not fixture.socket.aborted
    fixture.clock.advance(0.02)
    assert fixture.socket.aborted
    assert fixture.broker.limit_hits["last_words"] == 1


def test_who_leaves_in_time_is_not_cut(fixture: Fixture) -> None:
    fixture.receiver.close(ClosedReason.KICKED)
    fixture.receiver.channel.connection_lost(None)
    fixture.clock.advance(2 * DEADLINE_S)
    assert not fixture.socket.aborted
    assert fixture.broker.limit_hits["last_words"] == 0


def test_producer_is_released_when_the_receiver_goes(fixture: Fixture) -> None:
    fixture.fall_behind()
    fixture.publish(80)
    assert not fixture.publishing.is_reading
    fixture.receiver.channel.connection_lost(None)
    assert fixture.publishing.is_reading


def test_producers_that_may_not_be_stalled_lose_messages_instead() -> None:
    fixture = Fixture(stall_producers=False)
    fixture.fall_behind()
    fixture.publish(200)
    assert fixture.publishing.is_reading
    assert fixture.receiver.reason is None
    assert fixture.receiver.outbound.pending_bytes() < PENDING_BYTES
    assert fixture.receiver.out_messages < 200


def test_write_deadline(fixture: Fixture) -> None:
    fixture.fall_behind()
    fixture.clock.advance(DEADLINE_S - 0.01)
    assert fixture.receiver.reason is None
    fixture.clock.advance(0.02)
    assert fixture.receiver.reason is ClosedReason.SLOW_CONSUMER_DEADLINE
    assert fixture.socket.aborted


def test_the_deadline_is_met_although_floats_are_rounded(fixture: Fixture) -> None:
    since_s = 27.01  # 27.01 + 5.0 - 32.01 is 7e-15, for which no clock has a tick
    fixture.clock.advance(since_s)
    fixture.fall_behind()
    fixture.clock.advance(DEADLINE_S)
    assert fixture.receiver.reason is ClosedReason.SLOW_CONSUMER_DEADLINE


def test_progress_puts_the_deadline_off(fixture: Fixture) -> None:
    fixture.fall_behind()
    for _ in range(5):
        fixture.publish()
        fixture.clock.advance(DEADLINE_S - 1)
        fixture.socket.kept = 0
        fixture.receiver.channel.resume_writing()
        assert fixture.receiver.outbound.behind
    assert fixture.receiver.reason is None
    fixture.clock.advance(DEADLINE_S + 0.01)
    assert fixture.receiver.reason is ClosedReason.SLOW_CONSUMER_DEADLINE


def test_with_retry_part_of_a_write_is_progress() -> None:
    fixture = Fixture(write_timeout_policy="retry")
    fixture.fall_behind()
    for left in (900, 500):
        fixture.socket.kept = left
        fixture.clock.advance(DEADLINE_S + 0.01)
        assert fixture.receiver.reason is None
    fixture.clock.advance(DEADLINE_S + 0.01)
    assert fixture.receiver.reason is ClosedReason.SLOW_CONSUMER_DEADLINE


def test_without_retry_part_of_a_write_is_none(fixture: Fixture) -> None:
    fixture.fall_behind()
    fixture.socket.kept = 500
    fixture.clock.advance(DEADLINE_S + 0.01)
    assert fixture.receiver.reason is ClosedReason.SLOW_CONSUMER_DEADLINE


def test_no_deadline_for_who_has_caught_up(fixture: Fixture) -> None:
    fixture.fall_behind()
    fixture.drain()
    fixture.clock.advance(DEADLINE_S * 3)
    assert fixture.receiver.reason is None
