"""Waits of 292 years: as long as 64 bits say, and longer than a moment can be put off by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midge.jetstream.json.times import Timestamp, parse_time
from tests.support.consumer_rig import SECOND_NS, Rig
from tests.unit.jetstream.consumer.test_stored_state import again, rig

MOST = (1 << 63) - 1
YEAR_S = 365 * 24 * 3600


@pytest.mark.parametrize("wait_ns", [MOST, MOST - 1, MOST // 2 + 1])
@pytest.mark.parametrize(
    ("waits", "redelivered"),
    [
        (lambda wait_ns: {"ack_wait_ns": wait_ns}, 0),
        (lambda wait_ns: {"backoff_ns": [wait_ns], "max_deliver": 3}, 0),
        (lambda wait_ns: {"backoff_ns": [SECOND_NS, wait_ns], "max_deliver": 3}, 3),
        (lambda wait_ns: {"inactive_threshold_ns": wait_ns}, 0),
        (lambda wait_ns: {"deliver_subject": "deliver", "idle_heartbeat_ns": wait_ns}, 0),
    ],
)
def test_nothing_is_due_within_a_year(
    waits: Callable[[int], dict[str, Any]], redelivered: int, wait_ns: int
) -> None:
    consumers = Rig()
    consumer = consumers.create(**{"ack_wait_ns": MOST, **waits(wait_ns)})
    consumers.publish("a.1", "a.2", "a.3")
    if consumer.acks.config.is_pull():
        consumers.pull(consumer, f'{{"batch":10,"expires":{MOST}}}')
    assert len(consumers.taken()) == 3
    consumers.advance(YEAR_S)
    assert len(consumers.taken()) == redelivered
    assert consumers.consumers.get(b"C") is consumer
    shown = consumers.info(consumer)
    assert (shown["num_ack_pending"], shown["num_redelivered"]) == (3, redelivered)


@pytest.mark.parametrize(
    ("body", "redelivered"),
    [
        (b'-NAK {"delay":%d}' % MOST, 0),
        (b"-NAK 2562047h", 0),
        (b'-NAK {"delay":%d}' % -(MOST + 1), 1),
        (b'-NAK {"delay":-5}', 1),
    ],
)
@pytest.mark.parametrize("ack_wait_ns", [SECOND_NS, MOST])
def test_a_delay_is_as_long_as_can_be(body: bytes, redelivered: int, ack_wait_ns: int) -> None:
    consumers = Rig()
    consumer = consumers.create(ack_wait_ns=ack_wait_ns)
    consumers.publish("a.1")
    consumers.pull(consumer, "1")
    (sent,) = consumers.taken()
    consumers.ack(consumer, sent, body)
    consumers.pull(consumer, "1", b"_INBOX.2")
    consumers.advance(0.5)
    assert len(consumers.taken()) == redelivered


@pytest.mark.parametrize("sent_ns", [0, MOST])  # the stored moment is larger than either
def test_a_stored_moment_may_be_any(sent_ns: int) -> None:
    old = rig()
    old.publish("a.1")
    consumer = old.create(ack_wait_ns=MOST)
    old.pull(consumer, "1")
    old.taken()
    consumer.acks.pending.entries[1].sent_ns = sent_ns
    new = again(old, orderly=True)
    (taken_up,) = new.consumers
    assert len(taken_up.acks.pending.entries) == 1
    new.pull(taken_up, "1")
    new.advance(YEAR_S)
    assert new.taken() == []


def test_a_pause_is_shown_in_64_bits() -> None:
    consumers = Rig()
    until = Timestamp(parse_time("9999-12-31T23:59:59Z").ns)
    consumer = consumers.create(pause_until=until)
    assert consumers.info(consumer)["pause_remaining"] == MOST
    consumer = consumers.create("D", pause_until=Timestamp(consumers.clock.wall_ns() + 7))
    assert consumers.info(consumer)["pause_remaining"] == 7
