"""Times and durations as monitoring writes them."""

import pytest

from midge.server.monitoring import go_format


@pytest.mark.parametrize(
    ("wall_s", "text"),
    [
        (0.0, "0001-01-01T00:00:00Z"),
        (1.0, "1970-01-01T00:00:01Z"),
        (1.5, "1970-01-01T00:00:01.5Z"),
        (1795255516.25, "2026-11-21T10:05:16.25Z"),
    ],
)
def test_timestamp_is_rfc_3339_without_trailing_zeros(wall_s: float, text: str) -> None:
    assert go_format.timestamp(wall_s) == text


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0.0, "0s"),
        (0.0000005, "500ns"),
        (0.000761, "761µs"),
        (0.0000015, "1.5µs"),
        (0.020994418, "20.994418ms"),
        (1.063661943, "1.063661943s"),
        (60.5, "1m0.5s"),
        (3600.0, "1h0m0s"),
    ],
)
def test_duration_is_written_as_go_does(duration_s: float, text: str) -> None:
    assert go_format.duration(duration_s) == text


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (-1, "0s"),
        (4.9, "4s"),
        (61, "1m1s"),
        (3600, "1h0m0s"),
        (86400 + 5, "1d0h0m5s"),
        (366 * 86400, "1y1d0h0m0s"),
    ],
)
def test_uptime_begins_with_its_largest_unit(duration_s: float, text: str) -> None:
    assert go_format.uptime(duration_s) == text


def test_document_is_indented_by_two_blanks() -> None:
    assert go_format.document({"a": [1]}) == b'{\n  "a": [\n    1\n  ]\n}'
    assert go_format.compact({"a": [1]}) == b'{"a":[1]}'


def test_numbers_are_whole_where_they_can_be() -> None:
    assert repr(go_format.number(2.0)) == "2"
    assert go_format.number(0.5) == 0.5


def test_text_replaces_what_is_not_utf8() -> None:
    assert go_format.text(b"a\xff") == "a\ufffd"
