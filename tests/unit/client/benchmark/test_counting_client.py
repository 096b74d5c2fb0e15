"""The client of `midge bench`: streams of frames cut anywhere."""

import asyncio

import pytest

from midge.client.benchmark.counting_client import BenchError, CountingClient
from tests.support.each import each

STREAM = (
    b'INFO {"x":1}\r\nMSG a 1 2\r\nhi\r\nPING\r\n+OK\r\nMSG a.b 1 in.box 0\r\n\r\n'
    b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\nHMSG a 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    b"MSG c 1 6\r\n\r\nMSG \r\nMSG _INBOX.x 1  3\r\nabc\r\n"
)
MESSAGES = [(b"a", b"", 2), (b"a.b", b"in.box", 0), (b"a", b"", 14), (b"a", b"r", 12)]
MESSAGES += [(b"c", b"", 6), (b"_INBOX.x", b"", 3)]


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


def connected(received: list[tuple[bytes, bytes, int]]) -> tuple[CountingClient, FakeTransport]:
    transport = FakeTransport()
    client = CountingClient(lambda *message: received.append(message))
    client.connection_made(transport)
    return client, transport


@each("split_at", range(1, len(STREAM)))
async def test_a_stream_cut_anywhere_gives_the_same_messages(split_at: int) -> None:
    received: list[tuple[bytes, bytes, int]] = []
    client, transport = connected(received)
    client.data_received(STREAM[:split_at])
    client.data_received(STREAM[split_at:])
    assert received == MESSAGES
    assert transport.written == b"PONG\r\n"


async def test_a_stream_byte_by_byte_gives_the_same_messages() -> None:
    received: list[tuple[bytes, bytes, int]] = []
    client, _ = connected(received)
    for byte in STREAM:
        client.data_received(bytes([byte]))
    assert received == MESSAGES


async def test_a_payload_over_many_reads_counts_when_it_is_complete() -> None:
    received: list[tuple[bytes, bytes, int]] = []
    client, _ = connected(received)
    client.data_received(b"MSG a 1 1000\r\n" + b"x" * 400)
    client.data_received(b"x" * 500)
    client.data_received(b"x" * 100 + b"\r")
    assert received == []
    client.data_received(b"\nPING\r\n")
    assert received == [(b"a", b"", 1000)]


async def test_flush_waits_for_its_pong() -> None:
    client, transport = connected([])
    flush = asyncio.ensure_future(client.flush())
    await asyncio.sleep(0)
    assert transport.written == b"PING\r\n"
    assert not flush.done()
    client.data_received(b"PONG\r\n")
    await flush


async def test_an_error_of_the_server_ends_whatever_waits() -> None:
    client, transport = connected([])
    flush = asyncio.ensure_future(client.flush())
    await asyncio.sleep(0)
    client.data_received(b"-ERR 'Authorization Violation'\r\n")
    with pytest.raises(BenchError, match="the server refused: 'Authorization Violation'"):
        await flush
    assert isinstance(client.failed.exception(), BenchError)
    assert transport.closed
    with pytest.raises(BenchError):
        client.write(b"PING\r\n")


async def test_a_lost_connection_ends_whatever_waits() -> None:
    client, _ = connected([])
    client.connection_lost(None)
    with pytest.raises(BenchError, match="the server closed the connection"):
        await client.failed


async def test_no_responders_is_an_error_and_no_message() -> None:
    received: list[tuple[bytes, bytes, int]] = []
    client, _ = connected(received)
    client.data_received(b"HMSG _INBOX.x 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")
    assert received == []
    with pytest.raises(BenchError, match="no responders"):
        await client.failed


async def test_drain_waits_while_the_transport_is_full() -> None:
    client, _ = connected([])
    client.pause_writing()
    drain = asyncio.ensure_future(client.drain())
    await asyncio.sleep(0)
    assert not drain.done()
    client.resume_writing()
    await drain


async def test_something_else_than_a_nats_server_is_named() -> None:
    client, _ = connected([])
    client.data_received(b"HTTP/1.1 400 Bad Request\r\n")
    with pytest.raises(BenchError, match=r"expected INFO, got b'HTTP/1\.1"):
        await client.failed
