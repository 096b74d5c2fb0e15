"""What is remembered of a connection after its end, for monitoring: nothing but facts."""

from typing import TYPE_CHECKING, NamedTuple

from midge.server.client_info import user_of

if TYPE_CHECKING:
    from midge.server.connection import Connection

SUBSCRIPTIONS_KEPT = 256
"""Subscriptions remembered of one connection; the count tells of the others."""


class ClosedSubscription(NamedTuple):
    """A subscription as it was when its connection ended."""

    subject: bytes
    queue: bytes | None
    sid: bytes
    max_messages: int
    delivered: int


class ClosedClient:
    """A connection as it was at its end, at the monotonic time `stopped_at`."""

    __slots__ = (
        "account_name",
        "cid",
        "in_bytes",
        "in_messages",
        "kind",
        "lang",
        "last_active_at",
        "name",
        "out_bytes",
        "out_messages",
        "peer_host",
        "peer_port",
        "reason",
        "round_trip_s",
        "started_at",
        "stopped_at",
        "subscription_count",
        "subscriptions",
        "tls",
        "user",
        "version",
    )

    def __init__(self, connection: "Connection", stopped_at: float) -> None:
        options = connection.options
        held = connection.subscriptions
        self.account_name = connection.account.name
        self.cid = connection.cid
        self.user = user_of(connection)
        self.in_bytes = connection.in_bytes
        self.in_messages = connection.in_messages
        self.kind = connection.kind
        self.lang = options.lang
        self.last_active_at = connection.last_active_at
        self.name = options.name
        self.out_bytes = connection.out_bytes
        self.out_messages = connection.out_messages
        self.peer_host = connection.peer_host
        self.peer_port = connection.peer_port
        self.reason = connection.reason.value if connection.reason else ""
        self.round_trip_s = connection.keepalive.round_trip_s
        self.started_at = connection.started_at
        self.stopped_at = stopped_at
        self.subscription_count = len(held)
        self.subscriptions = [
            ClosedSubscription(one.subject, one.queue, one.sid, one.max_messages, one.delivered)
            for one, _ in zip(held.values(), range(SUBSCRIPTIONS_KEPT), strict=False)
        ]
        self.tls = connection.tls_facts()
        self.version = options.version
