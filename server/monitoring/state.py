"""The data of the pages: the broker, and monitoring's own counts."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.protocol import errors
from midge.server.broker.broker import TOO_MANY_TOKENS, Observer, Totals
from midge.server.channels.closed_reason import ClosedReason
from midge.server.log.logger import JOURNAL

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.histogram import Histogram
    from midge.server.jetstream.engine import Engine
    from midge.server.monitoring.console.tail import Tails
    from midge.server.peers.cluster import Cluster
    from midge.server.peers.leaf_nodes import LeafNodes
    from midge.server.recorder.recorder import TrafficRecorder
    from midge.server.tables.table_service import TableService
    from midge.server.workers.worker_role import WorkerRole

_CLIENTS_PER_TURN = 1024
"""Clients that are added up in one turn, which takes 0.4 ms."""

_CLOCK_SLACK_S = 0.5
"""Smallest change of the clocks' difference, in seconds, that counts: below it, a connection's
times are equal on all pages."""


class State:
    """Everything that pages use; `started_at` and `configured_at` are Unix times.

    `jetstream` is None while JetStream is off, or has not recovered yet, and `recorder`,
    `leafnodes`, `cluster` and `tables` are None where the settings have none. `worker` is set in
    one of several workers.
    """

    def __init__(self, broker: Broker, worker: WorkerRole | None = None) -> None:
        self.broker = broker
        self.worker = worker
        self.usage = ProcessUsage()
        self.account_totals = AccountTotals()
        self.requests: Counter[str] = Counter()
        self.started_at = broker.clock.wall()
        self.configured_at = self.started_at
        self.config_digest = ""
        self.jetstream: Engine | None = None
        self.leafnodes: LeafNodes | None = None
        self.cluster: Cluster | None = None
        self.tables: TableService | None = None
        self.recorder: TrafficRecorder | None = None
        self.loop_delay: Histogram | None = None
        self._wall_offset = 0.0
        self._tails: Tails | None = None
        broker.observers.append(self.account_totals)
        self.http_address = (broker.options.monitoring.host or broker.options.listen.host, 0)
        self.https_port = 0
        self.websocket_port = 0
        self.leafnode_port = 0

    def tails(self) -> Tails:
        """Return the console's tails of this process, made on first use."""
        if self._tails is None:
            from midge.server.monitoring.console.tail import Tails  # noqa: PLC0415 - few have any

            self._tails = Tails(self.broker)
        return self._tails

    @property
    def server_name(self) -> str:
        """The configured name, or the server id."""
        return self.broker.options.server_name or self.broker.keys.server_id

    @property
    def labels(self) -> dict[str, Any]:
        """The server's tags, in small letters and once each, and its metadata; absent if none."""
        options = self.broker.options
        tags = dict.fromkeys(tag.strip().lower() for tag in options.server_tags)
        tags.pop("", None)
        labels = {"tags": list(tags), "metadata": options.server_metadata}
        return {name: found for name, found in labels.items() if found}

    def wall_offset(self) -> float:
        """Return the difference between Unix times and the clock's monotonic times."""
        clock = self.broker.clock
        offset = clock.wall() - clock.monotonic()
        if abs(offset - self._wall_offset) > _CLOCK_SLACK_S:
            self._wall_offset = offset  # the system's clock was set
        return self._wall_offset


_STATM = "/proc/self/statm"
_SHORTEST_SAMPLE_S = 0.5


class ProcessUsage:
    """Measures the process; CPU is in per cent of one core, since the previous call."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._at = clock()
        self._cpu_at = cpu_clock()
        self._percent = 0.0

    def cpu_percent(self) -> float:
        """Return the CPU share; calls in quick succession return the same one."""
        now = self._clock()
        elapsed = now - self._at
        if elapsed >= _SHORTEST_SAMPLE_S:
            cpu_now = self._cpu_clock()
            self._percent = round(100 * (cpu_now - self._cpu_at) / elapsed, 1)
            self._at = now
            self._cpu_at = cpu_now
        return self._percent

    @staticmethod
    def open_files() -> int:
        """Return the number of open file descriptors, 0 where the system does not say."""
        from pathlib import Path  # noqa: PLC0415 - with a page, long after the start

        try:
            return len(list(Path("/proc/self/fd").iterdir())) - 1  # without the one that lists them
        except OSError:
            return 0

    @staticmethod
    def memory_bytes() -> int:
        """Return the resident memory."""
        from pathlib import Path  # noqa: PLC0415 - with a page, long after the start

        try:
            pages = int(Path(_STATM).read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            import resource  # noqa: PLC0415 - only without /proc

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024
        return pages * os.sysconf("SC_PAGE_SIZE")

    @staticmethod
    def cores() -> int:
        """Count the cores that the process may run on."""
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:
            return os.cpu_count() or 1


class AccountTotals(Observer):
    """Counts by account: an observer of a broker; `totals` returns them."""

    def __init__(self) -> None:
        self._gone: dict[str, Totals] = {}

    def client_closed(self, connection: Connection) -> None:
        """Keep the counts of a client that has disconnected."""
        totals = self._gone.setdefault(connection.account.name, Totals())
        totals.connections += 1
        totals.add(connection)
        if connection.reason is not None and connection.reason.is_slow_consumer:
            totals.slow_consumers += 1

    def totals(self, broker: Broker, name: str) -> Totals:
        """Return the totals of an account: open and closed connections."""
        totals, live = self._begun(broker, name)
        totals.add_all(live)
        return totals

    async def totals_in_turns(self, broker: Broker, name: str) -> Totals:
        """Return the same, and yield to the event loop meanwhile."""
        return await _added_in_turns(*self._begun(broker, name))

    def _begun(self, broker: Broker, name: str) -> tuple[Totals, list[Connection]]:
        """Return the totals of the closed connections of an account, and the open ones."""
        gone = self._gone.get(name, Totals())
        account, clients = broker.accounts.get(name), broker.clients
        live = [clients[cid] for cid in account.clients if cid in clients] if account else []
        totals = gone.copy()
        totals.connections += len(live)
        return totals, live


def server_totals(broker: Broker) -> Totals:
    """Return the totals of the server: open and closed connections."""
    totals = broker.totals.copy()
    totals.add_all(list(broker.clients.values()))
    return totals


async def server_totals_in_turns(broker: Broker) -> Totals:
    """Return the same, and yield to the event loop meanwhile."""
    return await _added_in_turns(broker.totals.copy(), list(broker.clients.values()))


async def _added_in_turns(totals: Totals, clients: list[Connection]) -> Totals:
    for start in range(0, len(clients), _CLIENTS_PER_TURN):
        totals.add_all(clients[start : start + _CLIENTS_PER_TURN])
        await asyncio.sleep(0)
    return totals


def limits_met(broker: Broker) -> dict[str, int]:
    """Return for each limit how often it was reached."""
    met, closed, errors_sent = broker.limit_hits, broker.closed_by_reason, broker.errors_sent
    return {
        "bytes_before_authentication": met["bytes_before_authentication"],
        "time_before_authentication": closed[ClosedReason.AUTHENTICATION_TIMEOUT],
        "handshakes": met["handshakes"],
        "handshakes_per_second": met["handshakes_per_second"],
        "connections": met["connections"],
        "connections_per_account": closed[ClosedReason.MAXIMUM_ACCOUNT_CONNECTIONS],
        "connections_per_user": met["connections_per_user"],
        "connections_per_address": met["connections_per_address"],
        "publish_quota": met["publish_quota"],
        "subscriptions": errors_sent[errors.MAXIMUM_SUBSCRIPTIONS],
        "subscription_tokens": errors_sent[TOO_MANY_TOKENS],
        "control_line": closed[ClosedReason.MAXIMUM_CONTROL_LINE],
        "payload": closed[ClosedReason.MAXIMUM_PAYLOAD],
        "pending_bytes": closed[ClosedReason.SLOW_CONSUMER_PENDING],
        "write_deadline": closed[ClosedReason.SLOW_CONSUMER_DEADLINE],
        "last_words": met["last_words"],
        "closed_clients": max(0, closed.total() - len(broker.closed)),
        "log_lines_per_offender": JOURNAL.suppressed_lines,
        "system_requests": met["system_requests"],
        "monitoring_connections": met["monitoring_connections"],
        "monitoring_pages": met["monitoring_pages"],
        "hook_calls": met["hook_calls"],
        "inflated_bytes": met["inflated_bytes"],
        "finishing_connections": met["finishing_connections"],
        "response_grants": met["response_grants"],
        "jetstream_requests": met["jetstream_requests"],
        "jetstream_messages": met["jetstream_messages"],
        "leafnode_connections": met["leafnode_connections"],
        "leafnode_subscriptions": met["leafnode_subscriptions"],
        "leafnode_denied_messages": met["leafnode_denied_messages"],
        "leafnode_payload": met["leafnode_payload"],
        "route_connections": met["route_connections"],
        "route_accounts": met["route_accounts"],
        "route_subscriptions": met["route_subscriptions"],
        "route_denied_messages": met["route_denied_messages"],
        "route_payload": met["route_payload"],
        "route_gossip": met["route_gossip"],
        "service_requests": broker.admission.links.evicted_requests,
    }
