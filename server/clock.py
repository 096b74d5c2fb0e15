"""Time as an argument: the one place where the server asks for the time, or to be called later."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call to come, which can be called off."""

    def cancel(self) -> None:
        """Call it off; no harm if it has been made already."""


class Clock(Protocol):
    """The clock and timers that the server uses; all times are in seconds."""

    def monotonic(self) -> float:
        """Give a time that only ever goes forward, from an unknown origin."""

    def wall(self) -> float:
        """Give the time since the epoch, for people to read; it may jump."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Have `callback` called in `delay_s` seconds."""


class LoopClock:
    """The real time, by the event loop that it is made in."""

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


@contextlib.asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Cut what is awaited inside short after `seconds` of `clock`.

    Raises:
        TimeoutError: the time was up.
    """
    task = asyncio.current_task()
    assert task is not None, "awaited in a task"
    is_over = False

    def cut_short() -> None:
        nonlocal is_over
        is_over = True
        task.cancel()

    timer = clock.call_later(seconds, cut_short)
    try:
        yield
    except asyncio.CancelledError:
        if not is_over or task.uncancel() > 0:
            raise
        raise TimeoutError from None
    finally:
        timer.cancel()
