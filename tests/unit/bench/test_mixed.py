"""Traffic whose neighbouring lines differ: its messages, and how they are counted."""

from itertools import pairwise

import pytest

from bench import frames, wire
from bench.jetstream.unacknowledged import StreamTakes
from bench.metrics import ScenarioError
from bench.mixed import Mixed, service_subjects, telemetry_subjects
from bench.scenarios import SCENARIOS

MIXED = [scenario for scenario in SCENARIOS if isinstance(scenario, Mixed)]
TAKEN = [scenario for scenario in MIXED if isinstance(scenario, StreamTakes)]


def test_there_are_600_subjects_of_each_kind() -> None:
    assert len(set(service_subjects())) == 5 * 40 * 3
    assert len(set(telemetry_subjects())) == 600


@pytest.mark.parametrize("flow", MIXED, ids=lambda flow: flow.name)
def test_no_two_lines_in_a_row_are_alike(flow: Mixed) -> None:
    lines = flow.lines()
    assert all(line != after for line, after in pairwise([*lines, lines[0]]))
    assert {subject for subject, _ in lines} == set(flow.topics)
    assert {size for _, size in lines} == set(range(flow.bytes_min, flow.bytes_max + 1))


@pytest.mark.parametrize("flow", TAKEN, ids=lambda flow: flow.name)
def test_what_goes_without_a_stream_is_what_the_stream_takes(flow: StreamTakes) -> None:
    core = flow.without_stream()
    assert core.chunks(0) == flow.chunks(0)
    assert core.subscribers == 0


@pytest.mark.parametrize("flow", MIXED, ids=lambda flow: flow.name)
def test_chunks_hold_the_lines_in_order(flow: Mixed) -> None:
    chunks = flow.chunks(0)
    data = b"".join(chunk.data for chunk in chunks)
    expected = [frames.pub(subject, b"x" * size) for subject, size in flow.lines()]
    assert data == b"".join(expected)
    assert sum(chunk.messages for chunk in chunks) == len(expected)
    assert max(len(chunk.data) for chunk in chunks) <= flow.chunk_bytes


def test_delivered_bytes_are_those_of_the_msg_frames() -> None:
    flow = MIXED[0]
    pubs = [frames.pub(b"a.b", b"hi"), frames.pub(b"a", b"longer")]
    msgs = [frames.msg(b"a.b", b"1", b"hi"), frames.msg(b"a", b"1", b"longer")]
    assert flow.delivered_bytes(frames.Chunk(b"".join(pubs), 2)) == len(b"".join(msgs))


def test_every_subscriber_must_get_every_byte() -> None:
    flow = Mixed(name="m", title="", topics=(b"a",), bytes_min=1, bytes_max=2, subscribers=2)
    flow.check([100, 100 + len(wire.PING)], [200])
    for totals in ([100, 99], [100, 101], [99, 101]):
        with pytest.raises(ScenarioError, match="100 bytes expected"):
            flow.check(totals, [200])
