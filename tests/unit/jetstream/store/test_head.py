"""The head of a store: when it is written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from midge.jetstream.store.disk import Write
from midge.jetstream.store.file.log_identity import NAMES, Head, LogContents, parsed
from midge.testing.simulated_disk import SimulatedDisk

SEED = 7


class Store:
    """A store of one log more for each call; `chores` are to be done by the test."""

    def __init__(self) -> None:
        disk = SimulatedDisk(Random(1))
        for name in NAMES:
            disk.create(name)
        self.head = Head(disk, SEED)
        self.chores: list[tuple[Write, Callable[[bool], object]]] = []
        self.logs: set[int] = set()
        self.done: list[tuple[int, bool]] = []

    def add_log(self, number: int) -> None:
        """Add a log, and ask for a head that names it."""
        self.logs.add(number)
        self.head.save(
            lambda: LogContents(frozenset(self.logs), 0, {}, {}, False),
            lambda write, done: self.chores.append((write, done)),
            lambda is_well: self.done.append((number, is_well)),
        )

    def work(self, is_well: bool = True) -> tuple[int, frozenset[int]]:
        """Do a chore; return the count of the head that it writes, and the logs."""
        write, done = self.chores.pop(0)
        found = parsed(bytes(write.data), SEED)
        assert found is not None
        done(is_well)
        return found[0], found[1].logs


def test_one_head_is_for_all_who_asked_while_another_was_written() -> None:
    store = Store()
    for number in range(1, 5):
        store.add_log(number)
    assert [store.work(), store.work()] == [(1, frozenset({1}))] * 2, "both copies"
    assert store.done == [(1, True)]
    store.add_log(5)
    assert [store.work(), store.work()] == [(2, frozenset({1, 2, 3, 4}))] * 2
    assert store.done == [(1, True), (2, True), (3, True), (4, True)]
    assert [store.work(), store.work()] == [(3, frozenset({1, 2, 3, 4, 5}))] * 2
    assert store.done[4:] == [(5, True)]
    assert not store.chores
    store.add_log(6)
    assert store.work() == (4, frozenset({1, 2, 3, 4, 5, 6}))


@pytest.mark.parametrize("written", [0, 1])
def test_who_asked_for_a_head_that_failed_learns_it_and_the_others_get_theirs(written: int) -> None:
    store = Store()
    store.add_log(1)
    store.add_log(2)
    for _ in range(written):
        store.work()
    store.work(is_well=False)
    assert store.done == [(1, False)]
    store.work()
    store.work()
    assert store.done == [(1, False), (2, True)]
