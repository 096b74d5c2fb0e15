"""The report: all gold tables in one HTML file that needs neither network nor Spark."""

import csv
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import plotly.io
import pyarrow as pa
from plotly.offline import get_plotlyjs

from midge.client.errors import reason_of
from midge.pipeline.errors import PipelineError
from midge.pipeline.lake.delta_log import DeltaLog
from midge.pipeline.lake.lake_table import LakeError
from midge.pipeline.lake.storage import as_uri
from midge.pipeline.lake.tables import GOLD
from midge.pipeline.report.rows import Gold, Row, exchanges, listened, span, subjects
from midge.pipeline.report.sections import LISTENED, NOT_RECORDED, SECTIONS, ReportSection

_DASH = "\N{EN DASH}"


def read_gold(lake: str) -> Gold:
    """Return the gold tables of a lake, by path or URI.

    Raises:
        LakeError: the lake does not exist, or a table is missing or cannot be read.
    """
    if "://" not in lake and not Path(lake).expanduser().is_dir():
        raise LakeError(f"{lake}: no such directory; expected a lake of `midge pipeline run`")
    gold: dict[str, list[dict[str, Any]]] = {}
    for table in GOLD:
        handle = DeltaLog(f"{as_uri(lake)}/{table.name}", table).handle
        if handle is None:
            raise LakeError(f"{lake}: has no {table.name}; run `midge pipeline run` first")
        try:
            rows = handle.to_pyarrow_table()
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"{lake}: {table.name} cannot be read: {reason_of(error)}") from error
        gold[table.name.removeprefix("gold/")] = rows.to_pylist()
    return gold


def write_report(
    gold: Gold,
    path: Path,
    title: str = "midge traffic report",
    other: Gold | None = None,
    other_name: str = "",
) -> None:
    """Write the report to `path`; an existing file is replaced only by a complete report.

    Raises:
        PipelineError: it cannot be written there.
    """
    document = render(gold, title, other, other_name)
    scratch = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(document, encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise PipelineError(f"{path}: cannot be written: {reason_of(error)}") from error


def write_csv(gold: Gold, directory: Path) -> None:
    """Write each gold table to a file of its name in `directory`; times are in UTC.

    Raises:
        PipelineError: it cannot be written there.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for table in GOLD:
            name = table.name.removeprefix("gold/")
            columns = [column.split()[0] for column in table.columns.split(", ")]
            with (directory / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, columns, extrasaction="ignore")
                writer.writeheader()
                writer.writerows(gold[name])
    except OSError as error:
        raise PipelineError(f"{directory}: cannot be written: {reason_of(error)}") from error


def render(
    gold: Gold,
    title: str = "midge traffic report",
    other: Gold | None = None,
    other_name: str = "",
) -> str:
    """Return the report as one HTML document, with a comparison if there is another recording."""
    sections = "\n".join(_render_section(section, gold) for section in SECTIONS)
    if other is not None:
        sections = f"{_render_comparison(gold, other, other_name)}\n{sections}"
    links = "".join(f'<a href="#{each.anchor}">{escape(each.title)}</a>' for each in SECTIONS)
    figures = "".join(
        f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in headline(gold)
    )
    note = f'<p class="note">{escape(LISTENED)}</p>' if listened(gold)[1] else ""
    style, script = (_part(name) for name in ("report.css", "report.js"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
<script>{get_plotlyjs()}</script>
<script>{script}</script>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p>{escape(_span(gold))}</p>{note}
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
    """Return the figures at the top of the report, each with its name and value."""
    fan_out = gold["fan_out"]
    slowest = max((row["p99_us"] for row in exchanges(gold)), default=None)
    return [
        ("messages", f"{sum(row['messages'] for row in fan_out):,}"),
        ("received", format_bytes(sum(row["bytes"] for row in fan_out))),
        *_of_deliveries(fan_out),
        ("subjects", f"{len(subjects(gold)):,}"),
        *_of_clients(gold),
        ("slowest p99 of replies", _DASH if slowest is None else format_time(slowest)),
    ]


def _of_deliveries(fan_out: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the figures about deliveries; messages without counted deliveries are excluded."""
    names = ("deliveries per message", "messages to nobody")
    counted = [row for row in fan_out if row["deliveries"] is not None]
    messages = sum(row["messages"] for row in counted)
    if fan_out and not counted:
        return [(f"{name}: not recorded", _DASH) for name in names]
    deliveries = sum(row["messages"] * row["deliveries"] for row in counted)
    unheard = sum(row["messages"] for row in counted if row["deliveries"] == 0)
    values = (f"{deliveries / max(1, messages):.2f}", f"{unheard / max(1, messages):.1%}")
    return list(zip(names, values, strict=True))


def _of_clients(gold: Gold) -> list[tuple[str, str]]:
    """Return the figures that need the identities of clients."""
    by_themselves, listened_to = listened(gold)
    slow = sum(row["disconnects"] for row in gold["slow_consumers"])
    values = {"publishing clients": len(gold["talkers"]), "slow consumers": slow}
    if listened_to and not by_themselves:
        return [(f"{name}: not recorded", _DASH) for name in values]
    return [(name, f"{value:,}") for name, value in values.items()]


def format_time(us: int) -> str:
    """Return a time for people: milliseconds, or seconds from the first one on."""
    return f"{us / 1000:,.1f} ms" if us < 1_000_000 else f"{us / 1_000_000:,.2f} s"


def format_bytes(size: float) -> str:
    """Return a size for people, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def _render_section(section: ReportSection, gold: Gold) -> str:
    wide = ' class="wide"' if section.is_wide else ""
    return (
        f'<section id="{section.anchor}"{wide}><h2>{escape(section.title)}</h2>'
        f'<p class="about">{escape(section.about)}</p>{_render_body(section, gold)}</section>'
    )


def _render_comparison(gold: Gold, other: Gold, name: str) -> str:
    """Return the figures of two recordings, and the subjects whose messages changed most."""
    figures = [
        {"figure": figure, "this": now, "other": was}
        for (figure, now), (_, was) in zip(headline(gold), headline(other), strict=True)
    ]
    here, there = (
        {row["subject"]: row["messages"] for row in subjects(each)} for each in (gold, other)
    )
    changes = [
        {
            "subject": subject,
            "this": here.get(subject, 0),
            "other": there.get(subject, 0),
            "change": here.get(subject, 0) - there.get(subject, 0),
        }
        for subject in here.keys() | there.keys()
    ]
    changed = [each for each in changes if each["change"]]
    changed.sort(key=lambda each: (-abs(each["change"]), each["subject"]))
    tables = render_table("subjects", figures, ("figure", "this", "other"))
    if changed:
        tables += render_table("subjects", changed, ("subject", "this", "other", "change"))
    return (
        f'<section id="compared" class="wide"><h2>Compared with {escape(name)}</h2>'
        f'<p class="about">The figures of both recordings, and the subjects by the change of their '
        f"messages.</p>{tables}</section>"
    )


def _render_body(section: ReportSection, gold: Gold) -> str:
    """Return the plot or the table of a section, or the reason why it is empty."""
    by_themselves, listened_to = listened(gold) if section.needs_server else ([], [])
    if listened_to and not by_themselves:
        return f'<p class="nothing">{escape(NOT_RECORDED)}</p>'
    left_out = ""
    if listened_to:
        left_out = f'<p class="about">Not recorded of {escape(", ".join(listened_to))}.</p>'
    rows = section.rows(gold)
    if not rows:
        return f'{left_out}<p class="nothing">{escape(section.nothing)}</p>'
    if section.plot is None:
        return left_out + render_table(section.table, rows, section.columns)
    html: str = plotly.io.to_html(
        section.plot(rows),
        include_plotlyjs=False,
        full_html=False,
        div_id=f"plot-{section.anchor}",
        config={"displaylogo": False, "responsive": True},
    )
    return left_out + html


def _part(name: str) -> str:
    path = resources.files("midge.pipeline.report").joinpath(name)
    return str(path.read_text(encoding="utf-8"))


def _span(gold: Gold) -> str:
    times = span(gold)
    if times is None:
        return "No messages were recorded."
    return f"{times[0]:%Y-%m-%d %H:%M:%S} to {times[1]:%Y-%m-%d %H:%M:%S} UTC"


ROWS_AT_FIRST = 20
"""Rows of a table that are visible without a click."""

ROWS_MAX = 1_000
"""Most rows of a table in the report, which a browser can show at once."""


def render_table(name: str, rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return the table of gold called `name` as HTML."""
    kept = rows[:ROWS_MAX]
    html = _render_rows(kept[:ROWS_AT_FIRST], rows, columns)
    if len(kept) > ROWS_AT_FIRST:
        rest = _render_rows(kept[ROWS_AT_FIRST:], rows, columns)
        count = len(kept) - ROWS_AT_FIRST
        html += f"<details><summary>{count:,} more rows</summary>{rest}</details>"
    if len(rows) > len(kept):
        left = len(rows) - len(kept)
        html += f'<p class="about">gold/{escape(name)} in the lake has {left:,} more.</p>'
    return html


def _render_rows(shown: Sequence[Row], rows: Sequence[Row], columns: Sequence[str]) -> str:
    classes = {name: _css_class(rows, name) for name in columns}
    titles = {name: escape(name.replace("_", " ")) for name in columns}
    head = "".join(f"<th{classes[name]}>{titles[name]}</th>" for name in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{classes[name]} data-name="{titles[name]}">{escape(_cell(row[name]))}</td>'
            for name in columns
        )
        + "</tr>"
        for row in shown
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _css_class(rows: Sequence[Row], name: str) -> str:
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
