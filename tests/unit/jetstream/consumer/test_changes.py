from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.errors import JetStreamError
from midge.jetstream.json.times import Timestamp
from tests.support.consumer_rig import Rig


def events(rig: Rig) -> list[dict[str, Any]]:
    found = []
    for one in rig.taken():
        if one.to.startswith(b"$JS.EVENT."):
            event = json.loads(one.payload)
            assert len(event.pop("id")) == 22
            assert event.pop("timestamp").endswith("Z")
            found.append({"to": one.to.decode(), **event})
    return found


def listening(**stream: Any) -> Rig:
    rig = Rig(**stream)
    rig.sink.interest_prefixes = (b"",)
    return rig


def test_a_paused_consumer_waits() -> None:
    rig = listening()
    rig.publish("a.1")
    until = Timestamp(rig.clock.wall_ns() + 5_000_000_000)
    consumer = rig.create(pause_until=until)
    rig.pull(consumer, '{"batch":1,"expires":60000000000,"idle_heartbeat":2000000000}')
    rig.taken()
    info = rig.info(consumer)
    assert (info["paused"], info["pause_remaining"]) == (True, 5_000_000_000)
    rig.advance(4.9)
    assert [one.status for one in rig.taken()] == [b"100 Idle Heartbeat"] * 2
    rig.advance(0.2)
    sent = rig.taken()
    assert sent[0].to == b"$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.C"
    assert b'"paused":false' in sent[0].payload
    assert sent[1].numbers == (1, 1, 1, 0)
    assert "paused" not in rig.info(consumer)


def test_reset_goes_back_to_the_floor() -> None:
    rig = Rig()
    rig.publish(*["a.1"] * 4)
    consumer = rig.create()
    rig.pull(consumer, "3")
    rig.ack(consumer, rig.taken()[0])
    assert consumer.reset(0) == 2
    assert rig.floors(consumer) == (0, 1, 0, 1)
    assert rig.info(consumer)["num_pending"] == 3
    rig.pull(consumer, "3")
    assert [one.numbers for one in rig.taken()] == [(1, 2, 1, 2), (1, 3, 2, 1), (1, 4, 3, 0)]


@pytest.mark.parametrize(
    ("keys", "seq", "problem"),
    [
        ({}, 9, ""),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, 3, ""),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, 2, "below start seq"),
        ({"deliver_policy": "new"}, 2, "not allowed"),
        ({"deliver_policy": "new"}, 0, ""),
    ],
)
def test_reset_to_a_sequence(keys: dict[str, Any], seq: int, problem: str) -> None:
    rig = Rig()
    consumer = rig.create(**keys)
    if not problem:
        consumer.reset(seq)
        return
    with pytest.raises(JetStreamError, match=f"invalid reset: {problem}"):
        consumer.reset(seq)


def test_an_update_changes_what_it_may() -> None:
    rig = Rig()
    rig.publish("a.1", "a.2", "a.1")
    consumer = rig.create(filter_subject="a.1", max_ack_pending=1)
    assert rig.info(consumer)["num_pending"] == 2
    assert rig.create(filter_subject="a.>", max_ack_pending=5) is consumer
    assert rig.info(consumer)["num_pending"] == 3
    rig.pull(consumer, "5")
    assert len(rig.taken()) == 3


def test_a_shorter_ack_wait_counts_for_what_is_pending() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create()
    rig.pull(consumer, "5")
    rig.taken()
    rig.create(ack_wait_ns=1_000_000_000)
    rig.advance(1.1)
    assert len(rig.taken()) == 1


def test_create_refuses_another_configuration() -> None:
    rig = Rig()
    consumer = rig.create()
    assert rig.create(action="create") is consumer
    with pytest.raises(JetStreamError, match="consumer already exists"):
        rig.create(action="create", max_deliver=3)
    with pytest.raises(JetStreamError, match="consumer does not exist"):
        rig.create("NONE", action="update")


def test_consumers_of_a_work_queue_share_nothing() -> None:
    rig = Rig(retention="workqueue")
    rig.create("ONE", filter_subject="a.1")
    with pytest.raises(JetStreamError, match="filtered consumer not unique"):
        rig.create("TWO", filter_subject="a.*")
    with pytest.raises(JetStreamError, match="multiple non-filtered"):
        rig.create("TWO")
    rig.create("TWO", filter_subject="a.2")


def test_max_consumers() -> None:
    rig = Rig(max_consumers=1)
    rig.create("ONE")
    with pytest.raises(JetStreamError, match="maximum consumers limit reached"):
        rig.create("TWO")


def test_life_is_told() -> None:
    rig = listening()
    consumer = rig.create()
    rig.consumers.delete(consumer)
    kinds = [(one["to"], one["action"]) for one in events(rig)]
    assert kinds == [
        ("$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.C", "create"),
        ("$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.C", "delete"),
    ]


def test_naks_and_terms_are_told() -> None:
    rig = listening()
    consumer = rig.create()
    rig.publish("a.1")
    rig.pull(consumer, "3")
    delivered = [one for one in rig.taken() if one.to == b"_INBOX.1"]
    rig.ack(consumer, delivered[0], b"-NAK 1h")
    rig.ack(consumer, delivered[0], b"+TERM no use")
    assert events(rig) == [
        {
            "to": "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.S.C",
            "type": "io.nats.jetstream.advisory.v1.nak",
            "stream": "S",
            "consumer": "C",
            "consumer_seq": 1,
            "stream_seq": 1,
            "deliveries": 1,
        },
        {
            "to": "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C",
            "type": "io.nats.jetstream.advisory.v1.terminated",
            "stream": "S",
            "consumer": "C",
            "consumer_seq": 1,
            "stream_seq": 1,
            "deliveries": 1,
            "reason": "no use",
        },
    ]


def test_sampled_acks_are_told() -> None:
    rig = listening()
    consumer = rig.create(sample_freq="100%")
    rig.publish("a.1")
    rig.pull(consumer)
    delivered = [one for one in rig.taken() if one.to == b"_INBOX.1"]
    rig.advance(0.5)
    rig.ack(consumer, delivered[0])
    (event,) = events(rig)
    assert event["to"] == "$JS.EVENT.METRIC.CONSUMER.ACK.S.C"
    assert (event["ack_time"], event["deliveries"]) == (500_000_000, 1)


def test_a_sampled_ack_has_the_numbers_of_the_delivery_that_it_acknowledges() -> None:
    rig = listening()
    consumer = rig.create(sample_freq="100%")
    rig.publish("a.1", "a.2")
    rig.pull(consumer, "2")
    delivered = [one for one in rig.taken() if one.to == b"_INBOX.1"]
    rig.ack(consumer, delivered[0], b"-NAK")
    rig.pull(consumer)
    (again,) = [one for one in rig.taken() if one.to == b"_INBOX.1"]
    rig.ack(consumer, again)
    (event,) = events(rig)
    assert (event["stream_seq"], event["consumer_seq"], event["deliveries"]) == (1, 3, 2)


def test_events_without_listeners_are_not_made() -> None:
    rig = Rig()
    consumer = rig.create()
    rig.consumers.delete(consumer)
    assert rig.taken() == []


def test_purges_settle_what_they_remove() -> None:
    rig = Rig()
    rig.publish("a.1", "a.2", "a.1", "a.2")
    consumer = rig.create()
    rig.pull(consumer, "3")
    rig.store.purge(b"a.1")
    rig.consumers.purged(b"a.1")
    info = rig.info(consumer)
    assert (info["num_ack_pending"], info["num_pending"]) == (1, 1)
    rig.store.purge()
    rig.consumers.purged()
    info = rig.info(consumer)
    assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)
    assert rig.floors(consumer) == (3, 4, 3, 4)


def test_limits_settle_what_they_remove() -> None:
    rig = Rig()
    rig.publish(*["a.1"] * 5)
    consumer = rig.create()
    rig.pull(consumer, "2")
    rig.store.enforce(2, -1)
    rig.consumers.trimmed()
    info = rig.info(consumer)
    assert (info["num_ack_pending"], info["num_pending"]) == (0, 2)
    rig.pull(consumer, "9")
    assert [one.numbers[1] for one in rig.taken()[2:]] == [4, 5]
