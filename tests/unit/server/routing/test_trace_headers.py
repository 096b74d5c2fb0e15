"""Runs of messages with headers: they stay runs, however long, up to one that asks for a trace."""

from __future__ import annotations

from random import Random

import pytest

from midge.protocol.frame import Frame
from midge.server.broker.broker import Broker
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription
from midge.testing import ManualClock
from tests.support.transports import Transport

COUNT = 200
PLAIN = b"NATS/1.0\r\nAbcd-Trace-Dest: x\r\n\r\n"
OTHER = b"NATS/1.0\r\nTracepanent-Des: x\r\n\r\n"
TRACED = b"NATS/1.0\r\nNats-Trace-Dest: x\r\n\r\n"
CONTEXT = b"NATS/1.0\r\ntraceparENT:  00-1\r\n\r\n"


class Counter(RoutedSubscription):
    """Notes how many messages it gets at a time."""

    def __init__(self) -> None:
        super().__init__(b"a")
        self.taken: list[int] = []

    def takes_runs(self) -> bool:
        return True

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        self.taken.append(1)
        return True

    def receive_run(self, publisher: Client | None, frame: Frame, count: int) -> int:
        self.taken.append(count)
        return count


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def publisher(counter: Counter) -> Connection:
    broker = Broker(Options(), ManualClock(), Random(1))
    broker.global_account.add(counter)
    connection = broker.make_connection(("127.0.0.1", 1))
    connection.channel.connection_made(Transport())
    connection.channel.feed(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    return connection


def lines(*blocks: bytes) -> bytes:
    return b"".join(b"HPUB a %d %d\r\n%b1\r\n" % (len(one), len(one) + 1, one) for one in blocks)


def test_equal_headers_make_one_run(publisher: Connection, counter: Counter) -> None:
    publisher.channel.feed(lines(*[PLAIN] * COUNT))
    assert counter.taken == [1, COUNT - 1]


def test_headers_that_differ_make_one_run(publisher: Connection, counter: Counter) -> None:
    publisher.channel.feed(lines(*[PLAIN, OTHER] * (COUNT // 2)))
    assert counter.taken == [1, COUNT - 1]


@pytest.mark.parametrize("asking", [TRACED, CONTEXT])
def test_a_run_ends_where_a_trace_may_be_asked_for(
    publisher: Connection, counter: Counter, asking: bytes
) -> None:
    publisher.channel.feed(lines(*[PLAIN] * 100, asking, *[PLAIN] * 9))
    assert counter.taken == [1, 99] + [1] * 10
