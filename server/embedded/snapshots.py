"""Typed, immutable snapshots of an embedded server's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from midge.protocol.text import decode

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.embedded.direct import Direct
    from midge.server.routing.subscription import RoutedSubscription


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A snapshot of one client connection."""

    cid: int
    name: str
    """Client name in CONNECT."""
    user: str
    account: str
    host: str
    port: int
    kind: str
    """Its listener's kind: `STANDARD` or `WEBSOCKET`."""
    lang: str
    version: str
    """Version of the client library."""
    subscriptions: int
    in_messages: int
    """Messages that the server received from it."""
    in_bytes: int
    out_messages: int
    out_bytes: int
    pending_bytes: int
    """Output that its socket has not taken yet."""
    round_trip_s: float | None
    """Round-trip time, None before the first PONG."""
    uptime_s: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class SubscriptionView:
    """A snapshot of one subscription."""

    subject: str
    queue: str | None
    account: str
    delivered: int
    """Messages delivered to it so far."""
    cid: int | None
    """Its connection; None for a subscription of the process itself."""
    sid: str
    client_name: str


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since the start; `out_messages` does not include deliveries within the process."""

    connections: int
    total_connections: int
    subscriptions: int
    in_messages: int
    in_bytes: int
    out_messages: int
    out_bytes: int
    slow_consumers: int
    stale_connections: int
    stalled_producers: int


def view_connection(connection: Connection) -> ConnectionView:
    """Return the snapshot of one connection."""
    options, identity = connection.options, connection.identity
    now = connection.broker.clock.monotonic()
    return ConnectionView(
        cid=connection.cid,
        name=options.name,
        user="" if identity is None else identity.user,
        account=connection.account.name,
        host=connection.peer_host,
        port=connection.peer_port,
        kind=connection.listener_kind,
        lang=options.lang,
        version=options.version,
        subscriptions=len(connection.subscriptions),
        in_messages=connection.in_messages,
        in_bytes=connection.in_bytes,
        out_messages=connection.out_messages,
        out_bytes=connection.out_bytes,
        pending_bytes=connection.outbound.pending_bytes(),
        round_trip_s=connection.channel.keepalive.round_trip_s,
        uptime_s=now - connection.started_at,
        idle_s=now - connection.last_active_at,
    )


def view_subscriptions(broker: Broker, direct: Direct) -> list[SubscriptionView]:
    """List the clients' subscriptions, and then the process's own subscriptions."""
    views = [
        _view_subscription(subscription, connection.account.name, connection)
        for connection in broker.clients.values()
        for subscription in connection.subscriptions.values()
    ]
    for own in direct.subscriptions:
        views.append(_view_subscription(own, own.account.name, None))
    return views


def view_stats(broker: Broker, direct: Direct) -> Stats:
    """Return the counts of open and closed connections together."""
    live, gone = list(broker.clients.values()), broker.totals
    in_process = len(direct.subscriptions)
    return Stats(
        connections=len(live),
        total_connections=gone.connections,
        subscriptions=in_process + sum(len(one.subscriptions) for one in live),
        in_messages=gone.in_messages + direct.in_messages + sum(one.in_messages for one in live),
        in_bytes=gone.in_bytes + direct.in_bytes + sum(one.in_bytes for one in live),
        out_messages=gone.out_messages + sum(one.out_messages for one in live),
        out_bytes=gone.out_bytes + sum(one.out_bytes for one in live),
        slow_consumers=gone.slow_consumers,
        stale_connections=gone.stale_connections,
        stalled_producers=broker.stalled_clients,
    )


def _view_subscription(
    subscription: RoutedSubscription, account: str, connection: Connection | None
) -> SubscriptionView:
    queue = subscription.queue
    return SubscriptionView(
        subject=decode(subscription.subject),
        queue=None if queue is None else decode(queue),
        account=account,
        delivered=subscription.delivered,
        cid=None if connection is None else connection.cid,
        sid=decode(subscription.sid),
        client_name="" if connection is None else connection.options.name,
    )
