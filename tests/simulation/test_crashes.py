"""Crashes by the thousand: acknowledged messages are there, and none that never existed."""

from __future__ import annotations

import pytest

from midge.jetstream.store.file import compaction, directory, frames, log
from tests.simulation.stopping import (
    StoppingEncryptedWorld,
    StoppingPassingWorld,
    StoppingPlainWorld,
    StoppingWorld,
)
from tests.simulation.world import (
    EncryptedWorld,
    FailingWorld,
    FullWorld,
    IntervalWorld,
    PassingWorld,
    PlainWorld,
    run,
)
from tests.support.each import each


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 8 * 1024)
    monkeypatch.setattr(directory, "LEFT_MIN", 512)
    monkeypatch.setattr(compaction, "SLICE_BYTES", 1500)
    monkeypatch.setattr(frames, "_PIECE", 700)


@each("seed", range(40))
def test_crashes(seed: int) -> None:
    run(seed, 50)


@each("seed", range(20))
def test_crashes_on_full_disks(seed: int) -> None:
    run(seed, 50, FullWorld)


@each("seed", range(10))
def test_crashes_where_starts_fail(seed: int) -> None:
    run(seed, 50, FailingWorld)


@each("seed", range(10))
def test_kills_of_a_store_with_a_sync_interval(seed: int) -> None:
    run(seed, 50, IntervalWorld)


@each("seed", range(10))
def test_crashes_of_an_encrypted_store(seed: int) -> None:
    world = run(seed, 50, EncryptedWorld)
    assert isinstance(world, EncryptedWorld)
    assert world.generation > 1


@each("seed", range(10))
def test_crashes_between_consumers_that_come_and_go(seed: int) -> None:
    run(seed, 50, PassingWorld)


@each("seed", range(10))
def test_crashes_while_segments_go_unread(seed: int) -> None:
    run(seed, 50, PlainWorld)


STOPPING = [StoppingWorld, StoppingPlainWorld, StoppingPassingWorld, StoppingEncryptedWorld]


@pytest.mark.parametrize("make", STOPPING)
def test_stops_and_crashes(make: type[StoppingWorld]) -> None:
    used = unfit = written = 0
    for seed in range(12):
        world = run(seed, 40, make)
        assert isinstance(world, StoppingWorld)
        used += world.used
        unfit += world.unfit
        written += world.written
    assert used > 20
    assert unfit > 20
    assert written > 5


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", STOPPING)
@pytest.mark.parametrize("seed", range(6000, 6040))
def test_stops_and_crashes_in_their_long_form(seed: int, make: type[StoppingWorld]) -> None:
    run(seed, 500, make)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(5000, 5040))
def test_crashes_while_segments_go_unread_in_their_long_form(seed: int) -> None:
    run(seed, 500, PlainWorld)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4000, 4040))
def test_crashes_between_consumers_that_come_and_go_in_their_long_form(seed: int) -> None:
    run(seed, 500, PassingWorld)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_crashes_in_their_long_form(seed: int) -> None:
    run(seed, 1000)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3000, 3040))
def test_crashes_on_full_disks_in_their_long_form(seed: int) -> None:
    run(seed, 500, FullWorld)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2000, 2040))
def test_crashes_of_an_encrypted_store_in_their_long_form(seed: int) -> None:
    run(seed, 500, EncryptedWorld)
