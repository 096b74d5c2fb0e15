"""Outbound with messages of every length: short pieces are copied by special code."""

from __future__ import annotations

import pytest

from midge.protocol.frame import Frame, compose
from midge.protocol.handler import Handler
from midge.protocol.parser import Parser
from midge.server.routing.outbound import CHUNK_BYTES, ChunkPool, Outbound
from tests.support.each import each


class Taking:
    """Takes everything."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes | memoryview) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0


@each("length", range(1, 41))
def test_message_with_pieces_of_any_length(length: int) -> None:
    outbound = Outbound(ChunkPool())
    transport = Taking()
    outbound.attach(transport)
    subject = bytes(0x30 + i for i in range(length))
    expected = b""
    for size in (*range(41), 64, 1000):
        sid = bytes(0x41 + i for i in range(size % 40 + 1))
        payload = bytes(i % 251 for i in range(size))
        outbound.append_message(compose(subject, payload), sid)
        expected += b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, size, payload)
        outbound.append_message(compose(subject, payload, sid, b"NATS/1.0\r\n\r\n"), sid)
        expected += b"HMSG %b %b %b 12 %d\r\n" % (subject, sid, sid, 12 + size)
        expected += b"NATS/1.0\r\n\r\n" + payload + b"\r\n"
    outbound.flush()
    assert transport.written == expected


class Delivering(Handler):
    """Delivers each message to one subscription."""

    def __init__(self, outbound: Outbound, sid: bytes) -> None:
        self.outbound = outbound
        self.sid = sid

    def on_publish(self, frame: Frame) -> None:
        self.outbound.append_message(frame, self.sid)


@pytest.mark.parametrize("sid", [b"7", b"123456789012345678"])
@pytest.mark.parametrize("length", [1, 7, 8, 31, 32, 33, 64, 65, 100])
def test_messages_in_a_read_buffer_up_to_its_last_byte(length: int, sid: bytes) -> None:
    # The bytes after a message in both buffers decide how it is copied.
    outbound = Outbound(ChunkPool())
    transport = Taking()
    outbound.attach(transport)
    subject = bytes(0x30 + i % 70 for i in range(length))
    published = b"".join(b"PUB %b %d\r\n%b\r\n" % (subject, n, b"p" * n) for n in range(160))
    expected = b"".join(b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, n, b"p" * n) for n in range(160))
    parser = Parser(Delivering(outbound, sid))
    rounds = 2 * CHUNK_BYTES // len(expected) + 1
    for _ in range(rounds):
        assert parser.feed(bytearray(published), 0, len(published)) == len(published)
    outbound.flush()
    assert transport.written == expected * rounds
