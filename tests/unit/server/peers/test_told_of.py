"""Servers known through gossip: many of them are connected to a few at a time."""

from __future__ import annotations

import asyncio

import pytest

from midge.protocol.route_messages import RouteInfo
from midge.server.peers.cluster import STARTED_AT_ONCE
from midge.server.peers.dialler import RouteDialler
from tests.support.cluster_servers import options
from tests.support.served import serving


async def test_few_are_begun_between_two_polls_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(RouteDialler, "start", lambda self: begun.append(str(self.address)))
    async with serving(options("A")) as (server,):
        service = server._cluster
        assert service is not None
        for port in range(1, 11):
            service.discovered(RouteInfo(server_id=f"N{port}", ip=f"nats-route://127.0.0.1:{port}"))
        counts = [len(begun)]
        while len(begun) < 10:
            await asyncio.sleep(0)
            counts.append(len(begun))
    most = STARTED_AT_ONCE
    assert counts[:4] == [0, most, 2 * most, 10]
    assert len(set(begun)) == 10


async def test_a_server_that_stops_begins_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[RouteDialler] = []
    monkeypatch.setattr(RouteDialler, "start", begun.append)
    async with serving(options("A")) as (server,):
        service = server._cluster
        assert service is not None
        for port in range(1, 11):
            service.discovered(RouteInfo(server_id=f"N{port}", ip=f"nats-route://127.0.0.1:{port}"))
        await service.stop()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not begun
