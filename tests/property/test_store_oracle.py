"""A stream's store answers like a dictionary and linear scans."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.store.memory import MemoryStore
from tests.support.store_oracle import Oracle
from tests.support.store_programs import ask, compare, random_step


def run_program(seed: int, steps: int, spread: int) -> None:
    random = Random(seed)
    store, oracle = MemoryStore(seed), Oracle()
    for step in range(steps):
        random_step(random, store, oracle, spread)
        if step % 29 == 0:
            ask(random, store, oracle)
        if step % 211 == 0:
            compare(store, oracle)
    compare(store, oracle)
    assert store.visible_seq == oracle.last_seq


@pytest.mark.parametrize("spread", [0, 3, 500])
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, spread: int) -> None:
    run_program(seed, 1500, spread)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 400))
def test_random_programs_in_their_long_form(seed: int) -> None:
    run_program(seed, 6000, seed % 5 * 40)
