"""Screens are asked one by one; each lets a message pass, changes it, keeps it or refuses it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.broker.broker import Broker
from midge.server.clients.screens import Passage, Screen
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.support.transports import Transport

if TYPE_CHECKING:
    from midge.server.clients.connection import Connection

QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false}\r\n'


class Deciding(Screen):
    """Handles each publish in a given way."""

    decides = True

    def __init__(self, what: str = "pass") -> None:
        self.what = what
        self.kept: list[Passage] = []

    def publish(self, passage: Passage) -> None:
        if self.what == "pass":
            passage.go_on()
        elif self.what == "change":
            passage.go_on_with(compose(b"changed", b"!", None, None))
        elif self.what == "refuse":
            passage.refuse()
        else:
            self.kept.append(passage)


class Plain(Deciding):
    """The same, after the client has got +OK for its message."""

    decides = False


class Peer:
    """A server with screens and a client that gets all it publishes."""

    def __init__(self, *screens: Screen, connect: bytes = QUIET) -> None:
        self.broker = Broker(Options(), ManualClock(), Random(1))
        for screen in screens:
            self.broker.add_screen(screen)
        self.connection: Connection = self.broker.make_connection(("127.0.0.1", 1))
        self._transport = Transport()
        self.connection.channel.connection_made(self._transport)
        self.say(connect + b"SUB > 1\r\n")

    def say(self, data: bytes) -> bytes:
        self._transport.take()
        self.connection.channel.feed(data)
        return self._transport.take()

    def publish_own(self) -> int:
        def route(_account: object, subject: bytes, frame: Frame) -> int:
            self.routed = (subject, frame.payload_bytes())
            return 5

        account = self.broker.global_account
        return self.broker.screens.publish_own(account, compose(b"own", b"x", None, None), route)


PUB = b"PUB a 1\r\nx\r\n"
GOT = b"MSG a 1 1\r\nx\r\n"
CHANGED = b"MSG changed 1 1\r\n!\r\n"


@pytest.mark.parametrize(
    ("screens", "told"),
    [
        ([], GOT),
        ([Screen()], GOT),
        ([Plain(), Deciding()], GOT),
        ([Deciding("change"), Plain()], CHANGED),
        ([Plain("change")], CHANGED),
        ([Deciding("refuse"), Plain("change")], b""),
        ([Deciding(), Plain("refuse")], b""),
        ([Deciding("keep")], b""),
    ],
)
def test_what_screens_let_pass_is_routed(screens: list[Screen], told: bytes) -> None:
    assert Peer(*screens).say(PUB) == told


def test_what_is_kept_goes_on_later() -> None:
    screen = Deciding("keep")
    peer = Peer(screen, Plain("change"))
    assert peer.say(PUB + b"PUB b 1\r\ny\r\n") == b""
    screen.kept[0].go_on_with(compose(b"late", b"z", None, None))
    assert peer.say(b"") == b""
    assert peer.connection.out_messages == 1


@pytest.mark.parametrize(
    ("screens", "told"),
    [
        ([Deciding()], b"+OK\r\n" + GOT),
        ([Deciding("refuse")], b""),
        ([Deciding("keep")], b""),
        ([Plain("refuse")], b"+OK\r\n"),
        ([Plain("keep"), Deciding()], b"+OK\r\n"),
        ([Plain("change"), Deciding("change")], b"+OK\r\n" + CHANGED),
    ],
)
def test_a_verbose_client_is_told_when_those_that_decide_let_it_pass(
    screens: list[Screen], told: bytes
) -> None:
    assert Peer(*screens, connect=VERBOSE).say(PUB) == told


@pytest.mark.parametrize(
    ("screens", "taken"),
    [
        ([Screen()], 5),
        ([Deciding("refuse"), Plain()], 0),
        ([Deciding("keep"), Plain()], 1),
        ([Deciding("change"), Plain("keep")], 1),
        ([Deciding("change"), Plain()], 5),
    ],
)
def test_the_process_is_told_how_many_have_taken_its_message(
    screens: list[Screen], taken: int
) -> None:
    peer = Peer(*screens)
    assert peer.publish_own() == taken
    if taken == 5:
        assert peer.routed[0] in {b"own", b"changed"}


class Editing(Screen):
    """Delivers another payload, or nothing."""

    def __init__(self, payload: bytes | None) -> None:
        self._payload = payload

    def deliver(self, connection, subscription, publisher, frame) -> Frame | None:
        if self._payload is None:
            return None
        return compose(frame.subject_bytes(), frame.payload_bytes() + self._payload, None, None)


def test_deliveries_go_by_all_screens_in_turn() -> None:
    assert Peer(Editing(b"1"), Editing(b"2")).say(PUB) == b"MSG a 1 3\r\nx12\r\n"
    assert Peer(Editing(None), Editing(b"2")).say(PUB) == b""


def test_a_screen_that_is_removed_sees_nothing_more() -> None:
    screen = Deciding("refuse")
    peer = Peer(screen)
    peer.broker.add_screen(screen)
    peer.broker.remove_screen(screen)
    assert not peer.broker.screens
    assert not peer.connection.commands.publish_checks
    assert peer.say(PUB) == GOT
