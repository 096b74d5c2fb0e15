"""The route dialect: every form of its lines, however the stream is split."""

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
from midge.protocol.link import LINE_MAX_BYTES, ROUTE, WEIGHT_MAX, LinkParser
from tests.support.link_lines import Event, LinkNotes, feed, parts


class Notes(LinkNotes):
    """Records its calls, with account and origin, messages by their parts."""

    parser: LinkParser

    def note(self, *event: object) -> None:
        self.events.append((event[0], self.parser.origin, self.parser.account, *event[1:]))

    def on_publish(self, frame: Frame) -> None:
        self.note("message", *parts(frame), self.parser.queues or [])

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        self.note("message", *parts(frame), queues)

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        self.note("+", subject, queue, weight)

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        self.note("-", subject, queue)


HEADERS = b"NATS/1.0\r\n\r\n"

LINES: list[tuple[bytes, Event | None]] = [
    (b"RS+ A foo.*\r\n", ("+", b"", b"A", b"foo.*", None, 1)),
    (b"rs+ $G low\r\n", ("+", b"", b"$G", b"low", None, 1)),
    (b"RS+ A q.> workers 3\r\n", ("+", b"", b"A", b"q.>", b"workers", 3)),
    (b"RS+ A q g x\r\n", ("+", b"", b"A", b"q", b"g", 0)),
    (b"RS+ A q g 99999999999\r\n", ("+", b"", b"A", b"q", b"g", WEIGHT_MAX)),
    (b"RS- A foo.*\r\n", ("-", b"", b"A", b"foo.*", None)),
    (b"RS-\tA  q.> workers\r\n", ("-", b"", b"A", b"q.>", b"workers")),
    (b"LS+ EDGE A foo\r\n", ("+", b"EDGE", b"A", b"foo", None, 1)),
    (b"LS+ EDGE A foo q 2\r\n", ("+", b"EDGE", b"A", b"foo", b"q", 2)),
    (b"LS- EDGE A foo\r\n", ("-", b"EDGE", b"A", b"foo", None)),
    (b"LS- EDGE A foo q\r\n", ("-", b"EDGE", b"A", b"foo", b"q")),
    (b"RMSG A a 2\r\nhi\r\n", ("message", b"", b"A", b"a", None, None, b"hi", [])),
    (b"RMSG $G a r.1 2\r\nhi\r\n", ("message", b"", b"$G", b"a", b"r.1", None, b"hi", [])),
    (b"RMSG A a 0\r\n\r\n", ("message", b"", b"A", b"a", None, None, b"", [])),
    (b"RMSG  A a\t2\r\nhi\r\n", ("message", b"", b"A", b"a", None, None, b"hi", [])),
    (b"rmsg A a 2\nhi\r\n", ("message", b"", b"A", b"a", None, None, b"hi", [])),
    (
        b"RMSG A a + r q1 q2 2\r\nhi\r\n",
        ("message", b"", b"A", b"a", b"r", None, b"hi", [b"q1", b"q2"]),
    ),
    (b"RMSG A a | q1 2\r\nhi\r\n", ("message", b"", b"A", b"a", None, None, b"hi", [b"q1"])),
    (
        b"HMSG A a 12 14\r\n" + HEADERS + b"hi\r\n",
        ("message", b"", b"A", b"a", None, HEADERS, b"hi", []),
    ),
    (
        b"HMSG A a r 12 14\r\n" + HEADERS + b"hi\r\n",
        ("message", b"", b"A", b"a", b"r", HEADERS, b"hi", []),
    ),
    (
        b"HMSG A a + r q1 12 13\r\n" + HEADERS + b"x\r\n",
        ("message", b"", b"A", b"a", b"r", HEADERS, b"x", [b"q1"]),
    ),
    (
        b"HMSG A a | q1 q2 12 12\r\n" + HEADERS + b"\r\n",
        ("message", b"", b"A", b"a", None, HEADERS, b"", [b"q1", b"q2"]),
    ),
    (b"LMSG EDGE A a 0 1\r\nx\r\n", ("message", b"EDGE", b"A", b"a", None, None, b"x", [])),
    (b"LMSG EDGE A a r 0 1\r\nx\r\n", ("message", b"EDGE", b"A", b"a", b"r", None, b"x", [])),
    (
        b"LMSG EDGE A a + r q 12 13\r\n" + HEADERS + b"x\r\n",
        ("message", b"EDGE", b"A", b"a", b"r", HEADERS, b"x", [b"q"]),
    ),
    (b"A+ A\r\n", None),
    (b"A- A\r\n", None),
    (b"INFO {}\r\n", ("INFO", b"{}")),
    (b"PING\r\n", ("PING",)),
    (b"-ERR 'x'\r\n", ("-ERR", b"'x'")),
]


def make(notes: Notes | None = None, **options: int) -> tuple[LinkParser, Notes]:
    notes = notes or Notes()
    parser = LinkParser(notes, ROUTE, **options)
    parser.budget = 1 << 40
    notes.parser = parser
    return parser, notes


def run(data: bytes, *, cut: int | None = None, **options: int) -> list[Event]:
    """Feed `data` whole, or in two pieces, and return the handler's calls."""
    parser, notes = make(**options)
    feed(parser, data, cut)
    return notes.events


@pytest.mark.parametrize(("line", "event"), LINES)
def test_each_form_is_read(line: bytes, event: Event | None) -> None:
    assert run(line) == ([] if event is None else [event])


def test_any_split_gives_the_same() -> None:
    data = b"".join(line for line, _ in LINES)
    expected = [event for _, event in LINES if event is not None]
    assert run(data) == expected
    for cut in range(1, len(data)):
        assert run(data, cut=cut) == expected, f"cut at {cut}"
    parser, notes = make()
    inbound = Inbound(parser, SharedBuffer(4096))
    for i in range(len(data)):
        inbound.feed(data[i : i + 1])
    assert notes.events == expected


def test_lines_of_a_dedicated_route_name_no_account() -> None:
    known = [(line, event) for line, event in LINES if event is not None and b" A " in line[:12]]
    assert len(known) > 20
    data = b"".join(line.replace(b" A ", b" ", 1) for line, _ in known)
    expected = [event for _, event in known]
    for cut in range(1, len(data)):
        parser, notes = make()
        parser.dedicate(b"A")
        feed(parser, data, cut)
        assert notes.events == expected, f"cut at {cut}"


def test_equal_lines_are_handed_over_as_a_run_of_their_account() -> None:
    runs = []

    class Runs(Notes):
        def on_publish_run(self, frame: Frame, count: int) -> int:
            runs.append((self.parser.account, count))
            return count

    parser, _ = make(Runs())
    data = bytearray(b"RMSG A one 2\r\nhi\r\n" * 10 + b"RMSG B one 2\r\nhi\r\n" * 10)
    assert parser.feed(data, 0, len(data)) == len(data)
    assert runs == [(b"A", 9), (b"B", 9)]


def test_the_account_stays_the_same_object_while_it_is_the_same() -> None:
    seen = []

    class Seen(Notes):
        def on_publish(self, frame: Frame) -> None:
            seen.append(self.parser.account)

    parser, _ = make(Seen())
    data = bytearray(b"RMSG AB one 2\r\nhi\r\nRMSG AB two 2\r\nhi\r\nRMSG A one 2\r\nhi\r\n")
    parser.feed(data, 0, len(data))
    assert seen == [b"AB", b"AB", b"A"]
    assert seen[0] is seen[1]


def test_a_published_line_of_a_client_is_told_apart() -> None:
    starts = []

    class Starts(Notes):
        def on_publish(self, frame: Frame) -> None:
            starts.append(frame.subject_start)

    parser, _ = make(Starts())
    data = bytearray(b"PUB a 1\r\nx\r\npub  a\t1\r\nx\r\nRMSG A a 1\r\nx\r\n")
    parser.feed(data, 0, len(data))
    assert starts == [4, 4, 7]


@pytest.mark.parametrize(
    ("data", "wire"),
    [
        (b"RS+ A\r\n", None),
        (b"RS+\r\n", None),
        (b"RS+ A a b\r\n", None),
        (b"RS+ A a b c d\r\n", None),
        (b"RS- A\r\n", None),
        (b"RS- A a b c\r\n", None),
        (b"LS+ A a\r\n", None),
        (b"LS- E A a b c\r\n", None),
        (b"RMSG A\r\n", None),
        (b"RMSG A a\r\n", None),
        (b"RMSG A a x q 2\r\nhi\r\n", None),
        (b"RMSG A a -1\r\n", None),
        (b"HMSG A a 5 2\r\n", None),
        (b"LMSG E A a 5\r\n", None),
        (b"RMSG A a 2\r\nhiXX", UNKNOWN_OPERATION),
        (b"RMSG A a 101\r\n", MAXIMUM_PAYLOAD),
        (b"RMSG A a + r q 101\r\n", MAXIMUM_PAYLOAD),
        (b"SUB a 1\r\n", UNKNOWN_OPERATION),
        (b"UNSUB 1\r\n", UNKNOWN_OPERATION),
        (b"HPUB a 1 1\r\n", UNKNOWN_OPERATION),
        (b"RXYZ a\r\n", UNKNOWN_OPERATION),
        (b"RS+ A " + b"a" * LINE_MAX_BYTES + b"bcdef", MAXIMUM_CONTROL_LINE),
        (b"INFO " + b"a" * 5000, MAXIMUM_CONTROL_LINE),
    ],
)
def test_what_breaks_the_protocol_is_refused(data: bytes, wire: str | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        run(data, max_payload=100)
    assert caught.value.wire == wire


@pytest.mark.parametrize("line", [b"RS+ A a\r\n", b"RMSG A a 0\r\n\r\n", b"PING\r\n", b"-ERR 'x'"])
def test_nothing_comes_before_connect_where_that_is_required(line: bytes) -> None:
    parser, _ = make()
    parser.connect_required = True
    with pytest.raises(ProtocolError) as caught:
        parser.feed(bytearray(line), 0, len(line))
    assert caught.value.wire == AUTHORIZATION_VIOLATION


def test_info_may_come_before_connect_to_agree_on_compression_and_nothing_behind_it() -> None:
    parser, notes = make()
    parser.connect_required = True
    lines = b"INFO {}\r\nPING\r\n"
    with pytest.raises(ProtocolError) as caught:
        parser.feed(bytearray(lines), 0, len(lines))
    assert caught.value.wire == AUTHORIZATION_VIOLATION
    assert [event[0] for event in notes.events] == ["INFO"]


def test_the_account_that_was_announced_last_is_kept() -> None:
    parser, _ = make()
    known = [parser.announced]
    for line in (b"A+ ONE\r\n", b"RS+ A a\r\n", b"A- ONE\r\n", b"a+ TWO\r\n"):
        parser.feed(bytearray(line), 0, len(line))
        known.append(parser.announced)
    assert known == [b"", b"ONE", b"ONE", b"ONE", b"TWO"]
