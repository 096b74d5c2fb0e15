"""Clients of one loop share its turns: none gets so much that the others wait long."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from midge.server.channels.fair_turns import LEAST_SHARE_BYTES, PORTION_BYTES, TURN_BYTES, FairTurns

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clock import Clock


class Rounds:
    """A clock of which only the rounds of its loop matter."""

    def __init__(self) -> None:
        self._due: list[Callable[[], object]] = []

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> None:
        assert delay_s == 0
        self._due.append(callback)

    def go_round(self) -> None:
        due, self._due = self._due, []
        for callback in due:
            callback()


class Worker:
    """A client with endless work, which counts the work that it may do."""

    def __init__(self, turns: FairTurns) -> None:
        self._turns = turns
        self.done_bytes = 0

    def read(self) -> None:
        """Do all that may be done after a read."""
        self._work(PORTION_BYTES)

    def go_on(self) -> None:
        """Do all that may be done after a wait."""
        self._work(self._turns.share())

    def _work(self, left: int) -> None:
        while left:
            self.done_bytes += left
            left = self._turns.draw()
        self._turns.wait(self.go_on)


class Loop:
    """A loop with a number of workers."""

    def __init__(self, count: int) -> None:
        self._clock = Rounds()
        self.turns = FairTurns(cast("Clock", self._clock))
        self.workers = [Worker(self.turns) for _ in range(count)]

    def turn(self) -> list[int]:
        """Go round once; give what each has done meanwhile."""
        before = [worker.done_bytes for worker in self.workers]
        self._clock.go_round()
        return [now.done_bytes - then for now, then in zip(self.workers, before, strict=True)]


def test_one_alone_gets_turn_after_turn() -> None:
    loop = Loop(1)
    (worker,) = loop.workers
    worker.read()
    assert worker.done_bytes == PORTION_BYTES + TURN_BYTES
    assert loop.turn() == [TURN_BYTES]
    assert loop.turn() == [TURN_BYTES]


@pytest.mark.parametrize("count", [2, 5, 64])
def test_those_who_wait_get_the_same(count: int) -> None:
    loop = Loop(count)
    for worker in loop.workers:
        worker.read()
    assert sum(worker.done_bytes for worker in loop.workers) <= TURN_BYTES + count * PORTION_BYTES
    for _ in range(3):
        assert loop.turn() == [TURN_BYTES // count] * count


def test_the_smallest_share_gets_everybody_on() -> None:
    loop = Loop(5000)
    for worker in loop.workers:
        worker.read()
    assert set(loop.turn()) == {LEAST_SHARE_BYTES}


def test_a_bystander_has_its_portion_while_all_others_wait() -> None:
    loop = Loop(500)
    *busy, bystander = loop.workers
    for worker in busy:
        worker.read()
    bystander.read()
    assert bystander.done_bytes == PORTION_BYTES


def test_what_was_used_comes_back_with_the_next_turn() -> None:
    loop = Loop(0)
    while loop.turns.draw():
        pass
    assert loop.turns.draw() == 0
    loop.turn()
    assert loop.turns.draw() > 0


def test_who_does_not_wait_any_more_leaves_all_to_the_others() -> None:
    loop = Loop(2)
    first, second = loop.workers
    first.read()
    second.read()
    second.go_on = lambda: loop.turns.share()  # type: ignore[method-assign]
    loop.turn()
    assert loop.turn()[0] >= TURN_BYTES // 2
    assert loop.turn()[0] == TURN_BYTES
