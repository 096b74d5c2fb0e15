"""The leaf node dialect: every form of its lines, however the stream is split."""

from __future__ import annotations

import pytest

from midge.protocol.errors import (
    AUTHORIZATION_VIOLATION,
    MAXIMUM_CONTROL_LINE,
    MAXIMUM_PAYLOAD,
    UNKNOWN_OPERATION,
    ProtocolError,
)
from midge.protocol.frame import Frame
from midge.protocol.inbound import Inbound, SharedBuffer
from midge.protocol.link import LEAF, LINE_MAX_BYTES, WEIGHT_MAX, LinkParser
from tests.support.link_lines import Event, LinkNotes, feed, parts


class Notes(LinkNotes):
    """Records its calls, messages by their parts."""

    parser: LinkParser

    def on_publish(self, frame: Frame) -> None:
        self.events.append(("message", *parts(frame), self.parser.queues or []))

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        self.events.append(("message", *parts(frame), queues))

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        self.events.append(("LS+", subject, queue, weight))

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        self.events.append(("LS-", subject, queue))


HEADERS = b"NATS/1.0\r\n\r\n"

LINES: list[tuple[bytes, Event]] = [
    (b"LS+ foo.*\r\n", ("LS+", b"foo.*", None, 1)),
    (b"ls+ low\r\n", ("LS+", b"low", None, 1)),
    (b"LS+ q.> workers 3\r\n", ("LS+", b"q.>", b"workers", 3)),
    (b"LS+ q g x\r\n", ("LS+", b"q", b"g", 0)),
    (b"LS+ q g 99999999999\r\n", ("LS+", b"q", b"g", WEIGHT_MAX)),
    (b"LS- foo.*\r\n", ("LS-", b"foo.*", None)),
    (b"LS-\tq.> workers\r\n", ("LS-", b"q.>", b"workers")),
    (b"LMSG a 2\r\nhi\r\n", ("message", b"a", None, None, b"hi", [])),
    (b"LMSG a r.1 2\r\nhi\r\n", ("message", b"a", b"r.1", None, b"hi", [])),
    (b"LMSG a 0\r\n\r\n", ("message", b"a", None, None, b"", [])),
    (b"LMSG  a\t2\r\nhi\r\n", ("message", b"a", None, None, b"hi", [])),
    (b"lmsg a 2\nhi\r\n", ("message", b"a", None, None, b"hi", [])),
    (b"LMSG a + r q1 q2 2\r\nhi\r\n", ("message", b"a", b"r", None, b"hi", [b"q1", b"q2"])),
    (b"LMSG a | q1 2\r\nhi\r\n", ("message", b"a", None, None, b"hi", [b"q1"])),
    (b"LMSG a + 2\r\nhi\r\n", ("message", b"a", b"+", None, b"hi", [])),
    (b"HMSG a 12 14\r\n" + HEADERS + b"hi\r\n", ("message", b"a", None, HEADERS, b"hi", [])),
    (b"HMSG a r 12 14\r\n" + HEADERS + b"hi\r\n", ("message", b"a", b"r", HEADERS, b"hi", [])),
    (
        b"HMSG a + r q1 12 13\r\n" + HEADERS + b"x\r\n",
        ("message", b"a", b"r", HEADERS, b"x", [b"q1"]),
    ),
    (
        b"HMSG a | q1 q2 12 12\r\n" + HEADERS + b"\r\n",
        ("message", b"a", None, HEADERS, b"", [b"q1", b"q2"]),
    ),
    (b"HMSG a 0 2\r\nhi\r\n", ("message", b"a", None, None, b"hi", [])),
    (b"INFO {}\r\n", ("INFO", b"{}")),
    (b"PING\r\n", ("PING",)),
    (b"-ERR 'x'\r\n", ("-ERR", b"'x'")),
]


def make(**options: int) -> tuple[LinkParser, Notes]:
    notes = Notes()
    parser = notes.parser = LinkParser(notes, LEAF, **options)
    parser.budget = 1 << 40
    return parser, notes


def run(data: bytes, *, cut: int | None = None, **options: int) -> list[Event]:
    """Feed `data` whole, or in two pieces, and return the handler's calls."""
    parser, notes = make(**options)
    feed(parser, data, cut)
    return notes.events


@pytest.mark.parametrize(("line", "event"), LINES)
def test_each_form_is_read(line: bytes, event: Event) -> None:
    assert run(line) == [event]


def test_any_split_gives_the_same() -> None:
    data = b"".join(line for line, _ in LINES)
    expected = [event for _, event in LINES]
    assert run(data) == expected
    for cut in range(1, len(data)):
        assert run(data, cut=cut) == expected, f"cut at {cut}"
    parser, notes = make()
    inbound = Inbound(parser, SharedBuffer(4096))
    for i in range(len(data)):
        inbound.feed(data[i : i + 1])
    assert notes.events == expected


def test_equal_lines_are_handed_over_as_a_run() -> None:
    counts = []

    class Runs(Notes):
        def on_publish_run(self, frame: Frame, count: int) -> int:
            counts.append(count)
            return count

    runs = Runs()
    parser = runs.parser = LinkParser(runs, LEAF)
    parser.budget = 1 << 40
    data = bytearray(b"LMSG subject.one 2\r\nhi\r\n" * 10)
    assert parser.feed(data, 0, len(data)) == len(data)
    data = bytearray(b"LMSG subject.one | q 2\r\nhi\r\n" * 5)
    assert parser.feed(data, 0, len(data)) == len(data)
    assert counts == [9, 4]
    assert parser.queues == [b"q"]


def test_the_queue_group_stays_the_same_object_while_it_is_the_same() -> None:
    seen: list[object] = []

    class Seen(Notes):
        def on_publish(self, frame: Frame) -> None:
            seen.append(self.parser.queues)

    notes = Seen()
    parser = notes.parser = LinkParser(notes, LEAF)
    lines = b"LMSG a | q 1\r\nx\r\nLMSG b | q 1\r\nx\r\nLMSG b | q2 1\r\nx\r\nLMSG b 1\r\nx\r\n"
    parser.feed(bytearray(lines), 0, len(lines))
    assert seen == [[b"q"], [b"q"], [b"q2"], None]
    assert seen[0] is seen[1]


@pytest.mark.parametrize(
    ("data", "wire"),
    [
        (b"LS+ a b\r\n", None),
        (b"LS+\r\n", UNKNOWN_OPERATION),
        (b"LS+ a b c d\r\n", None),
        (b"LS-\r\n", UNKNOWN_OPERATION),
        (b"LS- a b c\r\n", None),
        (b"LMSG a\r\n", None),
        (b"LMSG a x q 2\r\nhi\r\n", None),
        (b"LMSG a -1\r\n", None),
        (b"LMSG a 1234567890\r\n", None),
        (b"HMSG a 5 2\r\n", None),
        (b"HMSG a x 2\r\n", None),
        (b"HMSG a 2\r\n", None),
        (b"LMSG a 2\r\nhiXX", UNKNOWN_OPERATION),
        (b"LMSG a | q 2\r\nhiXX", UNKNOWN_OPERATION),
        (b"LMSG a 101\r\n", MAXIMUM_PAYLOAD),
        (b"LMSG a + r q 101\r\n", MAXIMUM_PAYLOAD),
        (b"HMSG a 1 101\r\n", MAXIMUM_PAYLOAD),
        (b"RS+ A a\r\n", UNKNOWN_OPERATION),
        (b"LXYZ a\r\n", UNKNOWN_OPERATION),
        (b"HPUB a 1 1\r\n", UNKNOWN_OPERATION),
        (b"LS+ " + b"a" * LINE_MAX_BYTES + b"bcdef", MAXIMUM_CONTROL_LINE),
        (b"LMSG " + b"a" * LINE_MAX_BYTES + b" 1\r\nx\r\n", MAXIMUM_CONTROL_LINE),
        (b"INFO " + b"a" * 5000, MAXIMUM_CONTROL_LINE),
    ],
)
def test_what_breaks_the_protocol_is_refused(data: bytes, wire: str | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        run(data, max_payload=100)
    assert caught.value.wire == wire


@pytest.mark.parametrize("line", [b"LS+ a\r\n", b"LMSG a 0\r\n\r\n", b"PING\r\n", b"HMSG a"])
def test_nothing_comes_before_connect_where_that_is_required(line: bytes) -> None:
    parser, _ = make()
    parser.connect_required = True
    with pytest.raises(ProtocolError) as caught:
        parser.feed(bytearray(line), 0, len(line))
    assert caught.value.wire == AUTHORIZATION_VIOLATION


def test_what_is_announced_takes_no_memory() -> None:
    """A size is no more than a number until the bytes are there."""
    parser, notes = make(max_payload=1 << 20)
    inbound = Inbound(parser, SharedBuffer(4096))
    inbound.feed(b"LMSG a 1048576\r\nx")
    assert notes.events == []
    assert inbound.held_bytes() == len(b"LMSG a 1048576\r\nx")
