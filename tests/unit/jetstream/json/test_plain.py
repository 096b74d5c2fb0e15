"""What the quick reader takes is what Go's rules make of it, and the rest it leaves to them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from midge.jetstream.config import consumer as configuration
from midge.jetstream.config.consumer import CREATE_REQUEST, STRUCTURE
from midge.jetstream.config.consumer_config import ConsumerConfig, CreateRequest
from midge.jetstream.config.stream import STREAM, StreamConfig
from midge.jetstream.json import plain, structure
from midge.jetstream.json.encode import encode
from midge.jetstream.json.object_writer import ObjectWriter
from midge.jetstream.json.plain import NOT_PLAIN
from tests.support.each import each

NOT_ALIKE = [
    b"",
    b" ",
    b"{",
    b"{} {}",
    b"[1,]",
    b'{"a":1,"a":1}',
    b'{"a" :1,"a":2}',
    b'{"a":"x","a":"y"}',
    b'{"a":"x","a":2}',
    b'{"a":{"b":1},"a":{"b":1}}',
    b'{"a":[{"b":1,"b":2}]}',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":1.0}',
    b'{"a":1e3}',
    b'{"a":-0}',
    b'{"a":"\\n"}',
    b'{"a":"\\""}',
    b'{"a":"\\\\u003e"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\u00"}',
    b'{"a":1,"\\u0061":1}',
    b'{"a":"\xff"}',
    b'{"a":"\t"}',
    b"\xef\xbb\xbf{}",
    b'{"a":%s}' % (b"1" * 5000),
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", NOT_ALIKE, ids=lambda body: repr(body[:24]))
def test_what_is_not_read_alike_is_left_to_the_other_reader(body: bytes) -> None:
    assert plain.read(body) is NOT_PLAIN


@pytest.mark.parametrize("text", ["a.>", "<&>", "", "\u2028", '"', "\U0001f600", ">" * 300])
def test_what_go_escapes_is_read(text: str) -> None:
    units = text.encode("utf-16-be")
    escaped = "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    assert plain.read(b'{"a":"%b"}' % escaped.encode()) == {"a": text}


@pytest.mark.parametrize(
    "value", [":", " ", "", "a:b", [":", {":": ":"}], {"": [[], {}, ["x"]]}, 1]
)
def test_signs_within_texts_do_not_matter(value: Any) -> None:
    for separators in ((",", ":"), (" , ", " : ")):
        assert plain.read(json.dumps({"a": value}, separators=separators).encode()) == {"a": value}


def with_all_rules(body: bytes, kind: structure.Structure, into: Any) -> Any:
    try:
        return structure._decode_all(body, kind, into)
    except structure.JsonProblem as problem:
        return str(problem)


def read_quickly(body: bytes) -> Any:
    return CREATE_REQUEST.plain(plain.read(body), CreateRequest())


VALUES: list[Any] = [
    *(
        "",
        "x",
        "a.>",
        "<&>",
        "all",
        "none",
        "explicit",
        "2s",
        "limits",
        "file",
        "2030-01-01T00:00:00Z",
    ),
    *(0, 1, -1, 1 << 63, 1 << 64, -(1 << 63), 2.5, True, False, None),
    *([], ["a", "b"], [1, 2], [1, None], [True], {}, {"k": "v"}, {"k": 1}, {"name": "x"}),
]


@each("seed", range(40))
def test_both_readers_make_the_same_of_a_request(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        is_stream = rng.random() < 0.5
        kind, make = (STREAM, StreamConfig) if is_stream else (CREATE_REQUEST, CreateRequest)
        config = CREATE_REQUEST.fields[1].kind
        assert isinstance(config, structure.Structure)
        inner = kind if is_stream else config
        body: dict[str, Any] = {
            one.name: rng.choice(VALUES) for one in rng.sample(inner.fields, rng.randint(0, 3))
        }
        if rng.random() < 0.1:
            body[rng.choice(["zz", "Name", "NAME"])] = "x"
        if not is_stream:
            body = {"stream_name": "S", "config": body, "action": rng.choice(["", "create", "zz"])}
        text = json.dumps(body).encode()
        if rng.random() < 0.5:  # as Go writes it
            text = text.replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
        expected = with_all_rules(text, kind, make())
        try:
            found = structure.decode(text, kind, make())
        except structure.JsonProblem as problem:
            found = str(problem)
        assert found == expected, text
        quick = NOT_PLAIN if is_stream else read_quickly(text)
        assert quick is NOT_PLAIN or quick == expected, text


@each("seed", range(10))
def test_answers_show_a_configuration_as_go_writes_it(seed: int) -> None:
    rng = random.Random(seed)
    shown = written = 0
    for _ in range(100):
        fields = rng.sample(STRUCTURE.fields, rng.randint(0, 5))
        text = json.dumps({one.name: rng.choice(VALUES) for one in fields}).encode()
        config = with_all_rules(text, STRUCTURE, ConsumerConfig())
        if isinstance(config, str):
            continue
        shown += 1
        found = configuration.fields(config, with_versions=False)
        assert list(found.items()) == list(STRUCTURE.encode(config).items()), text
        out = ObjectWriter()
        out.begin(b"{")
        if configuration.write_versioned(config, out) and out.is_plain:
            written += 1
            found = configuration.fields(config, with_versions=True)
            assert out.written() + b"}" == encode({"config": found})
    assert shown > 10
    assert written > 10


VALUES_OF_EACH: dict[str, list[Any]] = {
    "deliver_policy": ["all", "last", "new", "last_per_subject"],
    "ack_policy": ["none", "all", "explicit", "flow_control"],
    "replay_policy": ["instant", "original"],
    "priority_policy": ["none", "overflow", "pinned_client", "prioritized"],
    "metadata": [{}, {"b": "1", "a": "2"}, {"_nats.req.level": "0"}],
    "filter_subjects": [[], ["a", "b"]],
    "priority_groups": [[], ["a", "b"]],
    "backoff": [[], [1, 2]],
    "opt_start_time": [None],
    "pause_until": [None],
}


@pytest.mark.parametrize("one", STRUCTURE.fields, ids=lambda one: one.name)
def test_every_key_is_read_quickly_and_shown(one: structure.Field) -> None:
    usual: list[Any] = {"string": ["", "x"], "bool": [False, True]}.get(one.kind.go_type, [0, 7])
    for value in VALUES_OF_EACH.get(one.name, usual):
        config = {} if value is None else {one.name: value}
        text = json.dumps({"stream_name": "S", "config": config}).encode()
        quick = read_quickly(text)
        assert quick is not NOT_PLAIN, text
        assert quick == with_all_rules(text, CREATE_REQUEST, CreateRequest())
        found = configuration.fields(quick.config, with_versions=False)
        assert list(found.items()) == list(STRUCTURE.encode(quick.config).items())
        out = ObjectWriter()
        out.begin(b"{")
        assert configuration.write_versioned(quick.config, out)
        assert out.is_plain
        found = configuration.fields(quick.config, with_versions=True)
        assert out.written() + b"}" == encode({"config": found})


def test_a_time_is_left_to_the_other_reader() -> None:
    for name in ("opt_start_time", "pause_until"):
        for value in ([1], [1, 0], "2030-01-01T00:00:00Z"):
            body = {"stream_name": "S", "config": {name: value}}
            assert read_quickly(json.dumps(body).encode()) is NOT_PLAIN


def test_what_clients_send_is_plain() -> None:
    body = {"stream_name": "S", "config": {"name": "c", "metadata": {"a": "b"}, "backoff": [1]}}

    assert CREATE_REQUEST.plain(plain.read(json.dumps(body).encode()), CreateRequest()) == (
        structure._decode_all(json.dumps(body).encode(), CREATE_REQUEST, CreateRequest())
    )
