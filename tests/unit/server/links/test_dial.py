"""A transport for a link, whose making ends with an error at any moment."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from midge.server.clients.state import State
from midge.server.cluster.link import RouteLink
from midge.server.cluster.side import RouteSide
from midge.server.links.dial import attach
from midge.server.routing.role import Role
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
    side = RouteSide(world.cluster)
    link = RouteLink(world.broker, world.broker.take_cid(), ("10.0.0.1", 1), side, Role.ROUTE, 30)
    loop = Loop(transports)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    with socket.socket() as bare, pytest.raises(TimeoutError):
        await attach(link, bare, "", None, 0.0)
    assert link.reason is not None
    if transports:
        assert link.channel.state == State.CLOSING
        link.channel.connection_lost(None)
    else:
        late = Transport()
        link.channel.connection_made(late)  # the loop had begun to make it
        assert not late.is_reading
        link.channel.connection_lost(None)
    assert link.channel.state == State.CLOSED
