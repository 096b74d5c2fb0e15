"""Quotas of messages and bytes a second, by a manual clock."""

from __future__ import annotations

from random import Random

from midge.server.broker.broker import Broker
from midge.server.clients.connection import Connection
from midge.server.config.options import Account, AccountLimits, Keepalive, Options, User
from midge.testing import ManualClock
from tests.support.transports import Transport

MESSAGE = b"PUB a 100\r\n" + b"x" * 100 + b"\r\n"
TICK_S = 0.01


class Site:
    """A broker with one account, whose users are `a` and `b`, and a receiver of everything."""

    def __init__(self, limits: dict[str, int], user: dict[str, int] | None = None) -> None:
        self.clock = ManualClock()
        self.broker = Broker(self.options(limits, user), self.clock, Random(1))
        self.receiver = self.connect("b")
        self.receiver.channel.feed(b"SUB > 1\r\n")

    def options(self, limits: dict[str, int], user: dict[str, int] | None = None) -> Options:
        users = (User(user="a", password="p", **(user or {})), User(user="b", password="p"))
        account = Account(name="A", users=users, limits=AccountLimits(**limits))
        return Options(accounts=(account,), keepalive=Keepalive(ping_interval_s=30))

    def connect(self, user: str) -> Connection:
        connection = self.broker.make_connection(("127.0.0.1", 1))
        connection.channel.connection_made(Transport())
        words = f'{{"verbose":false,"user":"{user}","pass":"p"}}'
        connection.channel.feed(f"CONNECT {words}\r\n".encode())
        assert connection.introduced
        return connection

    def received(self) -> int:
        return int(self.receiver.out_messages)

    def pass_(self, seconds: float) -> None:
        for number in range(round(seconds / TICK_S)):
            self.clock.advance(TICK_S)
            if number % 1000 == 0:
                self.receiver.channel.feed(b"PONG\r\n")


def test_messages_of_an_account_come_at_its_rate() -> None:
    site = Site({"messages_per_s": 10})
    one, other = site.connect("a"), site.connect("b")
    one.channel.feed(MESSAGE * 50)
    other.channel.feed(MESSAGE * 50)
    assert 10 <= site.received() <= 12, "a second's worth, and what is owed"
    site.pass_(3.0)
    assert 40 <= site.received() <= 42
    site.pass_(7.0)
    assert site.received() == 100
    assert one.reason is other.reason is None


def test_bytes_of_a_user_are_those_of_all_its_clients() -> None:
    site = Site({}, {"bytes_per_s": 1000})
    for connection in (site.connect("a"), site.connect("a")):
        connection.channel.feed(MESSAGE * 30)
    free = site.connect("b")
    free.channel.feed(MESSAGE * 30)
    assert 30 + 10 <= site.received() <= 30 + 13
    site.pass_(2.0)
    assert 60 <= site.received() <= 63


def test_who_owes_for_long_is_not_stale_and_answered_in_the_end() -> None:
    site = Site({"bytes_per_s": 10})
    client = site.connect("a")
    client.channel.feed(MESSAGE + b"PUB a 3000\r\n" + b"x" * 3000 + b"\r\n" + MESSAGE)
    site.pass_(200.0)
    assert client.reason is None
    assert site.received() == 2
    site.pass_(130.0)
    assert site.received() == 3


def test_what_was_saved_is_one_second() -> None:
    site = Site({"messages_per_s": 10})
    client = site.connect("a")
    site.pass_(20.0)
    client.channel.feed(MESSAGE * 50)
    assert site.received() == 11


def test_a_reload_changes_the_rate() -> None:
    site = Site({"messages_per_s": 10})
    client = site.connect("a")
    client.channel.feed(MESSAGE * 50)
    assert site.received() == 11
    site.broker.prepare_reload(site.options({}))()
    site.pass_(0.2)
    assert site.received() == 50
    client.channel.feed(MESSAGE * 50)
    assert site.received() == 100


def test_pauses_are_counted() -> None:
    site = Site({"messages_per_s": 10}, {"bytes_per_s": 1 << 20})
    site.connect("a").channel.feed(MESSAGE * 12)
    quotas = site.broker.quotas.of_account("A")
    assert quotas[""].holds == 1
    assert quotas["a"].holds == 0
    assert site.broker.limit_hits["publish_quota"] == 1


def test_a_client_that_has_gone_is_forgotten() -> None:
    site = Site({"messages_per_s": 10})
    client = site.connect("a")
    client.channel.feed(MESSAGE * 50)
    client.channel.connection_lost(ConnectionResetError())
    site.pass_(20.0)
    assert client.cid not in site.broker.clients
    assert not site.broker.quotas._of.keys() - site.broker.clients.keys()
