"""Time as an argument: the one place where the server asks for the time, or to be called later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from midge.jetstream.environment.clock import Timer as Timer  # noqa: PLC0414 - exported


class Clock(Protocol):
    """The clock and timers that the server uses; all times are in seconds."""

    def monotonic(self) -> float:
        """Return a time that never goes backward, from an unknown origin."""

    def wall(self) -> float:
        """Return the time since the epoch, for people to read; it may jump."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Call `callback` in `delay_s` seconds."""


def wall_ns() -> int:
    """Return the machine's wall time, in nanoseconds since the epoch; in C by ``clock.pxd``."""
    return time.time_ns()


def monotonic_ns() -> int:
    """Return the machine's monotonic time, in nanoseconds; in C by ``clock.pxd``."""
    return time.monotonic_ns()


class LoopClock:
    """The real time, with the timers of the running event loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.monotonic = time.monotonic  # a loop's own time may be as coarse as a millisecond
        self.call_later = loop.call_later
        self.wall = time.time


async def sleep(clock: Clock, delay_s: float) -> None:
    """Return in `delay_s` seconds of `clock`."""
    over = asyncio.Event()
    timer = clock.call_later(delay_s, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
