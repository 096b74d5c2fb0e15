"""A mirror of a stream in another domain, against an origin that is played by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.environment.surroundings import OriginNotes
from midge.jetstream.stream.remote_follower import read_delivery
from tests.support.jetstream_account import AccountRig

PREFIX = "$JS.far.API."
EXTERNAL = {"api": "$JS.far.API", "deliver": "from.far"}


class Notes(OriginNotes):
    """Keeps the reports to the operator."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def gap(self, stream: str, origin: str, first_seq: int, last_seq: int) -> None:
        self.told.append(f"{stream} lacks {first_seq} to {last_seq} of {origin}")

    def recreated(self, stream: str, origin: str) -> None:
        self.told.append(f"{origin} of {stream} is new")

    def refused(self, stream: str, origin: str, error: str) -> None:
        self.told.append(f"{stream}: {origin} refused: {error}")


class Origin:
    """The server of the other domain, as far as a mirror knows it."""

    def __init__(self, *, reached: bool = True, **keys: Any) -> None:
        self.rig = AccountRig()
        self.notes = Notes()
        self.told = self.notes.told
        self.rig.account.surroundings.origin_notes = self.notes
        self.is_reached(reached)
        kind = keys.pop("kind", "mirror")
        source = {"name": "O", "external": EXTERNAL, **keys}
        origin = {"mirror": source} if kind == "mirror" else {"sources": [source]}
        self.copy = self.rig.create("M", subjects=[], **origin)
        self.rig.clock.advance(0.1)
        self.consumer = b"C"
        self.seq = 0

    def is_reached(self, is_reached: bool) -> None:
        interest = self.rig.outbox.interest
        (interest.add if is_reached else interest.discard)(f"{PREFIX}CONSUMER.INFO".encode())

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        """Take the requests for consumers since the last time."""
        sent, self.rig.outbox.sent = self.rig.outbox.sent, []
        return [
            (to.removeprefix(PREFIX), json.loads(body) if body else {})
            for to, _, body in sent
            if to.startswith(PREFIX)
        ]

    def request(self) -> dict[str, Any]:
        """Take the only request; return the configuration that it asks for."""
        (_, body), *more = self.requests()
        assert not more
        config: dict[str, Any] = body["config"]
        return config

    def answer(self, config: dict[str, Any], *, delivered: int = 0, identity: str = "i") -> None:
        """Make the consumer that was asked for."""
        self.consumer += b"x"
        self.seq = 0
        self.deliver_subject = config["deliver_subject"].encode()
        delivered_to = {"consumer_seq": 0, "stream_seq": delivered}
        body = {"name": self.consumer.decode(), "config": config, "delivered": delivered_to}
        block = f"NATS/1.0\r\nNats-Stream-Identity: {identity}\r\n\r\n".encode()
        self.reply(json.dumps(body).encode(), block)

    def reply(self, body: bytes, block: bytes = b"") -> None:
        inbox = next(one for one in self.rig.outbox.subscribed if one.startswith(b"_INBOX."))
        self.rig.outbox.subscribed[inbox](inbox, b"", block, body)

    def refuse(self, code: int) -> None:
        self.reply(json.dumps({"error": {"code": 400, "err_code": code}}).encode())

    def deliver(self, seq: int, *, lost: int = 0, pending: int = 1) -> None:
        """Deliver a message; `lost` are those that got lost before it."""
        self.seq += 1 + lost
        reply = b"$JS.ACK.O.%b.1.%d.%d.1700000000000000000.%d"
        reply %= (self.consumer, seq, self.seq, pending)
        take = self.rig.outbox.subscribed.get(self.deliver_subject)
        if take is not None:
            take(b"o.%d" % seq, reply, b"", b"%d" % seq)

    def control(self, *headers: str, reply: bytes = b"") -> None:
        block = "".join(f"{line}\r\n" for line in ("NATS/1.0 100 Control", *headers)) + "\r\n"
        take = self.rig.outbox.subscribed[self.deliver_subject]
        take(self.deliver_subject, reply, block.encode(), b"")

    def stored(self) -> list[int]:
        """The sequences of the origin that the copy has, by its payloads."""
        store = self.copy.store
        found = [store.load(seq) for seq in range(1, store.last_seq + 1)]
        return [int(one.payload) for one in found if one is not None]

    def info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.rig.api("STREAM.INFO.M")["mirror"]
        return info


def test_a_consumer_is_asked_for_and_its_messages_are_kept_as_they_were() -> None:
    origin = Origin()
    config = origin.request()
    assert config["deliver_policy"] == "all"
    assert config["ack_policy"] == "none"
    assert config["sourcing"] is config["direct"] is config["flow_control"] is True
    assert config["deliver_subject"].startswith("from.far.M.")
    origin.answer(config)
    origin.deliver(1, pending=7)
    assert origin.info()["lag"] == 6
    origin.deliver(2)
    assert origin.stored() == [1, 2]
    message = origin.copy.store.load(2)
    assert message is not None
    assert (message.subject, message.time_ns) == (b"o.2", 1_700_000_000_000_000_000)
    assert origin.info()["external"] == EXTERNAL


def test_the_origin_is_asked_only_when_it_can_be_reached() -> None:
    origin = Origin(reached=False)
    origin.rig.clock.advance(30)
    assert origin.requests() == []
    origin.is_reached(True)
    origin.rig.clock.advance(1)
    assert origin.request()


def test_what_got_lost_is_asked_for_again() -> None:
    origin = Origin()
    origin.answer(origin.request())
    for seq in (1, 2):
        origin.deliver(seq)
    origin.deliver(5, lost=2)
    origin.deliver(6)
    origin.rig.clock.advance(3)
    config = origin.request()
    assert (config["deliver_policy"], config["opt_start_seq"]) == ("by_start_sequence", 3)
    origin.answer(config, delivered=2)
    for seq in (3, 4, 5):
        origin.deliver(seq)
    assert origin.stored() == [1, 2, 3, 4, 5]
    assert origin.told == []


def test_a_heartbeat_tells_of_a_loss_at_the_end() -> None:
    origin = Origin()
    origin.answer(origin.request())
    origin.deliver(1)
    origin.control("Nats-Last-Consumer: 1")
    origin.rig.clock.advance(5)
    assert origin.requests() == []
    origin.control("Nats-Last-Consumer: 2")
    origin.rig.clock.advance(1)
    assert origin.request()["opt_start_seq"] == 2


def test_silence_ends_a_consumer() -> None:
    origin = Origin()
    origin.answer(origin.request())
    for _ in range(20):
        origin.rig.clock.advance(1)
        origin.control("Nats-Last-Consumer: 0")
    assert origin.requests() == []
    origin.rig.clock.advance(11)
    assert origin.request()


def test_a_link_that_was_away_is_not_waited_out() -> None:
    origin = Origin()
    origin.answer(origin.request())
    origin.deliver(1)
    origin.rig.clock.advance(3)
    origin.is_reached(False)
    origin.rig.clock.advance(2)
    origin.is_reached(True)
    origin.rig.clock.advance(0.6)
    assert origin.request()["opt_start_seq"] == 2


def test_a_gap_by_limits_is_left_out_and_told() -> None:
    origin = Origin()
    origin.answer(origin.request())
    origin.deliver(1)
    origin.deliver(10)
    assert origin.stored() == [1, 10]
    assert origin.told == ["M lacks 2 to 9 of O"]
    origin.rig.clock.advance(5)
    assert origin.requests() == []


def test_what_was_purged_before_the_consumer_began_is_left_out_at_once() -> None:
    origin = Origin()
    origin.answer(origin.request(), delivered=100)
    assert origin.copy.store.last_seq == 100
    assert origin.told == []
    origin.deliver(101)
    assert origin.stored() == [101]


def test_older_messages_and_those_of_an_older_consumer_are_ignored() -> None:
    origin = Origin()
    origin.answer(origin.request())
    origin.deliver(1)
    origin.deliver(1)
    consumer, origin.consumer = origin.consumer, b"OTHER"
    origin.deliver(2)
    origin.consumer, origin.seq = consumer, 2
    origin.deliver(2)
    assert origin.stored() == [1, 2]
    assert origin.requests() == []


def test_flow_control_is_answered_with_how_far_it_is_stored() -> None:
    origin = Origin()
    origin.answer(origin.request())
    origin.deliver(3)
    origin.requests()
    origin.control(reply=b"$JS.FC.O.C.1")
    ((to, block, _),) = origin.rig.outbox.sent
    assert to == "$JS.FC.O.C.1"
    assert block == b"NATS/1.0\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 3\r\n\r\n"
    origin.control("Nats-Last-Consumer: 1", "Nats-Consumer-Stalled: $JS.FC.O.C.2")
    assert origin.rig.outbox.sent[-1][0] == "$JS.FC.O.C.2"


@pytest.mark.parametrize("code", [10185, 10025])
def test_an_older_server_is_asked_for_less(code: int) -> None:
    origin = Origin()
    assert b"Api-Level: 5" in origin.rig.outbox.sent[-1][1]
    origin.requests()
    origin.refuse(code)
    assert b"Api-Level: 4" in origin.rig.outbox.sent[-1][1]
    name = origin.request()["name"]
    origin.refuse(code)
    config = origin.request()
    assert "sourcing" not in config
    assert config["name"] != name
    origin.answer(config)
    origin.deliver(1)
    assert origin.stored() == [1]


def test_a_refusal_is_shown_and_tried_again_ever_more_seldom() -> None:
    origin = Origin()
    origin.requests()
    times = []
    for _ in range(4):
        origin.refuse(10059)
        assert origin.info()["error"]["err_code"] == 10059
        begun_ns = origin.rig.clock.now_ns
        while not origin.requests():
            origin.rig.clock.advance(0.5)
        times.append((origin.rig.clock.now_ns - begun_ns) // 1_000_000_000)
    assert times == sorted(times)
    assert times[-1] > 10
    assert origin.told == ["M: O refused: "]
    origin.reply(b"nonsense")
    assert origin.info()["error"]["err_code"] == 10029


def test_no_answer_is_no_end() -> None:
    origin = Origin()
    origin.requests()
    origin.rig.clock.advance(15)
    assert origin.request()


def test_a_source_resumes_by_what_it_has_stored_and_begins_anew_with_a_new_origin() -> None:
    origin = Origin(kind="source")
    origin.answer(origin.request(), identity="first")
    origin.deliver(1)
    origin.deliver(4)
    message = origin.copy.store.load(2)
    assert message is not None
    assert b"Nats-Stream-Source: O:" in message.headers
    assert message.headers.endswith(b" 4 > > o.4 first\r\n\r\n")
    origin.copy.origins.start()
    origin.rig.clock.advance(0.1)
    config = origin.request()
    assert config["opt_start_seq"] == 5
    origin.answer(config, identity="second", delivered=4)
    assert origin.told == ["O of M is new"]
    assert origin.request()["deliver_policy"] == "all"
    origin.refuse(10225)
    assert len(origin.told) == 2
    origin.answer(origin.request(), identity="second")
    origin.deliver(1)
    assert origin.stored() == [1, 4, 1]


def test_filters_are_asked_for_in_the_subject() -> None:
    origin = Origin(filter_subject="o.*", opt_start_seq=7)
    ((subject, body),) = origin.requests()
    config = body["config"]
    assert subject == f"CONSUMER.CREATE.O.{config['name']}.o.*"
    assert config["filter_subject"] == "o.*"
    assert config["opt_start_seq"] == 7
    origin.answer(config, delivered=6)
    origin.deliver(9)
    origin.deliver(20)
    assert origin.stored() == [9, 20]
    assert origin.told == [], "what a filter leaves out is no gap"


def test_a_consumer_made_beforehand_is_reset() -> None:
    consumer = {"name": "D", "deliver_subject": "to.me"}
    origin = Origin(kind="source", consumer=consumer)
    assert origin.requests() == [("CONSUMER.RESET.O.D", {})]
    origin.answer({"deliver_subject": "to.me", "ack_policy": "none"})
    assert origin.told == ["M: O refused: stream source consumer requires flow control ack policy"]
    origin.rig.clock.advance(10)
    origin.answer({"deliver_subject": "to.me", "ack_policy": "flow_control"})
    origin.deliver(1)
    assert origin.stored() == [1]


@pytest.mark.parametrize(
    "reply",
    [b"", b"$JS.ACK.S.C.1.2", b"$JS.ACK.S.C.1.2.3.x.5", b"_INBOX.a.b.c.d.e.f.g.h"],
)
def test_what_is_no_ack_subject_is_no_delivery(reply: bytes) -> None:
    assert read_delivery(reply) is None


def test_both_forms_of_ack_subjects_are_read() -> None:
    assert read_delivery(b"$JS.ACK.S.C.1.2.3.4.5") == (b"C", 1, 2, 3, 4, 5)
    assert read_delivery(b"$JS.ACK.D.hash.S.C.1.2.3.4.5") == (b"C", 1, 2, 3, 4, 5)
    assert read_delivery(b"$JS.ACK.D.hash.S.C.1.2.3.4.5.token") == (b"C", 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "changed",
    [
        {"config": {"deliver_subject": "x y"}},
        {"config": {"deliver_subject": "x\r\nLS+ >"}},
        {"config": {"deliver_subject": ">"}},
        {"config": {"deliver_subject": ""}},
        {"config": None},
        {"config": []},
        {"delivered": {"stream_seq": 2**63}},
        {"delivered": {"stream_seq": -1}},
        {"delivered": {"stream_seq": 1.5}},
        {"num_pending": 2**70},
        {"num_pending": "1"},
        {"name": 1},
        {"error": {"code": 2**70, "err_code": 1}},
        {"error": {"description": ["x"]}},
    ],
)
def test_an_answer_that_no_server_gives_is_refused(changed: dict[str, Any]) -> None:
    origin = Origin()
    config = origin.request()
    before = set(origin.rig.outbox.subscribed)
    good = {"name": "C", "config": config, "delivered": {"consumer_seq": 0, "stream_seq": 0}}
    origin.reply(json.dumps(good | changed).encode())
    assert set(origin.rig.outbox.subscribed) < before
    assert origin.info()["error"]["err_code"] == 10029
    assert origin.copy.store.last_seq == 0
    origin.rig.clock.advance(5)
    origin.answer(origin.request())
    origin.deliver(1)
    assert origin.stored() == [1]


@pytest.mark.parametrize(
    "body", [b"", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"1e400", b"NaN"]
)
def test_an_answer_that_is_no_json_is_refused(body: bytes) -> None:
    origin = Origin()
    origin.request()
    origin.reply(body)
    assert origin.info()["error"]["err_code"] == 10029


@pytest.mark.parametrize("seq", [2**63, 2**64 - 1, 10**19, 10**30])
def test_a_delivery_beyond_the_last_sequence_is_not_taken(seq: int) -> None:
    origin = Origin()
    origin.answer(origin.request())
    origin.deliver(1)
    origin.deliver(seq)
    if origin.rig.outbox.subscribed:
        origin.control(f"Nats-Last-Consumer: {'9' * 5000}")
    origin.rig.clock.advance(0.1)
    assert origin.copy.store.last_seq == 1
    assert "error" not in origin.rig.publish("other")
