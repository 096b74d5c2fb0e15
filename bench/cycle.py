"""Prebuilt frames of any length, taken in turns and from the start again at the end."""

import itertools
from collections.abc import Sequence

ROUND = b"@@@@@@"
"""Six bytes that may stand in a frame: each time round, another number stands in their place."""


class Cycle:
    """Frames in a row, of which so many are taken at a time as one piece of bytes."""

    def __init__(self, sequence: Sequence[bytes]) -> None:
        self._template = b"".join(sequence) * 2  # so that what runs over the end is still one slice
        self._counts_rounds = ROUND in self._template
        self._ends = [0, *itertools.accumulate(map(len, [*sequence, *sequence]))]
        self._count = len(sequence)
        self._next = self._round = 0
        self._data = memoryview(self._numbered())

    def take(self, count: int) -> memoryview:
        """Return the next frames, at most as many as there are."""
        start = self._next
        end = start + count
        piece = self._data[self._ends[start] : self._ends[end]]
        self._next = end % self._count
        if end >= self._count and self._counts_rounds:
            self._begin_again()
        return piece

    def _begin_again(self) -> None:
        self._round += 1
        self._data = memoryview(self._numbered())

    def _numbered(self) -> bytes:
        # The second copy belongs to the next time round already.
        half = len(self._template) // 2
        first, second = (
            self._template[:half].replace(ROUND, b"%06d" % number)
            for number in (self._round, self._round + 1)
        )
        return first + second
