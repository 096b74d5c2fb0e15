"""A stream's store answers like a dictionary and linear scans."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.memory_store import MemoryStore
from midge.protocol.memory import is_compiled
from midge.testing.simulated_disk import SimulatedDisk
from tests.support.each import each
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
@each("seed", range(12 if is_compiled() else 4))
def test_random_programs(seed: int, spread: int) -> None:
    run_program(seed, 1500, spread)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 400))
def test_random_programs_in_their_long_form(seed: int) -> None:
    run_program(seed, 6000, seed % 5 * 40)


def run_file_program(seed: int, steps: int, spread: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk(random)
    directory = StoreDirectory(disk, lambda: None)
    store, oracle = directory.create_stream(b"$G", b"S", b"{}"), Oracle()
    for step in range(steps):
        random_step(random, store, oracle, spread)
        if random.random() < 0.1:
            directory.flush()
        if random.random() < 0.1:
            disk.pump()
        if step % 29 == 0:
            ask(random, store, oracle)
        if step % 211 == 0:
            compare(store, oracle)
            directory.close()
            disk = disk.killed()
            directory = StoreDirectory(disk, lambda: None)
            (store,) = directory.streams()
            compare(store, oracle)
            assert directory.damages == []
    compare(store, oracle)


@pytest.mark.parametrize("spread", [0, 3, 500])
@each("seed", range(8 if is_compiled() else 3))
def test_random_programs_on_a_file_store(seed: int, spread: int) -> None:
    run_file_program(seed, 1000, spread)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 300))
def test_random_programs_on_a_file_store_in_their_long_form(seed: int) -> None:
    run_file_program(seed, 4000, seed % 5 * 40)
