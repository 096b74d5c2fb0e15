"""The sections of the report: the contents of each, and its text when it is empty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from midge.pipeline.report import plots, rows
from midge.pipeline.report.rows import Gold, Row

NOT_RECORDED = "Not recorded."

LISTENED = (
    "Some of this was not recorded: what listens to a server, as midge record does, hears the "
    "messages, but not who sends them, who takes them and who else is there. "
    "midge serve --record records all of it."
)


@dataclass(frozen=True)
class ReportSection:
    """A part of the report: a plot of a table, or the table itself."""

    table: str
    title: str
    about: str
    plot: Callable[[Sequence[Row]], go.Figure] | None = None
    columns: tuple[str, ...] = ()
    is_wide: bool = False
    nothing: str = "Nothing to show."
    needs_server: bool = True
    """Whether the data comes only from a server that records itself, not from a listener."""
    chosen: Callable[[Gold], Sequence[Row]] | None = None
    """The rows of gold to show; by default all rows of `table`."""
    name: str = ""
    """The section's place in the page, where another section shows the same table."""

    @property
    def anchor(self) -> str:
        """Return the section's place in the page."""
        return self.name or self.table

    def rows(self, gold: Gold) -> Sequence[Row]:
        """Return the rows to show."""
        return gold[self.table] if self.chosen is None else self.chosen(gold)


SECTIONS = (
    ReportSection(
        "rates",
        "Traffic",
        "Messages a second by subject prefix. "
        "A first or last window that was recorded in part is left out.",
        plots.rates,
        is_wide=True,
        needs_server=False,
        chosen=rows.whole_windows,
    ),
    ReportSection(
        "rates",
        "Bytes",
        "Bytes a second by subject prefix, over the same windows.",
        plots.byte_rates,
        is_wide=True,
        needs_server=False,
        chosen=rows.whole_windows,
        name="bytes",
    ),
    ReportSection(
        "subjects",
        "Top subjects",
        "The busiest subjects by messages; all inboxes count as one, and all acknowledgements.",
        plots.subjects,
        needs_server=False,
        chosen=rows.subjects,
    ),
    ReportSection("talkers", "Top talkers", "The clients that publish most.", plots.talkers),
    ReportSection(
        "fan_out",
        "Fan-out",
        "How often a message is delivered. Those in red reached nobody.",
        plots.fan_out,
        chosen=lambda gold: [row for row in gold["fan_out"] if row["deliveries"] is not None],
    ),
    ReportSection(
        "no_interest",
        "No interest",
        "Subjects that are published to and that nobody listened to.",
        plots.no_interest,
        nothing="Every message reached somebody.",
        chosen=rows.no_interest,
    ),
    ReportSection(
        "latency",
        "Request and reply",
        "Time to the first reply by the request's subject and where the reply went. "
        "Pull requests, which wait for messages, are left out.",
        plots.latency,
        is_wide=True,
        nothing="There were no requests with replies.",
        needs_server=False,
        chosen=rows.exchanges,
    ),
    ReportSection(
        "consumers",
        "Streams and consumers",
        "Messages that clients replied to, and the repeated deliveries of these. The lag is the "
        "messages that were undelivered after the last one.",
        columns=(
            "stream",
            "consumer",
            "messages",
            "redelivered",
            "max_deliveries",
            "lag",
            "max_lag",
        ),
        is_wide=True,
        nothing="No client acknowledged a stream's message.",
        needs_server=False,
    ),
    ReportSection(
        "queue_balance",
        "Queue groups",
        "What each member got, and what would be even.",
        plots.queue_balance,
        is_wide=True,
        nothing="No member of a queue group has left: what it got is recorded when it ends.",
    ),
    ReportSection(
        "dead_subscriptions",
        "Dead subscriptions",
        "No message ever matched these.",
        columns=("client_name", "pattern", "queue", "age_s", "server", "cid"),
        is_wide=True,
        nothing="Every subscription was used.",
    ),
    ReportSection(
        "duplicate_subscriptions",
        "Duplicate subscriptions",
        "A client receives the messages of these patterns for other subscriptions as well.",
        columns=("client_name", "pattern", "overlaps", "copies", "wasted_deliveries", "cid"),
        is_wide=True,
        nothing="No client received a message twice.",
    ),
    ReportSection(
        "disconnects",
        "Disconnects",
        "Why connections ended.",
        plots.disconnects,
        nothing="No connection ended.",
    ),
    ReportSection(
        "late_data",
        "Late data",
        "Messages that came after the watermark, by batch of the job.",
        plots.late_data,
        needs_server=False,
    ),
    ReportSection(
        "slow_consumers",
        "Slow consumers",
        "Clients that were cut off because they could not keep up.",
        columns=("client_name", "disconnects", "reason", "out_msgs", "out_bytes", "last_time"),
        is_wide=True,
        nothing="Every client kept up.",
    ),
    ReportSection(
        "reconciliation",
        "Reconciliation",
        "Plain deliveries that the server counted, and those that matching finds. "
        "It does not find deliveries to streams, and of streams to their consumers.",
        columns=("server", "account", "recorded", "matched", "difference"),
        is_wide=True,
    ),
)
