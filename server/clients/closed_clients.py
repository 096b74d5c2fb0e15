"""The facts about closed connections that monitoring reports."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from midge.server.clients.client_info import issuer_key_of, user_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from midge.server.channels.channel import ChannelOwner
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


class ConnectionRecord(Struct, kw_only=True, weakref=False):
    """What monitoring shows of a connection, as it was at its end or, of a leaf node, just now.

    Times are monotonic; `stopped_at` is 0 while the connection is open.
    """

    kind: str = "Client"
    listener_kind: str = ""
    cid: int
    name: str
    lang: str = ""
    version: str
    user: str
    jwt: str = ""
    issuer_key: str = ""
    tags: tuple[str, ...] = ()
    stalls: int = 0
    proxy_key: str = ""
    tls_first: bool = False
    account_name: str
    display_name: str
    peer_host: str
    peer_port: int
    started_at: float
    last_active_at: float
    stopped_at: float
    reason: str
    round_trip_s: float | None
    pending_bytes: int = 0
    in_messages: int
    out_messages: int
    in_bytes: int
    out_bytes: int
    subscription_count: int
    subscriptions: list[ClosedSubscription]
    tls: tuple[str, str] | None

    def weight_bytes(self) -> int:
        """Estimate the memory of this object, in bytes."""
        texts = (self.name, self.lang, self.version, self.user, self.jwt, *self.tags)
        subjects = sum(len(one.subject) + len(one.sid) for one in self.subscriptions)
        return (
            _ENTRY_BYTES
            + _SUBSCRIPTION_BYTES * len(self.subscriptions)
            + _CHARACTER_BYTES * sum(map(len, texts))
            + subjects
        )


def client_record(connection: Connection, stopped_at: float) -> ConnectionRecord:
    """Describe a client that has gone."""
    options = connection.options
    held = connection.subscriptions
    return ConnectionRecord(
        listener_kind=connection.listener_kind,
        name=options.name,
        lang=options.lang,
        version=options.version,
        user=user_of(connection),
        jwt=options.jwt,
        issuer_key=issuer_key_of(connection),
        tags=connection.identity.tags if connection.identity else (),
        stalls=stalls_of(connection),
        tls_first=is_tls_first(connection),
        proxy_key=connection.identity.proxy_key if connection.identity else "",
        display_name=connection.identity.display_name if connection.identity else "",
        subscription_count=len(held),
        subscriptions=_remembered(held.values()) if held else [],
        **common_facts(connection, stopped_at),
    )


def stalls_of(connection: Connection) -> int:
    """Count how often the server has paused the client because a receiver was behind."""
    pressure = connection.channel.back_pressure
    return 0 if pressure is None else pressure.stalls


def is_tls_first(connection: Connection) -> bool:
    """Return whether the client began with the TLS handshake, before INFO."""
    if not connection.owes_info or connection.listener_kind != "STANDARD":
        return False
    return connection.channel.tls_facts() is not None


def common_facts(connection: ChannelOwner, stopped_at: float) -> dict[str, Any]:
    """Return the fields that clients and links have in common."""
    return {
        "cid": connection.cid,
        "account_name": connection.account.name,
        "peer_host": connection.peer_host,
        "peer_port": connection.peer_port,
        "started_at": connection.started_at,
        "last_active_at": connection.last_active_at,
        "stopped_at": stopped_at,
        "reason": connection.reason.value if connection.reason else "",
        "round_trip_s": connection.channel.keepalive.round_trip_s,
        "in_messages": connection.in_messages,
        "out_messages": connection.out_messages,
        "in_bytes": connection.in_bytes,
        "out_bytes": connection.out_bytes,
        "tls": connection.channel.tls_facts(),
    }


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
        self._kept: deque[tuple[ConnectionRecord, int]] = deque()  # with their weights
        self._weight_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[ConnectionRecord]:
        return (record for record, _ in self._kept)

    def append(self, client: ConnectionRecord) -> None:
        """Remember `client`; drop the oldest to make room."""
        weight_bytes = client.weight_bytes()
        self._kept.append((client, weight_bytes))
        self._weight_bytes += weight_bytes
        self._make_room()

    def limit(self, max_count: int) -> None:
        """Keep at most `max_count` clients from now on."""
        self.max_count = max_count
        self._make_room()

    def _make_room(self) -> None:
        kept = self._kept
        while kept and (len(kept) > self.max_count or self._weight_bytes > KEPT_MAX_BYTES):
            self._weight_bytes -= kept.popleft()[1]
