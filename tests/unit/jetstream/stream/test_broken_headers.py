"""Header blocks without their end, and bytes that are none, in every stream that adds a line."""

from __future__ import annotations

from typing import Any

import pytest

from midge.protocol.headers import find_malformed
from tests.support.jetstream_account import FileAccountRig

BLOCKS = [
    b"N",
    b"NATS/1.0",
    b"NATS/1.0\r\n",
    b"NATS/1.0\r\nA: 1",
    b"NATS/1.0\r\nA: 1\r\n",
    b"NATS/1.0\r\nA: 1\r\n\r\nB: 2\r\n\r\n",
    b"NATS/1.0\r\nA: 1\r\nnothing\r\n\r\n",
    b"GET / HTTP/1.1\r\nA: 1\r\n\r\n",
]


def kept(block: bytes) -> bytes:
    return b"A: 1\r\n" if block.startswith(b"NATS/1.0\r\nA") else b""


def stored(rig: FileAccountRig, name: str) -> bytes:
    message = rig.account.streams[name].store.load(1)
    assert message is not None
    return message.headers


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_subscriber_gets_whole_header_lines(block: bytes, storage: str) -> None:
    rig = FileAccountRig()

    def create(name: str, **keys: Any) -> None:
        rig.create(name, storage=storage, **keys)

    create("O", subjects=["o.>"], republish={"src": "o.>", "dest": "copy.>"})
    create("S", subjects=[], sources=[{"name": "O"}])
    create("M", subjects=[], mirror={"name": "O"})
    create("R", subjects=[], sources=[{"name": "S"}], republish={"src": ">", "dest": "again.>"})
    rig.exchange("o.1", b"payload", block)
    for _ in range(4):
        rig.settle()
        rig.clock.advance(0.1)
    again = {to: headers for to, headers, _ in rig.outbox.sent}
    assert stored(rig, "O") == block  # as published, like nats-server
    assert stored(rig, "M") == b"NATS/1.0\r\n" + kept(block) + b"\r\n"
    for name in ("S", "R"):
        assert stored(rig, name).startswith(b"NATS/1.0\r\n" + kept(block) + b"Nats-Stream-Source: ")
    assert again["copy.1"].startswith(b"NATS/1.0\r\n" + kept(block) + b"Nats-Stream: O\r\n")
    assert b"Nats-Stream: R\r\n" in again["again.o.1"]
    for headers in (again["copy.1"], again["again.o.1"], stored(rig, "S"), stored(rig, "R")):
        assert find_malformed(headers) is None


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_consumer_adds_a_line_to_a_whole_block(
    block: bytes, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = FileAccountRig()
    rig.create("O", subjects=["o.>"], storage=storage)
    rig.exchange("o.1", b"payload", block)
    rig.settle()
    config = {"durable_name": "C", "headers_only": True, "ack_policy": "none"}
    got: list[bytes] = []

    def deliver(*parts: bytes) -> bool:
        got.append(parts[3])
        return True

    monkeypatch.setattr(rig.outbox, "deliver", deliver)
    rig.api("CONSUMER.CREATE.O.C", {"stream_name": "O", "config": config})
    rig.exchange("$JS.API.CONSUMER.MSG.NEXT.O.C", b"1")
    for _ in range(3):
        rig.clock.advance(0.1)
        rig.settle()
    assert got == [b"NATS/1.0\r\n" + kept(block) + b"Nats-Msg-Size: 7\r\n\r\n"]
