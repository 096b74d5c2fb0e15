"""The console's summary of all clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker

SLOW_MAX = 5
_SLOW_MIN_BYTES = 64 * 1024  # output that only waits for the end of a turn is less than a chunk


def clients_now(broker: Broker) -> dict[str, Any]:
    """Count what clients subscribe to, and name those that are furthest behind."""
    clients = list(broker.clients.values())
    pending = [(one.outbound.pending_bytes(), one) for one in clients]
    slow = [pair for pair in pending if pair[0] >= _SLOW_MIN_BYTES]
    slow.sort(key=lambda pair: -pair[0])
    return {
        "subscriptions": sum(len(one.subscriptions) for one in clients),
        "slow": [
            {"cid": one.cid, "name": one.options.name, "pending_bytes": size}
            for size, one in slow[:SLOW_MAX]
        ],
    }
