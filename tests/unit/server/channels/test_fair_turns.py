"""The input of one read is handled over several turns, in order and completely, so that no client
waits long."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from midge.server.broker.broker import Broker
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.fair_turns import TURN_BYTES
from midge.server.channels.reading import AUTHENTICATING
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.support.transports import Transport

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":1}\r\n'
RECEIVERS = 500
MANY = 5
"""Publishers of which each alone has more to do than one turn allows."""


class Socket(Transport):
    """A transport that may be an encrypted one."""

    def __init__(self, *, is_encrypted: bool = False) -> None:
        super().__init__()
        self._tls = object() if is_encrypted else None

    def get_extra_info(self, name: str) -> Any:
        return _Suite() if self._tls and name == "ssl_object" else None


class _Suite:
    def getpeercert(self, *, binary_form: bool) -> None:
        assert binary_form

    def cipher(self) -> None:
        return None

    def read(self, size: int) -> bytes:
        return b""

    def version(self) -> str:
        return "TLSv1.3"


class Peers:
    """A broker, one that publishes, and `RECEIVERS` that get what it does."""

    def __init__(self, subject: bytes = b"many", *, is_encrypted: bool = False) -> None:
        self.clock = ManualClock()
        self.broker = Broker(Options(), self.clock, Random(1))
        self.publisher, self.socket = self._open(is_encrypted=is_encrypted)
        self.receivers = [self._open() for _ in range(RECEIVERS)]
        for receiver, socket in self.receivers:
            receiver.channel.feed(b"SUB %b 1\r\n" % subject)
            socket.take()

    def _open(self, *, is_encrypted: bool = False) -> tuple[Connection, Socket]:
        socket = Socket(is_encrypted=is_encrypted)
        connection = self.broker.make_connection(("127.0.0.1", 1))
        connection.channel.connection_made(socket)
        connection.channel.feed(CONNECT)
        return connection, socket

    def turn(self) -> None:
        """Run one turn of every client."""
        self.clock.advance(0)

    def take(self) -> list[bytes]:
        """Return the payloads that the last receiver got, the same as all others did."""
        taken = {socket.take() for _, socket in self.receivers}
        assert len(taken) == 1
        return taken.pop().split(b"\r\n")[1::2]


def publishes(count: int, kind: str) -> tuple[bytes, list[bytes]]:
    """Make messages of one size; `mixed` ones are never like the one before."""
    payloads = [b"%06d" % number for number in range(count)]
    lines = [
        b"PUB many %b6\r\n%b\r\n" % (b" " * (number % 2 if kind == "mixed" else 0), payload)
        for number, payload in enumerate(payloads)
    ]
    return b"".join(lines), payloads


@pytest.mark.parametrize("kind", ["alike", "mixed"])
def test_a_wide_fan_out_is_done_in_turns_at_the_ends_of_messages(kind: str) -> None:
    peers = Peers()
    data, payloads = publishes(6000, kind)
    got: list[bytes] = []
    peers.publisher.channel.feed(data)
    while peers.publisher.parser.halted:
        piece = peers.take()
        assert piece, "a turn in which nothing was done"
        got += piece
        peers.turn()
    assert 0 < len(got) < len(payloads)
    assert got + peers.take() == payloads
    assert peers.publisher.in_messages == len(payloads)


def test_what_comes_meanwhile_waits_its_turn() -> None:
    peers = Peers()
    data, payloads = publishes(6000, "alike")
    peers.publisher.channel.feed(data)
    assert len(peers.take()) < len(payloads)
    assert not peers.socket.is_reading
    peers.socket.written.clear()
    peers.publisher.channel.feed(b"PING\r\n")
    assert not peers.socket.written
    while peers.publisher.parser.halted:
        peers.turn()
    assert bytes(peers.socket.written).startswith(b"PONG\r\n")
    assert peers.socket.is_reading


def test_the_end_waits_until_all_is_done() -> None:
    peers = Peers()
    data, payloads = publishes(6000, "alike")
    peers.publisher.channel.feed(data)
    assert peers.publisher.channel.eof_received()
    assert peers.publisher.reason is None
    while peers.publisher.reason is None:
        peers.turn()
    assert peers.publisher.reason is ClosedReason.CLIENT_CLOSED
    assert peers.take() == payloads


def test_after_the_end_of_tls_the_rest_is_done_in_turns() -> None:
    peers = Peers(is_encrypted=True)
    data, payloads = publishes(6000, "alike")
    peers.publisher.channel.feed(data)
    assert not peers.publisher.channel.eof_received()
    peers.publisher.channel.connection_lost(None)  # in any case
    assert len(peers.take()) < len(payloads)
    assert peers.broker.finishing == {peers.publisher.channel}
    got = []
    while peers.publisher.reason is None:
        peers.turn()
        got += peers.take()
    assert peers.publisher.reason is ClosedReason.CLIENT_CLOSED
    assert got[-1] == payloads[-1]
    assert not peers.broker.finishing


def test_who_has_left_is_delivered_nothing_while_the_rest_is_done() -> None:
    peers = Peers(is_encrypted=True)
    publisher = peers.publisher
    publisher.channel.feed(b"".join(b"SUB many s%d\r\n" % i for i in range(5000)))
    while publisher.parser.halted:
        peers.turn()
    data, payloads = publishes(100, "alike")
    publisher.channel.feed(data + b"SUB many again\r\nPING\r\n")
    assert not publisher.channel.eof_received()
    publisher.channel.connection_lost(None)
    got = peers.take()
    while publisher.reason is None:
        peers.turn()
        got += peers.take()
    assert got == payloads
    assert len(publisher.account.sublist) == RECEIVERS


def test_only_so_many_go_on_without_a_transport() -> None:
    peers = Peers(is_encrypted=True)
    data, _ = publishes(6000, "alike")
    peers.broker.finishing.update(peers._open()[0].channel for _ in range(256))
    peers.publisher.channel.feed(data)
    peers.publisher.channel.eof_received()
    peers.publisher.channel.connection_lost(None)
    assert peers.publisher.reason is ClosedReason.CLIENT_CLOSED
    assert peers.broker.limit_hits["finishing_connections"] == 1


def test_a_reset_loses_what_waits() -> None:
    peers = Peers()
    data, _ = publishes(6000, "alike")
    peers.publisher.channel.feed(data)
    peers.publisher.channel.connection_lost(ConnectionResetError())
    assert peers.publisher.reason is ClosedReason.READ_ERROR


def test_an_introduction_is_awaited_even_when_a_turn_begins() -> None:
    peers = Peers()
    data, _ = publishes(6000, "alike")
    peers.publisher.channel.feed(data)
    peers.publisher.channel.reading.halt(AUTHENTICATING)
    peers.take()
    peers.turn()
    assert peers.take() == []
    peers.publisher.channel.reading.unhalt(AUTHENTICATING)
    peers.publisher.channel.resume()
    assert peers.take()


@pytest.mark.parametrize(
    "line", [b"SUB a.%d %d", b"SUB a..%d %d", b"UNSUB %d%d"], ids=["new", "refused", "none"]
)
def test_many_commands_are_done_in_turns(line: bytes) -> None:
    peers = Peers()
    count = 20_000
    peers.publisher.channel.feed(
        b"".join(line % (i, i) + b"\r\n" for i in range(count)) + b"PING\r\n"
    )
    assert peers.publisher.parser.halted
    while peers.publisher.parser.halted:
        peers.turn()
    assert peers.socket.written.count(b"PONG\r\n") == 1
    if line.startswith(b"SUB a.%"):
        assert len(peers.publisher.subscriptions) == count


@pytest.mark.timeout(300)  # interpreted, these deliveries take ten seconds
def test_many_who_publish_share_a_turn() -> None:
    peers = Peers()
    data, payloads = publishes(6000, "alike")
    publishers = [peers.publisher, *(peers._open()[0] for _ in range(MANY - 1))]
    for publisher in publishers:
        publisher.channel.feed(data)
    delivered = len(peers.take()) * RECEIVERS * len(payloads[0])
    assert delivered < TURN_BYTES
    while any(publisher.parser.halted for publisher in publishers):
        peers.turn()
    assert [publisher.in_messages for publisher in publishers] == [len(payloads)] * MANY


def test_a_bystander_publishes_while_others_use_up_the_turn() -> None:
    peers = Peers()
    data, _ = publishes(6000, "alike")
    bystander, socket = peers._open()
    bystander.channel.feed(b"SUB own 1\r\n")
    peers.publisher.channel.feed(data)
    assert peers.publisher.parser.halted
    bystander.channel.feed(b"PUB own 2\r\nhi\r\n")
    assert bytes(socket.written).endswith(b"MSG own 1 2\r\nhi\r\n")
