"""Outbound with messages of every length: short pieces are copied by special code."""

from __future__ import annotations

import pytest

from midge.protocol.frame import compose
from midge.server.routing.outbound import ChunkPool, Outbound


class Taking:
    """Takes everything."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: memoryview) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.parametrize("length", range(1, 41))
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
