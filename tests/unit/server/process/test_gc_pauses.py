"""The garbage collector of a server process: cycles go, pauses stay short."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from midge.server.process import gc_pauses
from midge.server.process.gc_pauses import FULL_MAX_S, SET_ASIDE_S, PauseLimit


class Cycle:
    def __init__(self) -> None:
        self.itself = self


class Time:
    """Both clocks of a PauseLimit: each full collection takes `full_s`."""

    def __init__(self) -> None:
        self.full_s = 0.0
        self.now_s = 0.0
        self._processor_s = 0.0

    def processor(self) -> float:
        self._processor_s += self.full_s
        return self._processor_s

    def now(self) -> float:
        return self.now_s


@pytest.fixture
def clocks() -> Iterator[Time]:
    clocks = Time()
    limit = PauseLimit(clocks.processor, clocks.now)
    gc.unfreeze()  # what tests/conftest.py has set aside
    gc.collect()
    gc.callbacks.append(limit)
    yield clocks
    gc.callbacks.remove(limit)
    gc.unfreeze()


def test_a_quick_one_sets_nothing_aside(clocks: Time) -> None:
    clocks.full_s = FULL_MAX_S / 2
    gone = weakref.ref(Cycle())
    gc.collect()
    assert gone() is None
    assert gc.get_freeze_count() == 0


def test_after_a_slow_one_its_survivors_are_set_aside(clocks: Time) -> None:
    clocks.full_s = FULL_MAX_S * 1.5
    before = Cycle()
    gone = weakref.ref(Cycle())
    gc.collect()
    assert gone() is None
    assert gc.get_freeze_count() > 0
    clocks.full_s = 0.0
    died = weakref.ref(before)
    gone = weakref.ref(Cycle())
    del before
    gc.collect()
    assert gone() is None, "what is new is collected as ever"
    assert died() is not None


def test_nothing_is_set_aside_for_long(clocks: Time) -> None:
    clocks.full_s = FULL_MAX_S * 1.5
    before = Cycle()
    died = weakref.ref(before)
    gc.collect()
    clocks.full_s = 0.0
    clocks.now_s = SET_ASIDE_S
    del before
    gc.collect()
    assert died() is None
    assert gc.get_freeze_count() == 0


def test_what_was_imported_is_never_visited() -> None:
    threshold = gc.get_threshold()
    imported = Cycle()
    gc_pauses.shorten_pauses()
    try:
        assert gc.get_freeze_count() > 0
        assert not any(one is imported for one in gc.get_objects())
    finally:
        gc.unfreeze()
        gc.callbacks.remove(gc_pauses._limit)
        gc.set_threshold(*threshold)


def test_asking_again_changes_nothing() -> None:
    threshold = gc.get_threshold()
    gc_pauses.shorten_pauses()
    gc_pauses.shorten_pauses()
    assert gc.callbacks.count(gc_pauses._limit) == 1
    gc.unfreeze()
    gc.callbacks.remove(gc_pauses._limit)
    gc.set_threshold(*threshold)


def test_what_grows_is_visited_in_pieces(clocks: Time) -> None:
    """A full collection visits only objects newer than the last one, if that was slow."""
    threshold = gc.get_threshold()
    visited: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            visited.append(len(gc.get_objects()))

    gc_pauses.shorten_pauses()
    gc.collect()  # for Python waits for a quarter of what the last one has visited
    clocks.full_s = FULL_MAX_S * 1.5
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(400_000)]
    finally:
        gc.callbacks.remove(count)
        gc.callbacks.remove(gc_pauses._limit)
        gc.set_threshold(*threshold)
    assert len(visited) >= len(kept) // 48_000
    assert max(visited) < 48_000
