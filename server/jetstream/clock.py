"""The server's clock, in the nanoseconds that JetStream counts in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from midge.server.clock import LoopClock

if TYPE_CHECKING:
    from midge.server.clock import Clock, Timer


class NanosecondClock:
    """`midge.jetstream.clock.Clock` over the server's clock.

    The loop's real clock is read in whole nanoseconds; one that a test turns is as precise as a
    float of seconds, some 200 ns.
    """

    def __init__(self, clock: Clock) -> None:
        is_real = isinstance(clock, LoopClock)
        self._clock = clock
        self.call_later: Callable[..., Timer] = clock.call_later
        self.wall_ns: Callable[[], int] = time.time_ns if is_real else self._wall_ns
        self.monotonic_ns: Callable[[], int] = time.monotonic_ns if is_real else self._monotonic_ns

    def _wall_ns(self) -> int:
        return round(self._clock.wall() * 1e9)

    def _monotonic_ns(self) -> int:
        return round(self._clock.monotonic() * 1e9)
