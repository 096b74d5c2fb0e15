"""Times, durations and documents of monitoring in Go's format, which its readers expect."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

_NANOSECONDS = 1_000_000_000
_MICROSECONDS = 1_000_000
_ZERO_TIME = "0001-01-01T00:00:00Z"

# Many connections began, or are idle since, the same second; formatting it takes 1.5 us.
_SECONDS_KEPT = 4096


def timestamp(wall_s: float) -> str:
    """Format a Unix time as RFC 3339 in UTC, with as many decimals as a float has."""
    if wall_s <= 0:
        return _ZERO_TIME
    whole, rest = divmod(round(wall_s * _MICROSECONDS), _MICROSECONDS)
    decimals = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{_second(whole)}{decimals}Z"


@lru_cache(_SECONDS_KEPT)
def _second(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def nanoseconds(duration_s: float) -> int:
    """Return a duration as whole nanoseconds."""
    return round(duration_s * _NANOSECONDS)


def number(value: float) -> float | int:
    """Return a float as an int if it is integral."""
    return int(value) if value == int(value) else value


def uptime(duration_s: float) -> str:
    """Format a duration as `1y2d3h4m5s`, from its largest unit down to seconds."""
    return _uptime(max(int(duration_s), 0))


@lru_cache(_SECONDS_KEPT)
def _uptime(duration_s: int) -> str:
    minutes, seconds = divmod(duration_s, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    years, days = divmod(days, 365)
    parts = [(years, "y"), (days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        del parts[0]
    return "".join(f"{count}{unit}" for count, unit in parts)


def duration(duration_s: float) -> str:
    """Format a duration as Go's `time.Duration`: `1.063661943s`, `761µs`, `1m0.5s`."""
    total = nanoseconds(duration_s)
    if total < 1_000:
        return f"{total}ns" if total else "0s"
    if total < 1_000_000:
        return _decimal(total, 1_000) + "µs"
    if total < _NANOSECONDS:
        return _decimal(total, 1_000_000) + "ms"
    minutes, rest = divmod(total, 60 * _NANOSECONDS)
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, _NANOSECONDS) + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def document(value: Any) -> bytes:
    """Serialize `value` as JSON, indented by two spaces."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def compact(value: Any) -> bytes:
    """Serialize `value` as JSON on one line."""
    return msgspec.json.encode(value)


def text(value: bytes) -> str:
    """Return bytes from the wire as text; invalid UTF-8 is replaced."""
    return value.decode("utf-8", "replace")


def _decimal(total: int, unit: int) -> str:
    whole, rest = divmod(total, unit)
    if rest == 0:
        return str(whole)
    width = len(str(unit)) - 1
    return f"{whole}.{rest:0{width}d}".rstrip("0")
