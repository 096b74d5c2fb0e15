"""The part of `/metrics` about streams that are tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from midge.server.monitoring.state import State
    from midge.server.tables.service import TableState

_LABELS = ["account", "stream", "table"]
_COUNTERS = {
    "rows": "Rows put into a table since the start of its process",
    "quarantined": "Messages that did not fit the columns, since then",
    "lost": "Messages removed from the stream before they were read, since then",
    "commits": "Commits to a table, since then",
}


def table_metrics(state: State) -> Iterator[Metric]:
    """Yield the values of each table; nothing without tables."""
    service = state.tables
    if service is None:
        return
    yield CounterMetricFamily(
        "midge_table_process_starts", "Times the process of the tables was started", service.starts
    )
    tables = list(service.tables.values())
    for name, text in _COUNTERS.items():
        counter = CounterMetricFamily(f"midge_table_{name}", text, labels=_LABELS)
        for table in tables:
            counter.add_metric(_labels(table), getattr(table, name))
        yield counter
    lag = GaugeMetricFamily(
        "midge_table_lag_messages", "Sequences of the stream after the table's", labels=_LABELS
    )
    failing = GaugeMetricFamily(
        "midge_table_failing", "1 while a table cannot be brought up to date", labels=_LABELS
    )
    for table in tables:
        lag.add_metric(_labels(table), _lag(state, table))
        failing.add_metric(_labels(table), float(bool(table.error)))
    yield from (lag, failing)


def _labels(table: TableState) -> list[str]:
    return [table.account, table.settings.stream, table.settings.name]


def _lag(state: State, table: TableState) -> int:
    home = None if state.jetstream is None else state.jetstream.accounts.get(table.account)
    stream = None if home is None else home.streams.streams.get(table.settings.stream)
    return 0 if stream is None else max(0, stream.store.last_seq - table.position)
