"""A flow's messages, expected deliveries and counts."""

import pytest

from bench import frames, wire
from bench.counters import Counters
from bench.flow import Flow, whole_frames
from bench.metrics import ScenarioError
from bench.scenarios import SCENARIOS, TARGETS, select
from tests.support.each import each

FLOWS = [scenario for scenario in SCENARIOS if type(scenario) is Flow]


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_frame_of_a_flow_has_one_length(flow: Flow) -> None:
    chunks = flow.chunks(0)
    assert len({len(chunk.data) / chunk.messages for chunk in chunks}) == 1
    # MSG has a sid where PUB has none: the delivered frame is longer by that and a blank.
    pub_bytes = len(chunks[0].data) // chunks[0].messages
    sid = flow.subscriptions(0)[-1].split()[-1]
    assert flow.delivered_frame_bytes() == pub_bytes + len(sid) + 1
    assert flow.delivered_bytes(chunks[0]) == chunks[0].messages * flow.delivered_frame_bytes()


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_subject_is_published_to_equally_often(flow: Flow) -> None:
    data = b"".join(chunk.data for chunk in flow.chunks(0))
    published = [line.split()[1] for line in data.split(b"\r\n") if b"PUB " in line]
    assert set(published) == set(flow.subject_names(0))
    assert len(published) % flow.subjects == 0


def test_groups_have_subjects_of_their_own() -> None:
    flow = Flow(name="pairs", title="", groups=2)
    assert not set(flow.subject_names(0)) & set(flow.subject_names(1))
    assert (flow.members(0), flow.members(1)) == (slice(0, 1), slice(1, 2))


def test_frames_of_all_groups_have_one_length() -> None:
    flow = Flow(name="pairs", title="", groups=12)
    assert len({len(flow.subject_names(group)[0]) for group in range(12)}) == 1


def test_copies_are_per_subscriber_but_one_for_a_queue_group() -> None:
    assert Flow(name="fan", title="", subscribers=3).copies == 3
    assert Flow(name="queue", title="", subscribers=3, queue=b"q").copies == 1


def test_a_wildcard_flow_subscribes_once() -> None:
    flow = Flow(name="wild", title="", subjects=10, wildcard=True)
    assert flow.subscriptions(0) == [b"SUB load.0.> 1\r\n"]
    assert len(Flow(name="literal", title="", subjects=10).subscriptions(0)) == 10


def test_whole_frames_allows_for_pings_of_the_server() -> None:
    frame = frames.msg(b"load.0.0", b"1", b"x" * 16)
    stream = frame * 5 + wire.PING * 2
    assert whole_frames(len(stream), len(frame)) == 5


@each("missing", range(1, 19))
def test_whole_frames_refuses_a_torn_stream(missing: int) -> None:
    frame = frames.msg(b"load.0.0", b"1", b"x" * 16)
    with pytest.raises(ScenarioError, match="no message"):
        whole_frames(len(frame) * 5 - missing, len(frame))


def test_counters_tell_how_far_publishers_are_ahead() -> None:
    counters = Counters(publishers=2, subscribers=3)
    counters.offered[0], counters.offered[1] = 100, 50
    counters.received[0], counters.received[2] = 30, 20
    counters.last_byte_ns = 2**40
    assert counters.outstanding_bytes() == 100
    assert counters.group_outstanding_bytes(0, slice(0, 2)) == 70
    assert counters.group_outstanding_bytes(1, slice(2, 3)) == 30
    assert counters.last_byte_ns == 2**40


def test_scenarios_have_names_of_their_own_and_every_target_has_a_scenario() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert set(TARGETS) <= set(names)


def test_select_keeps_the_order_of_the_table() -> None:
    assert [scenario.name for scenario in select(["churn", "one_16"])] == ["one_16", "churn"]
    assert select([]) == SCENARIOS


def test_select_names_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="no scenario 'nope'; there are: churn"):
        select(["nope"])
