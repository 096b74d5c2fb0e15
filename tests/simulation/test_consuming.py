"""Consumers between delivery, ack and confirmation, crashed by the thousand; and planted faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from midge.jetstream.consumer import consumer_log, stored_state
from midge.jetstream.consumer.position import Position
from midge.jetstream.store.disk import Write
from midge.testing.simulated_disk import SimulatedCommitter, SimulatedFile
from tests.simulation.consuming import Consuming, failure, program, shrunk

Patch = pytest.MonkeyPatch
Numbers = list[int]

STEPS = 200
FETCHED_FOR_NOTHING = (18_948, 24_845, 48_882)
_FLOOR_SEQ = stored_state._POSITIONS.index("floor_seq")


def crashes(seeds: Iterable[int], *, is_choosy: bool = False) -> int:
    """Run programs, and return how many crashes there were."""
    count = 0
    for seed in seeds:
        world = Consuming(seed, is_choosy=is_choosy)
        world.run(program(seed, STEPS))
        count += world.crashes
    return count


@pytest.mark.parametrize("is_choosy", [False, True])
def test_nothing_is_forgotten_or_invented(is_choosy: bool) -> None:
    assert crashes(range(120), is_choosy=is_choosy) > 600


def test_what_was_fetched_for_nothing_is_fetched_again() -> None:
    """The consumer needs another message first after an ack wait, or none without a request."""
    crashes(FETCHED_FOR_NOTHING)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_choosy", [False, True])
@pytest.mark.parametrize("start", range(10_000, 50_000, 10_000))
def test_nothing_is_forgotten_or_invented_in_the_long_form(start: int, is_choosy: bool) -> None:
    crashes(range(start, start + 10_000), is_choosy=is_choosy)


# Faults that the simulation has to find.


def changed(patch: Patch, change: Callable[[Numbers, Numbers, Numbers, Numbers], object]) -> None:
    """Alter the stored state by `change`: positions, pending, settled and counts."""
    right = stored_state.change

    def wrong(position: Position, seqs: Iterable[int], *, had_counts: bool = True) -> bytes:
        parts = stored_state.parts(right(position, seqs, had_counts=had_counts))
        change(*parts)
        return stored_state.joined(*parts)

    patch.setattr(stored_state, "change", wrong)


def confirmed_before_the_sync(patch: Patch) -> None:
    result = SimulatedCommitter.result

    def without_sync(committer: SimulatedCommitter, job: Write) -> tuple[int, int]:
        job.sync = False
        return result(committer, job)

    patch.setattr(SimulatedCommitter, "result", without_sync)


def delivery_counts_lost(patch: Patch) -> None:
    changed(patch, lambda positions, pending, settled, counts: counts.clear())


def acks_lost(patch: Patch) -> None:
    changed(patch, lambda positions, pending, settled, counts: settled.clear())


def deliveries_lost(patch: Patch) -> None:
    changed(patch, lambda positions, pending, settled, counts: pending.clear())


def floor_ahead_of_the_stream(patch: Patch) -> None:
    def ahead(positions: Numbers, *_: Numbers) -> None:
        positions[_FLOOR_SEQ] += 3

    changed(patch, ahead)


def written_too_late(patch: Patch) -> None:
    patch.setattr(consumer_log, "WRITE_DELAY_S", 0.2)


def cold_reads_on_the_loop(patch: Patch) -> None:
    patch.setattr(SimulatedFile, "read_cached", SimulatedFile.read)


def notification_lost(patch: Patch) -> None:
    show = Consuming.show

    def show_less(world: Consuming) -> None:
        if world.store.visible_seq - world.visible > 1:
            world.visible += 1
        show(world)

    patch.setattr(Consuming, "show", show_less)


@pytest.mark.parametrize(
    "fault",
    [
        confirmed_before_the_sync,
        cold_reads_on_the_loop,
        delivery_counts_lost,
        acks_lost,
        deliveries_lost,
        floor_ahead_of_the_stream,
        notification_lost,
        written_too_late,
    ],
    ids=lambda fault: fault.__name__,
)
def test_a_planted_fault_is_found_and_shrunk(
    monkeypatch: Patch, fault: Callable[[Patch], None]
) -> None:
    fault(monkeypatch)
    found = next(seed for seed in range(300) if failure(seed, program(seed, STEPS)))

    steps = shrunk(program(found, STEPS), lambda some: failure(found, some))

    assert failure(found, steps)
    assert len(steps) <= 15, steps
