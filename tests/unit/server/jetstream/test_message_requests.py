"""Requests for messages that come in rows reach what their subjects name at the time."""

from __future__ import annotations

from typing import Any

from midge.protocol.frame import compose
from midge.server.jetstream.message_requests import MessageRequests
from tests.support.jetstream_account import AccountRig

REPLY = b"_INBOX.1"
PULL = b"$JS.API.CONSUMER.MSG.NEXT.A.c"
GET = b"$JS.API.DIRECT.GET.A."
LEVEL = b"NATS/1.0\r\nNats-Required-Api-Level: 100\r\n\r\n"


class Asked:
    """An account whose stream ``A`` has three messages and a consumer ``c``, and its requests."""

    def __init__(self, **keys: Any) -> None:
        self.rig = AccountRig()
        self.requests = MessageRequests(self.rig.account)
        self.create(**keys)

    def create(self, **keys: Any) -> None:
        self.rig.create(**keys)
        for number in range(3):
            self.rig.publish(f"a.{number}", b"%d" % number)
        self.make_consumer()

    def make_consumer(self) -> None:
        config = {"durable_name": "c", "ack_policy": "explicit"}
        request = {"stream_name": "A", "config": config}
        answer = self.rig.api("CONSUMER.CREATE.A.c", request)
        assert "error" not in answer, answer

    def first(self, subject: bytes, body: bytes = b"", headers: bytes = b"") -> bool:
        self.rig.outbox.sent = []
        self.rig.delivered.clear()
        return self.requests.take(subject, REPLY, headers, body)

    def again(self, subject: bytes, body: bytes = b"", headers: bytes | None = None) -> bool:
        self.rig.outbox.sent = []
        self.rig.delivered.clear()
        return self.requests.take_next(compose(subject, body, REPLY, headers))

    def payloads(self) -> list[bytes]:
        return [payload for _, _, payload in self.rig.outbox.sent]


def test_pulls_in_a_row_are_answered_one_after_the_other() -> None:
    asked = Asked()
    assert not asked.again(PULL, b"1")  # nothing is known yet
    assert asked.first(PULL, b"1")
    for number in (2, 3):
        assert asked.again(PULL, b"1")
        (reply,) = asked.rig.delivered
        assert reply.startswith(b"$JS.ACK.A.c.1.%d.%d." % (number, number))
    assert not asked.again(PULL + b"d", b"1")
    assert not asked.again(PULL[:-1], b"1")


def test_a_pull_without_a_reply_is_taken_and_ignored() -> None:
    asked = Asked()
    asked.first(PULL, b"1")
    asked.rig.delivered.clear()
    assert asked.requests.take_next(compose(PULL, b"1"))
    assert asked.rig.delivered == []


def test_a_consumer_that_was_made_anew_begins_anew() -> None:
    asked = Asked()
    asked.first(PULL, b"1")
    asked.rig.api("CONSUMER.DELETE.A.c")
    assert not asked.again(PULL, b"1")
    assert not asked.first(PULL, b"1")
    asked.make_consumer()
    assert not asked.again(PULL, b"1")
    assert asked.first(PULL, b"1")
    assert asked.rig.delivered[0].startswith(b"$JS.ACK.A.c.1.1.1.")
    assert asked.again(PULL, b"1")


def test_direct_gets_in_a_row_are_answered_by_their_subjects() -> None:
    asked = Asked(allow_direct=True)
    assert not asked.again(GET + b"a.1")
    assert asked.first(GET + b"a.1")
    assert asked.payloads() == [b"1"]
    for number in (2, 0, 1):
        assert asked.again(GET + b"a.%d" % number)
        assert asked.payloads() == [b"%d" % number]
    assert asked.again(GET + b"a.9")
    assert asked.rig.outbox.sent[0][1] == b"NATS/1.0 404 Message Not Found\r\n\r\n"
    assert asked.requests.take_next(compose(GET + b"a.1", b""))  # a request without a reply subject
    assert not asked.again(b"$JS.API.DIRECT.GET.B.a.1")
    assert not asked.again(b"$JS.API.DIRECT.GET.A")


def test_a_stream_that_allows_them_no_longer_answers_none() -> None:
    asked = Asked(allow_direct=True)
    asked.first(GET + b"a.1")
    config = {"name": "A", "subjects": ["a.>"], "storage": "memory"}
    assert "error" not in asked.rig.api("STREAM.UPDATE.A", {**config, "allow_direct": False})
    assert not asked.again(GET + b"a.1")
    assert not asked.first(GET + b"a.1")
    assert "error" not in asked.rig.api("STREAM.UPDATE.A", {**config, "allow_direct": True})
    assert asked.again(GET + b"a.1")
    assert asked.payloads() == [b"1"]


def test_a_stream_that_was_made_anew_shows_its_own_messages() -> None:
    asked = Asked(allow_direct=True)
    asked.first(GET + b"a.1")
    asked.rig.api("STREAM.DELETE.A")
    assert not asked.again(GET + b"a.1")
    assert not asked.first(GET + b"a.1")
    asked.rig.create(allow_direct=True)
    asked.rig.publish("a.1", b"new")
    assert not asked.again(GET + b"a.1")
    assert asked.first(GET + b"a.1")
    assert asked.payloads() == [b"new"]
    assert asked.again(GET + b"a.1")
    assert asked.payloads() == [b"new"]


def test_requests_with_headers_are_looked_at() -> None:
    asked = Asked(allow_direct=True)
    for subject in (PULL, GET + b"a.1"):
        asked.first(subject)
        assert not asked.again(subject, headers=LEVEL)
        assert asked.first(subject, headers=LEVEL)
        assert asked.rig.outbox.sent[0][1] == b"NATS/1.0 412 Required Api Level\r\n\r\n"
