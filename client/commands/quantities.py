"""Durations, sizes, times and headers on the command line: parsing and printing."""

import argparse
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from midge.jetstream.json.times import (
    SECOND_NS,
    TimeProblem,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)
from midge.protocol.headers import format_headers
from midge.sublist.subjects import is_valid_publish_subject, is_valid_subject

_DAYS = re.compile(r"(\d{1,5})([dw])(.*)")
_DAY_NS = 24 * 3600 * SECOND_NS
_DAYS_OF = {"d": 1, "w": 7}
_SIZE = re.compile(r"(\d{1,18})\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")


def duration_ns(text: str) -> int:
    """Return nanoseconds of a duration such as `90s`, `1h30m`, `7d`, `2w` or `1d12h`.

    Raises:
        ArgumentTypeError: `text` is anything else, or negative.
    """
    days = _DAYS.fullmatch(text)
    try:
        if days is not None:
            whole = int(days[1]) * _DAYS_OF[days[2]] * _DAY_NS
            return whole + (duration_ns(days[3]) if days[3] else 0)
        found = parse_duration(text)
    except TimeProblem:
        found = -1
    if found < 0:
        raise argparse.ArgumentTypeError(
            f"expected a duration such as 90s, 1h30m or 7d, got {text!r}"
        )
    return found


def timeout_ns(text: str) -> int:
    """Return nanoseconds of a duration, or of a number of seconds such as `5`.

    Raises:
        ArgumentTypeError: `text` is neither, or 0.
    """
    is_number = text.isascii() and text.replace(".", "", 1).isdigit()
    found = duration_ns(f"{text}s" if is_number else text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected a time above 0, got {text!r}")
    return found


def size_bytes(text: str) -> int:
    """Return the bytes of a size such as `512`, `10KB` or `1GiB`; `K` and `Ki` are both 1024.

    Raises:
        ArgumentTypeError: `text` is anything else.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 512, 10KB or 1GB, got {text!r}")
    return int(found[1]) << (10 * _POWERS[found[2].lower()])


def moment(text: str) -> str:
    """Return RFC 3339 in UTC of such a time, or of a duration before now such as `15m`.

    Raises:
        ArgumentTypeError: `text` is neither.
    """
    try:
        return format_time(parse_time(text).ns)
    except TimeProblem:
        pass
    try:
        return format_time(time.time_ns() - duration_ns(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected a time such as 2026-03-02T08:50:00Z or a duration before now such as 15m, "
            f"got {text!r}"
        ) from None


def count(text: str) -> int:
    """Return a whole number of 0 or more.

    Raises:
        ArgumentTypeError: `text` is anything else.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")
    return int(text)


def sequence(text: str) -> int:
    """Return the sequence of a message.

    Raises:
        ArgumentTypeError: `text` is none; the first message of a stream is 1.
    """
    found = count(text)
    if not found:
        raise argparse.ArgumentTypeError("expected a sequence, of which the first is 1, got '0'")
    return found


def name(text: str) -> str:
    """Return the name of a stream, consumer or bucket.

    Raises:
        ArgumentTypeError: it has a character that is not allowed in such a name.
    """
    if _NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"expected a name without blanks, dots, wildcards and slashes, got {text!r}"
        )
    return text


def subject(text: str) -> str:
    """Return a subject to publish to.

    Raises:
        ArgumentTypeError: it is not a subject, or has a wildcard.
    """
    if not is_valid_publish_subject(text.encode("utf-8", "surrogateescape")):
        raise argparse.ArgumentTypeError(f"expected a subject without wildcards, got {text!r}")
    return text


def subject_filter(text: str) -> str:
    """Return a subject that may have wildcards.

    Raises:
        ArgumentTypeError: it is not a subject.
    """
    if not is_valid_subject(text.encode("utf-8", "surrogateescape")):
        raise argparse.ArgumentTypeError(f"expected a subject such as orders.>, got {text!r}")
    return text


def header(text: str) -> tuple[str, str]:
    """Return name and value of `NAME: VALUE`.

    Raises:
        ArgumentTypeError: `text` is not a header.
    """
    field, colon, value = text.partition(":")
    try:
        format_headers({field: value.strip()})
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not colon:
        raise argparse.ArgumentTypeError(f"expected NAME:VALUE, got {text!r}")
    return field, value.strip()


def header_block(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return the header block in its wire form, empty without headers."""
    fields: dict[str, list[str]] = {}
    for field, value in pairs:
        fields.setdefault(field, []).append(value)
    return format_headers(fields) if fields else b""


def show_duration(ns: int) -> str:
    """Return a duration for people: `2d`, `1h30m`, `90ms`."""
    days, rest = divmod(ns, _DAY_NS)
    if not days:
        text = format_duration(ns)
        return re.sub(r"(?<=[hm])0[ms](?:0s)?$", "", text)
    return f"{days}d{show_duration(rest) if rest else ''}"


def show_messages(number: int) -> str:
    """Return a number of messages in words: `1 message`, `2,000 messages`."""
    return f"{number:,} message{'' if number == 1 else 's'}"


def show_size(size: int) -> str:
    """Return a size for people, such as `1.5 MiB`."""
    if size < 1024:
        return f"{size} B"
    scaled = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        scaled /= 1024
        if scaled < 1024:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1024:.1f} TiB"


def show_time(text: str) -> str:
    """Return an RFC 3339 time of the server in the local zone, to the second; `-` for none."""
    if not text or text.startswith("0001-"):
        return "-"
    ns = parse_time(text).ns
    local = datetime.fromtimestamp(ns / SECOND_NS, UTC).astimezone()
    return local.strftime("%Y-%m-%d %H:%M:%S")
