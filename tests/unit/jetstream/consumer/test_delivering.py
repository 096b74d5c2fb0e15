"""Deliveries straight from the store are those that reading and routing each message would be."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.consumer.ack_subject import AckNumbers, AckSubject
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.consumer.push import DeliverSubject
from tests.support.consumer_rig import Rig, Sent

HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
NUMBERS = [0, 1, 9, 10, 99, 100, 101, 4294967295, 4294967296, 10**18 - 1, 10**18]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_any_length_are_written(number: int) -> None:
    ack = AckSubject(b"$JS.ACK.S.C.")
    time_ns = number * 10 + 7
    ack.compose(number, number + 1, number + 2, time_ns, number)
    wanted = b"$JS.ACK.S.C.%d.%d.%d.%d%09d.%d"
    second, fraction = divmod(time_ns, 10**9)
    assert ack.copied() == wanted % (number, number + 1, number + 2, second, fraction, number)
    numbers = AckNumbers()
    numbers.read(ack.copied())
    assert (numbers.deliveries, numbers.seq) == (number, number + 1)


def test_a_shorter_subject_leaves_nothing_of_a_longer_one() -> None:
    ack = AckSubject(b"a.")
    ack.compose(10**15, 10**15, 10**15, 10**18, 10**15)
    ack.compose(1, 2, 3, 4 * 10**9 + 5, 6)
    assert ack.copied() == b"a.1.2.3.4000000005.6"


def filled(*, is_direct: bool) -> Rig:
    rig = Rig()
    rig.sink.has_receivers = is_direct
    for number in range(300):
        subject = f"a.{number % 7}" + ".x" * (number % 3)
        headers = HEADERS if number % 4 == 0 else b""
        rig.publish(subject, payload=b"p" * (number % 50), headers=headers)
    for seq in (1, 5, 6, 7, 100, 299):
        rig.remove(seq)
    return rig


def pulled(rig: Rig, **keys: object) -> list[Sent]:
    """Pull all messages with several requests at once; acknowledge some, let others come again."""
    consumer = rig.create(**keys)
    assert isinstance(consumer.receivers, PullRequests)
    choose = Random(7)
    for turn in range(12):
        for inbox, batch in ((b"_INBOX.1", b"40"), (b"_INBOX.2", b'{"batch":7,"no_wait":true}')):
            consumer.request(inbox, batch)
        rig.run(budget=2_000)
        for one in rig.sink.sent:
            if one.reply and choose.random() < 0.6:
                consumer.ack(one.reply, b"", b"-NAK" if choose.random() < 0.1 else b"")
        if turn == 6:
            rig.publish("a.1", "a.2")
        rig.advance(5)
    return rig.taken()


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"ack_policy": "none"},
        {"ack_policy": "all"},
        {"filter_subject": "a.1"},
        {"filter_subjects": ["a.1", "a.*.x"]},
        {"max_ack_pending": 5},
        {"headers_only": True},
        {"deliver_policy": "last_per_subject", "filter_subject": "a.>"},
        {"ack_wait_ns": 10**9, "max_deliver": 3},
    ],
)
def test_pulled_messages(keys: dict[str, object]) -> None:
    direct, routed = filled(is_direct=True), filled(is_direct=False)
    assert pulled(direct, **keys) == pulled(routed, **keys)
    assert (direct.sink.direct > 0) is (keys != {"headers_only": True})
    assert routed.sink.direct == 0
    assert direct.info(direct.consumers.get(b"C")) == routed.info(routed.consumers.get(b"C"))


@pytest.mark.parametrize(
    "keys",
    [{}, {"flow_control": True, "idle_heartbeat_ns": 10**9}, {"filter_subject": "a.1.>"}],
)
def test_pushed_messages(keys: dict[str, object]) -> None:
    sent = []
    for is_direct in (True, False):
        rig = filled(is_direct=is_direct)
        consumer = rig.create(deliver_subject="deliver", ack_policy="none", **keys)
        assert isinstance(consumer.receivers, DeliverSubject)
        rig.publish("a.1", "a.1.x")
        rig.sink.set_interest(b"deliver", is_there=False)
        rig.publish("a.2", "a.1.y")
        rig.sink.set_interest(b"deliver", is_there=True)
        rig.run()
        assert (rig.sink.direct > 0) is is_direct
        sent.append((rig.taken(), rig.info(consumer)))
    assert sent[0] == sent[1]


def test_a_request_with_a_limit_of_bytes_is_served_within_it() -> None:
    rig = filled(is_direct=True)
    consumer = rig.create()
    assert isinstance(consumer.receivers, PullRequests)
    rig.pull(consumer, '{"batch":100,"max_bytes":1000}')
    delivered = [one for one in rig.taken() if one.reply]
    assert 0 < sum(len(b"".join(one[1:])) for one in delivered) <= 1000
    assert rig.sink.direct == 0


def test_a_receiver_that_goes_is_not_asked_again() -> None:
    rig = filled(is_direct=True)
    consumer = rig.create()
    assert isinstance(consumer.receivers, PullRequests)
    rig.pull(consumer, "5")
    rig.sink.without_interest.add(b"_INBOX.1")
    rig.pull(consumer, "5")
    assert len(rig.taken()) == 5
    assert rig.info(consumer)["num_waiting"] == 0


def test_a_waiting_consumer_goes_on_with_the_first_message_it_wants() -> None:
    rig = Rig()
    consumer = rig.create(filter_subject="a.1.>")
    assert isinstance(consumer.receivers, PullRequests)
    rig.publish(*["a.2"] * 1500)
    consumer.request(b"_INBOX.1", b"10")
    rig.publish("a.1.x", "a.2", "a.1.y")
    rig.remove(1503)
    rig.publish("a.1.z")
    assert [one.numbers for one in rig.taken()] == [
        (1, 1501, 1, 1),
        (1, 1503, 2, 0),
        (1, 1504, 3, 0),
    ]
    assert rig.info(consumer)["num_pending"] == 0


def test_removed_messages_are_no_reason_to_pass_others_over() -> None:
    rig = Rig()
    consumer = rig.create(filter_subject="a.1")
    rig.publish("a.1", "a.2", "a.1")
    rig.store.remove(1)  # without a notification
    rig.publish("a.1")
    rig.pull(consumer, "10")
    assert [one.numbers[1] for one in rig.taken()] == [3, 4]
