"""Observers of a server: what one of them raises is the concern of nobody else."""

from __future__ import annotations

from random import Random

from midge.server.broker.broker import Broker
from midge.server.config.options import Options
from midge.server.routing.observer import Observer
from midge.testing import ManualClock
from tests.support.transports import Transport


class Failing(Observer):
    """Raises whatever it is told."""

    def client_connected(self, connection) -> None:
        raise RuntimeError("no")

    client_closed = account_made = client_connected

    def subscribed(self, connection, subscription) -> None:
        raise RuntimeError("no")

    def unsubscribed(self, connection, subscription, cause) -> None:
        raise RuntimeError("no")

    def message_routed(self, account, publisher, frame, plain, queued) -> None:
        raise RuntimeError("no")


class Seeing(Observer):
    """Notes what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def client_connected(self, connection) -> None:
        self.seen.append("connected")

    def client_closed(self, connection) -> None:
        self.seen.append("closed")

    def account_made(self, account) -> None:
        self.seen.append("account")

    def subscribed(self, connection, subscription) -> None:
        self.seen.append("subscribed")

    def unsubscribed(self, connection, subscription, cause) -> None:
        self.seen.append(cause)

    def message_routed(self, account, publisher, frame, plain, queued) -> None:
        self.seen.append("message")


def test_the_faults_of_one_are_contained() -> None:
    broker = Broker(Options(), ManualClock(), Random(1))
    seeing = Seeing()
    broker.watch_messages(Failing())
    broker.watch_messages(seeing)
    connection = broker.make_connection(("127.0.0.1", 1))
    connection.channel.connection_made(Transport())
    connection.channel.feed(b'CONNECT {"verbose":false}\r\n')
    connection.channel.feed(b"SUB a 1\r\nPUB a 0\r\n\r\nSUB b 2\r\nUNSUB 2\r\n")
    broker.account("other")
    connection.channel.eof_received()
    assert seeing.seen == [
        *("connected", "subscribed", "message", "subscribed", "unsubscribed", "account"),
        *("closed", "disconnected"),
    ]
    assert broker.router.faults.count == len(seeing.seen)
