"""Offsets: what the options mean, what a checkpoint holds, what counts as a loss."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.client.errors import DataLossError, OptionError
from midge.client.jetstream import StreamSummary
from midge.pipeline.offsets import (
    Loss,
    Offset,
    find_loss,
    lag,
    next_offset,
    resume_seq,
    starting_seq,
)

CREATED = "2026-01-01T00:00:00.123456789Z"


def state(first=1, last=100, created=CREATED):
    return StreamSummary("ORDERS", created, first, last, last - first + 1)


def offset(seq, created=CREATED):
    return Offset("ORDERS", created, seq)


@pytest.mark.parametrize(
    ("text", "seq"),
    [
        ("earliest", 11),
        ("latest", 101),
        (" Latest ", 101),
        ('{"ORDERS": 42}', 42),
        ('{"ORDERS": -2}', 11),
        ('{"ORDERS": -1}', 101),
        ('{"stream": "ORDERS", "created": "x", "seq": 7}', 7),
    ],
)
def test_starting_offsets(text, seq):
    assert starting_seq(text, state(first=11)) == seq


@pytest.mark.parametrize(
    "text",
    [
        "",
        "first",
        "42",
        '"earliest"',
        "{}",
        '{"OTHER": 1}',
        '{"ORDERS": "1"}',
        '{"ORDERS": true}',
        '{"ORDERS": 0}',
        '{"ORDERS": -3}',
        '{"ORDERS": 1, "OTHER": 1}',
        '{"ORDERS": 1',
    ],
)
def test_a_meaningless_offset_says_what_was_expected(text):
    with pytest.raises(OptionError, match=r'startingOffsets: expected .*\{"ORDERS": <sequence>\}'):
        starting_seq(text, state())


def test_checkpoint_round_trip():
    assert Offset.from_dict(offset(5).to_dict()) == offset(5)


@pytest.mark.parametrize("value", [{}, {"seq": 1}, {"stream": "S", "created": "c", "seq": "1"}, []])
def test_foreign_checkpoint_is_refused(value):
    with pytest.raises(OptionError, match="checkpoint: expected an offset of the nats source"):
        Offset.from_dict(value)


@pytest.mark.parametrize(
    ("start", "now", "words"),
    [
        (offset(50), state(), None),
        (offset(101), state(), None),
        (offset(101), state(first=101), None),
        (offset(5), state(first=11), "messages 5 to 10 of stream ORDERS were removed"),
        (offset(5), state(created="2027"), "stream ORDERS was recreated"),
        (offset(102), state(), "ends at sequence 100, before the offset 102"),
    ],
)
def test_losses(start, now, words):
    loss = find_loss(start, now)
    assert (loss is None) == (words is None)
    if loss is not None:
        assert words in loss.text


@pytest.mark.parametrize(
    ("start", "now", "seq"),
    [
        (offset(50), state(), 50),
        (offset(5), state(first=11), 11),
        (offset(50), state(first=3, created="2027"), 3),
        (offset(500), state(first=3), 3),
    ],
)
def test_reads_on_from_what_is_left(start, now, seq):
    assert resume_seq(start, now) == seq


def test_loss_fails_or_warns_as_the_user_said(caplog):
    with pytest.raises(DataLossError, match=r"gone\. Set failOnDataLoss to false"):
        Loss("gone").raise_or_warn(fail=True, warn=logging.warning)
    Loss("gone").raise_or_warn(fail=False, warn=logging.warning)
    assert "data loss accepted by failOnDataLoss=false: gone" in caplog.text


@pytest.mark.parametrize(
    ("start", "limit", "end"),
    [
        (offset(1), None, 101),
        (offset(1), 10, 11),
        (offset(95), 10, 101),
        (offset(101), 10, 101),
    ],
)
def test_next_offset_keeps_to_the_limit(start, limit, end):
    assert next_offset(start, state(), limit) == offset(end)


@given(
    first=st.integers(1, 50),
    count=st.integers(0, 50),
    start=st.integers(1, 120),
    limit=st.integers(1, 200),
)
def test_next_offset_always_reaches_the_end(first, count, start, limit):
    now = state(first=first, last=first + count - 1)
    here = Offset("ORDERS", CREATED, resume_seq(offset(start), now))
    for _ in range(121):
        following = next_offset(here, now, limit)
        assert 0 <= following.seq - here.seq <= limit
        if following == here:
            break
        here = following
    assert here.seq == now.end_seq


def test_lag_from_query_progress():
    progress = {
        "endOffset": '{"stream": "S", "created": "c", "seq": 11}',
        "latestOffset": {"stream": "S", "created": "c", "seq": 31},
    }
    assert lag(progress) == 20
    assert lag({"endOffset": None, "latestOffset": None}) == 0
    assert lag({}) == 0
