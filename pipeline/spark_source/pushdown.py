"""Narrow a batch read to the part of the stream that a query's filters leave. Pure logic.

Spark applies every filter again to the rows that it gets, so a narrowed read may hold too much but
never too little.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from midge.sublist import subjects

_MOST_SUBJECTS = 100
"""A consumer with more filters costs the server more than Spark's own filter costs."""
_CLOCK_STEP = timedelta(minutes=1)
"""Sequences are looked up by time; a server's clock may have been set back as far as this."""
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Narrowing:
    """The bounds of sequence and time, and the subjects, outside which no row passes."""

    first_seq: int = 1
    end_seq: int | None = None
    """The first sequence beyond the range."""
    since: datetime | None = None
    until: datetime | None = None
    subjects: tuple[str, ...] | None = None
    """Subject filters that do not overlap; None for all subjects, empty for none."""

    def narrowed(self, filters: Iterable[Filter]) -> "Narrowing":
        """Return the narrowing by all of the filters; a filter of another kind changes nothing."""
        result = self
        for one in filters:
            result = result._by(one)
        return result

    def _by(self, one: Filter) -> "Narrowing":
        attribute, value = getattr(one, "attribute", None), getattr(one, "value", None)
        if attribute == ("sequence",):
            return self._by_sequence(one, value)
        if attribute == ("time",) and isinstance(value, datetime) and value.tzinfo is not None:
            return self._by_time(one, value)
        if attribute == ("subject",):
            return self._by_subject(one, value)
        return self

    def _by_sequence(self, one: Filter, value: object) -> "Narrowing":
        values = value if isinstance(value, (tuple, list)) else (value,)
        if not values or any(type(seq) is not int for seq in values):
            return self
        least, most = min(values), max(values)
        match one:
            case EqualTo() | EqualNullSafe() | In():
                return self._within(least, most + 1)
            case GreaterThan():
                return self._within(least + 1, None)
            case GreaterThanOrEqual():
                return self._within(least, None)
            case LessThan():
                return self._within(1, most)
            case LessThanOrEqual():
                return self._within(1, most + 1)
        return self

    def _within(self, first: int, end: int | None) -> "Narrowing":
        ends = [one for one in (self.end_seq, end) if one is not None]
        return replace(
            self, first_seq=max(self.first_seq, first), end_seq=min(ends) if ends else None
        )

    def _by_time(self, one: Filter, value: datetime) -> "Narrowing":
        since = until = None
        if isinstance(one, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)):
            since = value - _CLOCK_STEP
        if isinstance(one, (EqualTo, EqualNullSafe, LessThan, LessThanOrEqual)):
            until = value + _CLOCK_STEP + _MICROSECOND
        return replace(
            self,
            since=max((time for time in (self.since, since) if time), default=None),
            until=min((time for time in (self.until, until) if time), default=None),
        )

    def _by_subject(self, one: Filter, value: object) -> "Narrowing":
        values = value if isinstance(value, (tuple, list)) else (value,)
        texts = [text for text in values if isinstance(text, str)]
        if len(texts) != len(values) or len(texts) > _MOST_SUBJECTS:
            return self
        match one:
            case EqualTo() | EqualNullSafe() | In():
                patterns = sorted(set(texts))
            case StringStartsWith():
                # Up to the last dot: "orders.e" reads "orders.>".
                patterns = [f"{text.rpartition('.')[0]}.>" for text in texts]
                if not all(subjects.is_valid_subject(pattern.encode()) for pattern in patterns):
                    return self
                if any(token in pattern for pattern in patterns for token in ("*", "\\")):
                    return self
                return self._among(patterns)
            case _:
                return self
        # The column shows bytes that are not UTF-8 with backslashes: such a text is no subject.
        if any(
            "\\" in text or not subjects.is_valid_publish_subject(text.encode())
            for text in patterns
        ):
            return self
        return self._among(patterns)

    def _among(self, patterns: list[str]) -> "Narrowing":
        if self.subjects is None:
            return replace(self, subjects=tuple(patterns))
        pairs = [(a.encode(), b.encode()) for a in self.subjects for b in patterns]
        both = [subjects.common(a, b).decode() for a, b in pairs if subjects.overlaps(a, b)]
        return self if len(both) > _MOST_SUBJECTS else replace(self, subjects=tuple(both))


def rfc3339(moment: datetime) -> str:
    """Return a time as JetStream's API takes it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
