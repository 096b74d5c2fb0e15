"""Frames wait deflated, and are inflated piece by piece."""

from __future__ import annotations

import zlib

import pytest
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Frame, Opcode

from midge.server.listeners.websocket.messages import (
    PIECE_BYTES,
    KeepDeflated,
    WaitingFrames,
)
from midge.server.listeners.websocket.protocol import InflatedBytes

MIB = 1 << 20


def deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


def extension() -> KeepDeflated:
    return KeepDeflated(
        remote_no_context_takeover=True,
        local_no_context_takeover=True,
        remote_max_window_bits=15,
        local_max_window_bits=15,
    )


def waiting(*frames: Frame, most: int = 64 * MIB) -> WaitingFrames:
    """Frames as the library's parser gives them."""
    decoding = extension()
    found = WaitingFrames()
    for frame in frames:
        found.add(decoding.decode(frame), most)
    return found


def pieces(frames: WaitingFrames) -> list[bytes]:
    found = []
    while frames:
        found.append(frames.take()[0])
    return found


def compressed(data: bytes, fragments: int = 1) -> list[Frame]:
    """A compressed message in a number of frames."""
    body = deflate(data)
    size = -(-len(body) // fragments)
    parts = [body[i : i + size] for i in range(0, len(body), size)] or [b""]
    return [
        Frame(
            Opcode.CONT if number else Opcode.BINARY,
            part,
            fin=number == len(parts) - 1,
            rsv1=not number,
        )
        for number, part in enumerate(parts)
    ]


SAMPLES = {
    "empty": b"",
    "short": b"PING\r\n",
    "a piece": b"x" * PIECE_BYTES,
    "one byte more": b"x" * (PIECE_BYTES + 1),
    "zeros": bytes(3 * MIB),
    "numbers": b"".join(b"%d," % i for i in range(200_000)),
}


@pytest.mark.parametrize("fragments", [1, 2, 7])
@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_deflated_comes_out(name: str, fragments: int) -> None:
    data = SAMPLES[name]
    found = pieces(
        waiting(*compressed(data, fragments), *compressed(b"next"), Frame(Opcode.TEXT, b"plain"))
    )
    assert b"".join(found) == data + b"next" + b"plain"
    assert max(map(len, found)) <= PIECE_BYTES


def test_long_frames_that_are_not_deflated_come_in_pieces() -> None:
    data = SAMPLES["numbers"]
    found = pieces(waiting(Frame(Opcode.BINARY, data)))
    assert b"".join(found) == data
    assert max(map(len, found)) <= PIECE_BYTES


def test_every_piece_costs() -> None:
    frames = waiting(*compressed(bytes(10 * MIB)))
    costs = []
    while frames:
        costs.append(frames.take()[1])
    assert sum(costs) > 3 * 10 * MIB
    assert min(costs) > 0


def test_nothing_is_inflated_beyond_the_most() -> None:
    frames = waiting(*compressed(bytes(10 * MIB), 3), most=MIB)
    for _ in range(MIB // PIECE_BYTES):
        frames.take()
    with pytest.raises(PayloadTooBig):
        pieces(frames)


def test_what_cannot_be_inflated_is_refused() -> None:
    with pytest.raises(ProtocolError):
        pieces(waiting(Frame(Opcode.BINARY, b"\xff\xff\xff", rsv1=True)))


def test_a_fragment_must_not_begin_a_compressed_message() -> None:
    first, second = compressed(b"abc" * 100, 2)
    second.rsv1 = True
    with pytest.raises(ProtocolError):
        waiting(first, second)


def test_a_frame_that_was_taken_is_kept_by_nobody() -> None:
    frame = Frame(Opcode.BINARY, bytes(MIB))
    pieces(waiting(frame))
    assert frame.data == b""


class Connection:
    """Something that inflates."""

    def __init__(self, inflated: InflatedBytes, *, has_more: bool = True) -> None:
        self.has_more = has_more
        self.woken = 0
        self.is_evicted = False
        self._inflated = inflated

    def wake(self) -> None:
        self.woken += 1

    def evict(self) -> None:
        self.is_evicted = True
        self._inflated.forget(self)


class TestInflatedBytes:
    def test_over_the_limit_only_the_largest_goes_on(self) -> None:
        inflated = InflatedBytes(MIB)
        large, small = Connection(inflated), Connection(inflated)
        inflated.note(large, MIB - PIECE_BYTES)
        inflated.note(small, PIECE_BYTES)
        assert inflated.may_inflate(large)
        assert not inflated.may_inflate(small)
        assert not small.woken
        inflated.note(large, 0)
        assert small.woken == 1
        assert inflated.may_inflate(small)

    def test_the_largest_is_ended_when_it_has_nothing_to_go_on_with(self) -> None:
        inflated = InflatedBytes(MIB)
        idle, another = Connection(inflated, has_more=False), Connection(inflated)
        inflated.note(idle, MIB)
        assert not inflated.may_inflate(another)
        assert idle.is_evicted
        assert another.woken == 1
        assert inflated.total == 0

    def test_less_than_a_piece_counts_nothing(self) -> None:
        inflated = InflatedBytes(MIB)
        for _ in range(1000):
            inflated.note(Connection(inflated), PIECE_BYTES - 1)
        assert inflated.total == 0
