"""Frames that midge makes itself are laid out as those that come from clients."""

from __future__ import annotations

import pytest

from midge.protocol.frame import Frame, compose, rewritten, with_subject, without_headers
from midge.protocol.parser import Parser
from tests.support.commands import Reading, Recorder, publish, tail

HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
PARTS = [
    (b"a", b"", None, None),
    (b"a.b", b"hello", None, None),
    (b"a", b"hello", b"r", None),
    (b"a", b"hello", None, HEADERS),
    (b"a", b"", b"r.x", HEADERS),
]


def written(frame: Frame) -> bytes:
    return bytes(frame.buffer[frame.base : frame.base + frame.end])


@pytest.mark.parametrize(("subject", "payload", "reply", "headers"), PARTS)
def test_compose(
    subject: bytes, payload: bytes, reply: bytes | None, headers: bytes | None
) -> None:
    frame = compose(subject, payload, reply, headers)
    assert frame.subject_bytes() == subject
    assert frame.payload_bytes() == payload
    assert frame.reply_bytes() == reply
    assert frame.header_bytes() == headers
    assert frame.has_reply() is (reply is not None)
    assert frame.size == len(headers or b"") + len(payload)
    reading = Reading().feed(written(frame))
    assert reading.commands == [publish(subject, payload, reply, headers)]
    assert reading.recorder.tails == [tail(frame)]


def test_compose_as_on_the_wire() -> None:
    assert written(compose(b"a", b"hi", b"r")) == b"PUB a r 2\r\nhi\r\n"
    assert tail(compose(b"a", b"hi", b"r")) == b"r 2\r\nhi\r\n"
    assert written(compose(b"a", b"hi", None, HEADERS)) == b"HPUB a 18 20\r\n%bhi\r\n" % HEADERS


def test_an_empty_header_block_is_one() -> None:
    frame = compose(b"a", b"hi", None, b"")
    assert frame.header_bytes() == b""
    assert written(frame) == b"HPUB a 0 2\r\nhi\r\n"


@pytest.mark.parametrize(("subject", "payload", "reply", "headers"), PARTS)
def test_with_subject(
    subject: bytes, payload: bytes, reply: bytes | None, headers: bytes | None
) -> None:
    frame = compose(subject, payload, reply, headers)
    before = written(frame)
    assert written(with_subject(frame, b"other")) == written(
        compose(b"other", payload, reply, headers)
    )
    assert written(frame) == before


@pytest.mark.parametrize(("subject", "payload", "reply", "headers"), PARTS)
def test_without_headers(
    subject: bytes, payload: bytes, reply: bytes | None, headers: bytes | None
) -> None:
    stripped = without_headers(compose(subject, payload, reply, headers))
    assert stripped.header_bytes() is None
    assert written(stripped) == written(compose(subject, payload, reply))


class Keeping(Recorder):
    """Keeps what the frames it saw are without their headers, and under another subject."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[bytes] = []

    def on_publish(self, frame: Frame) -> None:
        self.kept += [written(without_headers(frame)), written(with_subject(frame, b"s"))]


def test_from_a_frame_in_the_middle_of_a_buffer() -> None:
    keeping = Keeping()
    data = bytearray(b"PING\r\nHPUB a r 3 5\r\nh\r\nhi\r\nHPUB a r 3 5\r\nH\r\nHI\r\n")
    parser = Parser(keeping)
    parser.headers = True
    parser.feed(data, 0, len(data))
    assert keeping.kept == [
        b"PUB a r 2\r\nhi\r\n",
        b"HPUB s r 3 5\r\nh\r\nhi\r\n",
        b"PUB a r 2\r\nHI\r\n",
        b"HPUB s r 3 5\r\nH\r\nHI\r\n",
    ]


class Rewriting(Recorder):
    """Keeps the frames it saw as `rewritten` gives them once more."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[bytes] = []

    def on_publish(self, frame: Frame) -> None:
        usual = rewritten(frame, frame.payload - 2)
        assert usual.buffer is not frame.buffer
        self.kept.append(written(usual))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"PUB a 005\r\n", b"PUB a 005\r\nhello\r\n"),
        (b"PUB \t a\t r  05 \n", b"PUB a r 05\r\nhello\r\n"),
        (b"HPUB a\t r  000 \t005 \n", b"PUB a r 005\r\nhello\r\n"),
        (b"HPUB a  03\t005\r\n", b"HPUB a 03 005\r\nhello\r\n"),
        (b"HPUB a r  3 5 \r\n", b"HPUB a r 3 5\r\nhello\r\n"),
    ],
)
def test_rewritten(line: bytes, expected: bytes) -> None:
    rewriting = Rewriting()
    parser = Parser(rewriting)
    parser.headers = True
    data = bytearray(b"PING\r\n" + line + b"hello\r\n")
    assert parser.feed(data, 0, len(data)) == len(data)
    assert rewriting.kept == [expected]
