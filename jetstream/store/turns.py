"""Work that is put off to later turns of the event loop, a bounded piece in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Step = Callable[[], bool]
"""Does a piece of work, of a millisecond or two; False when that was the last one."""

Soon = Callable[[Callable[[], None]], object]

TURN_NS = 5_000_000
"""Time for all pieces together between two polls of the loop; one piece may exceed it."""

_NEXT_NS = 2_000_000
"""Time after which no further piece is begun by the loop's turn itself."""

_NOTED_NS = 300_000
"""Time after which the loop is asked for a turn that resets the measurement, which costs 2 us."""


def do_at_once(step: Step) -> None:
    """Do all pieces now, where nothing else wants a turn."""
    while step():
        pass


def _no_clock() -> int:
    """Return a time that stands still, where a turn is to do one piece."""
    return 0


class Turns:
    """Pieces of work, done one after the other in each turn of the loop while it lasts.

    The first piece of work that is begun is done at once if the turn has time left.

    Args:
        soon: Has the event loop call a function in its next turn. Without it everything is done
            as soon as it is asked for.
        now: Returns a monotonic time in nanoseconds.
    """

    def __init__(self, soon: Soon | None = None, now: Callable[[], int] = _no_clock) -> None:
        self._soon = soon
        self._now = now
        self._steps: deque[Step] = deque()
        self._is_asked = False
        self._used_ns = 0

    def __len__(self) -> int:
        return len(self._steps)

    def begin(self, soon: Soon | None) -> None:
        """Run work in pieces, one in each turn of the loop, from now on."""
        self._soon = soon

    def measure(self, now: Callable[[], int]) -> None:
        """Measure pieces by `now` from now on."""
        self._now = now

    def add(self, step: Step) -> None:
        """Call `step` in later turns, a piece each time, until it returns False."""
        if self._soon is None:
            do_at_once(step)
            return
        self._steps.append(step)
        self._ask()

    def start(self, step: Step) -> None:
        """Call `step` now, if this turn has time left, and go on in later turns."""
        if self._soon is None or self._used_ns >= TURN_NS or self.timed(step):
            self.add(step)

    def timed(self, step: Step) -> bool:
        """Do a piece within this turn; return False when that was the last one."""
        began_ns = self._now()
        try:
            return step()
        finally:
            self._used_ns += self._now() - began_ns
            if self._used_ns >= _NOTED_NS:
                self._ask()

    def has_time(self) -> bool:
        """Return True if a piece may be done in this turn."""
        return self._used_ns < TURN_NS

    def share(self) -> Turns:
        """Return the turns of one account, whose work waits for its own only."""
        return AccountTurns(self)

    def clear(self) -> None:
        """Drop the pending work."""
        self._steps.clear()

    def _run(self) -> None:
        """Do one piece after the other while the turn lasts; at least one."""
        self._is_asked = False
        self._used_ns = 0
        try:
            while self._steps:
                step = self._steps.popleft()
                if self.timed(step):
                    self._steps.append(step)
                if not 0 < self._used_ns < _NEXT_NS:
                    break
        finally:
            if self._steps:
                self._ask()

    def _ask(self) -> None:
        if not self._is_asked and self._soon is not None:
            self._is_asked = True
            self._soon(self._run)


class AccountTurns(Turns):
    """The turns of one account: of each account one piece is done before the next one of any."""

    def __init__(self, all_turns: Turns) -> None:
        super().__init__()
        self._all = all_turns

    def add(self, step: Step) -> None:
        """See `Turns.add`."""
        self._steps.append(step)
        if len(self._steps) == 1:
            self._all.add(self._do_one)

    def start(self, step: Step) -> None:
        """See `Turns.start`."""
        if not self._all.has_time() or self._all.timed(step):
            self.add(step)

    def _do_one(self) -> bool:
        step = self._steps[0]
        is_more = False
        try:
            is_more = step()
        finally:
            if self._steps and self._steps[0] is step:  # nothing was cleared meanwhile
                self._steps.popleft()
            if is_more:
                self._steps.append(step)
        return bool(self._steps)
