"""Keep the pauses of Python's garbage collector short, in a process that has many clients.

A full collection visits every object that might be part of a reference cycle, and no client is
served meanwhile. Subscriptions and the SubList are exempt (`@cython.no_gc`), so a million of them
cost a collection 3 ms. Tens of thousands of connections still make it longer than a client may
wait: then the survivors are frozen for some minutes, and collections visit new objects only.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

YOUNG_MAX = 2_000
"""New objects that start a young collection, which takes 1 ms at most."""

FULL_MAX_S = 0.005
"""Processor time of a full collection above which its survivors are frozen: a quarter of a turn.

17,000 connections take one 60 ms. Frozen from 1,500 on, they are visited in pieces: Python begins
one after 44,000 new objects.
"""

SET_ASIDE_S = 600.0
"""Seconds for which they stay frozen; then one collection visits everything again."""

_YOUNG_PER_MIDDLE = 5
_MIDDLE_PER_FULL = 2  # 44,000 new objects: 10 to 20 ms on a busy machine, 110,000 took 22 to 57

Clock = Callable[[], float]


class PauseLimit:
    """A callback for `gc.callbacks` that freezes the survivors of a slow full collection.

    Frozen objects have just been found alive, and cycles that die later wait for `SET_ASIDE_S` at
    most, so no memory leaks.
    """

    def __init__(self, processor: Clock = time.thread_time, now: Clock = time.monotonic) -> None:
        self._processor = processor
        self._now = now
        self._begun_s = 0.0
        self._until_s: float | None = None  # while objects are frozen

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Called by Python at the start and the end of a collection."""
        if info["generation"] != 2:
            return
        if phase == "start":
            self._begin()
        elif self._processor() - self._begun_s > FULL_MAX_S:
            gc.freeze()
            if self._until_s is None:
                self._until_s = self._now() + SET_ASIDE_S

    def _begin(self) -> None:
        if self._until_s is not None and self._now() >= self._until_s:
            self._until_s = None
            gc.unfreeze()
        self._begun_s = self._processor()


_limit = PauseLimit()


def shorten_pauses() -> None:
    """Install this for the process, which must be a server only.

    What exists now are modules, which stay: freezing them spares the first collection 11 ms of the
    start, and every full one as much.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(YOUNG_MAX, _YOUNG_PER_MIDDLE, _MIDDLE_PER_FULL)
    if _limit not in gc.callbacks:
        gc.callbacks.append(_limit)
