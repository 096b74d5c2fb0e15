"""Latencies as percentiles and as a histogram of text."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PER_MILLE = {"min": 0, "p50": 500, "p90": 900, "p99": 990, "p99_9": 999, "max": 1000}
MAX_ROWS = 16
BAR_WIDTH = 40
# Limits of rows within a decade: nearly equal ratios, and easy to read.
_STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


def percentiles_us(latencies_ns: Sequence[int]) -> dict[str, float]:
    """Return the nearest-rank percentiles in microseconds by name; nothing for no latencies."""
    ordered = sorted(latencies_ns)
    if not ordered:
        return {}
    ranks = {name: -(-share * len(ordered) // 1000) for name, share in PER_MILLE.items()}
    return {name: ordered[max(rank, 1) - 1] / 1e3 for name, rank in ranks.items()}


def histogram(latencies_ns: Sequence[int]) -> list[str]:
    """Return the lines of a histogram: upper limit, bar and count of each row.

    Rows widen with the latency, because the tail is long. There are at most MAX_ROWS, and the last
    row has no upper limit.
    """
    ordered = sorted(latency_ns / 1e3 for latency_ns in latencies_ns)
    if not ordered:
        return []
    limits = _limits(ordered[0], ordered[-1])[: MAX_ROWS - 1]
    edges = [bisect.bisect_right(ordered, limit) for limit in limits]
    counts = [end - start for start, end in zip([0, *edges], [*edges, len(ordered)], strict=True)]
    labels = [f"≤ {_duration(limit)}" for limit in limits] + [f"> {_duration(limits[-1])}"]
    if not counts[-1]:
        counts.pop()
    most = max(counts)
    width = len(f"{most:,}")
    return [
        f"{label:>10}  {'█' * math.ceil(count / most * BAR_WIDTH):<{BAR_WIDTH}}  {count:>{width},}"
        for label, count in zip(labels, counts, strict=False)
    ]


def _limits(least_us: float, most_us: float) -> list[float]:
    """Return round limits from the one above the least to the one above the most."""
    decade = 10.0 ** math.floor(math.log10(max(least_us, 1e-3)))
    limits: list[float] = []
    while not limits or limits[-1] < most_us:
        for step in _STEPS:
            limit = decade * step
            if limit >= least_us and (not limits or limits[-1] < most_us):
                limits.append(limit)
        decade *= 10
    return limits


def _duration(us: float) -> str:
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if us >= scale:
            return f"{us / scale:g} {unit}"
    return f"{us:.4g} µs"
