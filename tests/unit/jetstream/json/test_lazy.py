"""Large JSON: read in C, without a tree of nodes, and refused where no request is so large."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.config import consumer as consumer_config
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.config.stream import REQUEST, StreamRequest
from midge.jetstream.json import lazy, structure, syntax
from tests.support.jetstream_account import AccountRig

MIB = 1 << 20

ODD: dict[str, bytes] = {
    "lists": b'{"x":[' + b"[]," * (MIB // 3) + b"1]}",
    "objects": b'{"x":[' + b"{}," * (MIB // 3) + b"1]}",
    "names": b"{" + b",".join(b'"a%d":1' % number for number in range(MIB // 10)) + b"}",
    "numbers": b"[" + b"1," * (MIB // 2) + b"1]",
    "escapes": b'{"name":"' + b"\\u0041" * (MIB // 6) + b'"}',
    "blanks": b" " * MIB + b"{}",
    "values": b"{}" * (MIB // 2),
    "quotes": b'"' * MIB,
    "deep": b"[" * MIB,
    "deep objects": b'{"a":' * (MIB // 5),
    "text": b'{"description":"' + b"x" * MIB + b'"}',
    "bytes": b"\xff" * MIB,
    "nothing": bytes(MIB),
    "digits": b'{"max_msgs":' + b"9" * MIB + b"}",
    "cut": b'{"subjects":[' + b'"a",' * (MIB // 4),
    "subjects": b'{"name":"A","Subjects":[' + b'{"a":1},' * (MIB // 8) + b"1]}",
}


@pytest.fixture
def small_only(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the bytes that the reader in Python is given."""
    sizes: list[int] = []
    read = syntax.read_value

    def counted(data: bytes, at: int) -> Any:
        sizes.append(len(data))
        return read(data, at)

    monkeypatch.setattr(syntax, "read_value", counted)
    return sizes


REQUESTS = (
    *("STREAM.CREATE.A", "STREAM.UPDATE.A", "STREAM.RESTORE.A", "STREAM.NAMES", "STREAM.LIST"),
    *("STREAM.INFO.A", "STREAM.DELETE.A", "STREAM.PURGE.A", "STREAM.SNAPSHOT.A", "INFO"),
    *(
        "STREAM.MSG.GET.A",
        "STREAM.MSG.DELETE.A",
        "CONSUMER.CREATE.A",
        "CONSUMER.DURABLE.CREATE.A.C",
    ),
    *("CONSUMER.NAMES.A", "CONSUMER.LIST.A", "CONSUMER.INFO.A.C", "CONSUMER.DELETE.A.C"),
    *("CONSUMER.PAUSE.A.C", "CONSUMER.RESET.A.C", "CONSUMER.UNPIN.A.C"),
    *("CONSUMER.MSG.NEXT.A.C", "DIRECT.GET.A"),
)


@pytest.mark.parametrize("kind", sorted(ODD))
def test_no_request_has_much_read_in_python(kind: str, small_only: list[int]) -> None:
    rig = AccountRig()
    rig.create(allow_direct=True)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    rig.api("CONSUMER.DURABLE.CREATE.A.C", {"stream_name": "A", "config": config})
    small_only.clear()
    for request in REQUESTS:
        sent = rig.exchange(f"$JS.API.{request}", ODD[kind])
        assert len(sent) == 1, request
    assert max(small_only, default=0) <= 5 * lazy.SMALL_BYTES
    assert "A" in rig.account.streams
    assert rig.api("CONSUMER.INFO.A.C")["num_waiting"] == 0


@pytest.mark.parametrize("kind", sorted(ODD))
def test_no_ack_has_much_read_in_python(kind: str, small_only: list[int]) -> None:
    rig = AccountRig()
    rig.create()
    rig.publish("a.1")
    config = {"durable_name": "C", "ack_policy": "explicit"}
    rig.api("CONSUMER.DURABLE.CREATE.A.C", {"stream_name": "A", "config": config})
    rig.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C")
    small_only.clear()
    (consumer,) = rig.account.streams["A"].consumers
    consumer.ack(rig.delivered[-1], b"", b"-NAK " + ODD[kind])
    assert max(small_only, default=0) <= lazy.SMALL_BYTES


@pytest.mark.parametrize("request_of", ["STREAM.PURGE.A", "CONSUMER.LIST.A", "STREAM.MSG.GET.A"])
def test_a_body_larger_than_its_request_can_have_is_refused(request_of: str) -> None:
    rig = AccountRig()
    rig.create()
    assert rig.api(request_of, b'{"seq":1}' + b" " * (64 << 10))["error"]["err_code"] == 10025


def test_a_pull_request_has_4_kib_at_most() -> None:
    rig = AccountRig()
    rig.create()
    config = {"durable_name": "C", "ack_policy": "explicit"}
    rig.api("CONSUMER.DURABLE.CREATE.A.C", {"stream_name": "A", "config": config})
    for size, status in ((4096, None), (4097, b"NATS/1.0 400 Bad Request")):
        body = b'{"batch":1,"expires":1000000000}'.ljust(size)
        sent = rig.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C", body)
        assert [block[:24] for _, block, _ in sent] == ([status] if status else [])


SOME: list[dict[str, Any]] = [
    {"name": "A", "subjects": [f"a.{number}" for number in range(1000)]},
    {"name": "A", "SUBJECTS": [f"a.{number}" for number in range(1000)], "Max_Msgs": 5},
    {"name": "A", "sources": [{"name": f"S{number}"} for number in range(300)]},
    {"name": "A", "metadata": {f"é{number}": 'x\n"y' for number in range(1000)}},
    {"name": "A", "max_msgs": 1.5, "description": "x" * 5000},
    {"name": "A", "max_msgs": 2**64, "description": "x" * 5000},
    {"name": "A", "retention": "odd", "description": "x" * 5000},
    {"name": "A", "compression": 7, "description": "x" * 5000},
    {"name": "A", "unknown": [{}], "description": "x" * 5000},
    {"name": "A", "sources": [{"name": 1}] * 1000},
    {"name": ["A"], "description": "x" * 5000},
    {"name": "A", "mirror": None, "sealed": None, "description": "x" * 5000},
    {"name": "A", "storage": "memory", "max_age": 10**9, "description": "<>&\u2028" * 1000},
]


@pytest.mark.parametrize("fields", SOME)
@pytest.mark.parametrize("is_strict", [True, False])
def test_large_and_small_are_read_alike(
    fields: dict[str, Any], is_strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps(fields).encode()
    assert len(data) > lazy.SMALL_BYTES
    found = []
    for limit in (lazy.SMALL_BYTES, 1 << 30):
        monkeypatch.setattr(lazy, "SMALL_BYTES", limit)
        try:
            found.append(structure.decode(data, REQUEST, StreamRequest(), is_strict=is_strict))
        except structure.JsonProblem as problem:
            found.append(str(problem))
    assert found[0] == found[1]


def test_the_largest_configuration_of_a_consumer_is_read() -> None:
    config = {"filter_subjects": [f"a.{number}" for number in range(20_000)], "ACK_POLICY": "all"}
    made = structure.decode_lenient(
        json.dumps(config).encode(), consumer_config.STRUCTURE, ConsumerConfig()
    )
    assert (len(made.filter_subjects), made.ack_policy) == (20_000, "all")
