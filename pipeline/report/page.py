"""The report: all gold tables in one HTML file that needs neither network nor Spark."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io
import pyarrow as pa
import pyarrow.dataset as ds
from plotly.offline import get_plotlyjs
from pyarrow import fs

from midge.pipeline.errors import PipelineError, reason_of
from midge.pipeline.lake.storage import as_path
from midge.pipeline.lake.tables import GOLD, LakeError
from midge.pipeline.report import plots

Gold = Mapping[str, Sequence[Mapping[str, Any]]]
"""The rows of each gold table, by its name without the layer."""

ROWS_MAX = 200
"""How many rows of a table the report shows."""


@dataclass(frozen=True)
class _Section:
    """A part of the report: a plot of a table, the table itself, or both."""

    table: str
    title: str
    about: str
    plot: Callable[[Sequence[Mapping[str, Any]]], go.Figure] | None = None
    columns: tuple[str, ...] = ()
    is_wide: bool = False
    nothing: str = "Nothing to show."


_SECTIONS = (
    _Section(
        "rates",
        "Traffic",
        "Messages a second by subject prefix.",
        plots.rates,
        is_wide=True,
    ),
    _Section("subjects", "Top subjects", "The busiest subjects by messages.", plots.subjects),
    _Section("talkers", "Top talkers", "The clients that publish most.", plots.talkers),
    _Section(
        "fan_out",
        "Fan-out",
        "How often a message is delivered. Those in red reached nobody.",
        plots.fan_out,
    ),
    _Section(
        "no_interest",
        "No interest",
        "Subjects that are published to and that nobody listened to.",
        plots.no_interest,
        nothing="Every message reached somebody.",
    ),
    _Section(
        "latency",
        "Request and reply",
        "Time to the first reply by the request's subject and where the reply went.",
        plots.latency,
        is_wide=True,
        nothing="There were no requests with replies.",
    ),
    _Section(
        "queue_balance",
        "Queue groups",
        "What each member got, and what would be even.",
        plots.queue_balance,
        is_wide=True,
        nothing="There were no queue groups.",
    ),
    _Section(
        "dead_subscriptions",
        "Dead subscriptions",
        "No message ever matched these.",
        columns=("client_name", "pattern", "queue", "age_s", "server", "cid"),
        nothing="Every subscription was used.",
    ),
    _Section(
        "duplicate_subscriptions",
        "Duplicate subscriptions",
        "These receive the same messages more than once.",
        columns=("client_name", "pattern", "queue", "copies", "wasted_deliveries", "cid"),
        nothing="No client subscribed twice.",
    ),
    _Section("disconnects", "Disconnects", "Why connections ended.", plots.disconnects),
    _Section(
        "slow_consumers",
        "Slow consumers",
        "Clients that were cut off because they could not keep up.",
        columns=("client_name", "disconnects", "reason", "out_msgs", "out_bytes", "last_time"),
        nothing="Every client kept up.",
    ),
    _Section(
        "late_data",
        "Late data",
        "Messages that came after the watermark, by batch of the job.",
        plots.late_data,
    ),
    _Section(
        "reconciliation",
        "Reconciliation",
        "Plain deliveries that the server counted, and those that matching finds.",
        columns=("server", "account", "recorded", "matched", "difference"),
    ),
)


def read_gold(lake: str) -> Gold:
    """Return the gold tables of a lake, by path or URI.

    Raises:
        LakeError: there are none, or one is missing or cannot be read.
    """
    system, root = _open(lake)
    gold: dict[str, list[dict[str, Any]]] = {}
    for table in GOLD:
        place = f"{root}/{table.name}"
        if system.get_file_info(place).type != fs.FileType.Directory:
            raise LakeError(f"{lake}: has no {table.name}; run `midge pipeline run` first")
        try:
            rows = ds.dataset(place, filesystem=system, format="parquet").to_table()
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"{lake}: {table.name} cannot be read: {reason_of(error)}") from error
        gold[table.name.removeprefix("gold/")] = rows.to_pylist()
    return gold


def write_report(gold: Gold, path: Path, title: str = "midge traffic report") -> None:
    """Write the report to `path`, replacing what is there only when it is whole.

    Raises:
        PipelineError: it cannot be written there.
    """
    document = render(gold, title)
    scratch = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(document, encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise PipelineError(f"{path}: cannot be written: {reason_of(error)}") from error


def render(gold: Gold, title: str = "midge traffic report") -> str:
    """Return the report as one HTML document."""
    sections = "\n".join(_render_section(section, gold) for section in _SECTIONS)
    links = "".join(f'<a href="#{each.table}">{escape(each.title)}</a>' for each in _SECTIONS)
    figures = "".join(
        f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in headline(gold)
    )
    style = (
        resources.files("midge.pipeline.report").joinpath("report.css").read_text(encoding="utf-8")
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
<script>{get_plotlyjs()}</script>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p>{escape(_span(gold))}</p>
<nav>{links}</nav>
<div class="figures">{figures}</div>
</header>
<main><div class="sections">
{sections}
</div></main>
<footer>Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by midge pipeline report.</footer>
</body>
</html>
"""


def headline(gold: Gold) -> list[tuple[str, str]]:
    """Return the figures at the top of the report: what each is, and its value."""
    fan_out = gold["fan_out"]
    messages = sum(row["messages"] for row in fan_out)
    deliveries = sum(row["messages"] * row["deliveries"] for row in fan_out)
    unheard = sum(row["messages"] for row in fan_out if row["deliveries"] == 0)
    slowest = max((row["p99_us"] for row in gold["latency"]), default=None)
    return [
        ("messages", f"{messages:,}"),
        ("received", format_bytes(sum(row["bytes"] for row in fan_out))),
        ("deliveries per message", f"{deliveries / max(1, messages):.2f}"),
        ("messages to nobody", f"{unheard / max(1, messages):.1%}"),
        ("subjects", f"{len(gold['subjects']):,}"),
        ("publishing clients", f"{len(gold['talkers']):,}"),
        (
            "slowest p99 of replies",
            "\N{EN DASH}" if slowest is None else f"{slowest / 1000:,.1f} ms",
        ),
        ("slow consumers", f"{sum(row['disconnects'] for row in gold['slow_consumers']):,}"),
    ]


def format_bytes(size: float) -> str:
    """Return a size for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def _render_section(section: _Section, gold: Gold) -> str:
    rows = gold[section.table]
    if not rows:
        body = f'<p class="nothing">{escape(section.nothing)}</p>'
    elif section.plot is not None:
        body = plotly.io.to_html(
            section.plot(rows),
            include_plotlyjs=False,
            full_html=False,
            div_id=f"plot-{section.table}",
            config={"displaylogo": False, "responsive": True},
        )
    else:
        body = _render_table(rows, section.columns)
    wide = ' class="wide"' if section.is_wide else ""
    return (
        f'<section id="{section.table}"{wide}><h2>{escape(section.title)}</h2>'
        f'<p class="about">{escape(section.about)}</p>{body}</section>'
    )


def _render_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    head = "".join(
        f"<th{_css_class(rows, name)}>{escape(name.replace('_', ' '))}</th>" for name in columns
    )
    lines = [
        "<tr>"
        + "".join(
            f"<td{_css_class(rows, name)}>{escape(_cell(row[name]))}</td>" for name in columns
        )
        + "</tr>"
        for row in rows[:ROWS_MAX]
    ]
    more = f'<p class="about">{len(rows) - ROWS_MAX:,} more.</p>' if len(rows) > ROWS_MAX else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll">{table}{more}</div>'


def _css_class(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    is_number = all(isinstance(row[name], int | float) or row[name] is None for row in rows)
    return ' class="number"' if is_number and rows[0][name] is not None else ""


def _cell(value: Any) -> str:
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _span(gold: Gold) -> str:
    times = [row[name] for row in gold["subjects"] for name in ("first_time", "last_time")]
    if not times:
        return "No messages were recorded."
    return f"{min(times):%Y-%m-%d %H:%M:%S} to {max(times):%Y-%m-%d %H:%M:%S} UTC"


def _open(lake: str) -> tuple[fs.FileSystem, str]:
    if "://" in lake and not lake.startswith("file:"):
        try:
            system, root = fs.FileSystem.from_uri(lake.replace("s3a://", "s3://", 1))
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"{lake}: {reason_of(error)}") from error
        return system, root
    path = Path(as_path(lake)) if lake.startswith("file:") else Path(lake).expanduser()
    if not path.is_dir():
        raise LakeError(f"{lake}: no such directory; expected a lake of `midge pipeline run`")
    return fs.LocalFileSystem(), str(path.absolute())
