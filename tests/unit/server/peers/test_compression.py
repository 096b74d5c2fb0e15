"""Agreement on S2 compression, its level by the round trip, and damaged streams."""

from __future__ import annotations

import json

import pytest

from midge.jetstream.archive.framing import S2Reader, S2Writer
from midge.protocol.errors import ProtocolError
from midge.server.peers.compression import agreed_mode, level_for
from tests.support.routes import PEER, World

DEFAULT_S = (0.01, 0.05, 0.1)


@pytest.mark.parametrize(
    ("own", "other", "mode"),
    [
        ("s2_fast", "", "not supported"),
        ("s2_fast", "not supported", "not supported"),
        ("s2_fast", "off", "off"),
        ("off", "s2_fast", "off"),
        ("accept", "accept", "off"),
        ("accept", "s2_auto", "s2_fast"),
        ("accept", "s2_best", "s2_best"),
        ("s2_better", "accept", "s2_better"),
        ("s2_auto", "s2_best", "s2_auto"),
    ],
)
def test_the_mode_of_a_link(own: str, other: str, mode: str) -> None:
    assert agreed_mode(own, other) == mode


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unsupported compression mode 'zstd'"):
        agreed_mode("accept", "zstd")


@pytest.mark.parametrize(
    ("round_trip_s", "thresholds_s", "level"),
    [
        (0.01, DEFAULT_S, "s2_uncompressed"),
        (0.02, DEFAULT_S, "s2_fast"),
        (0.1, DEFAULT_S, "s2_better"),
        (0.2, DEFAULT_S, "s2_best"),
        (0.2, (0.01, 0.05), "s2_fast"),
        (0.001, (0.0, 1.0), "s2_fast"),
    ],
)
def test_the_round_trip_chooses_the_level(
    round_trip_s: float, thresholds_s: tuple[float, ...], level: str
) -> None:
    assert level_for(round_trip_s, thresholds_s) == level


class Peer:
    """The other end of a compressed route, whose lines a test speaks."""

    def __init__(self, mode: str = "s2_fast") -> None:
        self.world = World(compression="accept")
        self.route = self.world.accept()
        self.writer = S2Writer()
        self.route.connect()
        info = {**PEER, "compression": mode}
        self.route.say(f"INFO {json.dumps(info)}")
        self.world.clock.advance(0.001)

    def say(self, *lines: str, pieces: int = 1 << 20) -> None:
        """Send lines in one S2 chunk, read `pieces` bytes at a time."""
        self.writer.write("".join(f"{line}\r\n" for line in lines).encode())
        self.writer.finish()
        data = self.writer.take()
        for at in range(0, len(data), pieces):
            self.route.link.channel.feed(data[at : at + pieces])

    def written(self) -> bytes:
        """Return the decoded output since the first INFO."""
        self.route.link.router.flush()
        data = self.route._transport.take()
        reader = S2Reader()
        reader.feed(data[data.index(b"\xff\x06\x00\x00S2sTwO") :])
        found = b""
        while (block := reader.next_block()) is not None:
            found += block
        assert reader.left() == 0
        return found


@pytest.mark.parametrize("pieces", [1, 7, 1 << 20])
def test_a_route_comes_up_over_a_compressed_stream(pieces: int) -> None:
    peer = Peer()
    peer.say(f"INFO {json.dumps(PEER)}", "RS+ A x", "PING", pieces=pieces)
    assert peer.route.is_up
    assert peer.route.link.announced.count == 1
    written = peer.written()
    assert written.startswith(b"INFO ")
    assert b'"compression":"s2_fast"' in written
    assert b"PONG\r\n" in written


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"RS+ A x\r\n" * 4, id="plain lines"),
        pytest.param(b"\x00\xff\xff\xff" + b"x" * 64, id="too long"),
        pytest.param(b"\xff\x06\x00\x00S2sTwO" + b"\x01\x09\x00\x00abcdRS+ A", id="checksum"),
        pytest.param(b"\xff\x06\x00\x00S2sTwO" + b"\x7f\x01\x00\x00x", id="unknown kind"),
    ],
)
def test_a_damaged_stream_ends_the_route(damaged: bytes) -> None:
    peer = Peer()
    peer.route.link.channel.feed(damaged)
    assert peer.route.link.reason is not None
