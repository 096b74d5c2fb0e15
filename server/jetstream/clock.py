"""The server's clock, in the nanoseconds that JetStream counts in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from midge.server.clock import Clock, LoopClock, Timer


class NanosecondClock:
    """`midge.jetstream.clock.Clock` over the server's clock.

    The loop's real clock is read in whole nanoseconds; one that a test turns has as much precision
    as a float of seconds, some 200 ns.
    """

    def __init__(self, clock: Clock) -> None:
        self.call_later: Callable[..., Timer] = clock.call_later
        self._clock = clock
        if isinstance(clock, LoopClock):
            self.wall_ns = time.time_ns
            self.monotonic_ns = time.monotonic_ns

    def wall_ns(self) -> int:
        """Return the nanoseconds since the epoch."""
        return round(self._clock.wall() * 1e9)

    def monotonic_ns(self) -> int:
        """Return nanoseconds that only ever go forward."""
        return round(self._clock.monotonic() * 1e9)


def call_soon(clock: Clock, callback: Callable[..., object], *arguments: Any) -> None:
    """Have `callback` called in a later turn of the loop."""
    clock.call_later(0, callback, *arguments)
