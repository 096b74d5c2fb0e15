"""Header blocks are found, read and changed as nats-server does it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.jetstream import headers
from midge.jetstream.headers import MSG_ID, NOTHING, OTHERS, HeaderScan
from midge.jetstream.stream import incoming
from midge.jetstream.stream.contents import Dedup
from midge.protocol.headers import find_malformed


def block(*lines: str) -> bytes:
    return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()


def test_the_first_line_of_a_name_counts_and_blanks_before_its_value_do_not() -> None:
    given = block("A: 1", "Nats-X:   one", "Nats-X: two", "nats-x: three")
    assert headers.find(given, b"Nats-X") == b"one"
    assert headers.find(given, b"Nats") is None
    assert headers.nats_headers(given) is None  # no stream knows that name


def test_the_headers_that_streams_know_are_read_in_one_pass() -> None:
    given = block("Nats-X: 1", "Nats-Msg-Id:  a", "A: Nats-TTL: 3", "Nats-TTL: 5", "Nats-TTL: 6")
    assert headers.nats_headers(given) == {b"Nats-Msg-Id": b"a", b"Nats-TTL": b"5"}
    others = block("Nats-Schedule-X: 1", "Nats-Schedule-Y: 2", "Nats-Schedule: @at x")
    assert headers.nats_headers(others) == {
        b"Nats-Schedule-X": b"1",
        b"Nats-Schedule": b"@at x",
    }
    names = [one for one in vars(incoming).values() if isinstance(one, bytes) and b"-" in one]
    assert len(names) > 20
    every = block(*(f"{name.decode()}: x" for name in names))
    assert headers.nats_headers(every) == dict.fromkeys(names, b"x")
    many = block(*(f"Nats-{number}: x" for number in range(5_000)), "Nats-Incr: +1")
    assert headers.nats_headers(many) == {b"Nats-Incr": b"+1"}
    assert headers.nats_headers(given[:-4]) == {b"Nats-Msg-Id": b"a", b"Nats-TTL": b"5"}


def test_a_block_without_headers_of_nats_is_known_at_once() -> None:
    assert headers.nats_headers(block("A: Nats-X: 1")) is None


def test_lines_are_added_replaced_and_removed() -> None:
    assert headers.add(b"", b"A", b"1") == block("A: 1")
    assert headers.add(block("A: 1"), b"B", b"2") == block("A: 1", "B: 2")
    assert headers.add(block("A: 1")[:-2], b"B", b"2") == block("A: 1", "B: 2")
    assert headers.add(b"N", b"B", b"2") == block("B: 2")
    assert headers.add_lines(b"", b"A: 1\r\nB: 2\r\n") == block("A: 1", "B: 2")
    assert headers.replace(block("A: 1", "B: 2"), b"A", b"long") == block("A: long", "B: 2")
    assert headers.replace(block("B: 2"), b"A", b"1") == block("B: 2", "A: 1")
    assert headers.remove(block("A: 1", "B: 2", "A: 3"), b"A") == block("B: 2")
    assert headers.remove(block("A: 1"), b"A") == b""
    assert headers.remove_prefix(block("Nats-A: 1", "B: 2", "Nats-B: 3"), b"Nats-") == block("B: 2")


def test_a_status_is_not_stored() -> None:
    assert headers.to_store(b"NATS/1.0 503 No\r\nA: b\r\n\r\n") == block("A: b")
    assert headers.to_store(b"NATS/1.0 503\r\n\r\n") == b""
    assert headers.to_store(block()) == block()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"12", 12),
        (b"", -1),
        (b"x", -1),
        (b"-1", -1),
        (b"99999999999999999999", 7766279631452241919),
    ],
)
def test_a_number_is_read_as_nats_server_reads_it(text: bytes, number: int) -> None:
    assert headers.parse_number(text) == number


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (block(), NOTHING),
        (block("A: b", "X-Nats-Msg-Id: 1"), NOTHING),
        (block("Nats-Msg-Id: i"), MSG_ID),
        (block("A: b", "Nats-Msg-Id:i", "C: d"), MSG_ID),
        (block("Nats-Msg-Id: i", "Nats-Msg-Id: i"), OTHERS),
        (block("Nats-TTL: 1"), OTHERS),
        (block("Nats-Msg-Identity: 1"), OTHERS),
        (b"NATS/1.0 503\r\n\r\n", OTHERS),
        (b"NATS/1.0\r\nA: b\n\r\n", OTHERS),
        (b"NATS/1.0\r\nA: b", OTHERS),
        (b"", OTHERS),
    ],
)
def test_a_first_look_finds_what_concerns_the_stream(given: bytes, found: int) -> None:
    scan = HeaderScan()
    assert scan.scan(b"PUB " + given + b"Nats-TTL: 1\r\n", 4, 4 + len(given)) == found
    if found == MSG_ID:
        assert (b"PUB " + given)[scan.id_start : scan.id_end] == b"i"


def test_ids_are_forgotten_when_their_window_is_over() -> None:
    dedup = Dedup(1_000_000)
    for i in range(100):
        dedup.add(b"%d" % i, i + 1, i * 10_000)
    assert dedup.find(b"0", 990_000) == 1
    assert dedup.find(b"0", 1_001_000) == 0
    assert dedup.find(b"50", 1_001_000) == 51
    assert dedup.find(b"99", 5_000_000) == 0
    assert len(dedup) == 0


def test_ids_of_lost_messages_are_taken_back() -> None:
    dedup = Dedup(10**9)
    for i in range(10):
        dedup.add(b"%d" % i, i + 1, i)
    dedup.take_back(7)
    assert [dedup.find(b"%d" % i, 10) for i in (6, 7, 9)] == [7, 0, 0]


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        (b"NATS/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0\r\nA: 1"),
        (b"NATS/1.0 503 No Responders\r\n\r\n", b"NATS/1.0 503 No Responders"),
        (b"", b"NATS/1.0"),
        (b"N", b"NATS/1.0"),
        (b"NATS/1.0", b"NATS/1.0"),
        (b"NATS/1.0\r\n", b"NATS/1.0"),
        (b"NATS/1.0x: y\r\nA: 1\r\n\r\n", b"NATS/1.0"),
        (b"HTTP/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0"),
        (b"NATS/1.0\r\nA: 1\r\n", b"NATS/1.0\r\nA: 1"),
        (b"NATS/1.0\r\nA: 1\r", b"NATS/1.0\r\nA: 1"),
        (b"NATS/1.0\r\nA: 1", b"NATS/1.0\r\nA: 1"),
        (b"NATS/1.0\nA: 1\nB: 2\n\n", b"NATS/1.0"),
        (b"NATS/1.0\r\nA: 1\r\n\r\nB: 2\r\n\r\n", b"NATS/1.0\r\nA: 1"),
        (b"NATS/1.0\r\nA: 1\r\nC:\r\nnothing\r\nD: 1\r\n\r\n", b"NATS/1.0\r\nA: 1\r\nC:"),
        (b"NATS/1.0\r\nA: 1\r\n B: 1\r\n\r\n", b"NATS/1.0\r\nA: 1"),
        (b"NATS/1.0\r\nA: 1\r\n: 1\r\n\r\n", b"NATS/1.0\r\nA: 1"),
    ],
)
def test_a_block_is_made_whole(given: bytes, whole: bytes) -> None:
    assert headers.whole(given) == whole + b"\r\n\r\n"


@given(st.lists(st.sampled_from([b"NATS/1.0", b"\r", b"\n", b"A", b":", b" ", b"\r\n", b"\t"])))
def test_a_whole_block_has_no_fault(parts: list[bytes]) -> None:
    given = b"".join(parts)
    whole = headers.whole(given)
    assert find_malformed(whole) is None
    assert headers.whole(whole) == whole
    assert find_malformed(headers.add(given, b"B", b"1")) is None
