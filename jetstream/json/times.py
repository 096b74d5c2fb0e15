"""Times and durations as Go writes them: RFC 3339 with nanoseconds, ``1h30m0s``."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NamedTuple

from midge.protocol.errors import MidgeError, quote

SECOND_NS = 1_000_000_000
ZERO_TIME_NS = -62_135_596_800 * SECOND_NS
"""Go's zero time, the first second of the year 1."""

ZERO_TIME = "0001-01-01T00:00:00Z"

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class TimeProblem(MidgeError):
    """A text is not a time or duration; the message is Go's."""


class Timestamp(NamedTuple):
    """A moment, with the zone it was written in."""

    ns: int
    offset_s: int = 0

    def text(self) -> str:
        """Return it in RFC 3339, in its own zone."""
        if not self.offset_s:
            return format_time(self.ns)
        local = format_time(self.ns + self.offset_s * SECOND_NS)[:-1]
        sign = "-" if self.offset_s < 0 else "+"
        hours, minutes = divmod(abs(self.offset_s) // 60, 60)
        return f"{local}{sign}{hours:02d}:{minutes:02d}"


def format_time(ns: int) -> str:
    """Return a moment in UTC as RFC 3339, with as many digits of the second as it needs."""
    seconds, rest = divmod(ns, SECOND_NS)
    text = format_second(seconds)
    if not rest:
        return text + "Z"
    digits = str(SECOND_NS + rest)[1:]  # a third of the time that a format with zeros takes
    return f"{text}.{digits.rstrip('0')}Z"


@lru_cache(maxsize=64)  # messages that are read one after the other are often of one second
def format_second(seconds: int) -> str:
    """Return a whole second in UTC as RFC 3339, without the zone."""
    if seconds < 0:
        return _format_early(seconds)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _format_early(seconds: int) -> str:
    """Return a moment before 1970, which `fromtimestamp` may refuse."""
    days, second = divmod(seconds, 86_400)
    ordinal = days + _EPOCH_DAY
    day = date.fromordinal(ordinal) if ordinal > 0 else date.min
    hour, rest = divmod(second, 3600)
    return f"{day.year:04d}-{day:%m-%d}T{hour:02d}:{rest // 60:02d}:{rest % 60:02d}"


_FIELDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[0-9]{4}"), "2006"),
    (re.compile("-"), "-"),
    (re.compile(r"[0-9]{2}"), "01"),
    (re.compile("-"), "-"),
    (re.compile(r"[0-9]{2}"), "02"),
    (re.compile("T"), "T"),
    (re.compile(r"[0-9]{1,2}"), "15"),
    (re.compile(":"), ":"),
    (re.compile(r"[0-9]{2}"), "04"),
    (re.compile(":"), ":"),
    (re.compile(r"[0-9]{2}"), "05"),
)
_RANGES = {
    "2006": ("year", 0, 9999),
    "01": ("month", 1, 12),
    "02": ("day", 0, 99),
    "15": ("hour", 0, 23),
    "04": ("minute", 0, 59),
    "05": ("second", 0, 59),
}
"""The numbers that are checked where they are read; whether the day exists is known last."""

_FRACTION = re.compile(r"[.,][0-9]+")
_TIME_MAX = 40
"""Letters of the longest time that is worth remembering."""

_ZONE = re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}")


def parse_time(text: str) -> Timestamp:
    """Read RFC 3339 as Go's `time.Parse` does.

    Raises:
        TimeProblem: the text is not a time; the message is Go's.
    """
    return _parse_known(text) if len(text) <= _TIME_MAX else _parse(text)


def _parse(text: str) -> Timestamp:
    numbers = []
    at = 0
    for pattern, element in _FIELDS:
        found = pattern.match(text, at)
        if found is None:
            raise _no_such(text, text[at:], element)
        at = found.end()
        if element.isdigit():
            number = int(found[0])
            what, low, high = _RANGES[element]
            if not low <= number <= high:
                raise _out_of_range(text, what)
            numbers.append(number)
    fraction = _FRACTION.match(text, at)
    nanoseconds = 0
    if fraction is not None:
        nanoseconds = int(fraction[0][1:10].ljust(9, "0"))
        at = fraction.end()
    zone = _ZONE.match(text, at)
    if zone is None:
        raise _no_such(text, text[at:], "Z07:00")
    offset_s = _zone_offset(text, zone[0])
    if zone.end() != len(text):
        raise TimeProblem(
            f"parsing time {_quoted(text)}: extra text: {_quoted(text[zone.end() :])}"
        )
    days = _days(text, numbers[0], numbers[1], numbers[2])
    hour, minute, second = numbers[3:]
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset_s
    return Timestamp(seconds * SECOND_NS + nanoseconds, offset_s)


_parse_known = lru_cache(maxsize=256)(_parse)  # a schedule is read three times until it fires


def _days(text: str, year: int, month: int, day: int) -> int:
    """Return the days from the epoch to a date; raises TimeProblem if it does not exist."""
    try:
        # Go counts the year 0, Python does not: 400 years later everything falls on the same day.
        ordinal = date(year or 400, month, day).toordinal() - (0 if year else 146_097)
    except ValueError:
        raise _out_of_range(text, "day") from None
    return ordinal - _EPOCH_DAY


def _zone_offset(text: str, zone: str) -> int:
    """Return the offset of ``Z`` or ``+hh:mm`` in seconds."""
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 24:
        raise _out_of_range(text, "time zone offset hour")
    if minutes > 60:
        raise _out_of_range(text, "time zone offset minute")
    seconds = hours * 3600 + minutes * 60
    return -seconds if zone[0] == "-" else seconds


def _no_such(text: str, rest: str, element: str) -> TimeProblem:
    where = f"parsing time {_quoted(text)} as {_quoted(_LAYOUT)}"
    return TimeProblem(f"{where}: cannot parse {_quoted(rest)} as {_quoted(element)}")


def _out_of_range(text: str, what: str) -> TimeProblem:
    return TimeProblem(f"parsing time {_quoted(text)}: {what} out of range")


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"))


_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND_NS,
    "m": 60 * SECOND_NS,
    "h": 3600 * SECOND_NS,
}
_DURATION = re.compile(r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_DIGITS_MAX = 19  # of what may be as much as Go can count
_DURATION_MAX_NS = (1 << 63) - 1


def parse_duration(text: str) -> int:
    """Read a duration such as ``1h30m`` or ``1.5s`` as Go does; return nanoseconds.

    Raises:
        TimeProblem: the text is not a duration, or it is too long for Go.
    """
    if text in {"0", "+0", "-0"}:
        return 0
    if _DURATION.fullmatch(text) is None:
        raise TimeProblem(f"time: invalid duration {_quoted(text)}")
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        scale = _UNITS_NS[unit]
        if len(whole.lstrip("0")) > _DIGITS_MAX:
            raise TimeProblem(f"time: invalid duration {_quoted(text)}")
        total += int(whole.lstrip("0") or 0) * scale
        digits = fraction[: _DIGITS_MAX - 1]
        if digits:
            total += int(digits) * scale // 10 ** len(digits)
    is_negative = text[0] == "-"
    if total > _DURATION_MAX_NS + is_negative:
        raise TimeProblem(f"time: invalid duration {_quoted(text)}")
    return -total if is_negative else total


def format_duration(ns: int) -> str:
    """Return a duration as Go's `String` does: ``1h30m0s``, ``1.5s``, ``100ms``, ``0s``."""
    if ns == 0:
        return "0s"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    for limit, scale, unit in (
        (1_000, 1, "ns"),
        (1_000_000, 1_000, "µs"),
        (SECOND_NS, 10**6, "ms"),
    ):
        if ns < limit:
            return f"{sign}{_decimal(ns, scale)}{unit}"
    minutes, rest = divmod(ns, 60 * SECOND_NS)
    text = f"{_decimal(rest, SECOND_NS)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(value: int, scale: int) -> str:
    """Return `value` / `scale` with no digit more than it needs."""
    whole, rest = divmod(value, scale)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(scale)) - 1}d}".rstrip("0")
