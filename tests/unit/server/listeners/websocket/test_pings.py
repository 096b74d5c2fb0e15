"""Pings of WebSocket clients: each is answered, or only the last while nothing is read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from midge.server.listeners.websocket.transport import WebSocketTransport

if TYPE_CHECKING:
    from collections.abc import Generator


class Below:
    """A transport that takes everything or nothing."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.takes = True
        self._waiting = bytearray()

    def write(self, data: bytes) -> None:
        (self.sent if self.takes else self._waiting).extend(data)

    def get_write_buffer_size(self) -> int:
        return len(self._waiting)

    def is_closing(self) -> bool:
        return False

    def take(self) -> None:
        """Take all that waits."""
        self.takes = True
        self.sent += self._waiting
        self._waiting.clear()


def frames(data: bytes) -> list[tuple[Opcode, bytes]]:
    """Read frames as a client does."""
    reader = StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    found = []
    while not _run(reader.at_eof()):
        frame = _run(Frame.parse(reader.read_exact, mask=False))
        found.append((frame.opcode, bytes(frame.data)))
    return found


def _run(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def transport() -> tuple[Below, WebSocketTransport]:
    below = Below()
    return below, WebSocketTransport(cast("asyncio.Transport", below), [], lambda: None)


def test_each_ping_of_one_who_reads_is_answered() -> None:
    below, websocket = transport()
    for number in range(3):
        websocket.answer_ping(b"%d" % number)
    assert frames(bytes(below.sent)) == [(Opcode.PONG, b"%d" % number) for number in range(3)]


def test_of_one_who_does_not_read_only_the_last() -> None:
    below, websocket = transport()
    below.takes = False
    for number in range(100_000):
        websocket.answer_ping(b"%d" % number)
    assert below.get_write_buffer_size() < 16  # the first answer, no more
    below.take()
    websocket.caught_up()
    assert frames(bytes(below.sent)) == [(Opcode.PONG, b"0"), (Opcode.PONG, b"99999")]


def test_nothing_is_answered_twice() -> None:
    below, websocket = transport()
    below.takes = False
    websocket.write(memoryview(b"data"))
    websocket.answer_ping(b"one")
    below.take()
    websocket.caught_up()
    websocket.caught_up()
    assert frames(bytes(below.sent)) == [(Opcode.BINARY, b"data"), (Opcode.PONG, b"one")]
