"""The checker of histories finds what cannot have happened, and nothing else."""

from __future__ import annotations

import pytest

from tests.durability.history import REFUSED, UNKNOWN, WRITTEN, Write, violations

FIRST = Write(1, 0, 0.0, 1.0, WRITTEN, 5)
SECOND = Write(1, 5, 2.0, 3.0, WRITTEN, 9)


@pytest.mark.parametrize(
    "more",
    [
        [],
        [Write(1, 5, 2.5, 3.5, REFUSED, 9)],
        [Write(1, 0, 0.5, 2.5, REFUSED, 5)],
        [Write(2, 0, 0.0, 1.0, WRITTEN, 6)],
        [Write(1, 9, 4.0, 5.0, UNKNOWN), Write(1, 12, 6.0, 7.0, WRITTEN, 20)],
        [Write(1, 9, 4.0, 5.0, UNKNOWN), Write(1, 9, 6.0, 7.0, WRITTEN, 20)],
    ],
)
def test_what_can_have_happened(more: list[Write]) -> None:
    assert violations([FIRST, SECOND, *more]) == []


@pytest.mark.parametrize(
    "more",
    [
        [Write(1, 5, 2.0, 3.0, WRITTEN, 12)],  # both were let through
        [Write(1, 7, 4.0, 5.0, WRITTEN, 12)],  # follows nothing
        [Write(1, 9, -3.0, -2.0, WRITTEN, 12)],  # before what it follows
        [Write(1, 5, 4.0, 5.0, REFUSED, 7)],  # the key was never there
        [Write(1, 3, 4.0, 5.0, REFUSED, 5)],  # it was no longer there
        [Write(1, 3, -2.0, -1.0, REFUSED, 5)],  # it was not there yet
        [Write(1, 9, 4.0, 5.0, REFUSED, 9)],  # refused for no reason
    ],
)
def test_what_cannot_have_happened(more: list[Write]) -> None:
    assert violations([FIRST, SECOND, *more]) != []
