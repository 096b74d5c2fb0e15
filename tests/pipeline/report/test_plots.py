"""The figures, without a browser."""

from datetime import datetime, timedelta

import pytest

from midge.pipeline.report import plots

START = datetime(2026, 3, 2, 8, 0)  # noqa: DTZ001 - as the tables give it


def rate(window, prefix="a", messages=120):
    return {
        "window_start": START + timedelta(minutes=window),
        "prefix": prefix,
        "messages": messages,
        "messages_per_s": messages / 60,
    }


def test_a_single_window_is_a_ranking():
    figure = plots.rates([rate(0), rate(0, "b", 60)])
    [bars] = figure.data
    assert (bars.type, list(bars.x), list(bars.customdata)) == ("bar", [2.0, 1.0], ["a", "b"])


def test_windows_without_a_message_are_zero():
    [line] = plots.rates([rate(0), rate(3)]).data
    assert list(line.y) == [2.0, 0.0, 0.0, 2.0]


FIGURES = {
    "subjects": (plots.subjects, [{"subject": "a", "messages": 3}]),
    "fan_out": (
        plots.fan_out,
        [{"deliveries": 0, "messages": 2}, {"deliveries": 3, "messages": 1}],
    ),
    "late_data": (
        plots.late_data,
        [
            *({"batch": number, "messages": 3, "late_messages": 1} for number in range(3)),
            # A batch of bad files alone.
            {"batch": 3, "messages": 0, "late_messages": None},
        ],
    ),
    "disconnects": (plots.disconnects, [{"reason": "x", "disconnects": 4}]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_bars_begin_at_zero_and_counts_have_whole_ticks(name):
    plot, rows = FIGURES[name]
    figure = plot(rows)
    axis = figure.layout.xaxis if figure.data[0].orientation == "h" else figure.layout.yaxis
    assert axis.type in (None, "linear")
    assert (axis.rangemode, axis.dtick, axis.tickformat) == ("tozero", 1, ",d")


def test_large_counts_have_the_ticks_of_plotly():
    figure = plots.subjects([{"subject": "a", "messages": 3_000}])
    assert figure.layout.xaxis.dtick is None


def test_what_was_not_counted_is_no_bar():
    figure = plots.fan_out([{"deliveries": None, "messages": 9}, {"deliveries": 1, "messages": 2}])
    assert list(figure.data[0].x) == [1]


def test_a_logarithmic_axis_has_points_and_no_bars():
    row = {"subject": "a", "reply_prefix": "_INBOX.>", "requests": 1}
    for fastest_us, ticks in ((900, {1, 2, 5, 10}), (0, {0.001, 0.1, 1, 10})):
        latency = {"p50_us": fastest_us, "p90_us": 5_000, "p99_us": 12_000}
        figure = plots.latency([row | latency])
        assert {trace.type for trace in figure.data} == {"scatter"}
        assert figure.layout.xaxis.type == "log"
        assert ticks <= set(figure.layout.xaxis.tickvals)
    assert 2 not in figure.layout.xaxis.tickvals


def test_names_that_are_cut_alike_keep_bars_of_their_own():
    long = "x" * 50
    rows = [{"subject": f"{long}{end}{long}", "messages": 2} for end in "ab"]
    assert list(plots.subjects(rows).data[0].y) == [0, 1]


def test_numbers_over_bars_stand_upright_where_they_would_run_together():
    few = [{"deliveries": n, "messages": 10**6 + n} for n in range(4)]
    many = [{"deliveries": n, "messages": 10**6 + n} for n in range(12)]
    assert [plots.fan_out(rows).data[0].textangle for rows in (few, many)] == [0, -90]


@pytest.mark.parametrize("name", FIGURES)
def test_the_tool_bar_has_room_above_the_bars(name):
    plot, rows = FIGURES[name]
    assert plot(rows).layout.margin.t >= 30
