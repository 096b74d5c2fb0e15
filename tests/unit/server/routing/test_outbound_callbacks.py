"""Outbound and transports that call back from inside `write`, as asyncio's TLS transports do."""

from __future__ import annotations

import pytest

from midge.server.routing.outbound import CHUNK_BYTES, ChunkPool, Outbound


class CallingBack:
    """Takes everything, and says in the middle of it that it has caught up."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self.written = b""

    def write(self, data: bytes | memoryview) -> None:
        self.written += bytes(data)
        self._outbound.caught_up()

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.parametrize("ending", ["flush", "finish"])
def test_nothing_is_written_twice(ending: str) -> None:
    outbound = Outbound(ChunkPool())
    transport = CallingBack(outbound)
    outbound.attach(transport)
    sent = b""
    for i in range(3 * CHUNK_BYTES // 1000):
        piece = b"%06d" % i * 500
        outbound.append(piece)
        sent += piece
        if i % 7 == 0:
            outbound.flush()
    outbound.append(b"end")
    getattr(outbound, ending)()
    assert transport.written == sent + b"end"
    assert outbound.pending_bytes() == 0


class Closing:
    """Takes nothing at once, and is closed, in the way of `Connection.close`, from inside it."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self.kept: list[memoryview] = []

    def write(self, data: bytes | memoryview) -> None:
        self.kept.append(data)
        self._outbound.finish()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.kept))


def test_what_is_still_to_be_sent_is_nobody_elses() -> None:
    pool = ChunkPool()
    outbound = Outbound(pool)
    transport = Closing(outbound)
    outbound.attach(transport)
    outbound.append(b"mine")
    outbound.flush()
    others = Outbound(pool)
    others.append(b"not yours")
    assert [bytes(piece) for piece in transport.kept] == [b"mine"]
