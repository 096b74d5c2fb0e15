"""Medians, spreads, percentiles and ratios."""

import math

import pytest

from bench.stats import Summary, percentile, ratio


def test_median_ignores_one_disturbed_round() -> None:
    assert Summary((100.0, 3.0, 104.0)).median == 100.0


def test_spread_is_half_the_range_relative_to_the_median() -> None:
    assert Summary((90.0, 100.0, 110.0)).spread == pytest.approx(0.1)


def test_spread_of_nothing_is_nothing() -> None:
    assert Summary((0.0, 0.0)).spread == 0.0


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)]
)
def test_percentile_is_the_nearest_rank(percent: float, expected: int) -> None:
    assert percentile(range(1, 101), percent) == expected


def test_percentile_of_one_value_is_that_value() -> None:
    assert [percentile([7], percent) for percent in (0, 50, 99)] == [7, 7, 7]


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@pytest.mark.parametrize("percent", [-1, 101])
def test_percentile_outside_of_the_scale_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match=f"got {percent}"):
        percentile([1], percent)


def test_ratio_to_nothing_is_infinite() -> None:
    assert ratio(3.0, 2.0) == 1.5
    assert ratio(1.0, 0.0) == math.inf
