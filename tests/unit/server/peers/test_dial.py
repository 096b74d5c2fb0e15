"""A transport for a link, whose making ends with an error at any moment."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from midge.server.channels.channel_state import ChannelState
from midge.server.peers.dial import attach, cause_of
from midge.server.peers.route import route_link
from midge.server.peers.route_end import RouteEnd
from tests.support.routes import World
from tests.support.transports import Transport


class Loop:
    """Fails after, or before, it has given the protocol a transport."""

    def __init__(self, transports: list[Transport]) -> None:
        self.transports = transports
        self.protocol: Any = None

    async def create_connection(self, factory: Callable[[], Any], **_: object) -> None:
        self.protocol = factory()
        for transport in self.transports:
            self.protocol.connection_made(transport)
        raise TimeoutError


@pytest.mark.parametrize("transports", [[], [Transport()]], ids=["before", "after"])
async def test_a_link_whose_making_fails_is_closed_once(
    transports: list[Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    side = RouteEnd(world.cluster)
    link = route_link(world.broker, world.broker.take_cid(), ("10.0.0.1", 1), side, 30)
    loop = Loop(transports)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    with socket.socket() as bare, pytest.raises(TimeoutError):
        await attach(link, bare, "", None, 0.0)
    assert link.reason is not None
    if transports:
        assert link.channel.state == ChannelState.CLOSING
        link.channel.connection_lost(None)
    else:
        late = Transport()
        link.channel.connection_made(late)  # the loop had begun to make it
        assert not late.is_reading
        link.channel.connection_lost(None)
    assert link.channel.state == ChannelState.CLOSED


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConnectionResetError(104, "x"), "the other server closed the connection"),
        (ConnectionRefusedError(111, "Connect call failed ('::1', 1)"), "connection refused"),
        (ValueError("expected INFO"), "expected INFO"),
        (TimeoutError(), "TimeoutError"),
        (OSError("h has no address"), "h has no address"),
    ],
)
def test_a_cause_is_a_sentence(error: Exception, sentence: str) -> None:
    assert cause_of(error).startswith(sentence)
