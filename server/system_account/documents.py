"""The documents of the system account's events and answers, about the server and its clients.

Field names and order are nats-server's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from midge.protocol import COMPATIBLE_VERSION
from midge.server.clients.client_info import client_info, issuer_key_of
from midge.server.monitoring import go_format
from midge.server.monitoring.routez import routes_of
from midge.server.monitoring.state import State
from midge.server.monitoring.varz import by_kind, feature_flags

if TYPE_CHECKING:
    from midge.server.clients.connection import Connection
    from midge.server.peers.link import Link

_ADVISORY = "io.nats.server.advisory.v1."


_JETSTREAM_FLAGS = 7
"""The capabilities that a nats-server with JetStream names by its bits."""


class Documents:
    """Makes the documents of one server, and numbers the documents that describe it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._broker = state.broker
        self._sequence = 0

    def server_info(self) -> dict[str, Any]:
        """Return the fields of this server, each time with the next sequence number."""
        self._sequence += 1
        broker = self._broker
        return {
            "name": self.state.server_name,
            "host": broker.host,
            "id": broker.keys.server_id,
            **self._groups(),
            "ver": COMPATIBLE_VERSION,
            **self.state.labels,
            "feature_flags": feature_flags(broker.options),
            "jetstream": self.state.jetstream is not None,
            "flags": _JETSTREAM_FLAGS if self.state.jetstream is not None else 0,
            "seq": self._sequence,
            "time": go_format.timestamp(broker.clock.wall()),
        }

    def _groups(self) -> dict[str, str]:
        """Return the cluster and the domain of the server, where it has them."""
        state, jetstream = self.state, self._broker.options.jetstream
        found = {
            "cluster": state.cluster.name if state.cluster is not None else "",
            "domain": jetstream.domain if jetstream.enabled else "",
        }
        return {name: value for name, value in found.items() if value}

    def statistics(self, totals: dict[str, Any]) -> dict[str, Any]:
        """Return the counts of `STATSZ`; `totals` are the counts of the `statsz` page."""
        broker = self._broker
        sent = {"msgs": totals["out_messages"], "bytes": totals["out_bytes"]}
        received = {"msgs": totals["in_messages"], "bytes": totals["in_bytes"]}
        statistics = {
            "start": go_format.timestamp(self.state.started_at),
            "mem": totals["mem"],
            "cores": self.state.usage.cores(),
            "cpu": totals["cpu"],
            "connections": totals["connections"],
            "total_connections": totals["total_connections"],
            "active_accounts": sum(bool(account.clients) for account in broker.accounts.values()),
            "subscriptions": totals["subscriptions"],
            "sent": sent,
            "sent_to_clients": sent,
            "received": received,
            "received_from_clients": received,
            **_counts_of_failures(totals),
            **self._routes(),
            "active_servers": 1,
            "gomaxprocs": 1,
        }
        if self.state.jetstream is not None:
            # Its modules are loaded where JetStream is on.
            from midge.server.monitoring.jetstream_details import section  # noqa: PLC0415

            statistics["jetstream"] = section(self.state.jetstream)
            del statistics["jetstream"]["config"]["store_dir"]
        return {"server": self.server_info(), "statsz": statistics}

    def _routes(self) -> dict[str, Any]:
        """Return the traffic of each route; nothing without one."""
        found = [
            {
                "rid": link.cid,
                "name": link.name,
                "sent": {"msgs": link.out_messages, "bytes": link.out_bytes},
                "received": {"msgs": link.in_messages, "bytes": link.in_bytes},
                "pending": link.outbound.pending_bytes(),
            }
            for link in routes_of(self.state)
        ]
        return {"routes": found} if found else {}

    def account_connections(self, counts: dict[str, Any]) -> dict[str, Any]:
        """Return the `counts` of an account as `CONNS`."""
        return {**self._head("account_connections"), **counts}

    def connect_event(self, connection: Connection) -> dict[str, Any]:
        """Describe an admitted client."""
        return {**self._head("client_connect"), "client": self._client(connection)}

    def disconnect_event(self, connection: Connection) -> dict[str, Any]:
        """Describe the end of a connection; `sent` here counts from the client's side."""
        now = go_format.timestamp(self._broker.clock.wall())
        round_trip_s = connection.channel.keepalive.round_trip_s
        measured = {"rtt": go_format.nanoseconds(round_trip_s)} if round_trip_s else {}
        return {
            **self._head("client_disconnect"),
            "client": {**self._client(connection), **measured, "stop": now},
            "sent": {"msgs": connection.in_messages, "bytes": connection.in_bytes},
            "received": {"msgs": connection.out_messages, "bytes": connection.out_bytes},
            "reason": connection.reason.value if connection.reason else "",
        }

    def leafnode_connect_event(self, link: Link) -> dict[str, Any]:
        """Describe a leaf node that has been accepted."""
        return {**self._head("client_connect"), "client": self._leafnode(link)}

    def leafnode_disconnect_event(self, link: Link) -> dict[str, Any]:
        """Describe the end of the link of a leaf node, counted from the leaf's side."""
        now = go_format.timestamp(self._broker.clock.wall())
        return {
            **self._head("client_disconnect"),
            "client": {**self._leafnode(link), "stop": now},
            "sent": {"msgs": link.in_messages, "bytes": link.in_bytes},
            "received": {"msgs": link.out_messages, "bytes": link.out_bytes},
            "reason": link.reason.value if link.reason else "",
        }

    def _leafnode(self, link: Link) -> dict[str, Any]:
        end = link.end
        user = {"user": end.user} if end.user else {}
        version = {"ver": end.version} if end.version else {}
        return {
            "start": go_format.timestamp(link.joined_at),
            "host": link.peer_host,
            "id": link.cid,
            "acc": link.account.name,
            **user,
            "name": link.name,
            **version,
            "kind": "Leafnode",
            "name_tag": link.account.name,
        }

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "type": _ADVISORY + kind,
            "id": os.urandom(11).hex(),
            "timestamp": go_format.timestamp(self._broker.clock.wall()),
            "server": self.server_info(),
        }

    def _client(self, connection: Connection) -> dict[str, Any]:
        identity = connection.identity
        of_token = {
            "jwt": connection.options.jwt,
            "issuer_key": issuer_key_of(connection),
            "tags": [] if identity is None else list(identity.tags),
        }
        return {
            **client_info(connection, self.state.wall_offset()),
            **{name: value for name, value in of_token.items() if value},
            "name_tag": connection.account.name,
        }


def _counts_of_failures(totals: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of slow and stale connections, by kind where there are any."""
    slow = by_kind(totals["slow_consumers"], totals["slow_routes"], totals["slow_leafs"])
    stale = by_kind(totals["stale_connections"], totals["stale_routes"], totals["stale_leafs"])
    found: dict[str, Any] = {
        "slow_consumer_stats": any(slow.values()) and slow,
        "stale_connections": sum(stale.values()),
        "stale_connection_stats": any(stale.values()) and stale,
        "stalled_clients": totals["stalled_clients"],
    }
    named = {name: value for name, value in found.items() if value}
    return {"slow_consumers": sum(slow.values()), **named}
