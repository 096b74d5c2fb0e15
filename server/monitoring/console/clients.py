"""The console's summary of all clients and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.server.monitoring.limits_met import limits_met
from midge.server.monitoring.long_lists import StepBudget

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker

SLOW_MAX = 5
_SLOW_MIN_BYTES = 64 * 1024  # output that only waits for the end of a turn is less than a chunk


async def clients_now(broker: Broker) -> dict[str, Any]:
    """Count what clients subscribe to, name the slowest, and count the limits that were reached."""
    subscriptions, steps = 0, StepBudget()
    slow: list[dict[str, Any]] = []
    for client in list(broker.clients.values()):
        subscriptions += len(client.subscriptions)
        size = client.outbound.pending_bytes()
        if size >= _SLOW_MIN_BYTES:
            slow.append({"cid": client.cid, "name": client.options.name, "pending_bytes": size})
        await steps.charge(1)
    slow.sort(key=lambda one: -one["pending_bytes"])
    reached = {name: count for name, count in limits_met(broker).items() if count}
    return {"subscriptions": subscriptions, "slow": slow[:SLOW_MAX], "limits": reached}
