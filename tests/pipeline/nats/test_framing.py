"""The server-to-client reader: every split of the bytes, every kind of frame and of junk."""

import pytest

from midge.pipeline.errors import ServerError
from midge.pipeline.nats.framing import Control, FrameReader, Message, parse_headers

pytestmark = pytest.mark.timeout(20)

STREAM = (
    b'INFO {"a":1} \r\n'
    b"MSG a.b 1 5\r\nhello\r\n"
    b"PING\r\n"
    b"MSG a.b 12 re.ply 2\r\n\r\n\r\n"
    b"HMSG x 3 $JS.ACK.S.c.1.2.3.4.5 12 17\r\nNATS/1.0\r\n\r\nabcde\r\n"
    b"HMSG x 3 30 30\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n\r\n"
    b"MSG _I.1 1  3\r\nxyz\r\n"
    b"-ERR 'Stale Connection'\r\n"
    b"MSG \xff\x0b 1 0\r\n\r\n"
    b"+OK\r\nPONG\r\n"
)
MESSAGES = [
    Message(b"a.b", b"1", b"", b"", b"hello"),
    Message(b"a.b", b"12", b"re.ply", b"", b"\r\n"),
    Message(b"x", b"3", b"$JS.ACK.S.c.1.2.3.4.5", b"NATS/1.0\r\n\r\n", b"abcde"),
    Message(b"x", b"3", b"", b"NATS/1.0 404 No Messages\r\n\r\n\r\n"[:30], b""),
    Message(b"_I.1", b"1", b"", b"", b"xyz"),
    Message(b"\xff\x0b", b"1", b"", b"", b""),
]
CONTROLS = [
    Control(b"INFO", b'{"a":1}'),
    Control(b"PING", b""),
    Control(b"-ERR", b"'Stale Connection'"),
    Control(b"+OK", b""),
    Control(b"PONG", b""),
]


def test_reads_every_kind_of_frame_at_once():
    reader = FrameReader()
    assert reader.feed(STREAM) == MESSAGES
    assert reader.controls == CONTROLS


@pytest.mark.parametrize("size", range(1, 40))
def test_pieces_of_any_size_give_the_same(size):
    reader = FrameReader()
    got = []
    for start in range(0, len(STREAM), size):
        got += reader.feed(STREAM[start : start + size])
    assert got == MESSAGES
    assert reader.controls == CONTROLS


def test_every_split_in_two_gives_the_same():
    for cut in range(len(STREAM) + 1):
        reader = FrameReader()
        assert reader.feed(STREAM[:cut]) + reader.feed(STREAM[cut:]) == MESSAGES, cut
        assert reader.controls == CONTROLS, cut


def test_a_large_payload_in_small_pieces_is_joined_once():
    payload = bytes(range(256)) * 40_000
    data = b"MSG big 1 %d\r\n%b\r\n" % (len(payload), payload)
    reader = FrameReader()
    got = [
        message
        for start in range(0, len(data), 1000)
        for message in reader.feed(data[start : start + 1000])
    ]
    assert got == [Message(b"big", b"1", b"", b"", payload)]


@pytest.mark.parametrize(
    "junk",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a 1 99999999999\r\n",
        b"MSG a 1 2\r\nabcd\r\n",
        b"HMSG a 1 5\r\n",
        b"HMSG a 1 9 5\r\nabcde\r\n",
        b"\r\n",
        b"MSG " + b"a" * (1 << 20) + b"b",
    ],
)
def test_what_is_not_nats_is_refused(junk):
    with pytest.raises(ServerError):
        FrameReader().feed(junk)


def test_header_block_is_taken_apart():
    headers = parse_headers(b"NATS/1.0\r\nA: 1\r\nb:2 \r\nA:  3:4\r\n\r\n")
    assert headers.status == 0
    assert headers.fields == {"A": ["1", "3:4"], "b": ["2"]}


def test_header_status_and_description():
    headers = parse_headers(b"NATS/1.0 409 Consumer Deleted\r\n\r\n")
    assert (headers.status, headers.description) == (409, "Consumer Deleted")


def test_header_bytes_that_are_not_utf8_stay_visible():
    assert parse_headers(b"NATS/1.0\r\nA: \xff\r\n\r\n").fields == {"A": ["\\xff"]}


def test_header_block_without_its_first_line_is_refused():
    with pytest.raises(ServerError, match=r"expected 'NATS/1\.0'"):
        parse_headers(b"A: 1\r\n\r\n")
