"""Percentiles and text histograms of latencies."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.client.benchmark.latency_histogram import MAX_ROWS, histogram, percentiles_us


def test_percentiles_by_name_in_microseconds() -> None:
    assert percentiles_us([number * 1000 for number in range(1000, 0, -1)]) == {
        "min": 1.0,
        "p50": 500.0,
        "p90": 900.0,
        "p99": 990.0,
        "p99_9": 999.0,
        "max": 1000.0,
    }


def test_nothing_measured_gives_nothing() -> None:
    assert percentiles_us([]) == {}
    assert histogram([]) == []


def test_rows_have_round_limits_and_counts() -> None:
    lines = histogram([60_000] * 30 + [90_000] * 10)
    assert [line.split() for line in lines] == [
        ["≤", "70", "µs", "█" * 40, "30"],
        ["≤", "100", "µs", "█" * 14, "10"],
    ]


def test_a_long_tail_is_one_open_row() -> None:
    lines = histogram([1_000, 90_000_000_000])
    assert len(lines) == MAX_ROWS
    assert lines[-1].split()[0] == ">"
    assert lines[-1].split()[-1] == "1"


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200))
def test_every_latency_is_counted_once(latencies_ns: list[int]) -> None:
    lines = histogram(latencies_ns)
    assert 1 <= len(lines) <= MAX_ROWS
    assert sum(int(line.split()[-1].replace(",", "")) for line in lines) == len(latencies_ns)


@pytest.mark.parametrize(
    ("latency_ns", "label"), [(1_500, "1.5 µs"), (2_000_000, "2 ms"), (3_000_000_000, "3 s")]
)
def test_units_grow_with_the_latency(latency_ns: int, label: str) -> None:
    (line,) = histogram([latency_ns])
    assert re.match(rf"\s*≤ {label}  ", line)
