"""The messages that streams keep for their consumers, and the calls to consumers."""

from __future__ import annotations

from typing import Any

import pytest

from midge.jetstream.config.consumer_config import Allowance, ConsumerConfig
from midge.jetstream.consumer import consumer_set
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.stream.stream import Stream
from tests.support.jetstream_account import AccountRig


def consume(stream: Stream, name: str = "C", **keys: Any) -> Consumer:
    config = ConsumerConfig(name=name, durable_name=name, ack_policy="explicit")
    for key, value in keys.items():
        setattr(config, key, value)
    return stream.consumers.create(config, "", Allowance())


def pull(rig: AccountRig, name: str = "C", batch: int = 1) -> list[bytes]:
    """Return the ack subjects of what a pull request brings."""
    rig.delivered.clear()
    rig.exchange(f"$JS.API.CONSUMER.MSG.NEXT.A.{name}", str(batch))
    return list(rig.delivered)


def ack(stream: Stream, consumer: Consumer, subject: bytes) -> None:
    consumer.ack(subject, b"", b"")


def test_interest_keeps_a_message_until_all_have_acknowledged_it() -> None:
    rig = AccountRig()
    stream = rig.create(retention="interest")
    one, other = consume(stream, "C"), consume(stream, "D")
    rig.publish("a.1", b"x")
    assert stream.store.messages == 1
    ack(stream, one, pull(rig, "C")[0])
    assert stream.store.messages == 1
    ack(stream, other, pull(rig, "D")[0])
    assert stream.store.messages == 0


def test_a_consumer_that_is_deleted_needs_nothing_any_more() -> None:
    rig = AccountRig()
    stream = rig.create(retention="interest")
    consumer = consume(stream)
    rig.publish("a.1", b"x")
    stream.consumers.delete(consumer)
    assert stream.store.messages == 0


def test_a_filter_says_whether_there_is_interest() -> None:
    rig = AccountRig()
    stream = rig.create(retention="interest")
    consume(stream, filter_subject="a.1")
    rig.publish("a.1", b"x")
    rig.publish("a.2", b"x")
    assert (stream.store.messages, stream.store.last_seq) == (1, 2)


def test_a_work_queue_removes_what_is_acknowledged() -> None:
    rig = AccountRig()
    stream = rig.create(retention="workqueue")
    consumer = consume(stream)
    for _ in range(3):
        rig.publish("a.1", b"x")
    first, second, _ = pull(rig, batch=3)
    ack(stream, consumer, second)
    state = rig.api("STREAM.INFO.A")["state"]
    assert (state["messages"], state["num_deleted"], state["consumer_count"]) == (2, 1, 1)
    ack(stream, consumer, first)
    assert stream.store.first_seq == 3


@pytest.mark.parametrize("removal", ["PURGE", "MSG.DELETE"])
def test_consumers_learn_of_what_is_removed(removal: str) -> None:
    rig = AccountRig()
    stream = rig.create()
    consumer = consume(stream)
    for _ in range(3):
        rig.publish("a.1", b"x")
    assert consumer.acks.num_pending == 3
    rig.api(f"STREAM.{removal}.A", {"seq": 2})
    consumer.acks.recount()
    assert consumer.acks.num_pending == 2


@pytest.mark.parametrize("policy", ["explicit", "all"])
@pytest.mark.parametrize(
    ("purge", "acked", "removed", "explicit_floor", "all_floor"),
    [
        ({"filter": "a.3"}, 0, {3}, (1, 1), (3, 3)),
        ({"filter": "a.3"}, None, {3}, (3, 0), (3, 3)),
        ({"filter": "a.1", "keep": 2}, 1, {1}, (2, 2), (2, 2)),
        ({"filter": "a.1", "keep": 2}, None, {1}, (1, 1), (1, 1)),
        ({"filter": "a.*", "seq": 2}, 1, {1}, (2, 2), (2, 2)),
        ({"filter": "a.>", "keep": 4}, 1, {1}, (2, 2), (2, 2)),
        ({"keep": 4}, 1, {1}, (2, 2), (2, 2)),
        ({"filter": "a.1"}, None, {1, 4}, (4, 1), (4, 4)),
    ],
    ids=str,
)
def test_purges_settle_what_awaits_its_ack_as_nats_server_does(
    purge: dict[str, Any],
    acked: int | None,
    removed: set[int],
    explicit_floor: tuple[int, int],
    all_floor: tuple[int, int],
    policy: str,
) -> None:
    rig = AccountRig()
    stream = rig.create()
    consumer = consume(stream, ack_policy=policy)
    for subject in ("a.1", "a.2", "a.3", "a.1", "a.1"):
        rig.publish(subject, b"x")
    delivered = pull(rig, batch=4)
    if acked is not None:
        ack(stream, consumer, delivered[acked])
    assert rig.api("STREAM.PURGE.A", purge)["purged"] >= len(removed)
    assert not removed & set(consumer.acks.pending.entries)
    floor = (consumer.acks.shown_floor_consumer_seq, consumer.acks.shown_floor_seq)
    assert floor == (explicit_floor if policy == "explicit" else all_floor)


def test_the_only_message_that_a_purge_removes_awaits_no_ack_above_a_floor() -> None:
    rig = AccountRig()
    stream = rig.create()
    consumer = consume(stream)
    for subject in ("a.1", "a.2", "a.3", "a.4"):
        rig.publish(subject, b"x")
    consumer.reset(2)
    pull(rig, batch=3)
    rig.api("STREAM.PURGE.A", {"filter": "a.3"})
    assert list(consumer.acks.pending.entries) == [2, 4]


def test_limits_below_those_of_a_consumer_are_refused() -> None:
    rig = AccountRig()
    stream = rig.create()
    consume(stream, max_ack_pending=500)
    keys = {"name": "A", "subjects": ["a.>"], "storage": "memory"}
    answer = rig.api("STREAM.UPDATE.A", {**keys, "consumer_limits": {"max_ack_pending": 100}})
    assert answer["error"] == {
        "code": 500,
        "err_code": 10069,
        "description": "change to limits violates consumers: C",
    }


def test_interest_from_now_on_drops_what_nobody_needs() -> None:
    rig = AccountRig()
    stream = rig.create()
    consumer = consume(stream, filter_subject="a.1")
    for subject in ("a.1", "a.2", "a.1"):
        rig.publish(subject, b"x")
    ack(stream, consumer, pull(rig)[0])
    keys = {"name": "A", "subjects": ["a.>"], "storage": "memory", "retention": "interest"}
    rig.api("STREAM.UPDATE.A", keys)
    assert [stream.store.exists(seq) for seq in (1, 2, 3)] == [False, False, True]


def test_a_deleted_stream_takes_its_consumers_with_it() -> None:
    rig = AccountRig()
    stream = rig.create()
    consume(stream)
    rig.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C", '{"expires":5000000000}')
    rig.exchange("$JS.API.STREAM.DELETE.A")
    statuses = [headers.partition(b"\r\n")[0] for _, headers, _ in rig.outbox.sent if headers]
    assert statuses == [b"NATS/1.0 409 Consumer Deleted"]
    assert len(stream.consumers) == 0


@pytest.mark.parametrize("others", [{}, {"D": "a.1"}, {"D": "a.1", "E": "a.3"}])
def test_what_was_kept_for_a_consumer_alone_goes_in_turns(
    monkeypatch: pytest.MonkeyPatch, others: dict[str, str]
) -> None:
    monkeypatch.setattr(consumer_set, "PIECE_MESSAGES", 1_000)
    rig = AccountRig()
    stream = rig.create(retention="interest")
    consumer = consume(stream)
    for name, subject in others.items():
        consume(stream, name, filter_subject=subject)
    for number in range(4_500):
        stream.publish(b"a.%d" % (number % 5), b"", b"", b"x")
    stream.consumers.delete(consumer)
    left = []
    rig.clock.advance(0.001, lambda: left.append(stream.store.messages))
    assert stream.store.messages == 900 * len(others)
    assert len(left) == (6 if others else 0)
    assert left == sorted(left, reverse=True)
    assert stream.usage.used == stream.store.bytes


def test_a_stream_that_is_deleted_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_set, "PIECE_MESSAGES", 1_000)
    rig = AccountRig()
    stream = rig.create(retention="interest")
    consumer = consume(stream)
    consume(stream, "D", filter_subject="a.1")
    for number in range(4_500):
        stream.publish(b"a.%d" % (number % 5), b"", b"", b"x")
    stream.consumers.delete(consumer)
    rig.account.delete(stream)
    removals = stream.store.removals
    rig.clock.advance(0.001)
    assert stream.store.removals == removals


def test_what_was_acknowledged_at_once_goes_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_set, "PIECE_MESSAGES", 1_000)
    rig = AccountRig()
    stream = rig.create(retention="interest")
    consumer = consume(stream, ack_policy="all", max_ack_pending=-1)
    for _ in range(4_500):
        stream.publish(b"a.1", b"", b"", b"x")
    consumer.request(b"_INBOX.1", b"4500")
    rig.clock.advance(0.001)
    consumer.ack(b"$JS.ACK.A.C.1.4499.4499.1.1", b"", b"")
    assert len(consumer.acks.pending) == 1
    left = [stream.store.messages]
    rig.clock.advance(0.001, lambda: left.append(stream.store.messages))
    assert left[0] > 3_000
    assert stream.store.messages == 1
    assert left == sorted(left, reverse=True)


def test_what_limits_take_of_many_pending_messages_is_settled_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer_set, "PIECE_MESSAGES", 1_000)
    rig = AccountRig()
    stream = rig.create()
    consumer = consume(stream, max_ack_pending=-1)
    for _ in range(4_500):
        stream.publish(b"a.1", b"", b"", b"x")
    consumer.request(b"_INBOX.1", b"4500")
    rig.clock.advance(0.001)
    stream.store.enforce(10, -1)
    stream.consumers.trimmed()
    assert len(consumer.acks.pending) == 3_500
    rig.clock.advance(0.001)
    assert len(consumer.acks.pending) == 10
