"""Keep the pauses of Python's garbage collector short, in a process that has many clients.

A full collection looks at every object that might be part of a circle, and nobody is served
meanwhile: seconds, for a million subscriptions. So there is none while it would take too long; what
is old is set aside then. Objects outside circles, midge's own among them, go at once, as ever.
"""

from __future__ import annotations

import gc
import sys

YOUNG_MAX = 5_000
"""Objects made since the last collection that start the next one; it takes 2 ms at most."""

FULL_MAX_BLOCKS = 400_000
"""Blocks of memory, of all kinds, up to which there are full collections of 40 ms or less."""

_YOUNG_PER_MIDDLE = 5
_MIDDLE_PER_FULL = 5


def shorten_pauses() -> None:
    """Collect in this way from now on; for a process that is nothing but a server."""
    gc.set_threshold(YOUNG_MAX, _YOUNG_PER_MIDDLE, _MIDDLE_PER_FULL)
    if _bound_full_collection not in gc.callbacks:
        gc.callbacks.append(_bound_full_collection)


def _bound_full_collection(phase: str, info: dict[str, int]) -> None:
    """Leave a full collection nothing to look at when there is too much."""
    if phase == "start" and info["generation"] == 2:
        if sys.getallocatedblocks() > FULL_MAX_BLOCKS:
            gc.freeze()
        else:
            gc.unfreeze()
