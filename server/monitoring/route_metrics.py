"""The part of `/metrics` about routes to the other servers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from midge.server.monitoring.routez import routes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from midge.server.monitoring.state import State
    from midge.server.peers.route import RouteLink

_COUNTERS = {
    "in_messages": ("received_messages", "Messages that came over the route"),
    "in_bytes": ("received_bytes", "Bytes of messages that came over the route"),
    "out_messages": ("sent_messages", "Messages sent over the route"),
    "out_bytes": ("sent_bytes", "Bytes of messages sent over the route"),
}

_GAUGES: dict[str, tuple[str, Callable[[RouteLink], float]]] = {
    "pending_bytes": (
        "Bytes that wait to be sent over the route",
        lambda link: link.outbound.pending_bytes(),
    ),
    "subscriptions": (
        "Interest that the other server has told",
        lambda link: link.interest_count,
    ),
    "rtt_seconds": (
        "Round trip of the last PING",
        lambda link: link.keepalive.round_trip_s or 0.0,
    ),
}


def route_metrics(state: State) -> Iterator[Metric]:
    """Yield the values of each route that is up, by the other server."""
    cluster = state.cluster
    if cluster is None:
        return
    links = routes_of(state)
    up = GaugeMetricFamily("midge_routes", "Routes that are up")
    up.add_metric([], len(links))
    yield up
    for name, (text, value) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"midge_route_{name}", text, labels=["server"])
        for link in links:
            gauge.add_metric([link.name], value(link))
        yield gauge
    for field, (name, text) in _COUNTERS.items():
        counter = CounterMetricFamily(f"midge_route_{name}", text, labels=["server"])
        for link in links:
            counter.add_metric([link.name], getattr(link, field))
        yield counter
    connects = CounterMetricFamily("midge_route_connects", "Times that a route has come up")
    connects.add_metric([], cluster.connects)
    yield connects
