"""Answers that wait for the other workers, by rounds that the test ends."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from midge.server.broker.broker import Broker
from midge.server.config.options import Options
from midge.server.peers.worker_links import WorkerLinks
from midge.testing import ManualClock
from tests.support.transports import Transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clients.connection import Connection


class Unlinked(WorkerLinks):
    """A mesh without links."""

    def __init__(self) -> None:
        """Watch no broker."""


class Fixture:
    """A client of one of several workers; `rounds` are under way."""

    def __init__(self, lang: str) -> None:
        self.rounds: list[Callable[[], None]] = []
        self.broker = Broker(Options(), ManualClock(), Random(1))
        self.broker.barrier = self.rounds.append
        self.broker.observers.append(Unlinked())
        self.client: Connection = self.broker.make_connection(("127.0.0.1", 1))
        self.transport = Transport()
        self.client.channel.connection_made(self.transport)
        line = b'CONNECT {"verbose":false,"pedantic":false,"lang":"%b"}\r\nPING\r\n'
        self.feed(line % lang.encode())
        self.written()

    def feed(self, data: bytes) -> None:
        self.client.channel.feed(data)
        self.broker.router.flush()

    def end_round(self) -> None:
        self.rounds.pop(0)()
        self.broker.router.flush()

    def written(self) -> bytes:
        return self.transport.take()


@pytest.fixture
def ahead() -> Fixture:
    """A client of nats.py, which sends PING ahead."""
    return Fixture("python3")


def test_pong_waits_for_the_subscription_that_ping_is_ahead_of(ahead: Fixture) -> None:
    ahead.feed(b"PING\r\nPUB x 0\r\n\r\nSUB a 1\r\n")
    assert len(ahead.client.subscriptions) == 1
    ahead.end_round()
    assert ahead.written() == b""
    ahead.end_round()
    assert ahead.written() == b"PONG\r\n"
    assert ahead.rounds == []


def test_pong_waits_for_the_subscription_that_comes_in_another_read(ahead: Fixture) -> None:
    ahead.feed(b"PING\r\n")
    ahead.feed(b"SUB a 1\r\n")
    ahead.end_round()
    assert ahead.written() == b""
    ahead.end_round()
    assert ahead.written() == b"PONG\r\n"


def test_one_round_is_enough_where_nothing_has_changed(ahead: Fixture) -> None:
    ahead.feed(b"PING\r\n")
    assert ahead.written() == b""
    ahead.end_round()
    assert ahead.written() == b"PONG\r\n"
    assert ahead.rounds == []


def test_each_ping_is_answered_in_its_turn(ahead: Fixture) -> None:
    ahead.feed(b"PING\r\nPING\r\n")
    ahead.feed(b"SUB a 1\r\nPING\r\n")
    ahead.end_round()
    ahead.end_round()
    assert ahead.written() == b"PONG\r\n"  # the round began with the first
    ahead.end_round()
    assert ahead.written() == b"PONG\r\nPONG\r\n"
    assert ahead.rounds == []


def test_a_client_that_leaves_meanwhile_gets_its_pong_first(ahead: Fixture) -> None:
    ahead.feed(b"PING\r\n")
    ahead.client.channel.eof_received()
    ahead.end_round()
    assert ahead.written() == b"PONG\r\n"
    assert ahead.client.reason is not None


def test_a_client_that_is_lost_meanwhile_is_forgotten(ahead: Fixture) -> None:
    ahead.feed(b"PING\r\n")
    ahead.client.channel.connection_lost(OSError("gone"))
    ahead.end_round()
    assert ahead.written() == b""
    assert ahead.rounds == []


def test_other_clients_without_a_change_wait_for_nothing() -> None:
    other = Fixture("go")
    other.feed(b"PING\r\nPING\r\n")
    assert other.written() == b"PONG\r\nPONG\r\n"
    other.feed(b"SUB a 1\r\nPING\r\nPING\r\n")
    assert other.written() == b""
    other.end_round()
    assert other.written() == b"PONG\r\nPONG\r\n"
    assert other.rounds == []
