"""The server's events in the system account: clients that connect and disconnect, and counts.

Events are made only while they have a subscriber.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from midge.protocol import COMPATIBLE_VERSION
from midge.protocol.frame import compose
from midge.server.broker.broker import Broker, Observer
from midge.server.clients.client_info import client_info
from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.monitoring import accounts, go_format
from midge.server.monitoring.account_totals import server_totals
from midge.server.monitoring.state import State
from midge.server.routing.account import Account
from midge.server.system_account.requests import SystemRequests

if TYPE_CHECKING:
    from midge.server.clock import Timer

_STATISTICS_INTERVAL_S = 10.0
_FIRST_STATISTICS_INTERVAL_S = 0.25
"""The interval doubles from the first to the second: a new server publishes more often."""
_ADVISORY = "io.nats.server.advisory.v1."


class SystemEvents(Observer):
    """Publishes the events of one broker and answers requests; `reload` loads the configuration."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.reload: Callable[[], Awaitable[None]] | None = None
        self._broker: Broker = state.broker
        self._sequence = 0
        self._timer: Timer | None = None
        self._interval_s = _FIRST_STATISTICS_INTERVAL_S
        self._known: set[str] = set()
        self._requests = SystemRequests(self)

    def start(self) -> None:
        """Start to observe and to answer."""
        self._requests.subscribe_system()
        for account in list(self._broker.accounts.values()):
            self.account_made(account)
        self._broker.observers.append(self)
        self._broker.traces.send = self._send_trace
        self._tick()

    def stop(self) -> None:
        """Tell that the server goes, then nothing more."""
        self._broker.traces.send = None
        self._publish_own("SHUTDOWN", self.server_info())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._requests.close()

    def lame_duck(self) -> None:
        """Publish the event of lame duck mode."""
        self._publish_own("LAMEDUCK", self.server_info())

    # Called by the broker.

    def account_made(self, account: Account) -> None:
        """Offer the common services in a new account."""
        if account.name not in self._known:
            self._known.add(account.name)
            self._requests.subscribe_account(account)

    def client_connected(self, connection: Connection) -> None:
        """Publish the event of an admitted client."""
        if self._has_listeners():
            self._tell_connections(connection.account)
            self._tell(connection, "CONNECT", self._connect_event(connection))

    def client_closed(self, connection: Connection) -> None:
        """Publish the event of a client that has disconnected, or was refused."""
        if not self._has_listeners():
            return
        if connection.introduced:
            self._tell_connections(connection.account, leaving=len(connection.subscriptions))
        elif connection.reason is ClosedReason.AUTHENTICATION_FAILURE:
            self._publish_own("CLIENT.AUTH.ERR", self._disconnect_event(connection))
        self._tell(connection, "DISCONNECT", self._disconnect_event(connection))

    # Publishing.

    def leafnode_connected(self, account: str) -> None:
        """Tell that a link of `account` has come up."""
        if self._has_listeners():
            subject = b"$SYS.ACCOUNT.%b.LEAFNODE.CONNECT" % account.encode()
            document = {"server": self.server_info(), "acc": account}
            self.publish(self._broker.system_account, subject, document)

    def publish(self, account: Account, subject: bytes, document: Any) -> None:
        """Publish `document` as JSON in `account`, if it has subscribers."""
        result = account.sublist.match(subject)
        if not result:
            return
        frame = compose(subject, msgspec.json.encode(document))
        self._broker.internal.route_frame(account, result, frame, None)

    def _send_trace(self, account: Account, subject: bytes, trace: dict[str, Any]) -> None:
        """Publish the trace of a message to those in its account who listen on `subject`."""
        for event in trace["events"]:
            event["ts"] = go_format.timestamp(event["ts"])
        self.publish(account, subject, {"server": self.server_info(), **trace})

    def _has_listeners(self) -> bool:
        """Tell whether any client has subscribed in the system account."""
        return len(self._broker.system_account.sublist) > self._requests.subscribed

    def _publish_own(self, name: str, document: Any) -> None:
        self.publish(self._broker.system_account, self._own_subject(name), document)

    def _tell(self, connection: Connection, name: str, event: Any) -> None:
        subject = f"$SYS.ACCOUNT.{connection.account.name}.{name}"
        self.publish(self._broker.system_account, subject.encode(), event)

    def _tell_connections(self, account: Account, leaving: int = 0) -> None:
        """Publish the counts of an account, less the `leaving` subscriptions of a client."""
        name = account.name
        document = self.account_connections(account)
        document["num_subscriptions"] -= leaving
        for subject in (f"$SYS.SERVER.ACCOUNT.{name}.CONNS", f"$SYS.ACCOUNT.{name}.SERVER.CONNS"):
            self.publish(self._broker.system_account, subject.encode(), document)

    def _tick(self) -> bool:
        """Publish the counts, now and every few seconds; False without a subscriber."""
        self._timer = self._broker.clock.call_later(self._interval_s, self._tick)
        self._interval_s = min(2 * self._interval_s, _STATISTICS_INTERVAL_S)
        is_heard = bool(self._broker.system_account.sublist.match(self._own_subject("STATSZ")))
        if is_heard:
            self._publish_own("STATSZ", self.statistics())
        return is_heard

    def _own_subject(self, name: str) -> bytes:
        return f"$SYS.SERVER.{self._broker.keys.server_id}.{name}".encode()

    # Documents.

    def server_info(self) -> dict[str, Any]:
        """Return the fields of this server, each time with the next sequence number."""
        self._sequence += 1
        broker = self._broker
        return {
            "name": self.state.server_name,
            "host": broker.host,
            "id": broker.keys.server_id,
            "ver": COMPATIBLE_VERSION,
            **self.state.labels,
            "jetstream": False,
            "flags": 0,
            "seq": self._sequence,
            "time": go_format.timestamp(broker.clock.wall()),
        }

    def statistics(self) -> dict[str, Any]:
        """Return the counts of `STATSZ`."""
        broker = self._broker
        totals = server_totals(broker)
        usage = self.state.usage
        statistics = {
            "start": go_format.timestamp(self.state.started_at),
            "mem": usage.memory_bytes(),
            "cores": usage.cores(),
            "cpu": usage.cpu_percent(),
            "connections": len(broker.clients),
            "total_connections": totals.connections,
            "active_accounts": sum(bool(account.clients) for account in broker.accounts.values()),
            "subscriptions": sum(len(account.sublist) for account in broker.accounts.values()),
            "sent": {"msgs": totals.out_messages, "bytes": totals.out_bytes},
            "sent_to_clients": {"msgs": totals.out_messages, "bytes": totals.out_bytes},
            "received": {"msgs": totals.in_messages, "bytes": totals.in_bytes},
            "received_from_clients": {"msgs": totals.in_messages, "bytes": totals.in_bytes},
            "slow_consumers": totals.slow_consumers,
            "active_servers": 1,
            "gomaxprocs": 1,
        }
        return {"server": self.server_info(), "statsz": statistics}

    def account_connections(self, account: Account) -> dict[str, Any]:
        """Return the counts of an account for `CONNS`."""
        counts = accounts.account_statistics(self.state, account)
        return {**self._head("account_connections"), **counts}

    def _connect_event(self, connection: Connection) -> dict[str, Any]:
        return {**self._head("client_connect"), "client": self._client(connection)}

    def _disconnect_event(self, connection: Connection) -> dict[str, Any]:
        """Describe the end of a connection; `sent` here counts from the client's side."""
        now = go_format.timestamp(self._broker.clock.wall())
        round_trip_s = connection.keepalive.round_trip_s
        measured = {"rtt": go_format.nanoseconds(round_trip_s)} if round_trip_s else {}
        return {
            **self._head("client_disconnect"),
            "client": {**self._client(connection), **measured, "stop": now},
            "sent": {"msgs": connection.in_messages, "bytes": connection.in_bytes},
            "received": {"msgs": connection.out_messages, "bytes": connection.out_bytes},
            "reason": connection.reason.value if connection.reason else "",
        }

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "type": _ADVISORY + kind,
            "id": os.urandom(11).hex(),
            "timestamp": go_format.timestamp(self._broker.clock.wall()),
            "server": self.server_info(),
        }

    def _client(self, connection: Connection) -> dict[str, Any]:
        return {
            **client_info(connection, self.state.wall_offset()),
            "name_tag": connection.account.name,
        }
