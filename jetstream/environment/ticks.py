"""The time as a C number, for code that reads it once or twice per message.

A clock that can provide it has `ticks`. Any other clock is called as a Python object, which takes
60 ns instead of 20 ns.
"""

from __future__ import annotations


class Ticks:
    """The two times of a clock: see `clock.Clock`."""

    def wall_ns(self) -> int:
        """Return the wall time, in nanoseconds since the epoch."""
        raise NotImplementedError

    def monotonic_ns(self) -> int:
        """Return the monotonic time, in nanoseconds."""
        raise NotImplementedError


class AnyTicks(Ticks):
    """The times of a clock without its own ticks."""

    def __init__(self, clock: object) -> None:
        self._clock = clock

    def wall_ns(self) -> int:
        """See `Ticks.wall_ns`."""
        return self._clock.wall_ns()  # type: ignore[attr-defined, no-any-return]

    def monotonic_ns(self) -> int:
        """See `Ticks.monotonic_ns`."""
        return self._clock.monotonic_ns()  # type: ignore[attr-defined, no-any-return]


def ticks_of(clock: object) -> Ticks:
    """Return the ticks of a clock."""
    found = getattr(clock, "ticks", None)
    return found if isinstance(found, Ticks) else AnyTicks(clock)
