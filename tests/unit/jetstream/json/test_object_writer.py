"""Writing into a buffer gives the same JSON as `encode` of a dictionary."""

from __future__ import annotations

import random
from typing import Any

import pytest

from midge.jetstream.json.encode import encode
from midge.jetstream.json.object_writer import ObjectWriter
from midge.jetstream.json.times import format_time

SECOND_NS = 1_000_000_000


def begun() -> ObjectWriter:
    out = ObjectWriter()
    out.begin(b"{")
    return out


@pytest.mark.parametrize(
    "text", ["", "x", "orders.>", "a*b", "<&>", ">" * 3000, "".join(map(chr, range(0x20, 0x7F)))]
)
def test_a_text_is_written_as_ever_or_not_at_all(text: str) -> None:
    by_text, by_bytes = begun(), begun()
    by_text.text_always(b'"a":', text)
    by_bytes.bytes_always(b'"a":', text.encode())
    is_plain = '"' not in text and "\\" not in text
    for out in (by_text, by_bytes):
        assert out.is_plain is is_plain
        if is_plain:
            assert out.written() + b"}" == encode({"a": text})


@pytest.mark.parametrize("text", ["\n", "\x7f", "ä", "\u2028", "\ud800", '"', "\\", "a\x00"])
def test_a_text_that_needs_a_closer_look_is_told_of(text: str) -> None:
    out = begun()
    out.text(b'"a":', text)
    assert not out.is_plain
    out.begin(b"{")
    assert out.is_plain
    out.bytes_always(b'"a":', text.encode("utf-8", "surrogatepass"))
    assert not out.is_plain


def test_what_is_empty_is_left_out() -> None:
    out = begun()
    out.text(b'"a":', "")
    out.number(b'"b":', 0)
    out.count(b'"c":', 0)
    out.flag(b'"d":', False)
    out.value(b'"e":', [])
    out.text_always(b'"f":', "")
    out.number_always(b'"g":', 0)
    out.count_always(b'"h":', 0)
    out.flag(b'"i":', True)
    out.value(b'"j":', ["<", 1])
    assert out.written() + b"}" == encode({"f": "", "g": 0, "h": 0, "i": True, "j": ["<", 1]})


@pytest.mark.parametrize("number", [1, -1, 9, 10, -2, 1 << 31, (1 << 63) - 1, -(1 << 63)])
def test_numbers_are_written_in_digits(number: int) -> None:
    out = begun()
    out.number(b'"a":', number)
    if number > 0:
        out.count(b'"b":', number * 2 + 1)
    expected = {"a": number, "b": number * 2 + 1} if number > 0 else {"a": number}
    assert out.written() + b"}" == encode(expected)


def test_times_are_written_as_ever() -> None:
    rng = random.Random(1)
    now = 1_700_000_000 * SECOND_NS
    times = [now, now + 1, now + 500_000_000, now - 1, 0, 5, -1, -SECOND_NS, now + SECOND_NS]
    times += [now + rng.randrange(3 * SECOND_NS) // 1000 * 1000 for _ in range(100)]
    out = begun()
    expected: dict[str, Any] = {}
    for number, time_ns in enumerate(times):
        out.time_always(b'"%d":' % number, time_ns)
        expected[str(number)] = format_time(time_ns)
    assert out.written() + b"}" == encode(expected)
