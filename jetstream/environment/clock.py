"""Time as an argument: where JetStream asks for the time, or to be called later."""

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call to come, which can be called off."""

    def cancel(self) -> None:
        """Call it off; no harm if it has been made already."""


class Clock(Protocol):
    """The clock and timers that JetStream runs on.

    Expiry, duplicate windows, pauses and schedules run on wall time; waits and heartbeats on the
    monotonic time, and so do the delays of `call_later`.

    `is_exact` tells that timers fire at the very moment they were set for and that wall time never
    jumps, as on a clock that a test turns. Then nothing is rounded, spread, or looked at again.
    """

    is_exact: bool

    def wall_ns(self) -> int:
        """Return the nanoseconds since the epoch; the value may jump either way."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds that only ever go forward, from an unknown origin."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Call `callback` with `arguments` in `delay_s` seconds."""
