"""Summaries of repeated measurements: median, spread, percentiles and ratios."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """The rounds of one metric on one server, in the order in which they were measured."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median round, which one disturbed round out of three does not change."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Half of the distance between the extremes, as a share of the median."""
        if not self.median:
            return 0.0
        return (max(self.rounds) - min(self.rounds)) / (2 * self.median)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of values that are in ascending order.

    Raises:
        ValueError: there are no values, or `percent` is outside 0 to 100.
    """
    if not ordered:
        raise ValueError("a percentile of no values is not defined")
    if not 0 <= percent <= 100:
        raise ValueError(f"percent: expected 0 to 100, got {percent}")
    rank = math.ceil(percent * len(ordered) / 100)
    return ordered[max(rank, 1) - 1]


def ratio(a: float, b: float) -> float:
    """Return a / b, or infinity if b is 0."""
    return a / b if b else math.inf
