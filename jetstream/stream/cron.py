"""When a message schedule fires next: ``@at``, ``@every`` and cron patterns of six fields.

The fields are second, minute, hour, day of the month, month and day of the week. As in cron, a
message is due on a day that fits either day field, unless one of them is ``*``: then on a day that
fits both.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo

from midge.jetstream.json.times import SECOND_NS, TimeProblem, parse_duration, parse_time
from midge.protocol.errors import MidgeError

_DIGITS_MAX = 19  # digits that fit 64 bits
_YEARS = 5
"""Years within which a pattern must match a moment; else it is refused."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: i + 1 for i, name in enumerate(_MONTHS)}),
    (0, 6, {name: i for i, name in enumerate(_DAYS)}),
)
_NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class PatternProblem(MidgeError):
    """A pattern or a time zone is invalid."""


class ZoneProblem(MidgeError):
    """A time zone is unknown."""


def zone_of(name: str | None) -> tzinfo | None:
    """Return the time zone of that name, None for None; raises ZoneProblem."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - 1.4 ms, and few schedules name a zone

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise ZoneProblem(name) from error


def next_time(pattern: str, zone: tzinfo | None, after_ns: int, now_ns: int) -> tuple[int, bool]:
    """Return when `pattern` is due next, and whether it repeats.

    A repeating one is due after `after_ns`, and after `now_ns` if it has been missed meanwhile.

    Raises:
        PatternProblem: it is not a pattern.
    """
    if pattern.startswith("@at "):
        if zone is not None:
            raise PatternProblem("a moment has a zone of its own")
        try:
            return parse_time(pattern[4:]).ns, False
        except TimeProblem as problem:
            raise PatternProblem(str(problem)) from problem
    if pattern.startswith("@every "):
        return _next_interval(pattern[7:], zone, after_ns, now_ns), True
    fields = Fields(_NAMED.get(pattern, pattern))
    due_ns = fields.next(after_ns, zone or UTC)
    if due_ns < now_ns:
        due_ns = fields.next(_rounded(now_ns), zone or UTC)
    return due_ns, True


def _next_interval(text: str, zone: tzinfo | None, after_ns: int, now_ns: int) -> int:
    if zone is not None:
        raise PatternProblem("an interval has no zone")
    try:
        interval_ns = parse_duration(text)
    except TimeProblem as problem:
        raise PatternProblem(str(problem)) from problem
    if interval_ns < SECOND_NS:
        raise PatternProblem("an interval has a second at least")
    due_ns = _rounded(after_ns) + interval_ns
    return due_ns if due_ns >= now_ns else _rounded(now_ns) + interval_ns


def _rounded(ns: int) -> int:
    """Return the nearest whole second."""
    return (ns + SECOND_NS // 2) // SECOND_NS * SECOND_NS


class Fields:
    """A cron pattern."""

    def __init__(self, pattern: str) -> None:
        """Read `pattern`; raises PatternProblem."""
        fields = pattern.split()
        if len(fields) != len(_BOUNDS):
            raise PatternProblem(f"expected {len(_BOUNDS)} fields, got {len(fields)}")
        read = [_read_field(text, *bounds) for text, bounds in zip(fields, _BOUNDS, strict=True)]
        self._seconds, self._minutes, self._hours = (sorted(values) for values, _ in read[:3])
        (self._days, any_day), (self._months, _), (self._weekdays, any_weekday) = read[3:]
        self._needs_both = any_day or any_weekday

    def next(self, after_ns: int, zone: tzinfo) -> int:
        """Return the first moment after `after_ns` that fits; raises PatternProblem for none."""
        start = datetime.fromtimestamp(after_ns // SECOND_NS + 1, UTC)
        day = start.astimezone(zone).date()
        last_year = day.year + _YEARS
        while day.year <= last_year:
            if day.month not in self._months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._fits(day):
                found = min(
                    (m for m in self._moments(day, zone, start) if m >= start), default=None
                )
                if found is not None:
                    return int(found.timestamp()) * SECOND_NS
            day += timedelta(days=1)
        raise PatternProblem(f"no moment fits within {_YEARS} years")

    def _fits(self, day: date) -> bool:
        in_month = day.day in self._days
        in_week = day.isoweekday() % 7 in self._weekdays
        return in_month and in_week if self._needs_both else in_month or in_week

    def _moments(self, day: date, zone: tzinfo, start: datetime) -> Iterator[datetime]:
        """Yield the first moment of each hour of `day` that fits and is not before `start`."""
        for hour in self._hours:
            for fold in (0, 1):
                local = datetime(day.year, day.month, day.day, hour, fold=fold, tzinfo=zone)
                moment = local.astimezone(UTC)
                if moment.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
                    continue  # the clocks jump over this hour
                if moment + timedelta(hours=1) <= start:
                    continue
                found = self._within_hour(moment, start)
                if found is not None:
                    yield found

    def _within_hour(self, hour: datetime, start: datetime) -> datetime | None:
        """Return the first moment in the hour that fits and is not before `start`."""
        for minute in self._minutes:
            at = hour + timedelta(minutes=minute)
            if at + timedelta(minutes=1) <= start:
                continue
            for second in self._seconds:
                found = at + timedelta(seconds=second)
                if found >= start:
                    return found
        return None


def _read_field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    """Return the numbers that a field matches, and whether it is ``*``."""
    values: set[int] = set()
    is_any = False
    for part in text.split(","):
        if part:
            numbers, is_star = _read_range(part, low, high, names)
            values |= numbers
            is_any |= is_star
    return values, is_any


def _read_range(text: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    """Read ``*``, ``n``, ``n-m`` and any of them with a step behind a slash."""
    span, *steps = text.split("/")
    first, *rest = span.split("-")
    is_star = first in {"*", "?"}
    if len(steps) > 1 or (len(rest) > 1 and not is_star):
        raise PatternProblem(f"malformed range {text}")
    start = low if is_star else _read_number(first, names)
    end = high if is_star else _read_number(rest[0], names) if rest else start
    step = 1
    if steps:
        step = _read_number(steps[0], {})
        end = end if rest else high
        is_star = is_star and step <= 1
    if start < low or end > high or start > end or step == 0:
        raise PatternProblem(f"range {text} is not within {low}-{high}")
    return set(range(start, end + 1, step)), is_star


def _read_number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    digits = text[1:] if text[:1] == "+" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise PatternProblem(f"{text} is no number")
    return int(digits)
