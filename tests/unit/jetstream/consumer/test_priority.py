from __future__ import annotations

import json

from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.pull import PullRequests
from tests.support.consumer_rig import Rig, Sent

GROUP = '"group":"g"'


def asked(**fields: object) -> str:
    return json.dumps({"batch": 1, "group": "g", "expires": 60_000_000_000, **fields})


def statuses(sent: list[Sent]) -> list[bytes]:
    return [one.status for one in sent if one.status.startswith(b"4")]


def inboxes(sent: list[Sent]) -> list[bytes]:
    return [one.to for one in sent if one.reply]


def test_requests_must_name_a_group() -> None:
    rig = Rig()
    consumer = rig.create(priority_policy="overflow", priority_groups=["g"])
    rig.pull(consumer, '{"batch":1}')
    rig.pull(consumer, '{"batch":1,"group":"x"}')
    rig.pull(consumer, '{"batch":1,"group":"g","id":"x"}')
    rig.pull(consumer, '{"batch":1,"group":"g","priority":10}')
    plain = rig.create("PLAIN")
    rig.pull(plain, '{"batch":1,"min_pending":1}')
    assert statuses(rig.taken()) == [
        b"400 Bad Request - Priority Group missing",
        b"400 Bad Request - Invalid Priority Group",
        b"400 Bad Request - Not a Pinned Client Priority consumer",
        b"400 Bad Request - Priority must be between 0 and 9",
        b"400 Bad Request - Not a Overflow Priority consumer",
    ]


def test_overflow_waits_for_enough_to_do() -> None:
    rig = Rig()
    consumer = rig.create(priority_policy="overflow", priority_groups=["g"])
    rig.pull(consumer, asked(batch=5, min_pending=3), reply=b"_INBOX.1")
    rig.publish("a.1", "a.1")
    assert inboxes(rig.taken()) == []
    rig.publish("a.1")
    assert inboxes(rig.taken()) == [b"_INBOX.1"]
    rig.pull(consumer, asked(batch=1, min_ack_pending=1), reply=b"_INBOX.2")
    assert inboxes(rig.taken()) == [b"_INBOX.2"]


def test_the_lowest_priority_goes_first() -> None:
    rig = Rig()
    consumer = rig.create(priority_policy="prioritized", priority_groups=["g"])
    rig.pull(consumer, asked(priority=5), reply=b"_INBOX.5")
    rig.pull(consumer, asked(batch=2, priority=1), reply=b"_INBOX.1")
    rig.pull(consumer, asked(batch=2, priority=1), reply=b"_INBOX.1b")
    rig.publish(*["a.1"] * 5)
    assert inboxes(rig.taken()) == [
        b"_INBOX.1",
        b"_INBOX.1b",
        b"_INBOX.1",
        b"_INBOX.1b",
        b"_INBOX.5",
    ]


def pinned(rig: Rig) -> Consumer:
    keys = {"priority_policy": "pinned_client", "priority_groups": ["g"]}
    consumer = rig.create(**keys, priority_timeout_ns=1_000_000_000)
    assert isinstance(consumer.receivers, PullRequests)
    return consumer


def pin_of(sent: Sent) -> str:
    headers = sent.headers.decode()
    assert headers.startswith("NATS/1.0\r\nNats-Pin-Id: ")
    return headers.split(": ")[1].strip()


def test_one_client_is_pinned() -> None:
    rig = Rig()
    consumer = pinned(rig)
    rig.pull(consumer, asked(), reply=b"_INBOX.1")
    rig.pull(consumer, asked(), reply=b"_INBOX.2")
    rig.publish("a.1", "a.1")
    (sent,) = rig.taken()
    pin = pin_of(sent)
    assert len(pin) == 22
    (group,) = rig.info(consumer)["priority_groups"]
    assert (group["group"], group["pinned_client_id"]) == ("g", pin)
    rig.pull(consumer, asked(id="other"), reply=b"_INBOX.3")
    assert statuses(rig.taken()) == [b"423 Nats-Pin-Id mismatch"]
    rig.pull(consumer, asked(id=pin), reply=b"_INBOX.1")
    (sent,) = rig.taken()
    assert (sent.to, pin_of(sent)) == (b"_INBOX.1", pin)


def test_a_pin_is_lost_in_time() -> None:
    rig = Rig()
    rig.sink.interest_prefixes = (b"",)
    consumer = pinned(rig)
    rig.pull(consumer, asked(), reply=b"_INBOX.1")
    rig.publish("a.1")
    sent = rig.taken()
    events = [one for one in sent if b"PINNED" in one.to]
    assert [one.to for one in events] == [b"$JS.EVENT.ADVISORY.CONSUMER.PINNED.S.C"]
    pin = pin_of(next(one for one in sent if one.to == b"_INBOX.1"))
    rig.pull(consumer, asked(), reply=b"_INBOX.2")
    rig.publish("a.1")
    assert inboxes(rig.taken()) == []
    rig.advance(1.1)
    sent = rig.taken()
    assert b'"reason":"timeout"' in sent[0].payload
    assert inboxes(sent) == [b"_INBOX.2"]
    rig.pull(consumer, asked(id=pin), reply=b"_INBOX.1")
    assert statuses(rig.taken()) == [b"423 Nats-Pin-Id mismatch"]


def test_unpinning_by_hand() -> None:
    rig = Rig()
    consumer = pinned(rig)
    rig.pull(consumer, asked(), reply=b"_INBOX.1")
    rig.publish("a.1")
    pin = pin_of(rig.taken()[0])
    rig.pull(consumer, asked(id=pin), reply=b"_INBOX.1")
    consumer.receivers.pin.unpin("g", "admin")
    rig.pull(consumer, asked(), reply=b"_INBOX.2")
    rig.publish("a.1")
    sent = rig.taken()
    assert statuses(sent) == [b"423 Nats-Wrong-Pin-Id"]
    assert inboxes(sent) == [b"_INBOX.2"]
