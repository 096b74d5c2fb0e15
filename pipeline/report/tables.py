"""Tables of the report as HTML; a click shows the rows beyond the first ones."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from midge.pipeline.report.rows import Row

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
