"""The part of `/metrics` about links to other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from midge.server.monitoring.leafz import links_of
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from midge.server.monitoring.state import State
    from midge.server.peers.leaf import LeafLink

_LABELS = ["account", "server", "role"]
_COUNTERS = {
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
    by_label: dict[tuple[str, str, str], list[LeafLink]] = {}
    for link in links_of(state):
        role = "hub" if link.role == Role.HUB else "leaf"
        by_label.setdefault((link.account.name, link.name, role), []).append(link)
    yield from _gauges(by_label)
    for field, (name, text) in _COUNTERS.items():
        counter = CounterMetricFamily(f"midge_leafnode_{name}", text, labels=_LABELS)
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


def _gauges(by_label: dict[tuple[str, str, str], list[LeafLink]]) -> Iterator[Metric]:
    up = GaugeMetricFamily("midge_leafnodes", "Links that are up", labels=_LABELS)
    pending = GaugeMetricFamily(
        "midge_leafnode_pending_bytes", "Bytes that wait to be sent over the link", labels=_LABELS
    )
    interest = GaugeMetricFamily(
        "midge_leafnode_subscriptions", "Interest that the other server has told", labels=_LABELS
    )
    round_trip = GaugeMetricFamily(
        "midge_leafnode_rtt_seconds", "Round trip of the last PING, the longest", labels=_LABELS
    )
    for labels, links in by_label.items():
        up.add_metric(labels, len(links))
        pending.add_metric(labels, sum(link.outbound.pending_bytes() for link in links))
        interest.add_metric(labels, sum(link.interest_count for link in links))
        longest_s = max(link.keepalive.round_trip_s or 0.0 for link in links)
        round_trip.add_metric(labels, longest_s)
    yield from (up, pending, interest, round_trip)
