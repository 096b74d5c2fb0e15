"""A hit in what the SubList remembers allocates nothing, in the compiled build."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from midge.sublist import SubList, Subscription

MATCHES = 100_000
SUBJECT = b"orders.eu.berlin"


@pytest.fixture(autouse=True)
def _undisturbed() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def filled(*patterns: bytes, cache_max: int = 1024) -> SubList:
    sublist = SubList(cache_max=cache_max, cache_sweep_to=0)
    for pattern in patterns:
        assert sublist.insert(Subscription(pattern)) is None
    return sublist


def peak_bytes(match: Callable[[bytes], object], times: int) -> int:
    """Return the peak of the memory that `times` calls allocate, even if only for a moment.

    It is the least of some attempts, because allocations of other threads meanwhile count as well.
    The calls' own allocations are in all of them.
    """
    return min(_peak_bytes_once(match, times) for _ in range(5))


def _peak_bytes_once(match: Callable[[bytes], object], times: int) -> int:
    turns = [None] * times
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in turns:
            match(SUBJECT)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "patterns",
    [(SUBJECT,), (b"orders.*.berlin",), (SUBJECT, b"orders.>")],
    ids=["exact-match dictionary", "cached, one node", "cached, two nodes"],
)
def test_a_hit_allocates_nothing(patterns: tuple[bytes, ...], is_pure_build: bool) -> None:
    sublist = filled(*patterns)
    found = sublist.match(SUBJECT)
    assert found
    assert sublist.match(SUBJECT) is found
    if not is_pure_build:  # interpreted, the counts of matches are objects
        assert peak_bytes(sublist.match, MATCHES) == peak_bytes(sublist.match, 0)
        assert sublist.stats().cache_hits > MATCHES


def test_a_result_that_is_built_shows() -> None:
    """The measure is one that can fail."""
    sublist = filled(SUBJECT, b"orders.>", cache_max=0)
    assert peak_bytes(sublist.match, 10) > peak_bytes(sublist.match, 0) + 100
