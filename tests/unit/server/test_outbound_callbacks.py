"""Outbound and transports that call back from inside `write`, as asyncio's TLS transports do."""

from __future__ import annotations

import pytest

from midge.server.outbound import CHUNK_BYTES, ChunkPool, Outbound


class CallingBack:
    """Takes everything, and says in the middle of it that it has caught up."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self.written = b""

    def write(self, data: memoryview) -> None:
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
