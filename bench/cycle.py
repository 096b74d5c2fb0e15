"""Prebuilt frames of any length in a ring: after the last one comes the first again."""

import itertools
from collections.abc import Sequence

ROUND = b"@@@@@@"
"""Six bytes in a frame that a new number replaces in each round."""


class Cycle:
    """A ring of frames, from which several at a time are taken as one piece of bytes."""

    def __init__(self, sequence: Sequence[bytes]) -> None:
        self._template = b"".join(sequence) * 2  # so that a piece across the end is still one slice
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
        # The second copy already belongs to the next round.
        half = len(self._template) // 2
        first, second = (
            self._template[:half].replace(ROUND, b"%06d" % number)
            for number in (self._round, self._round + 1)
        )
        return first + second
