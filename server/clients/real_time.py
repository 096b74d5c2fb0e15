"""The machine's time; compiled, it is read by a C call, as ``real_time.pxd`` says."""

import time


def wall_ns() -> int:
    """Return the wall time, in nanoseconds since the epoch."""
    return time.time_ns()


def monotonic_ns() -> int:
    """Return the monotonic time, in nanoseconds."""
    return time.monotonic_ns()
