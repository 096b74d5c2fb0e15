"""The plots of the report, one function each: rows of a gold table in, a figure out.

Subjects and names come from peers, so every text that goes into a figure is escaped first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

Row = Mapping[str, Any]

TOP = 15
"""How many bars a ranking shows."""

_PALETTE = (
    *("#1f6f8b", "#e08e45", "#5a9367", "#b5526e", "#7a6fb0", "#c9b03c", "#4ba3c3", "#8a6d5a"),
    *("#9aa7b2", "#d17a9a", "#3f7d5f", "#a05d2c"),
)
_OTHER = "#c9d1d8"


def rates(rows: Sequence[Row]) -> go.Figure:
    """Messages a second over time, the busiest prefixes apart and the rest together."""
    totals: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        totals[row["prefix"]] += row["messages"]
    busiest = sorted(totals, key=lambda prefix: (-totals[prefix], prefix))[: len(_PALETTE)]
    windows = sorted({row["window_start"] for row in rows})
    series: dict[str, defaultdict[Any, float]] = {name: defaultdict(float) for name in busiest}
    other: defaultdict[Any, float] = defaultdict(float)
    for row in rows:
        series.get(row["prefix"], other)[row["window_start"]] += row["messages_per_s"]
    figure = go.Figure()
    colors = dict(zip(busiest, _PALETTE, strict=False))
    stacked = [*series.items(), ("all others", other)] if other else list(series.items())
    for name, values in stacked:
        figure.add_scatter(
            x=windows,
            y=[values[window] for window in windows],
            name=_label(name),
            mode="lines",
            stackgroup="all",
            line={"width": 0.5, "color": colors.get(name, _OTHER)},
            hovertemplate="%{y:,.1f}/s",
        )
    figure.update_layout(hovermode="x unified", yaxis_title="messages/s")
    return _styled(figure, height=380, has_legend=True)


def subjects(rows: Sequence[Row]) -> go.Figure:
    """The busiest subjects by messages."""
    top = sorted(rows, key=lambda row: row["place"])[:TOP]
    return _ranking([row["subject"] for row in top], [row["messages"] for row in top], "messages")


def talkers(rows: Sequence[Row]) -> go.Figure:
    """The clients that publish most."""
    top = sorted(rows, key=lambda row: row["place"])[:TOP]
    names = [_client(row) for row in top]
    return _ranking(names, [row["messages"] for row in top], "messages", _PALETTE[1])


def fan_out(rows: Sequence[Row]) -> go.Figure:
    """How many messages were delivered how many times."""
    counts: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        counts[row["deliveries"]] += row["messages"]
    figure = go.Figure()
    figure.add_bar(
        x=sorted(counts),
        y=[counts[each] for each in sorted(counts)],
        marker_color=[_PALETTE[3] if each == 0 else _PALETTE[0] for each in sorted(counts)],
        hovertemplate="%{x} deliveries: %{y:,} messages<extra></extra>",
    )
    figure.update_layout(xaxis_title="deliveries per message", yaxis_title="messages")
    figure.update_yaxes(type="log")
    return _styled(figure)


def no_interest(rows: Sequence[Row]) -> go.Figure:
    """The subjects with most messages that reached nobody."""
    top = sorted(rows, key=lambda row: -row["messages"])[:TOP]
    return _ranking(
        [row["subject"] for row in top], [row["messages"] for row in top], "messages", _PALETTE[3]
    )


def queue_balance(rows: Sequence[Row]) -> go.Figure:
    """Each member's share of its queue group beside the fair share."""
    ordered = sorted(rows, key=lambda row: (row["queue"], row["pattern"], row["cid"]))[: 4 * TOP]
    names = [f"{row['queue']}: {_client(row)}" for row in ordered]
    figure = go.Figure()
    figure.add_bar(
        x=[_label(name) for name in names],
        y=[row["share"] for row in ordered],
        name="share",
        marker_color=_PALETTE[0],
        hovertemplate="%{x}<br>%{y:.1%}<extra></extra>",
    )
    figure.add_scatter(
        x=[_label(name) for name in names],
        y=[row["fair_share"] for row in ordered],
        name="fair share",
        mode="markers",
        marker={"symbol": "line-ew-open", "size": 26, "color": _PALETTE[1], "line": {"width": 3}},
        hovertemplate="fair: %{y:.1%}<extra></extra>",
    )
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return _styled(figure, has_legend=True)


def latency(rows: Sequence[Row]) -> go.Figure:
    """Percentiles of the time to the reply, by the request's subject and the reply's prefix."""
    ordered = sorted(rows, key=lambda row: (-row["requests"], row["subject"]))[:TOP]
    names = [_label(f"{row['subject']} → {row['reply_prefix']}", 44) for row in ordered]
    figure = go.Figure()
    for column, color in (("p50_us", "#9cc7d4"), ("p90_us", "#4b93aa"), ("p99_us", "#12475a")):
        figure.add_bar(
            y=names,
            x=[row[column] / 1000 for row in ordered],
            name=column.removesuffix("_us"),
            orientation="h",
            marker_color=color,
            hovertemplate="%{x:,.2f} ms",
        )
    figure.update_xaxes(type="log", title="ms")
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_layout(barmode="group", hovermode="y unified")
    return _styled(figure, has_legend=True, height=max(300, 60 + 48 * len(names)))


def disconnects(rows: Sequence[Row]) -> go.Figure:
    """Why connections ended."""
    counts: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        counts[row["reason"]] += row["disconnects"]
    reasons = sorted(counts, key=lambda reason: -counts[reason])
    return _ranking(reasons, [counts[reason] for reason in reasons], "disconnects", _PALETTE[4])


def late_data(rows: Sequence[Row]) -> go.Figure:
    """Messages on time and late, by batch."""
    ordered = sorted(rows, key=lambda row: row["batch"])
    batches = [row["batch"] for row in ordered]
    figure = go.Figure()
    on_time = [row["messages"] - row["late_messages"] for row in ordered]
    late = [row["late_messages"] for row in ordered]
    for name, values, color in (("on time", on_time, _PALETTE[2]), ("late", late, _PALETTE[3])):
        figure.add_bar(
            x=batches, y=values, name=name, marker_color=color, hovertemplate="%{y:,} messages"
        )
    figure.update_layout(barmode="stack", hovermode="x unified")
    figure.update_xaxes(title="batch", dtick=max(1, len(batches) // 12))
    return _styled(figure, has_legend=True)


def _ranking(
    names: Iterable[str], values: Sequence[float], unit: str, color: str = _PALETTE[0]
) -> go.Figure:
    figure = go.Figure()
    figure.add_bar(
        y=[_label(name, 40) for name in names],
        x=list(values),
        orientation="h",
        marker_color=color,
        hovertemplate="%{y}<br>%{x:,} " + unit + "<extra></extra>",
    )
    figure.update_yaxes(autorange="reversed", automargin=True, type="category")
    figure.update_xaxes(title=unit)
    return _styled(figure, height=max(240, 70 + 24 * len(values)))


def _styled(figure: go.Figure, *, height: int = 320, has_legend: bool = False) -> go.Figure:
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        showlegend=has_legend,
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0},
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#1d2733"},
        bargap=0.25,
    )
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure


def _client(row: Row) -> str:
    """Name a client as a reader knows it: two may have one name, so the cid comes along."""
    return f"{row['client_name'] or 'unnamed'} #{row['cid']}"


def _label(text: str, length: int = 60) -> str:
    """Return text from a peer for a figure: shortened in the middle, and no markup."""
    if len(text) > length:
        text = f"{text[: length // 2]}…{text[-(length // 2 - 1) :]}"
    return escape(text)
