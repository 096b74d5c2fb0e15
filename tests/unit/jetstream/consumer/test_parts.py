"""The parts of a consumer: its end lets go of them."""

from __future__ import annotations

import pytest

from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.consumer.push import DeliverSubject
from midge.jetstream.consumer.receivers import NO_RECEIVERS
from tests.support.consumer_rig import Rig


@pytest.mark.parametrize("keys", [{}, {"deliver_subject": "deliver.1"}])
def test_a_deleted_consumer_refers_to_no_receiver_and_no_log(keys: dict[str, str]) -> None:
    rig = Rig(storage="file")
    consumer: Consumer = rig.create(**keys)
    assert isinstance(consumer.receivers, DeliverSubject if keys else PullRequests)
    assert consumer.acks.log is not None
    rig.consumers.delete(consumer)
    assert consumer.receivers is NO_RECEIVERS
    assert consumer.acks.log is None
    rig.taken()
    rig.pull(consumer, b"5")
    rig.publish("a.1")
    consumer.signal()
    assert consumer.deliver(1 << 20) == 0
    assert rig.taken() == []


def test_a_push_consumer_goes_after_its_threshold_without_a_subscriber() -> None:
    rig = Rig()
    rig.create(deliver_subject="deliver.1", inactive_threshold_ns=5 * 10**9)
    rig.advance(103)
    rig.sink.set_interest(b"deliver.1", is_there=False)
    rig.advance(4)
    rig.sink.set_interest(b"deliver.1", is_there=True)
    rig.advance(60)
    rig.sink.set_interest(b"deliver.1", is_there=False)
    rig.advance(4.9)
    assert rig.consumers.get(b"C") is not None
    rig.advance(0.2)
    assert rig.consumers.get(b"C") is None


def test_a_pull_consumer_stays_while_a_request_waits_or_a_message_is_pending() -> None:
    rig = Rig()
    consumer = rig.create(inactive_threshold_ns=5 * 10**9, ack_wait_ns=20 * 10**9)
    rig.pull(consumer, b'{"batch":1,"expires":12000000000}')
    rig.advance(11)
    assert rig.consumers.get(b"C") is not None
    rig.publish("a.1")  # at 11 s, due at 31 s
    rig.advance(24)
    assert rig.consumers.get(b"C") is not None
    rig.advance(20)
    assert rig.consumers.get(b"C") is None
