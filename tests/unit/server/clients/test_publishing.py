"""Publishers find the results of recent subjects in the cache, and no stale ones."""

from __future__ import annotations

from random import Random

from midge.server.broker.broker import Broker
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.support.transports import Transport

CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
SUBJECTS = [b"s.%d" % number for number in range(5)] + [b"s." + b"long" * 12 + b"%d" % 5]


def opened(broker: Broker) -> tuple[Connection, Transport]:
    transport = Transport()
    connection = broker.make_connection(("127.0.0.1", 1))
    connection.channel.connection_made(transport)
    connection.channel.feed(CONNECT)
    transport.take()
    return connection, transport


def published(publisher: Connection, receiver: Transport) -> list[bytes]:
    """Publish to each of SUBJECTS in turn; return the control lines that `receiver` got."""
    publisher.channel.feed(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in SUBJECTS))
    return [line for line in receiver.take().split(b"\r\n") if line]


def test_subjects_that_take_turns_reach_who_is_subscribed_at_the_time() -> None:
    broker = Broker(Options(), ManualClock(), Random(1))
    publisher, _ = opened(broker)
    receiver, output = opened(broker)
    receiver.channel.feed(b"SUB s.* 1\r\n")
    for _ in range(4):  # built, kept, found, and found once more
        assert published(publisher, output) == [b"MSG %b 1 0" % one for one in SUBJECTS]
    receiver.channel.feed(b"SUB s.3 22\r\n")
    for _ in range(4):
        lines = published(publisher, output)
        assert sorted(lines) == sorted(
            [*(b"MSG %b 1 0" % one for one in SUBJECTS), b"MSG s.3 22 0"]
        )
    receiver.channel.feed(b"UNSUB 1\r\n")
    for _ in range(4):
        assert published(publisher, output) == [b"MSG s.3 22 0"]


def test_each_message_of_its_own_line_is_one_match_and_mostly_a_hit() -> None:
    broker = Broker(Options(), ManualClock(), Random(1))
    publisher, _ = opened(broker)
    receiver, output = opened(broker)
    receiver.channel.feed(b"SUB s.* 1\r\n")
    for _ in range(10):
        published(publisher, output)
    stats = publisher.account.sublist.stats()
    assert (stats.matches, stats.cache_hits) == (10 * len(SUBJECTS), 9 * len(SUBJECTS))
