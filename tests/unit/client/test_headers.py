"""Header blocks of deliveries, and the status of a server's own answers."""

import pytest

from midge.client.errors import ServerError
from midge.client.headers import parse_headers


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
