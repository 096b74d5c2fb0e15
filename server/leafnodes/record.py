"""What monitoring shows of a leaf node link."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from midge.server.clients.closed_clients import (
    SUBSCRIPTIONS_KEPT,
    ClosedSubscription,
    ConnectionRecord,
    common_fields,
)
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from midge.server.leafnodes.link import LeafLink


def leafnode_record(
    link: LeafLink, stopped_at: float, subscriptions_max: int = SUBSCRIPTIONS_KEPT
) -> ConnectionRecord:
    """Describe a link to a leaf node or a hub; the latter is not named, as on nats-server."""
    told = [
        ClosedSubscription(subject, queue, b" ".join(filter(None, (subject, queue))), 0, 0)
        for subject, queue in islice(link.interest, subscriptions_max)
    ]
    return ConnectionRecord(
        kind="Leafnode",
        name=link.name if link.role == Role.LEAF else "",
        version=link.side.version,
        user=link.side.user,
        display_name=link.account.name,
        pending_bytes=link.outbound.pending_bytes(),
        subscription_count=len(link.interest),
        subscriptions=told,
        **common_fields(link, stopped_at),
    )
