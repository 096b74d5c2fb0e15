"""Histograms for `/metrics`: how long the event loop is late, and how long syncs take."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
"""Upper bounds of the buckets of times: from a write that the kernel takes to a stalled disk."""

_PERIOD_S = 0.5


class Histogram:
    """Counts of values by size; `observe` takes 0.2 us."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    @property
    def total(self) -> float:
        """The sum of all values."""
        return self._total

    def buckets(self) -> list[tuple[str, float]]:
        """Return the upper bounds with the counts of all values up to each, as Prometheus has."""
        found, below = [], 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            below += count
            found.append((bound, float(below)))
        return found


class LoopDelay:
    """Measures twice a second how late the event loop calls a timer, in real time."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    def start(self) -> None:
        """Begin to measure."""
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + _PERIOD_S
        self._timer = loop.call_at(self._due_s, self._called, loop)

    def stop(self) -> None:
        """End measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _called(self, loop: asyncio.AbstractEventLoop) -> None:
        self.seconds.observe(max(loop.time() - self._due_s, 0.0))
        self.start()
