"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.embedded.server import Server
    from midge.server.embedded.threaded import ThreadedServer

_EPOCH_S = 1_700_000_000.0
_SECOND_NS = 1_000_000_000

_TURNS = 4
"""Turns of the loop between two timers: for a delivery, its callback, an answer, its delivery."""


class _Timer:
    """A scheduled call."""

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._callback: Callable[..., object] | None = callback
        self._arguments = arguments

    def cancel(self) -> None:
        """Cancel the call, and drop callback and arguments, as a loop's timers do."""
        self._callback = None
        self._arguments = ()

    def fire(self) -> bool:
        """Make the call; return False if it was cancelled, or reports that it had nothing to do."""
        return self._callback is not None and self._callback(*self._arguments) is not False


class ManualClock:
    """Time for a server under test: `Server(clock=clock)`, then `clock.advance(seconds)`.

    Pings, time-outs, stale checks, response expiry, lame duck and all of JetStream use it, in whole
    nanoseconds. Timers fire inside `advance` in order of their time, including timers that other
    timers set. A timer without delay fires in the next turn of the loop. Call `advance` in the
    server's thread. When it returns, messages that timers send are written; a task that reacts to
    them needs a turn of the loop, which `elapse` provides after each timer.
    """

    is_exact = True
    """Timers fire exactly at their time; see `jetstream.environment.clock`."""

    def __init__(self, wall_s: float = _EPOCH_S) -> None:
        self._now_ns = 0
        self._wall_ns = round(wall_s * _SECOND_NS)
        self._timers: list[tuple[int, int, _Timer]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._now_ns / _SECOND_NS

    def monotonic_ns(self) -> int:
        """Return the nanoseconds advanced so far plus one second, because 0 means no time."""
        return self._now_ns + _SECOND_NS

    def wall(self) -> float:
        """Return the time since the epoch."""
        return self.wall_ns() / _SECOND_NS

    def wall_ns(self) -> int:
        """Return the nanoseconds since the epoch."""
        return self._wall_ns + self._now_ns

    def call_later(
        self, delay_s: float, callback: Callable[..., object], *arguments: Any
    ) -> _Timer:
        """Call `callback` once the clock has advanced by `delay_s`.

        Any delay above 0 is at least a nanosecond, so that time passes for code that polls.
        """
        timer = _Timer(callback, arguments)
        due_ns = self._now_ns
        if delay_s > 0:
            due_ns += max(round(delay_s * _SECOND_NS), 1)
        heapq.heappush(self._timers, (due_ns, next(self._order), timer))
        if delay_s <= 0:
            with contextlib.suppress(RuntimeError):  # no loop runs: `advance` fires it
                asyncio.get_running_loop().call_soon(self.advance, 0)
        return timer

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds` and fire the timers that are due.

        Raises:
            ValueError: `seconds` is negative.
        """
        end_ns = self._end_ns(seconds)
        while self._timers and self._timers[0][0] <= end_ns:
            self._fire_next()
        self._now_ns = end_ns

    async def elapse(self, seconds: float) -> None:
        """Advance the time as `advance` does, with some turns of the loop after each timer.

        Callbacks and tasks in the server's loop, and callbacks that these schedule, therefore run
        at the time at which they are due. Clients outside of the loop are not waited for.

        Raises:
            ValueError: `seconds` is negative.
        """
        end_ns = self._end_ns(seconds)
        await _turns()
        while self._timers and self._timers[0][0] <= end_ns:
            if self._fire_next():
                await _turns()
        self._now_ns = max(self._now_ns, end_ns)

    def _end_ns(self, seconds: float) -> int:
        if seconds < 0:
            raise ValueError(f"seconds: expected 0 or more, got {seconds}")
        return self._now_ns + round(seconds * _SECOND_NS)

    def _fire_next(self) -> bool:
        """Fire the next timer at its time; return False if it had no effect."""
        due_ns, _, timer = heapq.heappop(self._timers)
        self._now_ns = max(self._now_ns, due_ns)
        return timer.fire()


class ThreadedClock:
    """The `ManualClock` of a server in another thread, which advances it."""

    def __init__(self, server: ThreadedServer) -> None:
        self._server = server

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._server.call(lambda server: server.broker.clock.monotonic())

    def wall(self) -> float:
        """Return the time since the epoch."""
        return self._server.call(lambda server: server.broker.clock.wall())

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`; the server has then written its messages.

        This blocks the thread, and with it a client whose loop runs in the thread; see `elapse`.

        Raises:
            ValueError: `seconds` is negative.
        """
        if self._server.is_own_thread():  # called in a callback, which the loop waits for
            self._server.call(lambda server: _clock_of(server).advance(seconds))
        else:
            self._server.wait(lambda server: _clock_of(server).elapse(seconds))

    async def elapse(self, seconds: float) -> None:
        """Advance the time as `advance` does, without blocking the loop of this thread."""
        await asyncio.to_thread(self.advance, seconds)


def _clock_of(server: Server) -> ManualClock:
    return cast("ManualClock", server.broker.clock)


async def _turns() -> None:
    """Run the loop for `_TURNS` turns, until the work that a timer has started is done."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
