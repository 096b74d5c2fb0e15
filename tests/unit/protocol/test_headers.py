"""Header blocks."""

from __future__ import annotations

import pytest

from midge.protocol.headers import (
    find_malformed,
    format_headers,
    parse_headers,
    read_headers,
)


def test_headers_survive_the_block() -> None:
    headers = {"Trace": ["a", "b"], "k": ["ü: x"]}
    assert parse_headers(format_headers(headers)) == headers
    assert format_headers({"A": "1"}) == b"NATS/1.0\r\nA: 1\r\n\r\n"


def test_status_line() -> None:
    found = parse_headers(b"NATS/1.0 503 No Responders\r\nNats-Subject: x\r\n\r\n")
    assert found["Status"] == ["503"]
    assert found["Description"] == ["No Responders"]
    assert found["Nats-Subject"] == ["x"]


@pytest.mark.parametrize("headers", [{"": "x"}, {"a b": "x"}, {"a:": "x"}, {"a": "x\r\ny: z"}])
def test_nothing_can_be_injected(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        format_headers(headers)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (b"NATS/1.0\r\nA: 1\r\n\r\n", None),
        (b"HTTP/1.0\r\n\r\n", "begins with"),
        (b"NATS/1.0\r\nA: 1\r\n", "blank line"),
        (b"NATS/1.0\r\nnothing\r\n\r\n", "no colon"),
        (b"NATS/1.0\r\na b: 1\r\n\r\n", "no header name"),
    ],
)
def test_malformed_blocks_are_explained(block: bytes, complaint: str | None) -> None:
    found = find_malformed(block)
    assert (found is None) if complaint is None else (complaint in str(found))


def test_a_block_is_taken_apart_as_its_reader_decodes() -> None:
    block = b"NATS/1.0 409  Consumer Deleted \r\nA: \xff\r\nno colon\r\nA:2 \r\n\r\n"
    assert read_headers(block, "backslashreplace") == (
        "409",
        "Consumer Deleted",
        {"A": ["\\xff", "2"]},
    )
    assert read_headers(block).fields["A"] == ["\udcff", "2"]
    assert parse_headers(b"NATS/1.0 503\r\nStatus: x\r\n: y\r\n\r\n") == {"Status": ["503", "x"]}
