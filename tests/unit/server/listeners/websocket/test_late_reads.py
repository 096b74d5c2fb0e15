"""Reads of a WebSocket after others have used up the turn: they are short, and their data waits."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from websockets.frames import Frame, Opcode

from midge.server.channels.host import Host
from midge.server.listeners.websocket.protocol import InflatedBytes, WebSocketProtocol
from midge.server.listeners.websocket.upgrade_request import Upgrade
from tests.unit.server.channels.test_channel import Echo, make_host
from tests.unit.server.channels.test_close_queue import UPGRADE, RoundByRound

LINE = b"one" * 4000  # three reads of 4 KiB


class Peer:
    """A WebSocket client of `host`: its frames, and the calls on its socket."""

    def __init__(self, host: Host) -> None:
        self.owner = Echo(host)
        self.transport = Mock()
        self.transport.is_closing.return_value = False
        self.transport.get_extra_info.return_value = None
        self.transport.get_write_buffer_size.return_value = 0
        self.protocol = WebSocketProtocol(
            lambda request, encrypted: Upgrade(
                request, host.options.websocket, encrypted=encrypted
            ),
            lambda _request: self.owner,
            ("127.0.0.1", 9),
            InflatedBytes(),
        )
        self.protocol.connection_made(self.transport)
        self.protocol.get_buffer(-1)[: len(UPGRADE)] = UPGRADE
        self.protocol.buffer_updated(len(UPGRADE))
        self.unread = Frame(Opcode.BINARY, LINE + b"\n").serialize(mask=True)

    @property
    def is_reading(self) -> bool:
        """Whether its socket is read."""
        told = [name for name, *_ in self.transport.method_calls if name.endswith("_reading")]
        return not told or told[-1] == "resume_reading"

    def read(self) -> int:
        """Read the socket once; return the number of bytes."""
        room = self.protocol.get_buffer(-1)
        piece, self.unread = self.unread[: len(room)], self.unread[len(room) :]
        room[: len(piece)] = piece
        self.protocol.buffer_updated(len(piece))
        return len(piece)


@pytest.fixture
async def host() -> Host:
    return make_host(clock=RoundByRound())


async def test_a_read_within_the_turn_takes_all_at_once(host: Host) -> None:
    peer = Peer(host)
    assert peer.read() > len(LINE)
    assert peer.is_reading
    assert peer.owner.in_messages == 1


async def test_a_late_read_waits_for_its_turn(host: Host) -> None:
    peer = Peer(host)
    sizes = []
    while peer.unread:
        while host.turns.draw():
            pass  # others
        sizes.append(peer.read())
        if peer.unread:
            assert not peer.is_reading
            host.clock.round()
        assert peer.is_reading
    assert sizes[0] == 4096
    assert sum(sizes) > len(LINE)
    host.clock.round()
    assert peer.owner.in_messages == 1
    assert peer.owner.channel.more_input is None


async def test_small_messages_do_not_wait(host: Host) -> None:
    peer = Peer(host)
    while host.turns.draw():
        pass
    peer.unread = Frame(Opcode.BINARY, b"one\n").serialize(mask=True)
    peer.read()
    assert peer.owner.in_messages == 1
    assert peer.is_reading


async def test_a_waiting_late_read_is_dropped_with_its_transport(host: Host) -> None:
    peer = Peer(host)
    while host.turns.draw():
        pass
    peer.read()
    peer.protocol.connection_lost(ConnectionResetError())
    for _ in range(3):
        host.clock.round()
    assert peer.owner.told == ["opened", "closed", "lost"]
    assert peer.owner.in_messages == 0
