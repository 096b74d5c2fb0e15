"""How long something waited for a processor that others had."""

from __future__ import annotations

from pathlib import Path


def waited_s(whose: str = "thread-self") -> float:
    """Return how long a thread, by its name in /proc, has waited in all.

    It is 0 for a thread that has ended, and where the kernel does not tell.
    """
    try:
        text = Path(f"/proc/{whose}/schedstat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(text.split()[1]) / 1e9
