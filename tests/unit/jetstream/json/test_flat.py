"""What the flat reader takes is what Go's rules make of it, and the rest it leaves to them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from midge.jetstream.config.consumer import CREATE_REQUEST, STRUCTURE
from midge.jetstream.config.consumer_config import CreateRequest
from midge.jetstream.json.flat import FlatReader
from tests.support.each import each
from tests.unit.jetstream.json.test_plain import VALUES, with_all_rules

READER = FlatReader(CREATE_REQUEST)


def read(body: bytes) -> CreateRequest | None:
    made = CreateRequest()
    return made if READER.read(body, made) else None


ORDERED = {
    "stream_name": "S",
    "config": {
        "name": "o001",
        "filter_subject": "orders.>",
        "deliver_subject": "_INBOX.x",
        "ack_policy": "none",
        "max_deliver": 1,
        "flow_control": True,
        "mem_storage": False,
        "idle_heartbeat": 5_000_000_000,
        "opt_start_seq": 17,
        "max_waiting": -3,
        "num_replicas": 0,
    },
    "action": "create",
    "pedantic": False,
}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\r\n", "\t: ")])
def test_what_clients_send_is_flat(separators: tuple[str, str]) -> None:
    body = json.dumps(ORDERED, separators=separators).encode()
    for text in (body, b" \r\n" + body + b"\t ", body.replace(b"{", b"{ ")):
        made = read(text)
        assert made is not None
        assert made == with_all_rules(text, CREATE_REQUEST, CreateRequest())
        assert made.config.filter_subject == "orders.>"
        assert made.config.max_waiting == -3


@pytest.mark.parametrize("body", [b"{}", b" { } ", b'{"config":{}}', b'{"config" : { } }'])
def test_an_object_may_be_empty(body: bytes) -> None:
    assert read(body) == CreateRequest()


NOT_FLAT = [
    b"",
    b" ",
    b"{",
    b"}",
    b"{} {}",
    b"[]",
    b'"x"',
    b"{,}",
    b'{"stream_name"',
    b'{"stream_name":',
    b'{"stream_name":"',
    b'{"stream_name":"S',
    b'{"stream_name":"S"',
    b'{"stream_name":"S",',
    b'{"stream_name":"S",}',
    b'{"stream_name" "S"}',
    b'{"stream_name":"S" "action":""}',
    b'{"stream_name":"S"}x',
    b'{"stream_name":"S"}\x00',
    b'{"stream_name":"S\x00"}',
    b'{"stream_name":"S\n"}',
    b'{"stream_name":"\\u0041"}',
    b'{"stream_name":"\xc3\xa4"}',
    b'{"stream_name":"\xff"}',
    b'{"stream_name":null}',
    b'{"stream_name":1}',
    b'{"stream_name":["S"]}',
    b'{"stream_name":"S","stream_name":"S"}',
    b'{"Stream_name":"S"}',
    b'{"zz":"S"}',
    b'{"action":"zz"}',
    b'{"pedantic":tru}',
    b'{"pedantic":tr',
    b'{"pedantic":t',
    b'{"pedantic":fals}',
    b'{"pedantic":True}',
    b'{"pedantic":truest}',
    b'{"pedantic":1}',
    b'{"pedantic":"true"}',
    b'{"config":1}',
    b'{"config":[]}',
    b'{"config":null}',
    b'{"config":{"max_deliver":-}}',
    b'{"config":{"max_deliver":-0}}',
    b'{"config":{"max_deliver":01}}',
    b'{"config":{"max_deliver":1.0}}',
    b'{"config":{"max_deliver":1e3}}',
    b'{"config":{"max_deliver":+1}}',
    b'{"config":{"max_deliver":1 1}}',
    b'{"config":{"max_deliver":1234567890123456789}}',
    b'{"config":{"opt_start_seq":-1}}',
    b'{"config":{"max_deliver":1,"max_deliver":1}}',
    b'{"config":{"ack_policy":"x"}}',
    b'{"config":{"backoff":[1]}}',
    b'{"config":{"metadata":{}}}',
    b'{"config":{"pause_until":"2030-01-01T00:00:00Z"}}',
    b"\xef\xbb\xbf{}",
]


@pytest.mark.parametrize("body", NOT_FLAT, ids=repr)
def test_all_else_is_left_to_the_other_reader(body: bytes) -> None:
    assert read(body) is None


@each("seed", range(20))
def test_both_readers_make_the_same_of_a_request(seed: int) -> None:
    rng = random.Random(seed)
    flat = 0
    for _ in range(60):
        fields = rng.sample(STRUCTURE.fields, rng.randint(0, 3))
        config: dict[str, Any] = {one.name: rng.choice(VALUES) for one in fields}
        body = bytearray(json.dumps({"stream_name": "S", "config": config}).encode())
        for _ in range(rng.choice((0, 0, 1, 2))):
            body[rng.randrange(len(body))] = rng.choice(b'"{}:,-019. \\etrufalsn[]\x00\xff')
        made = read(bytes(body))
        if made is not None:
            flat += 1
            assert made == with_all_rules(bytes(body), CREATE_REQUEST, CreateRequest()), body
    assert flat


def test_every_beginning_of_a_request_is_left_to_the_other_reader() -> None:
    body = json.dumps(ORDERED).encode()
    for size in range(len(body)):
        assert read(body[:size]) is None
