"""The client's half of the protocol: any split of the bytes, every kind of frame and of junk."""

from __future__ import annotations

import json

import pytest

from midge.protocol import client_side
from midge.protocol.client_side import Control, FrameReader, ReceivedMessage
from midge.protocol.errors import ProtocolError
from tests.support.commands import Reading, publish
from tests.support.each import each

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
    ReceivedMessage(b"a.b", b"1", b"", b"", b"hello"),
    ReceivedMessage(b"a.b", b"12", b"re.ply", b"", b"\r\n"),
    ReceivedMessage(b"x", b"3", b"$JS.ACK.S.c.1.2.3.4.5", b"NATS/1.0\r\n\r\n", b"abcde"),
    ReceivedMessage(b"x", b"3", b"", b"NATS/1.0 404 No Messages\r\n\r\n\r\n"[:30], b""),
    ReceivedMessage(b"_I.1", b"1", b"", b"", b"xyz"),
    ReceivedMessage(b"\xff\x0b", b"1", b"", b"", b""),
]
CONTROLS = [
    Control(b"INFO", b'{"a":1}'),
    Control(b"PING", b""),
    Control(b"-ERR", b"'Stale Connection'"),
    Control(b"+OK", b""),
    Control(b"PONG", b""),
]


def test_reads_every_kind_of_frame_at_once() -> None:
    reader = FrameReader()
    assert reader.feed(STREAM) == MESSAGES
    assert reader.controls == CONTROLS


@each("size", range(1, 40))
def test_pieces_of_any_size_give_the_same(size: int) -> None:
    reader = FrameReader()
    got = []
    for start in range(0, len(STREAM), size):
        got += reader.feed(STREAM[start : start + size])
    assert got == MESSAGES
    assert reader.controls == CONTROLS


def test_every_split_in_two_gives_the_same() -> None:
    for cut in range(len(STREAM) + 1):
        reader = FrameReader()
        assert reader.feed(STREAM[:cut]) + reader.feed(STREAM[cut:]) == MESSAGES, cut
        assert reader.controls == CONTROLS, cut


def test_a_large_payload_in_small_pieces_is_joined_once() -> None:
    payload = bytes(range(256)) * 40_000
    data = b"MSG big 1 %d\r\n%b\r\n" % (len(payload), payload)
    reader = FrameReader()
    got = [
        message
        for start in range(0, len(data), 1000)
        for message in reader.feed(data[start : start + 1000])
    ]
    assert got == [ReceivedMessage(b"big", b"1", b"", b"", payload)]


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
def test_what_is_not_nats_is_refused(junk: bytes) -> None:
    with pytest.raises(ProtocolError):
        FrameReader().feed(junk)


@pytest.mark.parametrize(
    "reply",
    [
        b"$JS.ACK.S.c.1.12.3.1772438400000000001.7",
        b"$JS.ACK.hub.acc.S.c.1.12.3.1772438400000000001.7",
        b"$JS.ACK.hub.acc.S.c.1.12.3.1772438400000000001.7.rand0m",
    ],
)
def test_delivery_columns_of_both_forms(reply: bytes) -> None:
    messages = [ReceivedMessage(b"a", b"1", reply, b"", b"")] * 2
    found = client_side.delivery_columns(messages)
    assert found == ([12, 12], [1772438400000000001] * 2, 7)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"_INBOX.a",
        b"$JS.ACK.S.c.1.2.3",
        b"$JS.ACK.S.c.1..3.4.5",
        b"$JS.ACK.S.c.1.2.3.4.",
        b"$JS.ACK.S.c.1.x.3.4.5",
        b"$JS.ACK.S.c.1.12345678901234567890.3.4.5",
    ],
)
def test_a_reply_that_is_no_ack_subject_is_refused(reply: bytes) -> None:
    with pytest.raises(ValueError, match="expected a JetStream reply subject"):
        client_side.delivery_columns([ReceivedMessage(b"a", b"1", reply, b"", b"")])


def test_info_is_read() -> None:
    assert client_side.read_info(b'{"server_id":"X"} ') == {"server_id": "X"}


@pytest.mark.parametrize("document", [b"", b"{", b"[1]", b"\xff"])
def test_info_that_is_no_object_is_refused(document: bytes) -> None:
    with pytest.raises(ProtocolError, match="INFO is not"):
        client_side.read_info(document)


def test_the_server_reads_what_is_written() -> None:
    options = {"verbose": False, "name": "a b"}
    reading = Reading().feed(
        client_side.connect_line(options),
        client_side.PING,
        client_side.PONG,
        client_side.subscribe_line(b"a.*", b"1"),
        client_side.subscribe_line(b"a.>", b"2", b"group"),
        client_side.unsubscribe_line(b"1"),
        client_side.unsubscribe_line(b"2", 5),
        client_side.publish_frame(b"a", b"", b"", b"hi"),
        client_side.publish_frame(b"a", b"r", b"", b""),
        client_side.publish_frame(b"a", b"", b"NATS/1.0\r\n\r\n", b"x"),
        client_side.publish_frame(b"a", b"r", b"NATS/1.0\r\n\r\n", b""),
    )
    assert json.loads(reading.commands[0][1]) == options  # type: ignore[arg-type]
    assert reading.commands[1:] == [
        ("ping",),
        ("pong",),
        ("subscribe", b"a.*", None, b"1"),
        ("subscribe", b"a.>", b"group", b"2"),
        ("unsubscribe", b"1", 0),
        ("unsubscribe", b"2", 5),
        publish(b"a", b"hi"),
        publish(b"a", b"", b"r"),
        publish(b"a", b"x", None, b"NATS/1.0\r\n\r\n"),
        publish(b"a", b"", b"r", b"NATS/1.0\r\n\r\n"),
    ]
