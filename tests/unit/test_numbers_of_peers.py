"""Numbers as text from clients and other servers: Python's `int` takes and refuses odd ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from midge.client import headers as client_headers
from midge.jetstream import headers
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.consumer.requests import BadRequestError, read_body
from midge.jetstream.json import times
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.stream import cron
from midge.jetstream.stream.origins import PositionSearch
from midge.server.peers import leaf_accepted
from midge.server.system_account import system_requests
from tests.support.consumer_rig import Rig
from tests.support.jetstream_account import AccountRig

LARGEST = 2**63 - 1
NUMBERS = [
    *("0", "1", "01", "-1", "+1", " 1", "1_0", "", "-", "0x1", "1e3", "NaN"),
    *("²", "٣", "\uff11", str(LARGEST), str(LARGEST + 1), str(2**64 - 1), str(2**64)),
    *("9" * 4_300, "9" * 5_000, "0" * 5_000 + "1"),
]


def short(text: str) -> str:
    """Name a number in a test's id."""
    return ascii(text) if len(text) < 30 else f"{text[0]}…{len(text)}"


def client_header(text: str) -> None:
    client_headers.parse_headers(
        f"NATS/1.0 {text}\r\nNats-Pending-Messages: {text}\r\n\r\n".encode()
    )


def duration(text: str) -> None:
    with contextlib.suppress(times.TimeProblem):
        times.parse_duration(f"{text}s")


def pull_request(text: str) -> None:
    for body in (text, f'{{"batch":{text}}}', f'{{"expires":{text}}}', f'{{"batch":"{text}"}}'):
        with contextlib.suppress(BadRequestError):
            read_body(body.encode())


def schedule(text: str) -> None:
    with contextlib.suppress(cron.PatternProblem):
        cron.next_time(f"{text} 0-{text} * * * *", None, 0, 0)


def connections_of_a_state(text: str) -> None:
    system_requests._arguments({"state": text, "limit": text})


READERS: list[Callable[[str], object]] = [
    client_header,
    connections_of_a_state,
    duration,
    is_known_level,
    schedule,
    leaf_accepted._version,
    lambda text: leaf_accepted._version(f"2.{text}.1-RC.1"),
    lambda text: headers.parse_number(text.encode()),
    lambda text: headers.parse_ttl(text.encode()),
    pull_request,
]


@pytest.mark.parametrize("text", NUMBERS, ids=short)
@pytest.mark.parametrize("read", READERS)
def test_no_number_raises(read: Callable[[str], object], text: str) -> None:
    read(text)


@pytest.mark.parametrize("text", NUMBERS, ids=short)
def test_an_answer_to_flow_control_settles_at_most_what_was_delivered(text: str) -> None:
    rig = Rig()
    consumer = rig.create(deliver_subject="deliver.1", ack_policy="flow_control", max_ack_pending=3)
    rig.publish(*["a.1"] * 5)
    (request,) = [one for one in rig.taken() if one.status]
    answer = f"NATS/1.0\r\nNats-Last-Consumer: {text}\r\nNats-Last-Stream: {text}\r\n\r\n"
    consumer.receivers.flow_control(request.reply, answer.encode())
    rig.run()
    delivered, _, floor, _ = rig.floors(consumer)
    assert floor <= delivered <= 5


@pytest.mark.parametrize("text", NUMBERS, ids=short)
def test_a_request_to_the_api_is_answered(text: str) -> None:
    rig = AccountRig()
    rig.create(allow_msg_ttl=True, allow_atomic=True)
    rig.create("B", subjects=["b.>"], allow_msg_counter=True)
    for consumer in ({"sample_freq": text}, {"sample_freq": f"{text}%"}, {"backoff": [text]}):
        config = {"name": "C", "ack_policy": "explicit", **consumer}
        rig.api("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})
    rig.api("STREAM.INFO.A", {"offset": text})
    rig.api("STREAM.MSG.GET.A", {"seq": text})
    names = ["Nats-Incr", "Nats-TTL", "Nats-Expected-Last-Sequence", "Nats-Batch-Sequence"]
    for name in [*names, "Nats-Expected-Last-Subject-Sequence", "Nats-Schedule"]:
        for more in ({}, {"Nats-Batch-Id": "b"}):
            assert rig.exchange("a.b", b"x", {name: text, **more})
            assert rig.exchange("b.b", b"", {name: text, **more})


@pytest.mark.parametrize("text", NUMBERS, ids=short)
def test_a_message_that_names_an_odd_position_does_no_harm(text: str) -> None:
    """A restored archive may hold one; a stream with sources looks for them at every start."""
    store = MemoryStore()
    where = f"O {text} > >".encode()
    store.append(b"o.1", b"NATS/1.0\r\nNats-Stream-Source: " + where + b"\r\n\r\n", b"x", 1)
    source = SimpleNamespace(index_name=lambda: "O > >")
    follower = SimpleNamespace(source=source, last_seq=0, taken_seq=0, identity=b"")
    assert list(PositionSearch(store, [cast("Any", follower)]).pieces()) == []
    assert 0 <= follower.last_seq <= LARGEST
