"""Observers of a server: an exception in one of them affects no other."""

from __future__ import annotations

from random import Random

from midge.server.broker.broker import Broker
from midge.server.clients.observer import Observer, Observers
from midge.server.config.options import Options
from midge.server.routing.contained_faults import ContainedFaults
from midge.testing import ManualClock
from tests.support.transports import Transport


class Failing(Observer):
    """Raises in every method."""

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


class SeeingRuns(Seeing):
    """Notes runs as such."""

    def sees_runs(self) -> bool:
        return True

    def run_routed(self, account, publisher, frame, count, plain) -> None:
        self.seen.append(f"run of {count} to {plain}")


class FailingAtRuns(SeeingRuns):
    """Raises at a run, somewhere in it."""

    def run_routed(self, account, publisher, frame, count, plain) -> None:
        frame.base += frame.end
        raise RuntimeError("no")


def seen_of_a_run(*observers: Observer) -> bytes:
    """Add `observers`, and route a run; return the receiver's messages."""
    broker, transport = Broker(Options(), ManualClock(), Random(1)), Transport()
    for observer in observers:
        broker.watch_messages(observer)
    connection = broker.make_connection(("127.0.0.1", 1))
    connection.channel.connection_made(transport)
    connection.channel.feed(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB a 1\r\n')
    transport.take()
    connection.channel.feed(b"PUB a 1\r\n1\r\nPUB a 1\r\n2\r\nPUB a 1\r\n3\r\n")
    return transport.take()


def test_a_run_stays_one_when_all_see_runs() -> None:
    first, second = SeeingRuns(), SeeingRuns()
    got = seen_of_a_run(first, FailingAtRuns(), second)
    assert first.seen[-2:] == second.seen[-2:] == ["message", "run of 2 to 1"]
    assert got == b"MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nMSG a 1 1\r\n3\r\n"


def test_a_run_is_shown_one_by_one_when_some_see_no_runs() -> None:
    first, second = SeeingRuns(), Seeing()
    seen_of_a_run(first, second)
    assert first.seen[-3:] == second.seen[-3:] == ["message"] * 3


def test_only_those_that_look_at_subscriptions_are_called_for_them() -> None:
    observers = Observers(ContainedFaults())
    blind, seeing = Observer(), Seeing()
    observers.append(blind)
    assert not observers.see_subscriptions
    observers.append(seeing)
    assert observers.see_subscriptions
    assert blind in observers
    observers.show("account_made", None)
    observers.show("accounts_planned")
    assert seeing.seen == ["account"]
    observers.remove(seeing)
    assert not observers.see_subscriptions
    observers.show("account_made", None)
    assert seeing.seen == ["account"]
