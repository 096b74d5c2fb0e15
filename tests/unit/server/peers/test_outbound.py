"""Message lines of links: a run is written as each of its messages would be."""

from __future__ import annotations

from itertools import product

import pytest

from midge.protocol.frame import Frame
from midge.protocol.handler import Handler
from midge.protocol.parser import Parser
from midge.server.peers.outbound import Heads, LinkOutbound
from midge.server.routing.outbound import CHUNK_BYTES, ChunkPool
from tests.support.transports import Transport

HEADS = Heads(b"RMSG A ", b"HMSG A ")


class Keeps(Handler):
    """Writes a run, with the messages before it, to a link."""

    def __init__(self, queues: list[bytes] | None, before: int) -> None:
        super().__init__()
        self.queues = queues
        self.wire = Transport()
        self.outbound = LinkOutbound(ChunkPool())
        self.outbound.attach(self.wire)
        self.outbound.append(bytes(before))

    def on_publish_run(self, frame: Frame, count: int) -> int:
        base = frame.base
        self.outbound.append_run_over(frame, HEADS, count, self.queues)
        assert frame.base == base
        return count

    def on_publish(self, frame: Frame) -> None:
        if self.queues:
            self.outbound.append_with_queues(frame, HEADS, self.queues)
        else:
            self.outbound.append_plain(frame, HEADS)


@pytest.mark.parametrize(("reply", "with_headers"), list(product((b"", b"reply "), (False, True))))
@pytest.mark.parametrize(
    ("queues", "before", "size"),
    [
        (None, 0, 3),
        ([b"q"], 0, 3),
        ([b"q", b"workers"], CHUNK_BYTES - 100, 20),
        ([b"q"], 100, CHUNK_BYTES - 150),
        (None, CHUNK_BYTES - 1, 2 * CHUNK_BYTES),
    ],
)
def test_a_run(
    queues: list[bytes] | None, before: int, size: int, reply: bytes, with_headers: bool
) -> None:
    headers = b"NATS/1.0\r\n\r\n" if with_headers else b""
    sizes = b"%d %d" % (len(headers), len(headers) + size) if headers else b"%d" % size
    payloads = [b"%d" % i + bytes(size - 1) for i in range(5)]
    verb, line = (b"HPUB", b"HMSG") if headers else (b"PUB", b"RMSG")
    data = bytearray(
        b"".join(
            b"%b a.b %b%b\r\n%b%b\r\n" % (verb, reply, sizes, headers, payload)
            for payload in payloads
        )
    )
    words = reply
    if queues:
        words = (b"+ %b" % reply if reply else b"| ") + b" ".join(queues) + b" "
    handler = Keeps(queues, before)
    parser = Parser(handler, max_payload=1 << 24)
    parser.headers = True
    assert parser.feed(data, 0, len(data)) == len(data)
    handler.outbound.flush()
    assert handler.wire.written == bytes(before) + b"".join(
        b"%b A a.b %b%b\r\n%b%b\r\n" % (line, words, sizes, headers, payload)
        for payload in payloads
    )
