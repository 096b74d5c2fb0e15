"""A stream's answers to publishers, and their time."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from midge.jetstream.account.limits import JetStreamAccountLimits, ServerLimits
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.store.interface import StoreFailedError
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.stream.contents import Usage
from midge.jetstream.stream.stream import Stream
from midge.protocol.frame import compose
from tests.support.consumer_rig import TurnedClock
from tests.support.jetstream_account import AccountRig, Outbox


def err_code(ack: dict[str, Any]) -> int:
    code: int = ack["error"]["err_code"]
    return code


def test_an_ack_names_stream_and_sequence() -> None:
    rig = AccountRig()
    rig.create()
    assert rig.publish("a.1", b"x") == {"stream": "A", "seq": 1}
    assert rig.exchange("a.1", b"x")[0][2] == b'{"stream":"A","seq":2}'


def test_an_ack_names_the_domain_before_the_sequence() -> None:
    rig = AccountRig(domain="hub")
    rig.create()
    assert rig.exchange("a.1", b"x")[0][2] == b'{"stream":"A","domain":"hub","seq":1}'


def test_a_message_without_a_reply_is_stored_without_a_word() -> None:
    rig = AccountRig()
    stream = rig.create()
    assert rig.exchange("a.1", b"x", reply="") == []
    assert stream.store.messages == 1


def test_a_stream_without_acks_answers_nobody() -> None:
    rig = AccountRig()
    rig.create(no_ack=True)
    assert rig.exchange("a.1", b"x") == []


def test_an_id_is_known_for_its_window_whatever_becomes_of_the_message() -> None:
    rig = AccountRig()
    rig.create(duplicate_window=5_000_000_000)
    headers = {"Nats-Msg-Id": "i"}
    assert rig.publish("a.1", b"x", headers)["seq"] == 1
    rig.api("STREAM.PURGE.A")
    rig.clock.advance(4.9)
    sent = rig.exchange("a.1", b"x", headers)
    assert sent[0][2] == b'{"stream":"A","seq":1,"duplicate": true}'
    rig.clock.advance(0.2)
    assert rig.publish("a.1", b"x", headers) == {"stream": "A", "seq": 2}


def test_a_server_out_of_room_refuses() -> None:
    rig = AccountRig(server_limits=ServerLimits())
    rig.account.memory.parent = Usage(limit=0)
    rig.create()
    rig.publish("a.1", b"x")
    assert err_code(rig.publish("a.1", b"x")) == 10023


def test_an_account_keeps_within_its_limit() -> None:
    rig = AccountRig(limits=JetStreamAccountLimits(max_memory=100))
    rig.create()
    assert "seq" in rig.publish("a.1", b"x" * 60)
    assert err_code(rig.publish("a.1", b"x" * 60)) == 10002
    rig.api("STREAM.PURGE.A")
    assert "error" not in rig.publish("a.1", b"x" * 60)


def test_a_trace_is_not_traced_again_when_delivered() -> None:
    rig = AccountRig()
    stream = rig.create()
    rig.publish("a.1", b"x", {"Nats-Trace-Dest": "t"})
    message = stream.store.load(1)
    assert message is not None
    assert message.headers == b"NATS/1.0\r\nNats-Trace-Dest: trace disabled\r\n\r\n"


def test_what_is_only_traced_is_checked_and_not_stored() -> None:
    rig = AccountRig()
    stream = rig.create()
    headers = {"Nats-Trace-Dest": "t", "Nats-Trace-Only": "true"}
    assert rig.exchange("a.1", b"x", headers) == []
    assert stream.store.last_seq == 0
    headers["Nats-Expected-Last-Sequence"] = "5"
    assert err_code(rig.publish("a.1", b"x", headers)) == 10071


def test_what_is_stored_is_published_again_with_where_it_is() -> None:
    rig = AccountRig()
    rig.create(republish={"src": "a.>", "dest": "copy.>"})
    rig.publish("a.1", b"x")
    to, headers, payload = rig.exchange("a.1", b"y", {"H": "v"})[0]
    lines = headers.split(b"\r\n")
    assert (to, payload) == ("copy.1", b"y")
    assert lines[1:4] == [b"H: v", b"Nats-Stream: A", b"Nats-Subject: a.1"]
    assert lines[4] == b"Nats-Sequence: 2"
    assert lines[6:] == [b"Nats-Last-Sequence: 1", b"", b""]


def test_headers_alone_are_published_again_with_the_size() -> None:
    rig = AccountRig()
    rig.create(republish={"src": "a.>", "dest": "copy.>", "headers_only": True})
    _, headers, payload = rig.exchange("a.1", b"four")[0]
    assert payload == b""
    assert headers.endswith(b"Nats-Last-Sequence: 0\r\nNats-Msg-Size: 4\r\n\r\n")


def test_streams_that_republish_to_each_other_do_so_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = AccountRig()
    one = rig.create("A", subjects=["a.>"], republish={"src": "a.>", "dest": "b.>"})
    other = rig.create("B", subjects=["b.>"], republish={"src": "b.>", "dest": "a.>"})
    deepest = depth = 0

    def send(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        nonlocal deepest, depth
        depth += 1
        deepest = max(deepest, depth)
        (one if subject.startswith(b"a.") else other).publish(subject, b"", headers, payload)
        depth -= 1
        return 1

    monkeypatch.setattr(rig.outbox, "send", send)
    long_headers = b"NATS/1.0\r\nLong: %b\r\n\r\n" % (b"x" * 40_000)
    for number in range(3):
        one.publish(b"a.%d" % number, b"", long_headers, b"x")
    assert (one.store.messages, other.store.messages) == (3, 3)
    rig.clock.advance(0.001)
    assert other.store.messages > 300  # then the headers are too long
    assert deepest == 1
    subjects = [other.store.subject_of(seq) for seq in range(1, 10)]
    assert subjects == [b"b.0", b"b.1", b"b.2"] * 3


class HeldStore(MemoryStore):
    """A store whose changes become durable when `settle` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], object]] = []

    def barrier(self, callback: Callable[[], object]) -> None:
        self.held.append(callback)

    def settle(self) -> None:
        held, self.held = self.held, []
        for callback in held:
            callback()


def held_stream() -> tuple[Stream, HeldStore, Outbox]:
    """Return a file stream whose store says when its changes are durable."""
    store, outbox = HeldStore(), Outbox()
    config = StreamConfig(name="A", subjects=["a.>"], storage="file", num_replicas=1)
    config.max_msgs = config.max_bytes = config.max_msgs_per_subject = config.max_msg_size = -1
    config.duplicate_window_ns = 10**9
    stream = Stream(config, store, Surroundings(outbox, TurnedClock(), Random(1)), Usage(), 0)
    return stream, store, outbox


def publish(stream: Stream, headers: bytes | None = None) -> None:
    stream.publish_frame(compose(b"a.1", b"x", b"r", headers))


def test_no_ack_leaves_before_its_message_is_durable() -> None:
    stream, store, outbox = held_stream()
    publish(stream)
    publish(stream)
    assert outbox.sent == []
    store.settle()
    assert [payload for _, _, payload in outbox.sent] == [
        b'{"stream":"A","seq":1}',
        b'{"stream":"A","seq":2}',
    ]


def test_refusals_and_duplicates_wait_for_what_they_rest_on() -> None:
    stream, store, outbox = held_stream()
    publish(stream, b"NATS/1.0\r\nNats-Msg-Id: i\r\n\r\n")
    publish(stream, b"NATS/1.0\r\nNats-Msg-Id: i\r\n\r\n")
    publish(stream, b"NATS/1.0\r\nNats-Expected-Last-Sequence: 7\r\n\r\n")
    assert outbox.sent == []
    store.settle()
    answers = [payload for _, _, payload in outbox.sent]
    assert answers[1] == b'{"stream":"A","seq":1,"duplicate": true}'
    assert json.loads(answers[2])["error"]["description"] == "wrong last sequence: 1"


def test_what_is_lost_is_refused_and_its_ids_are_forgotten() -> None:
    stream, store, outbox = held_stream()
    publish(stream, b"NATS/1.0\r\nNats-Msg-Id: i\r\n\r\n")
    store.purge()
    stream.lost(StoreFailedError("the store cannot be synced: EIO"))
    assert json.loads(outbox.sent[0][2])["error"] == {
        "code": 503,
        "err_code": 10077,
        "description": "the store cannot be synced: EIO",
    }


@pytest.mark.parametrize("kind", ["limits", "interest"])
def test_a_sequence_is_used_up_where_nobody_is_interested(kind: str) -> None:
    rig = AccountRig()
    stream = rig.create(retention=kind)
    assert rig.publish("a.1", b"x") == {"stream": "A", "seq": 1}
    assert stream.store.messages == (1 if kind == "limits" else 0)
    assert stream.store.last_seq == 1


def test_a_stream_without_acks_answers_no_message_of_a_batch() -> None:
    rig = AccountRig()
    stream = rig.create(allow_atomic=True, no_ack=True)
    for sequence in ("1", "2", "3"):
        batch = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": sequence}
        if sequence == "3":
            batch["Nats-Batch-Commit"] = "1"
        assert rig.exchange("a.1", b"x", batch) == []
    assert stream.store.messages == 3
