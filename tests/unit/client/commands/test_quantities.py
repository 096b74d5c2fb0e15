"""Durations, sizes, times and headers in the client's commands: parsing and printing."""

import argparse
from datetime import UTC, datetime

import pytest

from midge.client.commands import quantities, settings
from midge.client.errors import OptionError

SECOND_NS = 10**9
DAY_NS = 24 * 3600 * SECOND_NS


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("1.5s", 1_500_000_000),
        ("1h30m", 5400 * SECOND_NS),
        ("100ms", 10**8),
        ("7d", 7 * DAY_NS),
        ("2w", 14 * DAY_NS),
        ("1d12h", DAY_NS + 12 * 3600 * SECOND_NS),
    ],
)
def test_a_duration(text, ns):
    assert quantities.duration_ns(text) == ns


@pytest.mark.parametrize("text", ["", "5", "d", "-1s", "1d-1s", "1x", "1d5", "99999999d"])
def test_no_duration(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a duration such as 90s"):
        quantities.duration_ns(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("10KB", 10 << 10), ("10kib", 10 << 10), ("1G", 1 << 30), ("2 MiB", 2 << 20)],
)
def test_a_size(text, size):
    assert quantities.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5M", "1PB", "1bb"])
def test_no_size(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected a size"):
        quantities.size_bytes(text)


def test_a_moment_is_a_time_or_a_while_ago():
    assert quantities.moment("2026-03-02T09:50:00+01:00") == "2026-03-02T08:50:00Z"
    before = datetime.now(UTC).timestamp() - 900
    told = datetime.fromisoformat(quantities.moment("15m")).timestamp()
    assert abs(told - before) < 60
    with pytest.raises(argparse.ArgumentTypeError, match="expected a time such as"):
        quantities.moment("yesterday")


def test_what_people_read():
    shown = [quantities.show_duration(n * SECOND_NS) for n in (90, 3600, 5400, 86400, 90000)]
    assert shown == ["1m30s", "1h", "1h30m", "1d", "1d1h"]
    assert quantities.show_duration(10**8) == "100ms"
    assert [quantities.show_size(n) for n in (0, 1023, 1536, 5 << 20, 3 << 40)] == [
        *("0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 TiB")
    ]
    assert quantities.show_time("0001-01-01T00:00:00Z") == "-"


def test_headers_make_a_block():
    pairs = [quantities.header(text) for text in ("A: 1", "B:x:y", "A:2")]
    assert quantities.header_block(pairs) == b"NATS/1.0\r\nA: 1\r\nA: 2\r\nB: x:y\r\n\r\n"
    assert quantities.header_block([]) == b""
    for wrong in ("A", ": 1", "A b: 1", "A: x\r\nB: y"):
        with pytest.raises(argparse.ArgumentTypeError):
            quantities.header(wrong)


def test_names_and_subjects():
    assert quantities.name("a-b_c") == "a-b_c"
    for wrong in ("", "a.b", "a b", "a*", "a/b"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a name"):
            quantities.name(wrong)
    assert quantities.subject_filter("a.*.>") == "a.*.>"
    with pytest.raises(argparse.ArgumentTypeError, match="without wildcards"):
        quantities.subject("a.>")


SETTINGS = (
    settings.CommandSetting("--max", "max_msgs", quantities.count, "N", "limit"),
    settings.Switch("--direct", "allow_direct", "direct"),
    settings.Switch("--ack", "no_ack", "acknowledge", is_inverse=True),
    settings.CommandChoice("--storage", "storage", ("file", "memory"), "where"),
)


def read(*words):
    parser = argparse.ArgumentParser()
    settings.add_settings(parser, SETTINGS)
    return settings.settings_of(parser.parse_args([str(word) for word in words]), SETTINGS)


def test_flags_become_keys_and_what_is_not_given_stays_out(tmp_path):
    assert read() == {}
    assert read("--max", 0, "--no-direct") == {"max_msgs": 0, "allow_direct": False}
    assert read("--no-ack") == {"no_ack": True}
    assert read("--ack") == {"no_ack": False}
    assert read("--set", "a=[1]", "--set", "b=text") == {"a": [1], "b": "text"}
    path = tmp_path / "config.json"
    path.write_text('{"config": {"storage": "memory", "max_msgs": 1, "metadata": {"x": "1"}}}')
    assert read("--config", path, "--max", 2, "--metadata", "y=2") == {
        "storage": "memory",
        "max_msgs": 2,
        "metadata": {"x": "1", "y": "2"},
    }
    path.write_text("[]")
    with pytest.raises(OptionError, match="expected a JSON object"):
        read("--config", path)
    with pytest.raises(OptionError, match="no such file"):
        read("--config", tmp_path / "none")
