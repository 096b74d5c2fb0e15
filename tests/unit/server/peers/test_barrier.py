"""Waiting for all other workers."""

from __future__ import annotations

from collections.abc import Callable

from midge.server.peers.worker_links import Barrier


class FakeLink:
    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []

    def ask_taken(self, taken: Callable[[], None]) -> None:
        self.asked.append(taken)

    def answer(self) -> None:
        self.asked.pop(0)()


class Turns:
    """The callbacks of the next turn of the loop."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def __call__(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for callback in due:
            callback()


def test_it_waits_for_all() -> None:
    links, turns, done = [FakeLink(), FakeLink()], Turns(), list[str]()
    barrier = Barrier(lambda: links, turns)
    barrier.wait(lambda: done.append("a"))
    turns.turn()
    links[1].answer()
    assert done == []
    links[0].answer()
    assert done == ["a"]


def test_one_round_serves_all_of_a_turn() -> None:
    links, turns, done = [FakeLink()], Turns(), list[str]()
    barrier = Barrier(lambda: links, turns)
    barrier.wait(lambda: done.append("a"))
    barrier.wait(lambda: done.append("b"))
    turns.turn()
    assert len(links[0].asked) == 1
    barrier.wait(lambda: done.append("c"))
    turns.turn()
    links[0].answer()
    assert done == ["a", "b"]
    links[0].answer()
    assert done == ["a", "b", "c"]


def test_nobody_has_to_be_waited_for() -> None:
    turns, done = Turns(), list[str]()
    Barrier(list, turns).wait(lambda: done.append("a"))
    assert done == []
    turns.turn()
    assert done == ["a"]
