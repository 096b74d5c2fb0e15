"""How long something waited for a processor that others had, and how fast that is."""

from __future__ import annotations

import time
from pathlib import Path


def waited_s(whose: str = "thread-self") -> float:
    """Return how long a thread, by its name in /proc, has waited in all.

    It is 0 for a thread that has ended, and where the kernel does not say.
    """
    try:
        text = Path(f"/proc/{whose}/schedstat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(text.split()[1]) / 1e9


def ran_s(pid: int) -> float:
    """Return the processor time of the main thread of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_bytes().split()[0]) / 1e9


_REFERENCE_S = 0.02


def slowness() -> float:
    """Return how much more processor time Python takes here and now than limits were set for.

    It is 1 on a machine that makes a dictionary of 100,000 numbers as text within 20 ms, and never
    less. It grows while a compiler or another machine uses the caches of the processor: measure
    it beside the time to be compared.
    """
    took_s = []
    for _ in range(3):
        begun_s = time.thread_time()
        made = {str(number): number for number in range(100_000)}
        del made
        took_s.append(time.thread_time() - begun_s)
    return max(1.0, min(took_s) / _REFERENCE_S)
