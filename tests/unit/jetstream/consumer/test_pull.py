from __future__ import annotations

import pytest

from tests.support.consumer_rig import Rig, Sent

_BAD_BATCH = b"json: cannot unmarshal string into Go struct field .batch of type int"


def numbers(sent: list[Sent]) -> list[tuple[int, int, int, int]]:
    return [one.numbers for one in sent]


def test_a_request_gets_the_messages_there_are() -> None:
    rig = Rig()
    rig.publish("a.1", "a.2", "a.3")
    consumer = rig.create()
    rig.pull(consumer, "2")
    sent = rig.taken()
    assert [one.subject for one in sent] == [b"a.1", b"a.2"]
    assert [one.to for one in sent] == [b"_INBOX.1", b"_INBOX.1"]
    assert numbers(sent) == [(1, 1, 1, 2), (1, 2, 2, 1)]
    assert sent[0].reply == b"$JS.ACK.S.C.1.1.1.%d.2" % rig.clock.wall_ns()


def test_a_request_waits_for_messages() -> None:
    rig = Rig()
    consumer = rig.create()
    rig.pull(consumer)
    assert rig.taken() == []
    assert rig.info(consumer)["num_waiting"] == 1
    rig.publish("a.1")
    assert numbers(rig.taken()) == [(1, 1, 1, 0)]
    assert rig.info(consumer)["num_waiting"] == 0


@pytest.mark.parametrize("wait_ns", [(1 << 63) - 1, 1 << 62])
def test_a_request_waits_as_long_as_a_number_can_say(wait_ns: int) -> None:
    rig = Rig()
    consumer = rig.create()
    rig.pull(consumer, f'{{"batch":1,"expires":{wait_ns},"idle_heartbeat":{wait_ns // 2}}}')
    assert rig.info(consumer)["num_waiting"] == 1
    rig.publish("a.1")
    assert numbers(rig.taken()) == [(1, 1, 1, 0)]


def test_requests_are_served_in_turns() -> None:
    rig = Rig()
    rig.publish(*["a.1"] * 6)
    consumer = rig.create()
    consumer.request(b"_INBOX.1", b"3")
    consumer.request(b"_INBOX.2", b"3")
    rig.run()
    assert [one.to[-1:] for one in rig.taken()] == [b"1", b"2"] * 3


def test_a_request_without_reply_is_ignored() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create()
    rig.pull(consumer, reply=b"")
    assert rig.taken() == []


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        ('{"batch":2,"no_wait":true}', [b"404 No Messages"]),
        ('{"batch":2,"no_wait":true,"expires":1000000000}', [b"408 Request Timeout"]),
        ('{"batch":2,"expires":1000000000}', [b"408 Request Timeout"]),
        (
            '{"batch":2,"expires":1000000000,"idle_heartbeat":400000000}',
            [b"100 Idle Heartbeat", b"100 Idle Heartbeat", b"408 Request Timeout"],
        ),
        (
            '{"batch":2,"expires":1000000000,"idle_heartbeat":600000000}',
            [b"400 Bad Request - heartbeat value too large"],
        ),
        (
            f'{{"batch":2,"expires":1000000000,"idle_heartbeat":{(1 << 63) - 1}}}',
            [b"400 Bad Request - heartbeat value too large"],
        ),
        (
            "{x",
            [b"400 Bad Request - invalid character 'x' looking for beginning of object key string"],
        ),
    ],
)
def test_requests_end_with_a_status(body: str, statuses: list[bytes]) -> None:
    rig = Rig()
    consumer = rig.create()
    rig.pull(consumer, body)
    rig.advance(2)
    assert [one.status for one in rig.taken()] == statuses
    assert rig.info(consumer)["num_waiting"] == 0


@pytest.mark.parametrize("batch", [0, -2, 1 - (1 << 63), -(1 << 63)])
@pytest.mark.parametrize("body", ['{{"batch":{}}}', "{}"])
def test_a_request_for_none_or_fewer_gets_one_message(body: str, batch: int) -> None:
    rig = Rig()
    rig.publish("a.1", "a.2")
    consumer = rig.create()
    rig.pull(consumer, body.format(batch))
    assert numbers(rig.taken()) == [(1, 1, 1, 1)]
    assert rig.info(consumer)["num_waiting"] == 0


def test_no_wait_takes_what_there_is_and_ends() -> None:
    rig = Rig()
    rig.publish("a.1", "a.1")
    consumer = rig.create()
    rig.pull(consumer, '{"batch":5,"no_wait":true}')
    assert [one.status for one in rig.taken()] == [b"", b"", b"404 No Messages"]


def test_a_timeout_says_what_was_left() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create()
    rig.pull(consumer, '{"batch":5,"max_bytes":1000,"expires":1000000000}')
    rig.advance(2)
    sent = rig.taken()
    left = 1000 - len(b"a.1" + sent[0].reply + b"x")
    assert sent[1].headers == (
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 4\r\n"
        b"Nats-Pending-Bytes: %d\r\n\r\n" % left
    )


def test_requests_pending() -> None:
    rig = Rig()
    rig.publish(*["a.1"] * 5)
    consumer = rig.create(max_ack_pending=1)
    rig.pull(consumer, '{"batch":10,"expires":9000000000}')
    rig.taken()
    rig.pull(consumer, '{"batch":1,"no_wait":true}')
    assert [one.status for one in rig.taken()] == [b"408 Requests Pending"]


def test_max_waiting() -> None:
    rig = Rig()
    consumer = rig.create(max_waiting=1)
    rig.pull(consumer)
    rig.pull(consumer)
    rig.pull(consumer, '{"batch":1,"expires":1000000000,"idle_heartbeat":100000000}')
    assert [one.status for one in rig.taken()] == [b"409 Exceeded MaxWaiting"]


def test_requests_beyond_the_caps() -> None:
    rig = Rig()
    consumer = rig.create(max_batch=2, max_expires_ns=1_500_000_000, max_bytes=10)
    rig.pull(consumer, "3")
    rig.pull(consumer, '{"batch":1,"expires":2000000000}')
    rig.pull(consumer, '{"batch":1,"max_bytes":11}')
    assert [one.status for one in rig.taken()] == [
        b"409 Exceeded MaxRequestBatch of 2",
        b"409 Exceeded MaxRequestExpires of 1.5s",
        b"409 Exceeded MaxRequestMaxBytes of 10",
    ]


def test_what_could_not_be_sent_again_for_want_of_room_counts_as_delivered_once() -> None:
    rig = Rig()
    rig.publish("a.1", payload=b"x" * 50)
    consumer = rig.create()
    rig.pull(consumer, '{"batch":5,"max_bytes":150}')
    (sent,) = rig.taken()
    rig.ack(consumer, sent, b"-NAK")
    assert rig.taken()[-1].status == b"409 Message Size Exceeds MaxBytes"
    assert rig.info(consumer)["num_redelivered"] == 0
    rig.pull(consumer)
    assert [one.numbers[:2] for one in rig.taken()] == [(2, 1)]
    assert rig.info(consumer)["num_redelivered"] == 1


def test_max_bytes() -> None:
    rig = Rig()
    rig.publish("a.1", "a.1")
    consumer = rig.create()
    rig.pull(consumer, '{"batch":5,"max_bytes":60}')
    statuses = [one.status for one in rig.taken()]
    assert statuses == [b"", b"409 Message Size Exceeds MaxBytes"]
    rig.pull(consumer, '{"batch":1,"max_bytes":6000}')
    assert [one.status for one in rig.taken()] == [b"", b"409 Batch Completed"]


def test_requests_without_interest_get_nothing() -> None:
    rig = Rig()
    consumer = rig.create()
    rig.pull(consumer)
    rig.sink.without_interest.add(b"_INBOX.1")
    rig.publish("a.1")
    assert rig.taken() == []
    assert rig.info(consumer)["num_pending"] == 1
    assert rig.info(consumer)["num_waiting"] == 0


def test_a_message_that_nobody_took_goes_to_the_next_request() -> None:
    rig = Rig()
    consumer = rig.create()
    rig.pull(consumer)
    rig.sink.interest_prefixes = (b"",)
    rig.pull(consumer, reply=b"_INBOX.2")
    rig.publish("a.1")
    assert [one.to for one in rig.taken()] == [b"_INBOX.1"]


def test_max_ack_pending_holds_messages_back() -> None:
    rig = Rig()
    rig.publish(*["a.1"] * 5)
    consumer = rig.create(max_ack_pending=2)
    rig.pull(consumer, "5")
    sent = rig.taken()
    assert len(sent) == 2
    rig.ack(consumer, sent[0])
    assert numbers(rig.taken()) == [(1, 3, 3, 2)]
    assert rig.info(consumer)["num_waiting"] == 1


def test_acks_are_confirmed() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create()
    rig.pull(consumer)
    (sent,) = rig.taken()
    rig.ack(consumer, sent, b"+ACK", b"_INBOX.ack")
    assert rig.taken() == [Sent(b"_INBOX.ack", b"_INBOX.ack", b"", b"", b"")]
    rig.ack(consumer, sent, b"", b"_INBOX.ack")
    assert len(rig.taken()) == 1
    assert rig.floors(consumer) == (1, 1, 1, 1)


def test_acks_out_of_order_move_the_floor_when_they_close_up() -> None:
    rig = Rig()
    rig.publish(*["a.1"] * 4)
    consumer = rig.create()
    rig.pull(consumer, "4")
    sent = rig.taken()
    rig.ack(consumer, sent[1])
    assert rig.floors(consumer) == (4, 4, 0, 0)
    rig.ack(consumer, sent[0])
    assert rig.floors(consumer) == (4, 4, 2, 2)
    rig.ack(consumer, sent[3])
    rig.ack(consumer, sent[2])
    assert rig.floors(consumer) == (4, 4, 4, 4)
    assert rig.info(consumer)["num_ack_pending"] == 0


def test_what_is_not_acknowledged_comes_again() -> None:
    rig = Rig()
    rig.publish("a.1", "a.2")
    consumer = rig.create(ack_wait_ns=1_000_000_000)
    rig.pull(consumer, "2")
    rig.taken()
    rig.pull(consumer, "2")
    rig.advance(0.9)
    assert rig.taken() == []
    rig.advance(0.2)
    assert numbers(rig.taken()) == [(2, 1, 3, 0), (2, 2, 4, 0)]
    assert rig.info(consumer)["num_redelivered"] == 2


def test_backoff_gives_each_delivery_its_own_wait() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create(backoff_ns=[100_000_000, 1_000_000_000])
    rig.pull(consumer, "10")
    waits = []
    for _ in range(4):
        rig.taken()
        waited = 0
        while not rig.sink.sent:
            rig.advance(0.05)
            waited += 50
        waits.append(waited)
    assert waits == [150, 1000, 1000, 1000]


def test_nak_and_its_delays() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create()
    rig.pull(consumer, "5")
    rig.ack(consumer, rig.taken()[0], b"-NAK")
    (sent,) = rig.taken()
    assert sent.numbers == (2, 1, 2, 0)
    rig.ack(consumer, sent, b'-NAK {"delay": 500000000}')
    assert rig.taken() == []
    rig.advance(0.6)
    (sent,) = rig.taken()
    assert sent.numbers == (3, 1, 3, 0)
    rig.ack(consumer, sent, b"-NAK 1s")
    rig.advance(0.9)
    assert rig.taken() == []
    rig.advance(0.2)
    assert len(rig.taken()) == 1


def test_progress_begins_the_wait_anew() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create(ack_wait_ns=1_000_000_000)
    rig.pull(consumer, "5")
    (sent,) = rig.taken()
    rig.advance(0.8)
    rig.ack(consumer, sent, b"+WPI")
    rig.advance(0.8)
    assert rig.taken() == []
    rig.advance(0.3)
    assert len(rig.taken()) == 1


def test_term_ends_a_message() -> None:
    rig = Rig()
    rig.publish("a.1")
    consumer = rig.create(ack_wait_ns=1_000_000_000)
    rig.pull(consumer, "5")
    rig.ack(consumer, rig.taken()[0], b"+TERM bad luck")
    rig.advance(3)
    assert rig.taken() == []
    assert rig.floors(consumer) == (1, 1, 1, 1)


def test_next_is_an_ack_and_a_request() -> None:
    rig = Rig()
    rig.publish("a.1", "a.2", "a.3")
    consumer = rig.create()
    rig.pull(consumer)
    rig.ack(consumer, rig.taken()[0], b"+NXT 2", b"_INBOX.next")
    sent = rig.taken()
    assert [one.to for one in sent] == [b"_INBOX.next"] * 2
    assert rig.floors(consumer) == (3, 3, 1, 1)


def test_ack_all() -> None:
    rig = Rig()
    rig.publish(*["a.1"] * 4)
    consumer = rig.create(ack_policy="all")
    rig.pull(consumer, "4")
    rig.ack(consumer, rig.taken()[2])
    assert rig.floors(consumer) == (4, 4, 3, 3)
    assert rig.info(consumer)["num_ack_pending"] == 1


def test_a_message_delivered_too_often_is_given_up() -> None:
    rig = Rig()
    rig.sink.interest_prefixes = (b"",)
    rig.publish("a.1")
    consumer = rig.create(max_deliver=2, ack_wait_ns=1_000_000_000)
    rig.pull(consumer, "5")
    rig.advance(5)
    sent = rig.taken()
    assert [one.numbers[0] for one in sent if one.to == b"_INBOX.1"] == [1, 2]
    (event,) = [one for one in sent if b"MAX_DELIVERIES" in one.to]
    assert b'"stream_seq":1,"deliveries":2' in event.payload
    info = rig.info(consumer)
    assert (info["num_ack_pending"], info["num_redelivered"]) == (0, 1)
    assert rig.floors(consumer) == (2, 1, 0, 0)


@pytest.mark.parametrize("keys", [{}, {"deliver_subject": "deliver.1"}], ids=["pull", "push"])
def test_messages_delivered_more_often_than_a_lowered_limit_are_given_up(
    keys: dict[str, object],
) -> None:
    """With one advisory for each, as from nats-server."""
    rig = Rig()
    rig.sink.interest_prefixes = (b"",)
    for _ in range(3):
        rig.publish("a.1")
    consumer = rig.create(max_deliver=10, ack_wait_ns=1_000_000_000, **keys)
    rig.pull(consumer, "20") if not keys else rig.run()
    rig.advance(4.5)
    rig.taken()
    rig.create(max_deliver=2, ack_wait_ns=1_000_000_000, **keys)
    rig.advance(10)
    events = [one.payload for one in rig.taken() if b"MAX_DELIVERIES" in one.to]
    assert len(events) == 3
    assert rig.info(consumer)["num_ack_pending"] == 0


def test_headers_only() -> None:
    rig = Rig()
    rig.publish("a.1", payload=b"12345")
    rig.publish("a.1", headers=b"NATS/1.0\r\nA: b\r\n\r\n")
    consumer = rig.create(headers_only=True)
    rig.pull(consumer, "2")
    assert [(one.headers, one.payload) for one in rig.taken()] == [
        (b"NATS/1.0\r\nNats-Msg-Size: 5\r\n\r\n", b""),
        (b"NATS/1.0\r\nA: b\r\nNats-Msg-Size: 1\r\n\r\n", b""),
    ]


def test_filters() -> None:
    rig = Rig()
    rig.publish("a.1", "a.2", "a.3.x", "a.1")
    consumer = rig.create(filter_subjects=["a.1", "a.3.>"])
    assert rig.info(consumer)["num_pending"] == 3
    rig.pull(consumer, "5")
    assert numbers(rig.taken()) == [(1, 1, 1, 2), (1, 3, 2, 1), (1, 4, 3, 0)]


def test_last_per_subject() -> None:
    rig = Rig()
    rig.publish("a.1", "a.2", "a.1", "a.3", "a.2")
    consumer = rig.create(deliver_policy="last_per_subject", filter_subject="a.>")
    assert rig.info(consumer)["num_pending"] == 3
    rig.publish("a.1")
    assert rig.info(consumer)["num_pending"] == 4
    rig.pull(consumer, "9")
    assert numbers(rig.taken()) == [(1, 3, 1, 3), (1, 4, 2, 2), (1, 5, 3, 1), (1, 6, 4, 0)]


def test_a_work_queue_loses_what_is_acknowledged() -> None:
    rig = Rig(retention="workqueue")
    rig.publish("a.1", "a.2")
    consumer = rig.create()
    rig.pull(consumer, "2")
    sent = rig.taken()
    rig.ack(consumer, sent[1], b"", b"_INBOX.ack")
    assert len(rig.taken()) == 1
    assert rig.store.messages == 1
    rig.ack(consumer, sent[0], b"+TERM")
    assert rig.store.messages == 0


def test_interest_streams_keep_until_all_have_acknowledged() -> None:
    rig = Rig(retention="interest")
    one, other = rig.create("ONE"), rig.create("OTHER", filter_subject="a.1")
    rig.publish("a.1", "a.2")
    for consumer in (one, other):
        rig.pull(consumer, "9")
    sent = rig.taken()
    rig.ack(one, sent[0])
    assert rig.store.messages == 2
    rig.ack(one, sent[1])
    assert rig.store.messages == 1
    rig.consumers.delete(other)
    assert rig.store.messages == 0


def test_messages_removed_while_pending_are_settled() -> None:
    rig = Rig()
    rig.sink.interest_prefixes = (b"",)
    rig.publish("a.1", "a.2", "a.3")
    consumer = rig.create()
    rig.pull(consumer, "2")
    rig.taken()
    rig.remove(1)
    (event,) = rig.taken()
    assert b"MSG_TERMINATED" in event.to
    assert b'"reason":"Unacknowledged message was deleted"' in event.payload
    assert rig.info(consumer)["num_ack_pending"] == 1
    rig.remove(3)
    assert rig.info(consumer)["num_pending"] == 0


def test_deleting_a_consumer_tells_those_who_wait() -> None:
    rig = Rig()
    consumer = rig.create()
    rig.pull(consumer)
    rig.consumers.delete(consumer)
    assert [one.status for one in rig.taken()] == [b"409 Consumer Deleted"]
    assert rig.consumers.get(b"C") is None


def test_an_idle_consumer_goes() -> None:
    rig = Rig()
    consumer = rig.create("E", is_durable=False, inactive_threshold_ns=1_000_000_000)
    rig.advance(0.9)
    rig.pull(consumer, '{"batch":1,"expires":1000000000}')
    rig.advance(1)
    assert rig.consumers.get(b"E") is consumer
    rig.advance(4)
    assert rig.consumers.get(b"E") is None
    assert rig.clock.waiting() == 0
