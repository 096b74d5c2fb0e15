"""The server's clock, in the nanoseconds that JetStream counts in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from midge.jetstream.environment.ticks import Ticks
from midge.server.clock import LoopClock
from midge.server.jetstream.real_ticks import RealTicks

if TYPE_CHECKING:
    from midge.server.clock import Clock, Timer


class StreamClock:
    """`midge.jetstream.environment.clock.Clock` over the server's clock.

    The loop's real clock is read in whole nanoseconds, and so is a clock with `wall_ns` and
    `monotonic_ns`, such as `midge.testing.ManualClock`; any other is as precise as a float of
    seconds, some 200 ns. `ticks` are the real clock's ticks, None for any other clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ticks: Ticks | None = None
        self.is_exact: bool = getattr(clock, "is_exact", False)
        self.call_later: Callable[..., Timer] = clock.call_later
        self.wall_ns: Callable[[], int] = getattr(clock, "wall_ns", self._wall_ns)
        self.monotonic_ns: Callable[[], int] = self._monotonic_ns
        if isinstance(clock, LoopClock):
            self.wall_ns = time.time_ns
            self.monotonic_ns = time.monotonic_ns
            self.ticks = RealTicks()
        elif hasattr(clock, "monotonic_ns"):
            self.monotonic_ns = clock.monotonic_ns

    def _wall_ns(self) -> int:
        return round(self._clock.wall() * 1e9)

    def _monotonic_ns(self) -> int:
        return round(self._clock.monotonic() * 1e9)
