"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.embedded.threaded import ThreadedServer

_EPOCH_S = 1_700_000_000.0


class _Timer:
    """A call to come."""

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._callback: Callable[..., object] | None = callback
        self._arguments = arguments

    def cancel(self) -> None:
        """Call it off, and keep nothing of it; as a loop's timers do."""
        self._callback = None
        self._arguments = ()

    def fire(self) -> None:
        if self._callback is not None:
            self._callback(*self._arguments)


class ManualClock:
    """Time for a server under test: `Server(clock=clock)`, then `clock.advance(seconds)`.

    Pings, time-outs, stale checks, response expiry and lame duck go by it. Timers fire in order of
    their time, inside `advance`, those that others set on the way included; what needs no time to
    go by fires in the next turn of the loop. Call it in the server's thread. What a timer sends is
    on its way when `advance` returns; what a task does about it needs a turn of the loop.
    """

    def __init__(self, wall_s: float = _EPOCH_S) -> None:
        self._now_s = 0.0
        self._wall_s = wall_s
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Give the seconds advanced so far."""
        return self._now_s

    def wall(self) -> float:
        """Give the time since the epoch."""
        return self._wall_s + self._now_s

    def call_later(
        self, delay_s: float, callback: Callable[..., object], *arguments: Any
    ) -> _Timer:
        """Have `callback` called once the clock has advanced by `delay_s`."""
        timer = _Timer(callback, arguments)
        due_s = self._now_s + max(delay_s, 0.0)
        heapq.heappush(self._timers, (due_s, next(self._order), timer))
        if delay_s <= 0:
            with contextlib.suppress(RuntimeError):  # no loop runs: `advance` fires it
                asyncio.get_running_loop().call_soon(self.advance, 0)
        return timer

    def advance(self, seconds: float) -> None:
        """Let `seconds` go by.

        Raises:
            ValueError: time does not go back.
        """
        if seconds < 0:
            raise ValueError(f"seconds: expected 0 or more, got {seconds}")
        end_s = self._now_s + seconds
        while self._timers and self._timers[0][0] <= end_s:
            due_s, _, timer = heapq.heappop(self._timers)
            self._now_s = max(self._now_s, due_s)
            timer.fire()
        self._now_s = end_s


class ThreadedClock:
    """The `ManualClock` of a server in another thread; it is moved there."""

    def __init__(self, server: ThreadedServer) -> None:
        self._server = server

    def monotonic(self) -> float:
        """Give the seconds advanced so far."""
        return self._server.call(lambda server: server.broker.clock.monotonic())

    def wall(self) -> float:
        """Give the time since the epoch."""
        return self._server.call(lambda server: server.broker.clock.wall())

    def advance(self, seconds: float) -> None:
        """Let `seconds` go by; what the server sends is on its way then. Raises: ValueError."""
        self._server.call(lambda server: cast("ManualClock", server.broker.clock).advance(seconds))
