"""Cutting ranges of sequences: nothing twice, nothing left out, as many parts as asked for."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.pipeline.spark_source.partitions import (
    LARGE_PARTITION,
    SMALL_PARTITION,
    SequenceRange,
    split,
)


@given(
    start=st.integers(1, 10**12),
    span=st.integers(0, 10**8),
    parallelism=st.integers(1, 64),
    minimum=st.none() | st.integers(1, 300),
)
def test_ranges_are_adjacent_even_and_never_empty(start, span, parallelism, minimum):
    ranges = split(start, start + span, parallelism, minimum)
    assert sum(len(part) for part in ranges) == span
    assert all(one.end == other.start for one, other in itertools.pairwise(ranges))
    sizes = [len(part) for part in ranges]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert 0 not in sizes
    assert max(sizes, default=0) <= LARGE_PARTITION
    assert len(ranges) >= min(minimum or 1, span)


@pytest.mark.parametrize(
    ("span", "parallelism", "minimum", "count"),
    [
        (0, 4, None, 0),
        (1, 4, None, 1),
        (SMALL_PARTITION, 4, None, 1),
        (SMALL_PARTITION + 1, 4, None, 2),
        (10 * SMALL_PARTITION, 4, None, 4),
        (10 * LARGE_PARTITION, 4, None, 10),
        (100, 1, 8, 8),
        (3, 1, 8, 3),
    ],
)
def test_how_many(span, parallelism, minimum, count):
    assert len(split(7, 7 + span, parallelism, minimum)) == count


def test_a_range_that_runs_backwards_is_empty():
    assert split(10, 5, 2, None) == []
    assert len(SequenceRange(10, 5)) == 0
