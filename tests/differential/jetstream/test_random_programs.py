"""Random programs do the same on midge and on nats-server, both live."""

from __future__ import annotations

import pytest

from .live import Comparison, by_consumer
from .timed_programs import TimedProgram

QUICK = range(2000, 2150)
FULL = range(10_000, 30_000)
KILLED = range(500_000, 500_060)
FULL_KILLED = range(500_000, 502_100)
TIMED = range(1, 501)
BATCH = 500
KILLED_BATCH = 100

FORGOTTEN_NAKS = {501_256}
"""Programs with a purge between a NAK and its delivery: nats-server then waits for `ack_wait`."""

REPLACING = (100_856,)
"""Programs in which a message comes in the place of one that awaits its ack, and is asked for."""


def test_the_order_of_two_consumers_is_left_to_chance() -> None:
    one, two = (["s", f"$JS.ACK.S.C0.1.{n}.1.0", "", str(n)] for n in (1, 2))
    other, status = ["s", "$JS.ACK.S.C1.1.1.1.0", "", "1"], ["i", "", "NATS/1.0 409", ""]
    assert by_consumer([other, one, two]) == by_consumer([one, two, other])
    assert by_consumer([two, one, other]) != by_consumer([one, two, other])
    assert by_consumer([two, one]) == [two, one]
    assert by_consumer([two, status]) == [two, status], "of one consumer, a status keeps its place"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_random_programs_do_the_same() -> None:
    comparison = Comparison(at_once=30)
    await comparison.run(QUICK, restarts=True)
    assert comparison.programs == len(QUICK)
    assert [str(one) for one in comparison.differences] == []


async def test_a_message_that_replaces_another_is_delivered_as_by_nats_server() -> None:
    comparison = Comparison(at_once=1)
    await comparison.run(REPLACING, restarts=False)
    assert [str(one) for one in comparison.differences] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_random_programs_go_on_the_same_after_a_kill() -> None:
    comparison = Comparison(at_once=30)
    await comparison.run_killed(KILLED)
    assert comparison.programs > len(KILLED) // 3
    assert [str(one) for one in comparison.differences] == []


@pytest.mark.full
@pytest.mark.timeout(3600)
async def test_many_random_programs_go_on_the_same_after_a_kill() -> None:
    comparison = Comparison(at_once=30)
    for first in range(FULL_KILLED.start, FULL_KILLED.stop, KILLED_BATCH):
        seeds = set(range(first, first + KILLED_BATCH)) - FORGOTTEN_NAKS
        await comparison.run_killed(sorted(seeds))
    assert [str(one) for one in comparison.differences] == []


@pytest.mark.full
@pytest.mark.timeout(4 * 3600)
async def test_many_random_programs_do_the_same() -> None:
    comparison = Comparison(at_once=30)
    for number, first in enumerate(range(FULL.start, FULL.stop, BATCH)):
        seeds = range(first, first + BATCH)
        await comparison.run(seeds, restarts=number % 10 == 9)
    assert [str(one) for one in comparison.differences] == []


@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_programs_with_timers_come_to_the_same() -> None:
    comparison = Comparison(at_once=50, program=TimedProgram)
    await comparison.run(TIMED, restarts=False)
    assert [str(one) for one in comparison.differences] == []
