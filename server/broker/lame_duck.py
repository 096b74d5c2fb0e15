"""The end of lame duck mode: close the remaining clients one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.channels.closed_reason import ClosedReason
from midge.server.clock import sleep

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker


_GAP_MAX_S = 1.0
"""Longest time between two clients of the server, as on nats-server."""


async def close_slowly(broker: Broker, processes: int = 1) -> None:
    """Wait for clients to leave by themselves, then close the remaining ones one by one.

    `processes` of the server do so in parallel, each with its share of the clients.
    """
    if not broker.clients:
        return
    timing = broker.options.shutdown
    await sleep(broker.clock, timing.lame_duck_grace_period_s)
    # The process of the tables ends after the last client, when the server stops.
    clients = [one for one in broker.clients.values() if one.own_login is None]
    spread_s = timing.lame_duck_duration_s - timing.lame_duck_grace_period_s
    gap_s = min(spread_s / max(len(clients), 1), _GAP_MAX_S * processes)
    for connection in clients:
        if connection.reason is None:  # many have left by themselves meanwhile
            connection.close(ClosedReason.SERVER_SHUTDOWN)
            if broker.clients:
                await sleep(broker.clock, broker.random.uniform(gap_s / 2, gap_s))
