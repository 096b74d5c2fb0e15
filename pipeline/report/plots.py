"""The plots of the report, one function each: rows of a gold table in, a figure out.

Subjects and names come from peers, so every text in a figure is escaped first. Bars begin at zero
and have linear axes, so that the length of a bar shows its value.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

from midge.pipeline.report.rows import Row, window_length

TOP = 15
"""Most bars in a ranking."""

_WINDOWS_MAX = 20_000
"""Up to this many windows, windows without a message are drawn as zero. This bounds the page: two
recordings of a minute, a year apart, would otherwise be half a million points."""

_TICKS_EACH_MAX = 10
"""Up to this value every whole number has a tick; beyond it, Plotly's steps are whole anyway."""

_DECADES_MAX = 4
"""Most powers of ten of a logarithmic axis with three labels for each."""

_MEMBERS_MIN = 8
"""Places of a plot of members at least, so that the bars of two are not as wide as the page."""

_PALETTE = (
    *("#2d86a6", "#e08e45", "#5a9f70", "#c2607e", "#8a7fc4", "#c9b03c", "#4ba3c3", "#a07d66"),
    *("#9aa7b2", "#d17a9a", "#4f9170", "#b5693a"),
)
_OTHER = "#b3bdc6"
_TOOL_BAR = 34
"""Height of Plotly's tool bar in pixels."""
_NUMBERS_WIDTH = 56
"""Characters in a row that fit over the bars of a figure of half the page's width."""
_CLEAR = "rgba(0,0,0,0)"


def rates(rows: Sequence[Row]) -> go.Figure:
    """Messages a second over time, the busiest prefixes apart and the rest together."""
    return _over_time(rows, "messages", "messages_per_s", "messages/s")


def byte_rates(rows: Sequence[Row]) -> go.Figure:
    """Bytes a second over time, the prefixes with the most bytes apart and the rest together."""
    return _over_time(rows, "bytes", "bytes_per_s", "bytes/s")


def _over_time(rows: Sequence[Row], sums: str, rate: str, unit: str) -> go.Figure:
    totals: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        totals[row["prefix"]] += row[sums]
    busiest = sorted(totals, key=lambda prefix: (-totals[prefix], prefix))
    windows = _windows(rows)
    if len(windows) == 1:
        length_s = window_length(rows).total_seconds()
        top = busiest[:TOP]
        return _ranking(top, [totals[prefix] / length_s for prefix in top], unit)
    series: dict[str, defaultdict[Any, float]] = {
        name: defaultdict(float) for name in busiest[: len(_PALETTE)]
    }
    other: defaultdict[Any, float] = defaultdict(float)
    for row in rows:
        series.get(row["prefix"], other)[row["window_start"]] += row[rate]
    figure = go.Figure()
    colors = dict(zip(series, _PALETTE, strict=False))
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
    figure.update_layout(hovermode="x unified", yaxis_title=unit)
    figure.update_yaxes(rangemode="tozero")
    return _styled(figure, height=380, has_legend=True)


def subjects(rows: Sequence[Row]) -> go.Figure:
    """The busiest subjects by messages."""
    return _ranking_of(rows[:TOP], "subject", _PALETTE[0])


def talkers(rows: Sequence[Row]) -> go.Figure:
    """The clients that publish most."""
    top = sorted(rows, key=lambda row: row["place"])[:TOP]
    names = [_client(row) for row in top]
    return _ranking(names, [row["messages"] for row in top], "messages", _PALETTE[1])


def fan_out(rows: Sequence[Row]) -> go.Figure:
    """How many messages were delivered how many times."""
    counts: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        if row["deliveries"] is not None:
            counts[row["deliveries"]] += row["messages"]
    deliveries = sorted(counts)
    figure = go.Figure()
    figure.add_bar(
        x=deliveries,
        y=[counts[each] for each in deliveries],
        marker_color=[_PALETTE[3] if each == 0 else _PALETTE[0] for each in deliveries],
        hovertemplate="%{x} deliveries: %{y:,} messages<extra></extra>",
        # The number makes a bar of one message visible beside a bar of a million.
        texttemplate="%{y:,}" if len(deliveries) <= TOP else None,
        textangle=_number_angle(counts.values()),
        textposition="outside",
        textfont_size=10,
        constraintext="none",
        cliponaxis=False,
    )
    figure.update_layout(xaxis_title="deliveries per message", yaxis_title="messages")
    figure.update_xaxes(**_whole(deliveries))
    figure.update_yaxes(**_whole(counts.values()))
    return _styled(figure)


def no_interest(rows: Sequence[Row]) -> go.Figure:
    """The subjects with the most undelivered messages."""
    return _ranking_of(rows[:TOP], "subject", _PALETTE[3])


def queue_balance(rows: Sequence[Row]) -> go.Figure:
    """Each member's share of its queue group beside the fair share."""
    ordered = sorted(rows, key=lambda row: (row["queue"], row["pattern"], row["cid"]))[: 4 * TOP]
    names = [_label(f"{row['queue']}: {_client(row)}") for row in ordered]
    places = list(range(len(ordered)))
    figure = go.Figure()
    figure.add_bar(
        x=places,
        y=[row["share"] for row in ordered],
        name="share",
        marker_color=_PALETTE[0],
        customdata=names,
        hovertemplate="%{customdata}<br>%{y:.1%}<extra></extra>",
    )
    figure.add_scatter(
        x=places,
        y=[row["fair_share"] for row in ordered],
        name="fair share",
        mode="markers",
        marker={"symbol": "line-ew-open", "size": 26, "color": _PALETTE[1], "line": {"width": 3}},
        hovertemplate="fair: %{y:.1%}<extra></extra>",
    )
    most = max(len(names), _MEMBERS_MIN)
    figure.update_xaxes(tickmode="array", tickvals=places, ticktext=names, range=[-0.5, most - 0.5])
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return _styled(figure, has_legend=True)


def latency(rows: Sequence[Row]) -> go.Figure:
    """Percentiles of the time to the reply, by the request's subject and the reply's prefix.

    They are drawn as points, because bars cannot begin at zero on a logarithmic axis.
    """
    ordered = sorted(rows, key=lambda row: (-row["requests"], row["subject"]))[:TOP]
    names = [_label(f"{row['subject']} → {row['reply_prefix']}", 44) for row in ordered]
    places = list(range(len(ordered)))
    figure = go.Figure()
    for place, row in enumerate(ordered):
        figure.add_scatter(
            x=[_ms(row["p50_us"]), _ms(row["p99_us"])],
            y=[place, place],
            mode="lines",
            line={"color": _OTHER, "width": 2},
            showlegend=False,
            hoverinfo="skip",
        )
    for column, color in (("p50_us", "#6db3c8"), ("p90_us", "#2d86a6"), ("p99_us", "#e08e45")):
        figure.add_scatter(
            y=places,
            x=[_ms(row[column]) for row in ordered],
            name=column.removesuffix("_us"),
            mode="markers",
            marker={"size": 11, "color": color},
            hovertemplate="%{x:,.2f} ms",
        )
    ticks = _log_ticks([_ms(row[column]) for row in ordered for column in ("p50_us", "p99_us")])
    figure.update_xaxes(
        type="log", title="ms", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks]
    )
    figure.update_yaxes(
        autorange="reversed", tickmode="array", tickvals=places, ticktext=names, zeroline=False
    )
    figure.update_layout(hovermode="y unified")
    return _styled(figure, has_legend=True, height=max(200, 120 + 34 * len(names)))


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
    # A batch without messages, of bad files alone, has no number of late ones.
    late = [row["late_messages"] or 0 for row in ordered]
    on_time = [row["messages"] - each for row, each in zip(ordered, late, strict=True)]
    for name, values, color in (("on time", on_time, _PALETTE[2]), ("late", late, _PALETTE[3])):
        figure.add_bar(
            x=batches, y=values, name=name, marker_color=color, hovertemplate="%{y:,} messages"
        )
    figure.update_layout(barmode="stack", hovermode="x unified")
    figure.update_xaxes(title="batch", dtick=max(1, math.ceil(len(batches) / 12)), tickformat=",d")
    figure.update_yaxes(title="messages", **_whole(row["messages"] for row in ordered))
    return _styled(figure, has_legend=True)


def _ranking_of(rows: Sequence[Row], name: str, color: str) -> go.Figure:
    return _ranking(
        [row[name] for row in rows], [row["messages"] for row in rows], "messages", color
    )


def _ranking(
    names: Iterable[str], values: Sequence[float], unit: str, color: str = _PALETTE[0]
) -> go.Figure:
    """Return horizontal bars by position, because shortened labels may be equal."""
    whole = [_label(name, 200) for name in names]
    places = list(range(len(whole)))
    is_count = all(isinstance(value, int) for value in values)
    value = "%{x:,d}" if is_count else "%{x:,.1f}"
    figure = go.Figure()
    figure.add_bar(
        y=places,
        x=list(values),
        orientation="h",
        marker_color=color,
        customdata=whole,
        hovertemplate=f"%{{customdata}}<br>{value} {unit}<extra></extra>",
    )
    figure.update_yaxes(
        autorange="reversed",
        tickmode="array",
        tickvals=places,
        ticktext=[_label(name, 40) for name in names],
    )
    figure.update_xaxes(title=unit, **(_whole(values) if is_count else {"rangemode": "tozero"}))
    return _styled(figure, height=max(160, 90 + 24 * len(values)))


def _styled(figure: go.Figure, *, height: int = 320, has_legend: bool = False) -> go.Figure:
    """Apply the common style of all figures; the page's script adds colors of text and lines."""
    figure.update_layout(
        template="plotly_white",
        height=height + _TOOL_BAR,
        # The tool bar comes up above the first bar, not over it.
        margin={"l": 10, "r": 16, "t": _TOOL_BAR, "b": 10},
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        showlegend=has_legend,
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0},
        font={"family": "system-ui, sans-serif", "size": 12},
        bargap=0.25,
    )
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    figure.update_traces(marker_line_width=0, selector={"type": "bar"})
    return figure


def _number_angle(counts: Iterable[int]) -> int:
    """Return the angle of the numbers over bars: upright where they would run together."""
    lengths = [len(f"{count:,}") + 1 for count in counts]
    return -90 if max(lengths, default=0) * len(lengths) > _NUMBERS_WIDTH else 0


def _whole(values: Iterable[float]) -> dict[str, Any]:
    """Return the settings of an axis of counts, which starts at zero and has whole-number ticks."""
    most = max(values, default=0)
    axis: dict[str, Any] = {"rangemode": "tozero", "tickformat": ",d"}
    return axis | ({"dtick": 1} if most <= _TICKS_EACH_MAX else {})


def _windows(rows: Sequence[Row]) -> list[Any]:
    """Return the starts of all windows, including windows without a message."""
    known = sorted({row["window_start"] for row in rows})
    length = window_length(rows)
    count = round((known[-1] - known[0]) / length) + 1
    return [known[0] + i * length for i in range(count)] if count <= _WINDOWS_MAX else known


def _log_ticks(values: Sequence[float]) -> list[float]:
    """Return 1, 2, 5, 10, … around `values`, or 1, 10, 100, … if they are far apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    digits = (1, 2, 5) if high - low <= _DECADES_MAX else (1,)
    return [digit * 10.0**power for power in range(low, high + 1) for digit in digits]


def _ms(latency_us: float) -> float:
    """Return microseconds as milliseconds, never 0, which a logarithmic axis cannot show."""
    return max(latency_us, 1) / 1000


def _client(row: Row) -> str:
    """Return the label of a client; it includes the cid, because names may be equal."""
    if not row["cid"]:
        return "the server itself"
    return f"{row['client_name'] or 'unnamed'} #{row['cid']}"


def _label(text: str, length: int = 60) -> str:
    """Return text from a peer for a figure: shortened in the middle, and without markup.

    Plotly turns `&lt;`, `&gt;` and `&amp;` back into text, and shows every other escape unchanged.
    """
    if len(text) > length:
        text = f"{text[: length // 2]}…{text[-(length // 2 - 1) :]}"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
