"""Little is kept between reads, and never more than has arrived.

The verb of an unfinished line is used as soon as it is seen, so it is not among the held bytes.
"""

from __future__ import annotations

import tracemalloc

import pytest

from midge.protocol.errors import MAXIMUM_CONTROL_LINE, ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound, SharedBuffer
from midge.protocol.parser import Parser
from tests.support.commands import Recorder, publish

SHARED_BYTES = 1024


class Halting(Recorder):
    """Halts its parser at each PING."""

    parser: Parser

    def on_ping(self) -> None:
        super().on_ping()
        self.parser.halted = True


def make(shared: SharedBuffer | None = None) -> tuple[Inbound, Recorder]:
    recorder = Recorder()
    return Inbound(Parser(recorder, max_payload=-1), shared or SharedBuffer(SHARED_BYTES)), recorder


def read(inbound: Inbound, data: bytes) -> None:
    """Receive `data` in one read, which it must fit."""
    inbound.get_buffer()[: len(data)] = data
    inbound.received(len(data))


def test_nothing_is_kept_of_whole_commands() -> None:
    shared = SharedBuffer(SHARED_BYTES)
    inbound, recorder = make(shared)
    read(inbound, b"PING\r\nPUB a 2\r\nhi\r\n")
    assert recorder.commands == [("ping",), publish(b"a", b"hi")]
    assert inbound.held_bytes() == 0
    assert inbound.get_buffer().obj is shared.buffer


def test_small_rest_leaves_the_shared_buffer_to_others() -> None:
    shared = SharedBuffer(SHARED_BYTES)
    one, of_one = make(shared)
    other, of_other = make(shared)
    read(one, b"PUB a 5\r\nhe")
    assert one.held_bytes() == len(b"a 5\r\nhe")
    read(other, b"SUB x 1\r\nSUB y")
    read(one, b"llo\r\n")
    read(other, b" 2\r\n")
    assert of_one.commands == [publish(b"a", b"hello")]
    assert of_other.commands == [("subscribe", b"x", None, b"1"), ("subscribe", b"y", None, b"2")]
    assert one.held_bytes() == other.held_bytes() == 0


def test_large_rest_gets_a_buffer_of_its_own() -> None:
    shared = SharedBuffer(SHARED_BYTES)
    inbound, recorder = make(shared)
    payload = bytes(range(256)) * 1000
    data = b"PUB a %d\r\n%b\r\n" % (len(payload), payload)
    read(inbound, data[:SHARED_BYTES])
    assert inbound.held_bytes() == SHARED_BYTES - len(b"PUB ")
    assert inbound.get_buffer().obj is not shared.buffer
    start = SHARED_BYTES
    while start < len(data):
        room = inbound.get_buffer()
        assert len(room) > 0
        count = min(len(room), 65536, len(data) - start)
        read(inbound, data[start : start + count])
        start += count
    assert recorder.commands == [publish(b"a", payload)]
    assert inbound.held_bytes() == 0
    assert inbound.get_buffer().obj is shared.buffer


def test_what_follows_a_large_frame_in_its_buffer() -> None:
    inbound, recorder = make()
    payload = b"x" * 2000
    inbound.feed(b"PUB a 2000\r\n" + payload[:1500])
    read(inbound, payload[1500:] + b"\r\nPUB b 1000\r\n" + b"y" * 500)
    assert recorder.commands == [publish(b"a", payload)]
    assert inbound.held_bytes() == len(b"b 1000\r\n") + 500
    read(inbound, b"y" * 500 + b"\r\nPING\r\n")
    assert recorder.commands[1:] == [publish(b"b", b"y" * 1000), ("ping",)]
    assert inbound.held_bytes() == 0


def test_memory_goes_with_what_arrived_not_with_what_was_announced() -> None:
    inbound, _ = make()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        read(inbound, b"PUB a 900000000\r\nx")
        assert inbound.held_bytes() == len(b"a 900000000\r\nx")
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1024
    assert peak - before < 4096


def test_own_buffer_stays_within_a_small_multiple_of_what_arrived() -> None:
    inbound, _ = make()
    inbound.feed(b"PUB a 900000000\r\n" + b"x" * 1_000_000)
    room = inbound.get_buffer()
    assert inbound.held_bytes() == len(b"a 900000000\r\n") + 1_000_000
    assert len(room.obj) <= 2 * 1_000_017 + SHARED_BYTES


def halting() -> tuple[Inbound, Halting]:
    recorder = Halting()
    recorder.parser = Parser(recorder)
    return Inbound(recorder.parser, SharedBuffer(SHARED_BYTES)), recorder


@pytest.mark.parametrize("size", [5, 600, 5000])
def test_resume_after_a_halt(size: int) -> None:
    inbound, recorder = halting()
    message = b"PUB a %d\r\n%b\r\n" % (size, b"x" * size)
    inbound.feed(b"PING\r\n" + message + b"PING\r\nPONG\r\n")
    assert recorder.commands == [("ping",)]
    assert inbound.held_bytes() == len(message) + 12
    recorder.parser.halted = False
    inbound.resume()
    assert recorder.commands == [("ping",), publish(b"a", b"x" * size), ("ping",)]
    inbound.resume()
    assert inbound.held_bytes() == 6
    recorder.parser.halted = False
    inbound.resume()
    assert recorder.commands[-1] == ("pong",)
    assert inbound.held_bytes() == 0


class Resuming(Recorder):
    """Is done with each PING at once, and has all go on from inside it."""

    inbound: Inbound

    def on_ping(self) -> None:
        super().on_ping()
        self.inbound.parser.halted = True
        self.inbound.parser.halted = False
        self.inbound.resume()


@pytest.mark.parametrize("size", [5, 600, 5000])
def test_resume_from_inside_a_command(size: int) -> None:
    """A buffer that is being parsed is not parsed again."""
    recorder = Resuming()
    inbound = recorder.inbound = Inbound(Parser(recorder), SharedBuffer(SHARED_BYTES))
    message = b"PUB a %d\r\n%b\r\n" % (size, b"x" * size)
    stream = (message + b"PING\r\n") * 3
    for start in range(0, len(stream), size - 2):
        inbound.feed(stream[start : start + size - 2])
    assert recorder.commands == [publish(b"a", b"x" * size), ("ping",)] * 3
    assert inbound.held_bytes() == 0


def test_a_large_message_leaves_no_buffer_behind() -> None:
    shared = SharedBuffer(SHARED_BYTES)
    message = b"PUB a 1000000\r\n%b\r\n" % (b"x" * 1_000_000)
    quiet = []
    tracemalloc.start()
    for _ in range(5):
        inbound = Inbound(Parser(Handler()), shared)
        inbound.feed(message)
        assert inbound.held_bytes() == 0
        quiet.append(inbound)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 100_000


def test_resume_with_nothing_held() -> None:
    inbound, recorder = make()
    inbound.resume()
    assert recorder.commands == []


def test_errors_come_through() -> None:
    inbound, _ = make()
    with pytest.raises(ProtocolError) as caught:
        inbound.feed(b"SUB " + b"x" * 5000)
    assert caught.value.wire == MAXIMUM_CONTROL_LINE
