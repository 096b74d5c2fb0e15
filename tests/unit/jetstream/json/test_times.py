"""Times and durations are written and read as Go does."""

from __future__ import annotations

import pytest

from midge.jetstream.json.times import (
    SECOND_NS,
    ZERO_TIME,
    ZERO_TIME_NS,
    TimeProblem,
    Timestamp,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000 * SECOND_NS + 5, "2023-11-14T22:13:20.000000005Z"),
        (1_700_000_000 * SECOND_NS + 120_000_000, "2023-11-14T22:13:20.12Z"),
        (ZERO_TIME_NS, ZERO_TIME),
        (-SECOND_NS, "1969-12-31T23:59:59Z"),
    ],
)
def test_a_time_has_as_many_digits_as_it_needs(ns: int, text: str) -> None:
    assert format_time(ns) == text
    assert parse_time(text) == Timestamp(ns)


def test_a_time_keeps_the_zone_it_was_written_in() -> None:
    moment = parse_time("2020-01-01T00:00:00.5+02:30")
    assert moment.text() == "2020-01-01T00:00:00.5+02:30"
    assert moment.ns == parse_time("2019-12-31T21:30:00.5Z").ns


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
        ("2020-02-20T24:00:00Z", 'parsing time "2020-02-20T24:00:00Z": hour out of range'),
        ("2020-02-20T00:00:00Zx", 'parsing time "2020-02-20T00:00:00Zx": extra text: "x"'),
    ],
)
def test_a_time_that_is_none_is_refused(text: str, problem: str) -> None:
    with pytest.raises(TimeProblem) as raised:
        parse_time(text)
    assert str(raised.value) == problem


def test_an_hour_may_have_one_digit_and_a_second_a_comma() -> None:
    assert parse_time("2020-02-20T5:00:00,25Z") == parse_time("2020-02-20T05:00:00.25Z")


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (100_000_000, "100ms"),
        (1_500_000_000, "1.5s"),
        (90 * SECOND_NS, "1m30s"),
        (3_600 * SECOND_NS, "1h0m0s"),
        (-2 * SECOND_NS, "-2s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(ns: int, text: str) -> None:
    assert format_duration(ns) == text
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1h 2m", "-", "9999999999h"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TimeProblem):
        parse_duration(text)
