"""The parser reports the same commands and the same error, however the stream is split."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from midge.protocol.errors import ProtocolError
from midge.protocol.inbound import Inbound, SharedBuffer
from tests.support.commands import Reading

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTROL_LINE = 48
PAYLOAD = 64
BLANK = st.sampled_from([b" ", b" ", b" ", b"\t", b"  ", b" \t ", b"\r"])
END = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r\r\n"])
WORD = st.sampled_from([b"a", b"a.b", b"PUB", b"SUB", b"HPUB", b"\n", b"\r", b"x" * 20, b"1", b"0"])
SIZE = st.sampled_from([b"0", b"1", b"5", b"05", b"9", b"65", b"x", b"-1", b"0000000001"])
VERB = st.sampled_from(
    [b"PUB", b"hpub", b"SUB", b"UNSUB", b"CONNECT", b"INFO", b"-ERR", b"PING", b"PONG", b"+OK"]
)


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """Draw a PUB or HPUB that is right but for how it may be written."""
    words = [draw(st.sampled_from([b"a", b"a.b", b"PUB", b"HPUB"]))]
    if draw(st.booleans()):
        words.append(draw(st.sampled_from([b"r", b"PUB", b"a"])))
    payload = draw(st.sampled_from([b"", b"hello", b"\r\n", b"PUB a 0\r\n\r\n", b"PING\r\n"]))
    verb = b"PUB"
    if draw(st.booleans()):
        verb = b"HPUB"
        words.append(b"%d" % draw(st.integers(0, len(payload))))
    words.append(b"0" * draw(st.integers(0, 2)) + b"%d" % len(payload))
    blank = draw(st.sampled_from([b" ", b" ", b" ", b"\t", b"  "]))
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\n"]))
    return blank.join([verb, *words]) + end + payload + b"\r\n"


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Draw a line of any verb with any arguments, mostly wrong ones."""
    pieces = [draw(VERB)]
    for word in draw(st.lists(st.one_of(WORD, SIZE), max_size=4)):
        pieces += [draw(BLANK), word]
    return b"".join(pieces) + draw(END)


GOOD = st.one_of(
    publishes(),
    publishes(),
    st.sampled_from(
        [
            b"SUB a 1\r\n",
            b"sub a q 2\n",
            b"UNSUB 1 5\r\n",
            b"PING\r\n",
            b"PONG xyz\r\n",
            b"+OK\r\n",
            b"CONNECT {}\r\n",
            b"INFO \t{}\r\n",
            b"SUB  \t  a 1\r\n",
        ]
    ),
)
REPEATED = st.builds(lambda one, times: one * times, publishes(), st.integers(2, 4))
STREAMS = st.tuples(
    st.lists(st.one_of(GOOD, REPEATED), max_size=6), st.lists(lines(), max_size=2), st.binary()
).map(lambda parts: b"".join([*parts[0], *parts[1], parts[2][:8]]))
CUTS = st.lists(st.integers(0, 400), max_size=12)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [data[one:other] for one, other in itertools.pairwise(places)]


def run(pieces: Iterable[bytes]) -> tuple[object, ...]:
    reading = Reading(max_control_line=CONTROL_LINE, max_payload=PAYLOAD)
    error = reading.outcome(pieces)
    return reading.commands, reading.recorder.tails, error


@given(STREAMS, CUTS)
@settings(max_examples=400)
def test_no_split_changes_the_outcome(data: bytes, cuts: list[int]) -> None:
    whole = run([data])
    assert run(pieces_of(data, cuts)) == whole
    assert run(data[i : i + 1] for i in range(len(data))) == whole


@given(st.lists(GOOD, min_size=1, max_size=6))
@settings(max_examples=100)
def test_what_is_right_is_taken_as_a_whole(parts: list[bytes]) -> None:
    reading = Reading(max_control_line=CONTROL_LINE, max_payload=PAYLOAD)
    assert reading.outcome(parts) is None
    assert reading.rest == b""


NEARLY = st.lists(st.one_of(st.binary(max_size=30), lines(), publishes()), max_size=12)


@given(NEARLY)
@settings(max_examples=300)
def test_nothing_but_protocol_errors_in_bounded_memory(pieces: list[bytes]) -> None:
    reading = Reading(max_control_line=CONTROL_LINE, max_payload=PAYLOAD)
    inbound = Inbound(reading.parser, SharedBuffer(512))
    bound = len(b"CONNECT ") + CONTROL_LINE + len(b"\r\n") + PAYLOAD + len(b"\r\n")
    try:
        for piece in pieces:
            inbound.feed(piece)
            assert inbound.held_bytes() <= bound
    except ProtocolError:
        pass


@given(STREAMS, CUTS, st.integers(16, 64))
@settings(max_examples=150)
def test_inbound_is_no_different(data: bytes, cuts: list[int], size: int) -> None:
    reading = Reading(max_control_line=CONTROL_LINE, max_payload=PAYLOAD)
    inbound = Inbound(reading.parser, SharedBuffer(size))
    error = None
    try:
        for piece in pieces_of(data, cuts):
            inbound.feed(piece)
    except ProtocolError as caught:
        error = caught.wire or ""
    assert (reading.commands, reading.recorder.tails, error) == run([data])
