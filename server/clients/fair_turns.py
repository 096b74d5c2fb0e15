"""Whose turn it is: what one loop does for all who send is bounded between two looks at the others.

Work is counted in bytes copied, of which some 32 MiB take 20 ms. Whoever has done a portion of it
draws on what is left of the turn that all share. When that is used up, it waits, and the next turn
is divided among those who do. So a bystander waits for about two turns, however many are busy.
"""

from collections.abc import Callable

from midge.server.clock import Clock

TURN_BYTES = 32 * 1024 * 1024
"""What all together may do until the loop looks again at who has something to say."""

PORTION_BYTES = 64 * 1024
"""What each may do after a read in any case."""

BUSY_S = 0.005
"""What each may take of real time before others have their turn, whatever it was charged.

A quarter of a turn: so a cost that is wrong by far still makes nobody wait for long.
"""

LEAST_SHARE_BYTES = 16 * 1024
"""What each of those who wait gets, were they thousands: two commands."""

_DRAWN_BYTES = 8 * PORTION_BYTES
"""At a time, some 320 us: then the clock is looked at, which takes as long as a few messages."""

_RENEWED_BELOW_BYTES = TURN_BYTES // 2  # a turn of which less is used lasts for further rounds

_TURN = TURN_BYTES  # C numbers where this is compiled
_LEAST_SHARE = LEAST_SHARE_BYTES


class FairTurns:
    """The turns of those who share a loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_bytes = _TURN
        self._waiting = 0
        self._is_used = False

    def draw(self, least_bytes: int = 0) -> int:
        """Give another piece of this turn; 0 when all is used, or others wait for the next."""
        if self._waiting or self._left_bytes <= 0:
            return 0
        return self._use(max(_DRAWN_BYTES, min(least_bytes, self._left_bytes)))

    def wait(self, go_on: Callable[[], object]) -> None:
        """Have `go_on` called when it is time to; it begins by taking its `share`."""
        self._waiting += 1
        self._clock.call_later(0, go_on)

    def share(self) -> int:
        """Give one of those who have waited as much as each of the others."""
        share = max(_TURN // self._waiting, _LEAST_SHARE)
        self._waiting -= 1
        return self._use(share)

    def give_back(self, count: int) -> None:
        """Take back what was given, and not used, for others."""
        self._left_bytes += count

    def _use(self, count: int) -> int:
        """Take so much of this turn, and have another begin when the loop has gone round.

        That costs a few microseconds, as much as hundreds of messages, so it is not for every read.
        """
        self._left_bytes -= count
        if self._left_bytes < _RENEWED_BELOW_BYTES and not self._is_used:
            self._is_used = True
            self._clock.call_later(0, self._begin)
        return count

    def _begin(self) -> None:
        self._is_used = False
        self._left_bytes = _TURN
