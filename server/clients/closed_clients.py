"""The facts about closed connections that monitoring reports."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from midge.server.clients.client_info import issuer_key_of, user_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from midge.server.clients.connection import Connection
    from midge.server.routing.subscription import RoutedSubscription

SUBSCRIPTIONS_KEPT = 256
"""Most subscriptions remembered of one connection; the rest is only counted."""


KEPT_MAX_BYTES = 64 << 20
"""Most bytes, approximately, for all closed clients: clients choose the length of their names."""

_ENTRY_BYTES = 1024
_SUBSCRIPTION_BYTES = 256
_CHARACTER_BYTES = 4


class ClosedSubscription(Struct, frozen=True, gc=False):
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
        "display_name",
        "in_bytes",
        "in_messages",
        "issuer_key",
        "jwt",
        "lang",
        "last_active_at",
        "listener_kind",
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
        "weight_bytes",
    )

    def __init__(self, connection: Connection, stopped_at: float) -> None:
        options = connection.options
        held = connection.subscriptions
        self.account_name = connection.account.name
        self.cid = connection.cid
        self.user = user_of(connection)
        self.jwt = options.jwt
        self.issuer_key = issuer_key_of(connection)
        self.display_name = connection.identity.display_name if connection.identity else ""
        self.in_bytes = connection.in_bytes
        self.in_messages = connection.in_messages
        self.listener_kind = connection.listener_kind
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
        self.subscriptions = _remembered(held.values()) if held else []
        self.tls = connection.channel.tls_facts()
        self.version = options.version
        self.weight_bytes = self._weigh()

    def _weigh(self) -> int:
        """Estimate the memory of this object, in bytes."""
        texts = (self.name, self.lang, self.version, self.user, self.jwt)
        subjects = sum(len(one.subject) + len(one.sid) for one in self.subscriptions)
        return (
            _ENTRY_BYTES
            + _SUBSCRIPTION_BYTES * len(self.subscriptions)
            + _CHARACTER_BYTES * sum(map(len, texts))
            + subjects
        )


def _remembered(held: Iterable[RoutedSubscription]) -> list[ClosedSubscription]:
    """Return the first SUBSCRIPTIONS_KEPT of `held`."""
    return [
        ClosedSubscription(one.subject, one.queue, one.sid, one.max_messages, one.delivered)
        for one in islice(held, SUBSCRIPTIONS_KEPT)
    ]


class ClosedClients:
    """The latest closed connections, oldest first: at most `max_count`, and KEPT_MAX_BYTES."""

    def __init__(self, max_count: int) -> None:
        self.max_count = max_count
        self._kept: deque[ClosedClient] = deque()
        self._weight_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[ClosedClient]:
        return iter(self._kept)

    def append(self, client: ClosedClient) -> None:
        """Remember `client`; drop the oldest to make room."""
        self._kept.append(client)
        self._weight_bytes += client.weight_bytes
        self._make_room()

    def limit(self, max_count: int) -> None:
        """Keep at most `max_count` clients from now on."""
        self.max_count = max_count
        self._make_room()

    def _make_room(self) -> None:
        kept = self._kept
        while kept and (len(kept) > self.max_count or self._weight_bytes > KEPT_MAX_BYTES):
            self._weight_bytes -= kept.popleft().weight_bytes
