"""Time as an argument: the interface by which JetStream gets the time and sets timers."""

from collections.abc import Callable
from typing import Any, Protocol

LONGEST_NS = 1 << 61
"""73 years, which a longer wait is cut to: a moment and two waits are less than 64 bits then."""


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call; do nothing if it has already been made."""


class NanosecondClock(Protocol):
    """The clock and timers that JetStream runs on.

    Expiry, duplicate windows, pauses and schedules use wall time. Waits, heartbeats and the delays
    of `call_later` use monotonic time.

    With `is_exact`, timers fire exactly at their time and wall time never jumps, as on a test's
    clock. Times are then neither rounded nor spread nor checked again.
    """

    is_exact: bool

    def wall_ns(self) -> int:
        """Return the nanoseconds since the epoch; the value may jump either way."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds that never go backward, from an unknown origin."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        """Call `callback` with `arguments` in `delay_s` seconds."""
