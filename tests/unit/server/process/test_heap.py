"""What many ended connections leave in the heap is given back."""

from __future__ import annotations

import ctypes

import pytest

from midge.server.process.heap import (
    ENDED_MIN,
    INTERVAL_S,
    LARGE_BYTES,
    LOOKS,
    HeapTrimmer,
    trim_heap,
)
from midge.testing import ManualClock


class Ended:
    """Connections that have ended, and how often the heap was trimmed."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.count = 0
        self.trims = 0
        self.looks = 0
        HeapTrimmer(self.clock, lambda: self.count, self.trim).start()

    def trim(self, least_free_bytes: int) -> None:
        assert least_free_bytes in {0, LARGE_BYTES}
        self.trims += least_free_bytes == 0
        self.looks += least_free_bytes > 0


def test_a_crowd_that_has_gone_is_followed_by_one_trim() -> None:
    ended = Ended()
    ended.count = ENDED_MIN
    assert ended.trims == 0
    ended.clock.advance(INTERVAL_S)
    assert ended.trims == 1
    ended.clock.advance(10 * INTERVAL_S)
    assert ended.trims == 1


def test_a_few_are_not_worth_it_until_they_are_many() -> None:
    ended = Ended()
    ended.count = ENDED_MIN - 1
    ended.clock.advance(INTERVAL_S)
    assert (ended.trims, ended.looks) == (0, 1)
    for _ in range(2 * LOOKS):
        ended.clock.advance(INTERVAL_S)
    assert (ended.trims, ended.looks) == (0, LOOKS), "until the last output of those has gone"
    ended.count += 1
    ended.clock.advance(INTERVAL_S)
    assert ended.trims == 1


@pytest.mark.parametrize("library", [None, object()])
def test_a_c_library_that_cannot_is_left_alone(
    library: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library is not None:
        monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    trim_heap()
    trim_heap(LARGE_BYTES)


def test_free_bytes_are_counted_before_a_trim() -> None:
    trim_heap(1)
    trim_heap(1 << 60)
