"""`/metrics`: the server's counts in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from midge.protocol import COMPATIBLE_VERSION
from midge.server.channels.closed_reason import ClosedReason
from midge.server.log.logger import JOURNAL
from midge.server.monitoring.routez import links_of, routes_of
from midge.server.monitoring.state import limits_met, server_totals
from midge.server.monitoring.stream_metrics import lines_by_name, table_metrics, totals
from midge.server.routing.role import Role
from midge.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Totals
    from midge.server.histogram import Histogram
    from midge.server.monitoring.state import State
    from midge.server.peers.link import Link

_COUNTERS = {
    "connections": ("total_connections", "Connections ever made"),
    "in_messages": ("received_messages", "Messages received from clients"),
    "in_bytes": ("received_bytes", "Bytes of messages received from clients"),
    "out_messages": ("sent_messages", "Messages sent to clients"),
    "out_bytes": ("sent_bytes", "Bytes of messages sent to clients"),
    "slow_consumers": ("slow_consumers", "Clients closed because they did not read"),
    "stale_connections": ("stale_connections", "Clients closed because they did not answer PING"),
}
_RECORDER_COUNTERS = {
    "written": ("written_rows", "Rows in visible segments"),
    "dropped": ("dropped_rows", "Rows dropped because the writer was too far behind"),
    "lost": ("lost_rows", "Rows that could not be written"),
    "errors": ("errors", "Failures to write"),
    "segments": ("segments", "Segments written"),
}
_SIZE_POWERS = range(2, 14)
"""Buckets of message sizes: 16 B, 64 B, 256 B and so on, up to 64 MiB."""
_PER_ACCOUNT = ("in_messages", "in_bytes", "out_messages", "out_bytes", "slow_consumers")


class HubCollector(Collector):
    """Collects from the broker at each scrape, so that it costs nothing in between."""

    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Return the current value of all metrics."""
        yield from self._server()
        yield from self._accounts()
        yield from leafnode_metrics(self._state)
        yield from route_metrics(self._state)
        yield from totals(self._state)
        yield from table_metrics(self._state)
        yield from self._recorder()
        yield from self._process()

    def _server(self) -> Iterator[Metric]:
        state = self._state
        broker = state.broker
        labels = {
            "version": COMPATIBLE_VERSION,
            "midge": __version__,
            "server_id": broker.keys.server_id,
            "name": state.server_name,
        }
        yield InfoMetricFamily("midge_server", "The server", labels)
        totals = server_totals(broker)
        for field, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(f"midge_{name}", text, getattr(totals, field))
        yield self._sizes(totals.in_bytes)
        yield CounterMetricFamily(
            "midge_stalled_clients", "Times a fast producer was held back", broker.stalled_clients
        )
        yield from self._limits()
        yield GaugeMetricFamily("midge_connections", "Connections there are", len(broker.clients))
        yield GaugeMetricFamily(
            "midge_pending_bytes",
            "Bytes that wait for clients to read them",
            sum(client.outbound.pending_bytes() for client in list(broker.clients.values())),
        )

    def _sizes(self, total_bytes: float) -> Metric:
        """Return the sizes of clients' messages, from the router's counts by powers of four."""
        counts = self._state.broker.router.sizes
        buckets = [(str(4**power), float(sum(counts[: power + 1]))) for power in _SIZE_POWERS]
        buckets.append(("+Inf", float(sum(counts))))
        text = "Sizes of messages received from clients"
        return HistogramMetricFamily(
            "midge_message_size_bytes", text, buckets=buckets, sum_value=total_bytes
        )

    def _recorder(self) -> Iterator[Metric]:
        """Return the recorder's counts; nothing without one."""
        if self._state.recorder is not None:
            for name, value in self._state.recorder.counts()._asdict().items():
                metric, text = _RECORDER_COUNTERS[name]
                yield CounterMetricFamily(f"midge_recorder_{metric}", text, value)

    def _limits(self) -> Iterator[Metric]:
        """Return the counts of closed connections, refusals and reached limits."""
        broker = self._state.broker
        closed = CounterMetricFamily(
            "midge_closed_connections", "Connections that ended, by reason", labels=["reason"]
        )
        for reason in ClosedReason:
            closed.add_metric([reason.value], broker.closed_by_reason[reason])
        sent = CounterMetricFamily(
            "midge_errors_sent", "-ERR after which the client went on, by kind", labels=["error"]
        )
        for error, count in sorted(broker.errors_sent.items()):
            sent.add_metric([error], count)
        limits = CounterMetricFamily(
            "midge_limits_met", "Times a limit was met, by limit", labels=["limit"]
        )
        for limit, count in limits_met(broker).items():
            limits.add_metric([limit], count)
        yield from (closed, sent, limits)
        yield GaugeMetricFamily(
            "midge_closed_connections_kept",
            "Connections in /connz?state=closed",
            len(broker.closed),
        )
        yield CounterMetricFamily(
            "midge_log_lines_lost", "Lines that could not be written", JOURNAL.lost_lines
        )
        yield CounterMetricFamily(
            "midge_internal_faults",
            "Exceptions of the server's own subscribers and observers",
            broker.router.faults.count,
        )

    def _quotas(self) -> Iterator[Metric]:
        """Return how often a quota held publishers back; nothing where none is set."""
        held = CounterMetricFamily(
            "midge_publish_quota_holds",
            "Times that a quota held a publisher back",
            labels=["account", "user"],
        )
        for (account, user), quota in self._state.broker.quotas.items():
            held.add_metric([account, user], quota.holds)
        if held.samples:
            yield held

    def _accounts(self) -> Iterator[Metric]:
        yield from self._quotas()
        broker = self._state.broker
        connections = GaugeMetricFamily(
            "midge_account_connections", "Connections of an account", labels=["account"]
        )
        subscriptions = GaugeMetricFamily(
            "midge_account_subscriptions", "Subscriptions of an account", labels=["account"]
        )
        matches = CounterMetricFamily(
            "midge_account_matches", "Subjects looked up", labels=["account"]
        )
        hits = CounterMetricFamily(
            "midge_account_match_cache_hits", "Subjects known when looked up", labels=["account"]
        )
        counters = {field: _account_counter(field) for field in _PER_ACCOUNT}
        for name, account in list(broker.accounts.items()):
            connections.add_metric([name], len(account.clients))
            statistics = account.sublist.stats()
            subscriptions.add_metric([name], statistics.subscriptions)
            matches.add_metric([name], statistics.matches)
            hits.add_metric([name], statistics.cache_hits)
            _add_totals(counters, name, self._state.account_totals.totals(broker, name))
        yield from (connections, subscriptions, matches, hits, *counters.values())

    def _process(self) -> Iterator[Metric]:
        state = self._state
        usage = state.usage
        now = state.broker.clock.wall()
        yield GaugeMetricFamily("midge_uptime_seconds", "Time since start", now - state.started_at)
        yield GaugeMetricFamily(
            "midge_memory_bytes", "Resident memory", float(usage.memory_bytes())
        )
        yield GaugeMetricFamily("midge_cpu_percent", "CPU use", usage.cpu_percent())
        yield GaugeMetricFamily("midge_open_files", "Open file descriptors", usage.open_files())
        if state.loop_delay is not None:
            text = "How late the event loop calls a timer"
            yield _histogram("midge_loop_delay_seconds", text, state.loop_delay)
        if state.jetstream is not None:
            text = "How long a write takes with its sync"
            yield _histogram("midge_sync_seconds", text, state.jetstream.sync_seconds)


def _histogram(name: str, text: str, values: Histogram) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, text, buckets=values.buckets(), sum_value=values.total)


def _account_counter(field: str) -> CounterMetricFamily:
    name, text = _COUNTERS[field]
    return CounterMetricFamily(f"midge_account_{name}", f"{text}, by account", labels=["account"])


def _add_totals(counters: dict[str, CounterMetricFamily], name: str, totals: Totals) -> None:
    for field, metric in counters.items():
        metric.add_metric([name], getattr(totals, field))


class Metrics:
    """The metrics page."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, state: State) -> None:
        self._state = state
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(HubCollector(state))

    def page(self) -> bytes:
        """Return the page, without what `by_name` returns."""
        return generate_latest(self._registry)

    async def by_name(self) -> bytes:
        """Return the rest of the page: streams and consumers by name."""
        return await lines_by_name(self._state)


_OF_LEAF = ["account", "server", "role"]
_LEAF_COUNTERS = {
    "in_messages": ("received_messages", "Messages that came over the link"),
    "in_bytes": ("received_bytes", "Bytes of messages that came over the link"),
    "out_messages": ("sent_messages", "Messages sent over the link"),
    "out_bytes": ("sent_bytes", "Bytes of messages sent over the link"),
}


def leafnode_metrics(state: State) -> Iterator[Metric]:
    """Yield the values of each link that is up, by account, other server and what that is to us.

    Links of which these are equal are added up.
    """
    nodes = state.leafnodes
    if nodes is None:
        return
    by_label: dict[tuple[str, str, str], list[Link]] = {}
    for link in links_of(state):
        role = "hub" if link.role == Role.HUB else "leaf"
        by_label.setdefault((link.account.name, link.name, role), []).append(link)
    yield from _link_gauges(by_label)
    for field, (name, text) in _LEAF_COUNTERS.items():
        counter = CounterMetricFamily(f"midge_leafnode_{name}", text, labels=_OF_LEAF)
        for labels, links in by_label.items():
            counter.add_metric(labels, sum(getattr(link, field) for link in links))
        yield counter
    connects = CounterMetricFamily(
        "midge_leafnode_connects",
        "Times that a link has come up",
        labels=["account"],
    )
    for account, count in nodes.connects.items():
        connects.add_metric([account], count)
    yield connects


def _link_gauges(by_label: dict[tuple[str, str, str], list[Link]]) -> Iterator[Metric]:
    up = GaugeMetricFamily("midge_leafnodes", "Links that are up", labels=_OF_LEAF)
    pending = GaugeMetricFamily(
        "midge_leafnode_pending_bytes",
        "Bytes that wait to be sent over the link",
        labels=_OF_LEAF,
    )
    interest = GaugeMetricFamily(
        "midge_leafnode_subscriptions",
        "Interest that the other server has announced",
        labels=_OF_LEAF,
    )
    round_trip = GaugeMetricFamily(
        "midge_leafnode_rtt_seconds",
        "Round trip of the last PING, the longest",
        labels=_OF_LEAF,
    )
    for labels, links in by_label.items():
        up.add_metric(labels, len(links))
        pending.add_metric(labels, sum(link.outbound.pending_bytes() for link in links))
        interest.add_metric(labels, sum(link.announced.count for link in links))
        longest_s = max(link.channel.keepalive.round_trip_s or 0.0 for link in links)
        round_trip.add_metric(labels, longest_s)
    yield from (up, pending, interest, round_trip)


_ROUTE_COUNTERS = {
    "in_messages": ("received_messages", "Messages that came over the route"),
    "in_bytes": ("received_bytes", "Bytes of messages that came over the route"),
    "out_messages": ("sent_messages", "Messages sent over the route"),
    "out_bytes": ("sent_bytes", "Bytes of messages sent over the route"),
}

_ROUTE_GAUGES: dict[str, tuple[str, Callable[[list[Link]], float]]] = {
    "pending_bytes": (
        "Bytes that wait to be sent over the route",
        lambda links: sum(link.outbound.pending_bytes() for link in links),
    ),
    "subscriptions": (
        "Interest that the other server has announced",
        lambda links: sum(link.announced.count for link in links),
    ),
    "rtt_seconds": (
        "Round trip of the last PING",
        lambda links: max(link.channel.keepalive.round_trip_s or 0.0 for link in links),
    ),
}


def route_metrics(state: State) -> Iterator[Metric]:
    """Yield the values of the routes that are up, by the other server: of all routes to it."""
    cluster = state.cluster
    if cluster is None:
        return
    links = routes_of(state)
    by_server: dict[str, list[Link]] = {}
    for link in links:
        by_server.setdefault(link.name, []).append(link)
    up = GaugeMetricFamily("midge_routes", "Routes that are up")
    up.add_metric([], len(links))
    yield up
    for name, (text, value) in _ROUTE_GAUGES.items():
        gauge = GaugeMetricFamily(f"midge_route_{name}", text, labels=["server"])
        for server, to_it in by_server.items():
            gauge.add_metric([server], value(to_it))
        yield gauge
    for field, (name, text) in _ROUTE_COUNTERS.items():
        counter = CounterMetricFamily(f"midge_route_{name}", text, labels=["server"])
        for server, to_it in by_server.items():
            counter.add_metric([server], sum(getattr(one, field) for one in to_it))
        yield counter
    connects = CounterMetricFamily("midge_route_connects", "Times that a route has come up")
    connects.add_metric([], cluster.connects)
    yield connects
