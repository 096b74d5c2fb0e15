"""The process's use of CPU time and memory."""

import os
import sys
import time
from collections.abc import Callable

_STATM = "/proc/self/statm"
_SHORTEST_SAMPLE_S = 0.5


class ProcessUsage:
    """Measures the process; CPU is in per cent of one core, since the previous call."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._at = clock()
        self._cpu_at = cpu_clock()
        self._percent = 0.0

    def cpu_percent(self) -> float:
        """Return the CPU share; calls in quick succession return the same one."""
        now = self._clock()
        elapsed = now - self._at
        if elapsed >= _SHORTEST_SAMPLE_S:
            cpu_now = self._cpu_clock()
            self._percent = round(100 * (cpu_now - self._cpu_at) / elapsed, 1)
            self._at = now
            self._cpu_at = cpu_now
        return self._percent

    @staticmethod
    def open_files() -> int:
        """Return the number of open file descriptors, 0 where the system does not tell."""
        from pathlib import Path  # noqa: PLC0415 - with a page, long after the start

        try:
            return len(list(Path("/proc/self/fd").iterdir())) - 1  # without the one that lists them
        except OSError:
            return 0

    @staticmethod
    def memory_bytes() -> int:
        """Return the resident memory."""
        from pathlib import Path  # noqa: PLC0415 - with a page, long after the start

        try:
            pages = int(Path(_STATM).read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            import resource  # noqa: PLC0415 - only without /proc

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024
        return pages * os.sysconf("SC_PAGE_SIZE")

    @staticmethod
    def cores() -> int:
        """Count the cores that the process may run on."""
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:
            return os.cpu_count() or 1
