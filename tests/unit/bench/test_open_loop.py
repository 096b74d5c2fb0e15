"""The open loop's own arithmetic."""

import pytest

from bench import frames
from bench.open_loop import STAMP_BYTES, OpenLoop, percentiles, stamps
from bench.scenarios import SCENARIOS

LOOPS = [scenario for scenario in SCENARIOS if isinstance(scenario, OpenLoop)]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_every_connection_publishes_once_before_any_does_so_again(loop: OpenLoop) -> None:
    assert sorted(loop.order()) == list(range(loop.connections))
    assert loop.order() == loop.order()
    assert len({len(subject) for subject in loop.subjects()}) == 1


def test_stamps_are_read_back_from_the_frames() -> None:
    sent = [0, 7, 10**STAMP_BYTES - 1]
    msgs = [frames.msg(b"open.001", b"1", b"%016d" % stamp) for stamp in sent]
    assert stamps(b"".join(msgs), len(msgs[0])) == sent
    assert stamps(b"", len(msgs[0])) == []


def test_percentiles_are_of_unordered_latencies_in_microseconds() -> None:
    found = percentiles([number * 1_000 for number in range(1_000, 0, -1)])
    assert found == {"p50_us": 500, "p99_us": 990, "p999_us": 999, "max_us": 1_000}
