"""The ticks of the machine's own clocks."""

from midge.jetstream.environment.ticks import Ticks
from midge.server import clock


class RealTicks(Ticks):
    """The time of the machine, as `time.time_ns` and `time.monotonic_ns` have it."""

    def wall_ns(self) -> int:
        """See `Ticks.wall_ns`."""
        return clock.wall_ns()

    def monotonic_ns(self) -> int:
        """See `Ticks.monotonic_ns`."""
        return clock.monotonic_ns()
