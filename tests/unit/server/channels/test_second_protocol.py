"""A second client protocol needs no change below it: here one of lines, beside NATS clients.

`HEAR subject` subscribes, `SAY subject text` publishes, and `subject: text` is a delivery. What a
protocol of clients adds is in this file: a parser, a handler of its commands, a session that owns a
channel, and a subscription that writes what the session gets.
"""

from __future__ import annotations

from random import Random
from typing import cast

import pytest

from midge.protocol.errors import ProtocolError
from midge.protocol.frame import Frame
from midge.protocol.handler import Handler
from midge.protocol.stream_parser import StreamParser
from midge.server.broker.broker import Broker
from midge.server.channels.channel import Channel, ChannelOwner
from midge.server.config.options import Limits, Options
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription
from midge.testing import ManualClock
from tests.support.transports import Transport


class Socket(Transport):
    """Counts writes; while `is_stuck`, the peer reads nothing."""

    def __init__(self) -> None:
        Transport.__init__(self)
        self.writes = 0
        self.is_stuck = False

    def write(self, data: bytes | memoryview) -> None:
        self.writes += 1
        Transport.write(self, data)

    def get_write_buffer_size(self) -> int:
        return len(self.written) if self.is_stuck else 0


class ChatParser(StreamParser):
    """Finds lines, and charges for them."""

    def feed(self, buffer: bytearray, start: int, end: int) -> int:
        while not self.halted:
            line_feed = buffer.find(b"\n", start, end)
            if line_feed < 0:
                return start
            line = bytes(buffer[start:line_feed])
            self.charge(64 + len(line))
            cast("ChatCommands", self.handler).on_line(line)
            start = line_feed + 1
        return start


class ChatSubscription(RoutedSubscription):
    """The subscription of one session, which writes each message as a line."""

    def __init__(self, subject: bytes, session: ChatSession) -> None:
        RoutedSubscription.__init__(self, subject)
        self._session = session

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        session = self._session
        if session.deliver_checks and not session.channel.has_room(publisher):
            return False
        session.send(b"%b: %b\n" % (frame.subject_bytes(), frame.payload_bytes()))
        return True


class ChatSession(ChannelOwner):
    """One peer of the protocol, in the global account."""

    def __init__(self, broker: Broker) -> None:
        account = broker.global_account
        ChannelOwner.__init__(self, broker.take_cid(), account, broker.chunks, broker.router)
        peer = ("127.0.0.1", 9)
        self.channel = Channel(
            broker, self, ChatParser(ChatCommands(self)), peer, ping_interval_s=60.0
        )
        self._subscriptions: list[ChatSubscription] = []
        self._broker = broker

    def opened(self) -> None:
        self._broker.transport_made(self)

    def closed(self) -> None:
        for subscription in self._subscriptions:
            self.account.remove(subscription)

    def lost(self) -> None:
        self._broker.connection_lost(self)

    def hear(self, subject: bytes) -> None:
        subscription = ChatSubscription(subject, self)
        self._subscriptions.append(subscription)
        self.account.add(subscription)

    def say(self, subject: bytes, text: bytes = b"") -> None:
        self._broker.internal.publish(self.account, subject, text, publisher=self)

    def append_last_error(self, wire: str) -> None:
        self.outbound.append(b"! %b\n" % wire.encode())


class ChatCommands(Handler):
    """The commands of one peer."""

    def __init__(self, session: ChatSession) -> None:
        self._session = session

    def sender(self) -> ChatSession:
        return self._session

    def on_budget_spent(self) -> None:
        self._session.on_budget_spent()

    def on_line(self, line: bytes) -> None:
        session = self._session
        verb, _, rest = line.partition(b" ")
        if verb == b"HEAR":
            session.hear(rest)
        elif verb == b"SAY":
            session.say(*rest.split(b" ", 1))
        else:
            raise ProtocolError("Unknown Verb", f"unknown verb {verb!r}")


class World:
    """A broker with a NATS client, and a session of the other protocol."""

    def __init__(self, **limits: int) -> None:
        self.clock = ManualClock()
        self.broker = Broker(Options(limits=Limits(**limits)), self.clock, Random(1))
        self.client = self.broker.make_connection(("127.0.0.1", 8))
        self.session = ChatSession(self.broker)
        self.client_transport, self.session_transport = Socket(), Socket()
        self.client.channel.connection_made(self.client_transport)
        self.session.channel.connection_made(self.session_transport)
        self.nats(b'CONNECT {"verbose":false}\r\n')

    def nats(self, data: bytes) -> bytes:
        self.client.channel.feed(data)
        return self.client_transport.take()

    def chat(self, data: bytes) -> bytes:
        self.session.channel.feed(data)
        return self.session_transport.take()


@pytest.fixture
def world() -> World:
    return World()


def test_both_protocols_reach_each_other(world: World) -> None:
    world.chat(b"HEAR news.*\n")
    world.nats(b"SUB news.> 1\r\n")
    world.nats(b"PUB news.local 5\r\nhello\r\n")
    assert world.session_transport.take() == b"news.local: hello\n"
    assert world.chat(b"SAY news.far away\n") == b"news.far: away\n"
    assert world.client_transport.take() == b"MSG news.far 1 4\r\naway\r\n"


def test_a_run_of_messages_is_one_write(world: World) -> None:
    world.chat(b"HEAR news\n")
    writes = world.session_transport.writes
    world.nats(b"".join(b"PUB news 1\r\n%d\r\n" % number for number in range(8)))
    assert world.session_transport.writes == writes + 1
    assert world.session_transport.take().count(b"news: ") == 8


def test_an_error_of_the_peer_ends_the_session_and_its_interest(world: World) -> None:
    world.chat(b"HEAR news\n")
    assert world.chat(b"WHAT\n") == b"! Unknown Verb\n"
    assert not world.broker.global_account.sublist.has_interest(b"news")
    world.session.channel.connection_lost(None)
    world.nats(b"PUB news 1\r\nx\r\n")
    assert world.session_transport.take() == b""


def test_a_session_that_takes_no_output_is_closed() -> None:
    world = World(max_pending_bytes=1 << 20)
    world.chat(b"HEAR news\n")
    world.session_transport.is_stuck = True
    payload = b"x" * 65_536
    for _ in range(64):
        world.nats(b"PUB news %d\r\n%b\r\n" % (len(payload), payload))
    assert world.session.reason is not None
    assert world.session.reason.is_slow_consumer
