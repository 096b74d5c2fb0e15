"""A server in lame duck mode closes its last clients one by one, over all of its processes."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from midge.server.broker.lame_duck import close_slowly
from midge.server.channels.closed_reason import ClosedReason
from midge.server.config.options import Options, Shutdown
from midge.testing import ManualClock


class Connection:
    """A client that is open until it is closed."""

    own_login = None

    def __init__(self, clients: dict[int, Connection], cid: int) -> None:
        self.reason: ClosedReason | None = None
        self._clients, self._cid = clients, cid

    def close(self, reason: ClosedReason) -> None:
        self.reason = reason
        del self._clients[self._cid]


async def seconds_to_close(count: int, processes: int) -> float:
    """Return the seconds that one of `processes` takes to close `count` clients."""
    clients: dict[int, Connection] = {}
    for cid in range(count):
        clients[cid] = Connection(clients, cid)
    shutdown = Shutdown(lame_duck_duration_s=120, lame_duck_grace_period_s=10)
    clock = ManualClock()
    broker = SimpleNamespace(
        clients=clients, clock=clock, random=Random(1), options=Options(shutdown=shutdown)
    )
    closing = asyncio.ensure_future(close_slowly(cast("Any", broker), processes))
    start_s = clock.monotonic()
    while not closing.done():
        await asyncio.sleep(0)
        clock.advance(0.01)
    return clock.monotonic() - start_s - 10


@pytest.mark.parametrize(("clients", "most_s"), [(12, 12), (60, 60), (600, 110)])
async def test_several_processes_take_as_long_as_one(clients: int, most_s: float) -> None:
    alone_s = await seconds_to_close(clients, 1)
    assert most_s / 2 < alone_s <= most_s
    for processes in (2, 4):
        shared_s = await seconds_to_close(clients // processes, processes)
        assert alone_s * 0.6 < shared_s < alone_s * 1.6
