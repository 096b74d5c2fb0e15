"""Work that is put off to later turns of the event loop, a bounded piece in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Step = Callable[[], bool]
"""Does a piece of work, of a millisecond or two; False when that was the last one."""

Soon = Callable[[Callable[[], None]], object]


def do_at_once(step: Step) -> None:
    """Do all pieces now, where nothing else wants a turn."""
    while step():
        pass


class Turns:
    """Pieces of work, of which one is done in each turn, whatever asked for it.

    Args:
        soon: Has the event loop call a function in its next turn. Without it everything is done
            as soon as it is asked for.
    """

    def __init__(self, soon: Soon | None = None) -> None:
        self._soon = soon
        self._steps: deque[Step] = deque()
        self._is_asked = False

    def __len__(self) -> int:
        return len(self._steps)

    def begin(self, soon: Soon | None) -> None:
        """Run work in turns from now on."""
        self._soon = soon

    def add(self, step: Step) -> None:
        """Call `step`, once a turn, until it returns False."""
        if self._soon is None:
            do_at_once(step)
            return
        self._steps.append(step)
        self._ask()

    def clear(self) -> None:
        """Forget what has not been done."""
        self._steps.clear()

    def _run(self) -> None:
        """Run one piece; others that wait run in the turns that follow."""
        self._is_asked = False
        if not self._steps:
            return
        step = self._steps.popleft()
        try:
            if step():
                self._steps.append(step)
        finally:
            if self._steps:
                self._ask()

    def _ask(self) -> None:
        if not self._is_asked and self._soon is not None:
            self._is_asked = True
            self._soon(self._run)
