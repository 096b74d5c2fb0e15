"""The times that are read for each message are the clock's."""

from __future__ import annotations

import time

from midge.jetstream.environment.ticks import ticks_of
from midge.server.clock import LoopClock
from midge.server.jetstream.stream_clock import StreamClock
from midge.testing import ManualClock


async def test_the_real_clock_is_read_in_c() -> None:
    ticks = ticks_of(StreamClock(LoopClock()))
    for read, now_ns in ((ticks.wall_ns, time.time_ns), (ticks.monotonic_ns, time.monotonic_ns)):
        before, at, after = now_ns(), read(), now_ns()
        assert before <= at <= after


def test_any_other_clock_is_asked() -> None:
    clock = ManualClock()
    ticks = ticks_of(StreamClock(clock))
    wall_ns, monotonic_ns = ticks.wall_ns(), ticks.monotonic_ns()
    clock.advance(1.5)
    assert ticks.wall_ns() - wall_ns == ticks.monotonic_ns() - monotonic_ns == 1_500_000_000
