"""Wait until every other worker has taken what it was told: one round of PING for all who wait.

A link keeps its order, so the PONG to a PING says that all interest told before has been taken. All
that ask within one turn of the loop share a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Asked(Protocol):
    """A link, as a round needs it."""

    def ask_taken(self, round_: Round) -> None:
        """Call the `taken` of `round_` when the other worker has taken everything, or is gone."""


class Round:
    """One PING over each link, and what waits for the answers."""

    def __init__(self, waiting: list[Callable[[], None]]) -> None:
        self._waiting = waiting
        self._left = 1  # until all links have been asked

    def begin(self, links: Iterable[Asked]) -> None:
        """Ask all of `links`."""
        for link in links:
            self._left += 1
            link.ask_taken(self)
        self.taken()

    def taken(self) -> None:
        """Take note that one worker has taken everything; after the last, go on."""
        self._left -= 1
        if self._left == 0:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done()


class Barrier:
    """Has rounds go over the links that `links` gives, one per turn of the loop at most."""

    def __init__(
        self,
        links: Callable[[], Iterable[Asked]],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._links = links
        self._soon = soon
        self._waiting: list[Callable[[], None]] = []

    def wait(self, done: Callable[[], None]) -> None:
        """Call `done` when every worker has taken what it has been told so far."""
        self._waiting.append(done)
        if len(self._waiting) == 1:
            self._soon(self._begin)

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        Round(waiting).begin(list(self._links()))
