"""The metrics of streams and consumers, each by its name, up to a bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from midge.server.monitoring.long_lists import StepBudget

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.stream.stream import Stream
    from midge.server.jetstream.engine import Engine
    from midge.server.monitoring.state import State
    from midge.server.tables.table_service import TableState

Named = tuple[list[tuple[str, str]], Any]
"""The labels of a stream or a consumer with their values, and itself."""

_LINE_STEPS = 2  # 1 to 2 us, as much as two subscriptions of a list

_OF_STREAMS: tuple[tuple[str, str, Callable[[Stream], float]], ...] = (
    ("messages", "Messages that a stream holds", lambda one: one.store.messages),
    ("bytes", "Bytes that a stream holds", lambda one: one.store.bytes),
    ("subjects", "Subjects that a stream holds", lambda one: one.store.subject_count),
    ("last_sequence", "Last sequence that a stream has used", lambda one: one.store.last_seq),
    ("consumers", "Consumers of a stream", lambda one: len(one.consumers)),
    ("lag_messages", "Messages a mirror or its sources lag behind", lambda one: one.origins.lag()),
)
_OF_CONSUMERS: tuple[tuple[str, str, Callable[[Consumer], float]], ...] = (
    ("lag_messages", "Messages not delivered yet", lambda one: _lag(one)),
    ("ack_pending", "Messages that await their acks", lambda one: len(one.acks.pending)),
    ("redelivered", "Messages delivered more than once", lambda one: one.acks.num_redelivered()),
    ("waiting", "Pull requests that wait", lambda one: one.receivers.num_waiting()),
    ("delivered", "Deliveries so far", lambda one: one.acks.delivered_consumer_seq),
    ("ack_floor_sequence", "All up to it is settled", lambda one: one.acks.shown_floor_seq),
)


def totals(state: State) -> Iterator[Metric]:
    """Yield what there is of JetStream in all; nothing while it is off."""
    engine = state.jetstream
    if engine is None:
        return
    yield from _totals(engine)
    bound = state.broker.options.monitoring.max_jetstream_series
    left = GaugeMetricFamily(
        "midge_jetstream_series_left_out", "What is not listed by name, by kind", labels=["kind"]
    )
    streams = [one for _, one in _streams(engine)]
    left.add_metric(["streams"], max(len(streams) - bound, 0))
    left.add_metric(["consumers"], max(sum(len(_durable(one)) for one in streams) - bound, 0))
    yield left


async def lines_by_name(state: State) -> bytes:
    """Return the lines about each stream and durable consumer, made in pieces.

    This function writes the lines itself, because the library takes 45 us a line: the 12,000 lines
    of the default limit would block the loop for half a second.
    """
    engine = state.jetstream
    if engine is None:
        return b""
    bound = state.broker.options.monitoring.max_jetstream_series
    steps = StepBudget()
    streams = list(islice(_streams(engine), bound))
    consumers = list(islice(_consumers(engine), bound))
    pieces = [
        *[piece async for piece in _lines("midge_stream", _OF_STREAMS, streams, steps)],
        *[piece async for piece in _lines("midge_consumer", _OF_CONSUMERS, consumers, steps)],
    ]
    return "".join(pieces).encode()


def _totals(engine: Engine) -> Iterator[Metric]:
    """Yield the sums of the server, and what accounts have asked."""
    streams = [one for _, one in _streams(engine)]
    limits = engine.context.limits
    for name, text, value in (
        ("streams", "Streams there are", len(streams)),
        ("consumers", "Consumers there are", sum(len(one.consumers) for one in streams)),
        ("messages", "Messages in all streams", sum(one.store.messages for one in streams)),
        ("memory_bytes", "Bytes in streams in memory", engine.context.memory.used),
        ("storage_bytes", "Bytes in streams in files", engine.context.storage.used),
        ("reserved_memory_bytes", "Bytes of memory reserved", limits.reserved_memory),
        ("reserved_storage_bytes", "Bytes of files reserved", limits.reserved_storage),
    ):
        yield GaugeMetricFamily(f"midge_jetstream_{name}", text, value)
    requests = CounterMetricFamily(
        "midge_jetstream_api_requests", "Requests to the API, by account", labels=["account"]
    )
    refused = CounterMetricFamily(
        "midge_jetstream_api_errors", "Requests refused, by account", labels=["account"]
    )
    for name, home in engine.accounts.items():
        if home.limits is not None:
            requests.add_metric([name], home.streams.api_total)
            refused.add_metric([name], home.streams.api_errors)
    yield from (requests, refused)


def _streams(engine: Engine) -> Iterator[Named]:
    """Yield all streams by account and name."""
    for account, home in sorted(engine.accounts.items()):
        for name, stream in sorted(home.streams.streams.items()):
            yield [("account", account), ("stream", name)], stream


def _consumers(engine: Engine) -> Iterator[Named]:
    """Yield the durable consumers by account, stream and name.

    Others come and go, and each would leave a series behind.
    """
    for labels, stream in _streams(engine):
        for consumer in sorted(_durable(stream), key=lambda one: one.name):
            name = consumer.name.decode(errors="replace")
            yield [*labels, ("consumer", name)], consumer


def _lag(consumer: Consumer) -> int:
    consumer.acks.recount()
    return max(consumer.acks.num_pending, 0)


def _durable(stream: Stream) -> list[Consumer]:
    return [one for one in stream.consumers if one.config.durable_name]


async def _lines(
    prefix: str,
    columns: tuple[tuple[str, str, Callable[[Any], float]], ...],
    found: list[Named],
    steps: StepBudget,
) -> AsyncIterator[str]:
    """Yield the lines of one kind, a metric after the other."""
    labels = [(",".join(f'{label}="{_escaped(value)}"' for label, value in of), one)
              for of, one in found]  # fmt: skip
    for name, text, value in columns:
        yield f"# HELP {prefix}_{name} {text}\n# TYPE {prefix}_{name} gauge\n"
        for shown, one in labels:
            yield f"{prefix}_{name}{{{shown}}} {value(one)}\n"
            await steps.charge(_LINE_STEPS)


def _escaped(value: str) -> str:
    """Return a label's value as the text form wants it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


_TABLE_LABELS = ["account", "stream", "table"]
_TABLE_COUNTERS = {
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
    for name, text in _TABLE_COUNTERS.items():
        counter = CounterMetricFamily(f"midge_table_{name}", text, labels=_TABLE_LABELS)
        for table in tables:
            counter.add_metric(_table_labels(table), getattr(table, name))
        yield counter
    lag = GaugeMetricFamily(
        "midge_table_lag_messages",
        "Sequences of the stream after the table's",
        labels=_TABLE_LABELS,
    )
    failing = GaugeMetricFamily(
        "midge_table_failing", "1 while a table cannot be brought up to date", labels=_TABLE_LABELS
    )
    for table in tables:
        lag.add_metric(_table_labels(table), _table_lag(state, table))
        failing.add_metric(_table_labels(table), float(bool(table.error)))
    yield from (lag, failing)


def _table_labels(table: TableState) -> list[str]:
    return [table.account, table.settings.stream, table.settings.name]


def _table_lag(state: State, table: TableState) -> int:
    home = None if state.jetstream is None else state.jetstream.accounts.get(table.account)
    stream = None if home is None else home.streams.streams.get(table.settings.stream)
    return 0 if stream is None else max(0, stream.store.last_seq - table.position)
