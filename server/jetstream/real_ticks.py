"""The ticks of the machine's own clocks."""

from midge.jetstream.environment.ticks import Ticks
from midge.server.clients import real_time


class RealTicks(Ticks):
    """The time of the machine, as `time.time_ns` and `time.monotonic_ns` have it."""

    def wall_ns(self) -> int:
        """See `Ticks.wall_ns`."""
        return real_time.wall_ns()

    def monotonic_ns(self) -> int:
        """See `Ticks.monotonic_ns`."""
        return real_time.monotonic_ns()
