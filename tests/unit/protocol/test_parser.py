"""The parser on every verb, separator, number and limit, compared with nats-server."""

from __future__ import annotations

import pytest

from midge.protocol.errors import (
    AUTHORIZATION_VIOLATION,
    MAXIMUM_CONTROL_LINE,
    MAXIMUM_PAYLOAD,
    UNKNOWN_OPERATION,
    ProtocolError,
)
from midge.protocol.parser import Parser
from tests.support.commands import Reading, Recorder, publish
from tests.support.each import each

SILENT = ""


def commands(data: bytes) -> list[tuple[object, ...]]:
    """Return the commands in `data`, all of which must be used."""
    reading = Reading().feed(data)
    assert reading.rest == b""
    return reading.commands


def whole_and_byte_by_byte(data: bytes, **limits: int) -> str | None:
    """Return what `data` ends in, which must not depend on how it is split."""
    whole = Reading(**limits).outcome([data])
    assert Reading(**limits).outcome(data[i : i + 1] for i in range(len(data))) == whole
    return whole


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"PING\r\n", ("ping",)),
        (b"PONG\r\n", ("pong",)),
        (b"PINGxyz\r\n", ("ping",)),
        (b"PING\rPING\r\n", ("ping",)),
        (b"SUB a 1\r\n", ("subscribe", b"a", None, b"1")),
        (b"SUB a q 1\r\n", ("subscribe", b"a", b"q", b"1")),
        (b"UNSUB 1\r\n", ("unsubscribe", b"1", 0)),
        (b"UNSUB 1 5\r\n", ("unsubscribe", b"1", 5)),
        (b'CONNECT {"a":1}\r\n', ("connect", b'{"a":1}')),
        (b"CONNECT{}\r\n", ("connect", b"{}")),
        (b"CONNECTxyz {}\r\n", ("connect", b"xyz {}")),
        (b"INFO {}\r\n", ("info", b"{}")),
        (b"-ERR 'no'\r\n", ("peer_error", b"'no'")),
        (b"PUB a 2\r\nhi\r\n", publish(b"a", b"hi")),
        (b"PUB a 0\r\n\r\n", publish(b"a")),
        (b"PUB a r 2\r\nhi\r\n", publish(b"a", b"hi", b"r")),
        (b"PUB a 2\r\n\r\n\r\n", publish(b"a", b"\r\n")),
        (b"HPUB a 3 5\r\nh\r\nhi\r\n", publish(b"a", b"hi", None, b"h\r\n")),
        (b"HPUB a r 5 5\r\nhello\r\n", publish(b"a", b"", b"r", b"hello")),
    ],
)
def test_every_verb(data: bytes, expected: tuple[object, ...]) -> None:
    assert commands(data) == [expected]


def test_ok_is_ignored() -> None:
    assert commands(b"+OK\r\n+ok whatever\r\nPING\r\n") == [("ping",)]


@pytest.mark.parametrize(
    "data",
    [
        b"ping\r\n",
        b"pInG\r\n",
        b"sub a 1\r\n",
        b"uNsUb 1\r\n",
        b"connect {}\r\n",
        b"info {}\r\n",
        b"pub a 1\r\nx\r\n",
        b"hPuB a 1 1\r\nx\r\n",
        b"pong\r\n",
        b"-err x\r\n",
    ],
)
def test_verbs_have_no_case(data: bytes) -> None:
    verb, blank, rest = data.partition(b" ")
    assert commands(data) == commands(verb.upper() + blank + rest)


@pytest.mark.parametrize(
    "data",
    [
        b"\r\nPING\r\n",
        b" PING\r\n",
        b"X",
        b"PX",
        b"PUX",
        b"PUB\r\n",
        b"PUBa 1\r\n",
        b"SUBa 1\r\n",
        b"UNSUB\r\n",
        b"HPUB\n",
        b"-ERR\r\n",
        b"+KO\r\n",
        b"CONNEXT {}\r\n",
        b"MSG a 1 0\r\n\r\n",
        b"HMSG a 1 0 0\r\n\r\n",
        b"RS+ a\r\n",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01",
        b"\xd0UB a",
        b"P\xd5B a 1\r\n",
        b"\x00",
        b"K\r\n",
        b"\x0bOK\r\n",
        b"[",
        b"\xff",
    ],
)
def test_unknown_operation(data: bytes) -> None:
    assert whole_and_byte_by_byte(data) == UNKNOWN_OPERATION


@pytest.mark.parametrize(
    "data",
    [
        b"PUB\ta\tr\t2\r\nhi\r\n",
        b"PUB   a  r   2\r\nhi\r\n",
        b"PUB \t a \t r\t 2\r\nhi\r\n",
        b"PUB a r 2  \r\nhi\r\n",
        b"PUB a r 2\t\r\nhi\r\n",
        b"PUB a r 2\nhi\r\n",
        b"PUB a r 2 \nhi\r\n",
    ],
)
def test_separators_of_publishes_become_usual(data: bytes) -> None:
    reading = Reading().feed(data)
    assert reading.commands == [publish(b"a", b"hi", b"r")]
    assert reading.recorder.tails == [b"r 2\r\nhi\r\n"]


@pytest.mark.parametrize(
    "data",
    [b"SUB\ta\tq\t1\r\n", b"SUB   a  q 1  \r\n", b"SUB \t a q\t\t1\n", b"SUB a\r q\r1\r\n"],
)
def test_separators_of_subscriptions(data: bytes) -> None:
    assert commands(data) == [("subscribe", b"a", b"q", b"1")]


@pytest.mark.parametrize("blank", [b"\x0b", b"\x0c", b"\xa0", b"\x00"])
def test_nothing_else_separates(blank: bytes) -> None:
    assert whole_and_byte_by_byte(b"SUB a%b1\r\n" % blank) == SILENT
    assert commands(b"SUB a%bb 1\r\n" % blank) == [("subscribe", b"a%bb" % blank, None, b"1")]


def test_stray_cr_costs_the_last_byte() -> None:
    assert commands(b"SUB a\r 12\n") == [("subscribe", b"a", None, b"1")]
    assert commands(b"UNSUB 1\r2\r\n") == [("unsubscribe", b"1", 2)]
    assert commands(b"PUB a\rb 12\nx\r\n") == [publish(b"a\rb", b"x")]
    assert whole_and_byte_by_byte(b"PUB a 1\r\r\nx\r\n") == SILENT


def test_first_byte_of_an_argument_is_never_its_end() -> None:
    assert commands(b"PUB \na 1\r\nx\r\n") == [publish(b"\na", b"x")]
    assert commands(b"SUB \na 1\r\n") == [("subscribe", b"a", None, b"1")]
    assert commands(b"CONNECT \n{}\r\n") == [("connect", b"\n{}")]
    assert whole_and_byte_by_byte(b"SUB \r\n") == SILENT


@pytest.mark.parametrize(
    "data",
    [
        b"SUB a\r\n",
        b"SUB a b c d\r\n",
        b"UNSUB 1 2 3\r\n",
        b"PUB a\r\n",
        b"PUB a b c 1\r\n",
        b"HPUB a 1\r\n",
        b"HPUB a b c 1 1\r\n",
        b"PUB  \r\n",
    ],
)
def test_wrong_number_of_arguments_closes_without_a_word(data: bytes) -> None:
    assert whole_and_byte_by_byte(data) == SILENT


@pytest.mark.parametrize(
    "size", [b"x", b"-1", b"+1", b"1.0", b"0x1", b"1x", b"0000000001", b"1000000000", b"\xb2"]
)
def test_bad_sizes_close_without_a_word(size: bytes) -> None:
    assert whole_and_byte_by_byte(b"PUB a %b\r\n" % size) == SILENT
    assert whole_and_byte_by_byte(b"HPUB a 0 %b\r\n" % size) == SILENT
    assert whole_and_byte_by_byte(b"HPUB a %b 5\r\n" % size) == SILENT


@pytest.mark.parametrize("maximum", [b"x", b"-1", b"0", b"0000000005", b"1.5"])
def test_bad_maximum_ends_a_subscription_at_once(maximum: bytes) -> None:
    assert commands(b"UNSUB 1 %b\r\n" % maximum) == [("unsubscribe", b"1", 0)]


def test_nine_digits_are_a_number() -> None:
    assert commands(b"UNSUB 1 999999999\r\n") == [("unsubscribe", b"1", 999_999_999)]
    reading = Reading().feed(b"PUB a 000000001\r\nx\r\n")
    assert reading.recorder.tails == [b"000000001\r\nx\r\n"]


@pytest.mark.parametrize(
    ("written", "delivered"),
    [
        (b"PUB  a  01\r\nx\r\n", b"01\r\nx\r\n"),
        (b"PUB a\tr\t001\nx\r\n", b"r 001\r\nx\r\n"),
        (b"HPUB a  03   004\r\nh\r\nx\r\n", b"03 004\r\nh\r\nx\r\n"),
        (b"HPUB a r\t03 004 \r\nh\r\nx\r\n", b"r 03 004\r\nh\r\nx\r\n"),
        (b"HPUB a 0 01\r\nx\r\n", b"01\r\nx\r\n"),
        (b"HPUB a r 00 01\r\nx\r\n", b"r 01\r\nx\r\n"),
    ],
)
def test_sizes_keep_their_digits(written: bytes, delivered: bytes) -> None:
    assert Reading().feed(written).recorder.tails == [delivered]


def test_no_header_makes_a_plain_message() -> None:
    assert commands(b"HPUB a 0 1\r\nx\r\n") == [publish(b"a", b"x")]


def test_header_larger_than_the_whole() -> None:
    assert whole_and_byte_by_byte(b"HPUB a 6 5\r\nhello\r\n") == SILENT


def test_headers_have_to_be_announced() -> None:
    reading = Reading()
    reading.parser.headers = False
    assert reading.outcome([b"HPUB a 1 1\r\nx\r\n"]) == SILENT


@pytest.mark.parametrize("line", [b"PUB %b 0", b"SUB %b 1", b"UNSUB %b 5", b"HPUB %b 0 0"])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_control_line_limit(line: bytes, end: bytes) -> None:
    verb_length = line.index(b" ") + 1
    fits = line % (b"a" * (64 - len(line) + 2 + verb_length)) + end
    too_long = line % (b"a" * (65 - len(line) + 2 + verb_length)) + end
    if line.startswith((b"PUB", b"HPUB")):
        fits += b"\r\n"
    assert whole_and_byte_by_byte(fits, max_control_line=64) is None
    assert whole_and_byte_by_byte(too_long, max_control_line=64) == MAXIMUM_CONTROL_LINE


@pytest.mark.parametrize("verb", [b"PUB ", b"SUB ", b"UNSUB ", b"CONNECT ", b"INFO ", b"-ERR "])
def test_control_line_limit_of_an_unfinished_line(verb: bytes) -> None:
    assert Reading(max_control_line=64).outcome([verb, b"a" * 64]) is None
    assert Reading(max_control_line=64).outcome([verb, b"a" * 64 + b"\r"]) is None
    assert Reading(max_control_line=64).outcome([verb, b"a" * 65]) == MAXIMUM_CONTROL_LINE


def test_what_does_not_count_is_not_kept() -> None:
    reading = Reading(max_control_line=16)
    reading.feed(b"SUB", *[b" \t" * 1000] * 50)
    assert reading.rest == b""
    reading.feed(b"a 1\r\nPING", *[b"x" * 1000] * 50)
    assert reading.rest == b""
    assert reading.feed(b"\n").commands == [("subscribe", b"a", None, b"1"), ("ping",)]


def test_payload_limit_is_decided_at_the_control_line() -> None:
    assert whole_and_byte_by_byte(b"PUB a 8\r\n12345678\r\n", max_payload=8) is None
    assert whole_and_byte_by_byte(b"PUB a 9\r\n", max_payload=8) == MAXIMUM_PAYLOAD
    assert whole_and_byte_by_byte(b"HPUB a 5 9\r\n", max_payload=8) == MAXIMUM_PAYLOAD
    assert whole_and_byte_by_byte(b"PUB a 999999999\r\n") == MAXIMUM_PAYLOAD
    assert whole_and_byte_by_byte(b"PUB a 999999999\r\n", max_payload=-1) is None
    assert whole_and_byte_by_byte(b"PUB a 0\r\n\r\n", max_payload=0) is None


@pytest.mark.parametrize("end", [b"\n", b"x", b"\rx", b"\r\r\n", b"\x00\r\n"])
def test_payload_ends_in_cr_lf(end: bytes) -> None:
    assert whole_and_byte_by_byte(b"PUB a 2\r\nhi" + end) == UNKNOWN_OPERATION
    assert whole_and_byte_by_byte(b"PUB a 2\r\nhi\r\n" * 2 + b"PUB a 2\r\nhi" + end) == (
        UNKNOWN_OPERATION
    )


def test_connect_required() -> None:
    for data in (b"P", b"GET / HTTP/1.1\r\n", b"SUB a 1\r\n", b"\x16"):
        reading = Reading()
        reading.parser.connect_required = True
        assert reading.outcome([data]) == AUTHORIZATION_VIOLATION
    reading = Reading()
    reading.parser.connect_required = True
    assert reading.outcome([b"CFOO"]) == UNKNOWN_OPERATION
    reading = Reading()
    reading.parser.connect_required = True
    assert reading.outcome([b"c", b"onnect {}\r", b"\nPING\r\n"]) is None
    assert reading.commands == [("connect", b"{}"), ("ping",)]


class Halting(Recorder):
    """Halts its parser at each CONNECT."""

    parser: Parser

    def on_connect(self, document: bytes) -> None:
        super().on_connect(document)
        self.parser.halted = True


def test_halted_after_the_command_at_hand() -> None:
    handler = Halting()
    handler.parser = Parser(handler)
    data = bytearray(b"CONNECT {}\r\nPING\r\n")
    assert handler.parser.feed(data, 0, len(data)) == 12
    assert handler.parser.feed(data, 12, len(data)) == 12
    assert handler.commands == [("connect", b"{}")]
    handler.parser.halted = False
    assert handler.parser.feed(data, 12, len(data)) == len(data)
    assert handler.commands == [("connect", b"{}"), ("ping",)]


def test_the_same_line_again_is_told_as_repeated() -> None:
    reading = Reading().feed(
        b"PUB a 1\r\nx\r\nPUB a 1\r\ny\r\nPUB a 2\r\nzz\r\nPUB b 2\r\nzz\r\nPUB b 2\r\nyy\r\n"
    )
    assert [command[1:] for command in reading.commands] == [
        publish(subject, payload)[1:]
        for subject, payload in [
            (b"a", b"x"),
            (b"a", b"y"),
            (b"a", b"zz"),
            (b"b", b"zz"),
            (b"b", b"yy"),
        ]
    ]
    assert reading.recorder.repeated == [False, True, False, False, True]
    assert reading.recorder.tails[1] == b"1\r\ny\r\n"


def test_unusual_lines_are_never_repeated() -> None:
    reading = Reading().feed(b"PUB a  1\r\nx\r\n" * 3 + b"HPUB a 0 1\r\nx\r\n" * 3)
    assert reading.commands == [publish(b"a", b"x")] * 6
    assert reading.recorder.repeated == [False] * 6


def test_a_repeated_line_with_its_payload_still_to_come() -> None:
    line = b"PUB a 5\r\nhello\r\n"
    for cut in range(1, len(line)):
        reading = Reading().feed(line + line + line[:cut])
        assert len(reading.commands) == 2
        assert reading.feed(line[cut:]).commands == [publish(b"a", b"hello")] * 3


def test_subject_named_as_a_verb_after_a_resumed_line() -> None:
    reading = Reading().feed(b"PUB ", b"PUB a 1\r\nx\r\nPUB a 1\r\ny\r\nPUB a 1\r\nz\r\n")
    assert reading.commands == [
        publish(b"PUB", b"x", b"a"),
        publish(b"a", b"y"),
        publish(b"a", b"z"),
    ]


def test_a_new_batch_repeats_nothing() -> None:
    reading = Reading().feed(b"PUB a 1\r\nx\r\n", b"PUB a 1\r\ny\r\n")
    assert reading.recorder.repeated == [False, False]


def test_feeds_only_the_range_given() -> None:
    recorder = Recorder()
    parser = Parser(recorder)
    data = bytearray(b"xxPING\r\nPONG\r\nyy")
    assert parser.feed(data, 2, 8) == 8
    assert parser.feed(data, 8, 11) == 8
    assert recorder.commands == [("ping",)]


class Raising(Recorder):
    """Has no use for any message."""

    def on_publish(self, frame: object) -> None:
        raise ProtocolError("no")


def test_an_error_of_the_handler_comes_through() -> None:
    parser = Parser(Raising())
    data = bytearray(b"PUB a 0\r\n\r\n")
    with pytest.raises(ProtocolError, match="no"):
        parser.feed(data, 0, len(data))


class TakesRuns(Recorder):
    """Takes at most `most` messages of a run at once, and notes how many it was offered."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.offered: list[int] = []

    def on_publish_run(self, frame, count) -> int:
        self.offered.append(count)
        taken = min(count, self.most)
        base = frame.base
        for i in range(taken):
            frame.base = base + i * frame.end
            self.on_publish(frame)
        frame.base = base
        return taken


SIX = b"".join(b"PUB a 1\r\n%d\r\n" % i for i in range(6))


@pytest.mark.parametrize(("most", "offered"), [(10, [5]), (2, [5]), (1, [5])])
def test_a_run_is_offered_whole_and_then_one_by_one(most: int, offered: list[int]) -> None:
    handler = TakesRuns(most)
    data = bytearray(SIX + b"PUB b 1\r\nx\r\nPING\r\n")
    assert Parser(handler).feed(data, 0, len(data)) == len(data)
    expected = [publish(b"a", b"%d" % i) for i in range(6)]
    assert handler.commands == [*expected, publish(b"b", b"x"), ("ping",)]
    assert handler.offered == offered


def test_a_run_ends_before_a_payload_without_its_end() -> None:
    handler = TakesRuns(10)
    data = bytearray(SIX + b"PUB a 1\r\nxyz\r\n")
    with pytest.raises(ProtocolError, match="payload not followed"):
        Parser(handler).feed(data, 0, len(data))
    assert len(handler.commands) == 6


# A publish as clients write it, whole in the buffer, has a way of its own through the parser. One
# whose verb is in small letters goes the general way, so the two are compared.


def outcome(data: bytes, **limits: int) -> tuple[object, ...]:
    """Return all that can be seen of how `data` was read."""
    reading = Reading(**limits)
    told = reading.outcome([data])
    recorder = reading.recorder
    return told, recorder.commands, recorder.tails, recorder.repeated, len(reading.rest)


def is_general(arguments: bytes, **limits: int) -> bool:
    """Return whether PUB with these arguments and payload is read as the general way reads it."""
    before = b"PUB other 1\r\nx\r\n"
    plain = outcome(before + b"PUB " + arguments, **limits)
    return plain == outcome(before + b"pub " + arguments, **limits)


@each("length", range(1, 41))
def test_plain_publishes_of_any_length(length: int) -> None:
    subject = (b"abcdefg." * 6)[: length - 1] + b"z"
    lines = [b"%b %d\r\n%b\r\n" % (subject, size, bytes(range(size))) for size in range(41)]
    expected = [publish(subject, bytes(range(size))) for size in range(41)]
    assert commands(b"".join(b"PUB " + line for line in lines)) == expected
    assert all(is_general(line) for line in lines)


@pytest.mark.parametrize("at", [0, 1, 6, 7, 8, 9, 15, 16, 19])
def test_any_byte_anywhere_in_a_plain_subject(at: int) -> None:
    for byte in range(256):
        subject = bytearray(b"s" * 20)
        subject[at] = byte
        assert is_general(b"%b 2\r\nhi\r\n" % bytes(subject)), byte


@pytest.mark.parametrize(
    "arguments",
    [
        b" 2\r\nhi\r\n",
        b"  a 2\r\nhi\r\n",
        b"a\r\nhi\r\n",
        b"a \r\nhi\r\n",
        b"a  2\r\nhi\r\n",
        b"a 2\nhi\r\n",
        b"a 2 \r\nhi\r\n",
        b"a 2\r\nhi\n",
        b"a 2\r\nhi\rx",
        b"a 2\r\nhix",
        b"a 2\rxhi\r\n",
        b"a 2x\r\nhi\r\n",
        b"a -2\r\nhi\r\n",
        b"a r 2\r\nhi\r\n",
        b"a 3 2\r\nhi\r\n",
        b"a 000000002\r\nhi\r\n",
        b"a 0000000002\r\nhi\r\n",
        b"a 99999999999999999999\r\nhi\r\n",
    ],
)
def test_what_is_nearly_a_plain_publish(arguments: bytes) -> None:
    assert all(is_general(arguments[:end]) for end in range(len(arguments) + 1))


@pytest.mark.parametrize("limits", [{"max_payload": 3}, {"max_payload": -1}, {}])
@pytest.mark.parametrize("max_control_line", [6, 7, 8])
def test_limits_of_plain_publishes(limits: dict[str, int], max_control_line: int) -> None:
    assert is_general(b"abcd 4\r\n1234\r\n", max_control_line=max_control_line, **limits)
    assert is_general(b"abcd 3\r\n123\r\n", max_control_line=max_control_line, **limits)


def test_no_publish_before_connect_however_plain() -> None:
    reading = Reading()
    reading.parser.connect_required = True
    assert reading.outcome([b"PUB a 2\r\nhi\r\n"]) == AUTHORIZATION_VIOLATION
    assert reading.commands == []
