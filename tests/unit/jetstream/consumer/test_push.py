from __future__ import annotations

import pytest

from tests.support.consumer_rig import Rig, Sent

SUBJECT = b"deliver.1"


def deliveries(sent: list[Sent]) -> list[tuple[int, int, int, int]]:
    return [one.numbers for one in sent if one.reply.startswith(b"$JS.ACK")]


def statuses(sent: list[Sent]) -> list[bytes]:
    return [one.status for one in sent if one.status]


def test_messages_go_to_the_deliver_subject() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create(deliver_subject="deliver.1")
    rig.publish("a.2")
    sent = rig.taken()
    assert [(one.to, one.subject) for one in sent] == [(SUBJECT, b"a.1"), (SUBJECT, b"a.2")]
    assert deliveries(sent) == [(1, 1, 1, 0), (1, 2, 2, 0)]
    assert rig.info(consumer)["push_bound"]


def test_a_new_consumer_asks_for_a_turn_only_if_there_is_something_to_deliver() -> None:
    rig = Rig()
    rig.publish("a.1")
    with pytest.MonkeyPatch.context() as held:
        held.setattr(rig, "run", lambda: None)
        rig.create("idle", deliver_subject="deliver.1", deliver_policy="new")
        assert rig.turns == []
        busy = rig.create("busy", deliver_subject="deliver.2")
        assert rig.turns == [busy]
    rig.publish("a.2")
    assert sorted(one.to for one in rig.taken()) == [b"deliver.1", b"deliver.2", b"deliver.2"]


def test_nothing_goes_without_a_subscriber() -> None:
    rig = Rig()
    rig.sink.without_interest.add(SUBJECT)
    consumer = rig.create(deliver_subject="deliver.1")
    rig.publish("a.1")
    assert rig.taken() == []
    assert "push_bound" not in rig.info(consumer)
    rig.sink.set_interest(SUBJECT, is_there=True)
    rig.run()
    assert deliveries(rig.taken()) == [(1, 1, 1, 0)]
    rig.sink.set_interest(SUBJECT, is_there=False)
    rig.publish("a.1")
    assert rig.taken() == []


def test_a_pull_request_is_refused() -> None:
    rig = Rig()
    consumer = rig.create(deliver_subject="deliver.1")
    rig.pull(consumer)
    assert statuses(rig.taken()) == [b"409 Consumer is push based"]


def test_what_is_not_acknowledged_is_pushed_again() -> None:
    rig = Rig()
    consumer = rig.create(deliver_subject="deliver.1", ack_wait_ns=1_000_000_000, max_deliver=2)
    rig.publish("a.1")
    rig.advance(5)
    assert deliveries(rig.taken()) == [(1, 1, 1, 0), (2, 1, 2, 0)]
    assert rig.info(consumer)["num_ack_pending"] == 0


def test_heartbeats_come_when_nothing_else_does() -> None:
    rig = Rig()
    rig.create(deliver_subject="deliver.1", ack_policy="none", idle_heartbeat_ns=1_000_000_000)
    rig.advance(0.6)
    rig.publish("a.1")
    rig.taken()
    rig.advance(0.9)
    assert rig.taken() == []
    rig.advance(1.2)
    sent = rig.taken()
    assert [one.to for one in sent] == [SUBJECT] * 2
    assert sent[0].headers == (
        b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n"
    )


def test_flow_control_stops_after_a_window() -> None:
    rig = Rig()
    consumer = rig.create(
        deliver_subject="deliver.1",
        ack_policy="none",
        flow_control=True,
        idle_heartbeat_ns=1_000_000_000,
    )
    for _ in range(400):
        rig.publish("a.1", payload=bytes(10_000))
    sent = rig.taken()
    asked = [place for place, one in enumerate(sent) if one.status]
    assert asked == [105]
    assert len(sent) == 210
    request = sent[105]
    assert request.reply.startswith(b"$JS.FC.S.C.")
    assert request.headers == b"NATS/1.0 100 FlowControl Request\r\n\r\n"
    rig.advance(1)
    (stalled,) = rig.taken()
    assert b"Nats-Consumer-Stalled: " + request.reply in stalled.headers
    consumer.receivers.flow_control(b"$JS.FC.S.C.none", b"")
    rig.run()
    assert rig.taken() == []
    consumer.receivers.flow_control(request.reply, b"")
    rig.run()
    assert len(deliveries(rig.taken())) == 191


def test_a_rate_limit_spreads_messages() -> None:
    rig = Rig(max_msg_size=1000)
    rig.publish(*["a.1"] * 5, payload=bytes(950))
    rig.create(deliver_subject="deliver.1", ack_policy="none", rate_limit_bps=8000)
    counts = []
    for _ in range(5):
        counts.append(len(rig.taken()))
        rig.advance(1)
    assert counts == [1, 1, 1, 1, 1]


def test_a_replay_keeps_the_gaps() -> None:
    rig = Rig()
    rig.publish("a.1")
    rig.advance(2)
    rig.publish("a.1", "a.1")
    rig.create(deliver_subject="deliver.1", ack_policy="none", replay_policy="original")
    assert len(rig.taken()) == 1
    rig.advance(1.9)
    assert rig.taken() == []
    rig.advance(0.2)
    assert len(rig.taken()) == 2
    rig.advance(3)
    rig.publish("a.1")
    assert len(rig.taken()) == 1


def test_an_ephemeral_without_subscriber_goes() -> None:
    rig = Rig()
    consumer = rig.create("E", is_durable=False, deliver_subject="deliver.1")
    rig.advance(20)
    assert rig.consumers.get(b"E") is consumer
    rig.sink.set_interest(SUBJECT, is_there=False)
    rig.advance(4)
    rig.sink.set_interest(SUBJECT, is_there=True)
    rig.advance(20)
    assert rig.consumers.get(b"E") is consumer
    rig.sink.set_interest(SUBJECT, is_there=False)
    rig.advance(5)
    assert rig.consumers.get(b"E") is None
    assert rig.clock.waiting() == 0
    assert rig.sink.watchers == []


def test_another_deliver_subject_gets_what_is_pending() -> None:
    rig = Rig()
    consumer = rig.create(deliver_subject="deliver.1")
    rig.publish("a.1", "a.2")
    rig.taken()
    rig.sink.set_interest(SUBJECT, is_there=False)
    rig.create(deliver_subject="deliver.2")
    sent = rig.taken()
    assert [one.to for one in sent] == [b"deliver.2"] * 2
    assert deliveries(sent) == [(2, 1, 3, 0), (2, 2, 4, 0)]
    assert rig.info(consumer)["config"]["deliver_subject"] == "deliver.2"


def test_acks_by_flow_control() -> None:
    rig = Rig()
    consumer = rig.create(deliver_subject="deliver.1", ack_policy="flow_control", max_ack_pending=3)
    rig.publish(*["a.1"] * 5)
    sent = rig.taken()
    assert len(deliveries(sent)) == 3
    (request,) = [one for one in sent if one.status]
    answer = b"NATS/1.0\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 3\r\n\r\n"
    consumer.receivers.flow_control(request.reply, answer)
    rig.run()
    assert len(deliveries(rig.taken())) == 2
    assert rig.floors(consumer) == (5, 5, 3, 3)


@pytest.mark.parametrize("policy", ["all", "new", "last"])
def test_deliver_policies(policy: str) -> None:
    rig = Rig()
    rig.publish("a.1", "a.2", "a.3")
    rig.create(deliver_subject="deliver.1", deliver_policy=policy)
    rig.publish("a.4")
    seqs = [one[1] for one in deliveries(rig.taken())]
    assert seqs == {"all": [1, 2, 3, 4], "new": [4], "last": [3, 4]}[policy]
