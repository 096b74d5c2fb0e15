"""Fair turns: bounds the work of all busy connections between two polls of the loop.

Work is counted in bytes copied, of which some 32 MiB take 20 ms. A connection that has done its
portion draws on the rest of the turn that all share. When that is used up, it waits, and the next
turn is divided among the waiting. So an idle connection waits for about two turns, however many are
busy. Ending connections is such work, too.
"""

from collections import deque
from collections.abc import Callable

from midge.server.clock import Clock

TURN_BYTES = 32 * 1024 * 1024
"""Work of all connections together between two polls of the loop."""

PORTION_BYTES = 64 * 1024
"""Work that each may do after a read in any case."""

BUSY_S = 0.005
"""Longest real time of one connection before others have their turn, whatever it was charged.

A quarter of a turn: it bounds the delay if a charge is far too low.
"""

LEAST_SHARE_BYTES = 16 * 1024
"""Least share per waiter, even with thousands waiting: two commands."""

_DRAWN_BYTES = 8 * PORTION_BYTES
"""Drawn at a time, some 320 µs: then the clock is read, which takes as long as a few messages."""

_ENDED_BYTES = 80 * 1024
"""Charge for an end, its EOF and the loss of its transport: 50 µs, measured with 10,000 clients
that left at once."""

_ENDED_LEAST = 64  # ends per turn, even if others use all of it: 3.2 ms

_RENEWED_BELOW_BYTES = TURN_BYTES // 2  # a turn of which less is used lasts for further rounds

_TURN = TURN_BYTES  # C numbers where this is compiled
_LEAST_SHARE = LEAST_SHARE_BYTES


class FairTurns:
    """The turns of the connections that share a loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_bytes = _TURN
        self._waiting = 0
        self._is_used = False

    def draw(self, least_bytes: int = 0) -> int:
        """Return another piece of this turn; 0 when all is used, or others wait for the next."""
        if self._waiting or self._left_bytes <= 0:
            return 0
        return self._use(max(_DRAWN_BYTES, min(least_bytes, self._left_bytes)))

    def is_over(self) -> bool:
        """Tell whether nothing of this turn is left to draw."""
        return self._waiting > 0 or self._left_bytes <= 0

    def wait(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` in the next turn; it must begin by taking its `share`."""
        self._waiting += 1
        self._clock.call_later(0, go_on)

    def share(self) -> int:
        """Return the share of one waiter: as much as each of the others gets."""
        share = max(_TURN // self._waiting, _LEAST_SHARE)
        self._waiting -= 1
        return self._use(share)

    def give_back(self, count: int) -> None:
        """Return what was drawn and not used."""
        self._left_bytes += count

    def _use(self, count: int) -> int:
        """Take so much of this turn, and schedule the next one when half of it is used.

        Scheduling costs a few microseconds, as much as hundreds of messages: too much for every
        read.
        """
        self._left_bytes -= count
        if self._left_bytes < _RENEWED_BELOW_BYTES and not self._is_used:
            self._is_used = True
            self._clock.call_later(0, self._begin)
        return count

    def _begin(self) -> None:
        self._is_used = False
        self._left_bytes = _TURN


class Departures:
    """Ends connections in turns, since those of a crowd may all be lost in one round of the loop.

    libuv reads every socket that is ready before the loop goes on: the ends of 10,000 connections,
    done at once, would stop everyone else for 0.25 s.
    """

    def __init__(self, turns: FairTurns, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock
        self._budget = 0
        self._is_due = False
        self._waiting: deque[Callable[[], object]] = deque()

    def admit(self) -> bool:
        """Charge for an end and return true, or return false: then it must `wait`."""
        if self._waiting:
            return False
        if self._budget < _ENDED_BYTES:
            self._budget += self._turns.draw(_ENDED_BYTES)
        if self._budget < _ENDED_BYTES:
            return False
        self._budget -= _ENDED_BYTES
        return True

    def wait(self, end: Callable[[], object]) -> None:
        """Call `end` in one of the next turns, after those that wait already."""
        self._waiting.append(end)
        self._ask_for_a_turn()

    def _ask_for_a_turn(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            self._turns.wait(self._go_on)

    def _go_on(self) -> None:
        """End as many as a share of this turn is enough for, for `BUSY_S` at most."""
        budget = self._turns.share()
        most = max(budget // _ENDED_BYTES, _ENDED_LEAST)
        ends_at = self._clock.monotonic() + BUSY_S
        try:
            while self._waiting and most > 0 and self._clock.monotonic() < ends_at:
                most -= 1
                budget -= _ENDED_BYTES
                self._waiting.popleft()()
        finally:
            self._is_due = False
            self._turns.give_back(max(budget, 0))
            self._ask_for_a_turn()
