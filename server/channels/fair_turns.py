"""Fair turns: bound the work of all busy connections between two polls of the event loop.

The problem. The loop is one thread. After a poll it calls every connection that has input, and only
then polls again. If each of 1,000 busy connections may do 1 ms of work, a client that sends a
single PING waits a second. So the server bounds the work of all connections together, not of each
one.

The unit. Work is counted, not measured, because reading a clock takes as long as a few messages.
The unit is the time to copy one byte; every command has a charge in this unit (see
protocol/stream_parser.py and charges.py). Some 32 MiB take 20 ms.

The turn. `TURN_BYTES` is the work of all connections between two polls. A connection gets it in
three ways:

    portion     After each read, a connection may do `PORTION_BYTES` in any case. Idle clients and
                short requests never get further, and cost no accounting. See `Reading.begin`.
    draw        A connection that has spent its portion draws `_DRAWN_BYTES` at a time from the rest
                of the turn, while there is a rest and no connection waits for the next turn.
    share       If it can draw nothing, its parser is halted and it waits. In the next turn, each
                waiting connection gets an equal share, at least `LEAST_SHARE_BYTES`.

For example, a single publisher that floods the server draws one piece after another until the turn
is used up, waits once, gets the whole next turn as its share, and so on: it loses nothing. With 100
such publishers, each gets a hundredth of a turn, and then the loop polls again. An idle connection
therefore waits for about two turns, however many others are busy.

How a turn ends. No timer starts a turn. The callbacks that `wait` schedules with a delay of 0 run
in the next round of the loop, after a poll, and so does `_begin`, which fills the turn up again. It
is scheduled only when half of a turn is used, because scheduling costs as much as hundreds of
messages; a turn of which less is used lasts for further rounds.

Unused work returns. `give_back` returns the rest of a draw or a share to the turn, so a
connection with little to do leaves it to the others.

When charges are wrong. A charge may be far too low for some command. `Reading` therefore also reads
the clock whenever a connection draws, and ends its turn after `BUSY_S` of real time.

Ends of connections are work as well: a crowd of 10,000 clients may leave within one round of the
loop. `CloseQueue` charges each end to the turn, and queues the ends that do not fit.
"""

from collections import deque
from collections.abc import Callable

from midge.server.clock import Clock

TURN_BYTES = 32 * 1024 * 1024
"""Work of all connections together between two polls of the loop."""

PORTION_BYTES = 64 * 1024
"""Work that each connection may do after a read in any case."""

BUSY_S = 0.005
"""Longest real time of one connection before others have their turn, whatever its charges.

A quarter of a turn: it bounds the delay if a charge is far too low.
"""

LEAST_SHARE_BYTES = 16 * 1024
"""Least share of a waiting connection, even if thousands wait: two commands."""

_DRAWN_BYTES = 8 * PORTION_BYTES
"""Work per draw, some 320 µs. Each draw reads the clock, which takes as long as a few messages."""

_ENDED_BYTES = 80 * 1024
"""Charge for an end, its EOF and the loss of its transport: 50 µs, measured with 10,000 clients
that left at once."""

_ENDED_LEAST = 64  # ends per turn, even if others use all of it: 3.2 ms

_RENEWED_BELOW_BYTES = TURN_BYTES // 2  # a turn with more than this left lasts for further rounds

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
        """Return another piece of this turn; 0 when it is used up or others wait for the next."""
        if self._waiting or self._left_bytes <= 0:
            return 0
        return self._use(max(_DRAWN_BYTES, min(least_bytes, self._left_bytes)))

    def is_over(self) -> bool:
        """Return whether nothing of this turn is left to draw."""
        return self._waiting > 0 or self._left_bytes <= 0

    def wait(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` in the next turn; it must begin by taking its `share`."""
        self._waiting += 1
        self._clock.call_later(0, go_on)

    def share(self) -> int:
        """Return the share of one waiting connection: the same for each of them."""
        share = max(_TURN // self._waiting, _LEAST_SHARE)
        self._waiting -= 1
        return self._use(share)

    def give_back(self, count: int) -> None:
        """Return `count` unused bytes of a draw or a share to this turn."""
        self._left_bytes += count

    def _use(self, count: int) -> int:
        """Take `count` bytes of this turn, and schedule the next one when half of it is used.

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


class CloseQueue:
    """Ends connections turn by turn, because one round of the loop may lose a crowd of them.

    libuv reads every socket that is ready before the loop goes on. Ending 10,000 connections at
    once would stop all others for 0.25 s.
    """

    def __init__(self, turns: FairTurns, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock
        self._budget = 0
        self._is_due = False
        self._waiting: deque[Callable[[], object]] = deque()

    def admit(self) -> bool:
        """Charge for an end and return True; or return False, and the end must `wait`."""
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
        """End as many connections as a share of this turn allows, for `BUSY_S` at most."""
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
