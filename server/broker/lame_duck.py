"""The end of lame duck mode: close the remaining clients one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.clients.closed_reason import ClosedReason
from midge.server.clock import sleep

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker


async def close_slowly(broker: Broker) -> None:
    """Wait for clients to leave by themselves, then close the remaining ones one by one."""
    if not broker.clients:
        return
    timing = broker.options.shutdown
    await sleep(broker.clock, timing.lame_duck_grace_period_s)
    clients = list(broker.clients.values())
    spread_s = timing.lame_duck_duration_s - timing.lame_duck_grace_period_s
    gap_s = min(spread_s / max(len(clients), 1), 1.0)
    for connection in clients:
        if connection.reason is None:  # many have left by themselves meanwhile
            connection.close(ClosedReason.SERVER_SHUTDOWN)
            if broker.clients:
                await sleep(broker.clock, broker.random.uniform(gap_s / 2, gap_s))
