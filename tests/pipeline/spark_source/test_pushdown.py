"""Narrowing a read by a query's filters: never less than the rows that pass them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from midge.pipeline.spark_source.pushdown import Narrowing, rfc3339
from midge.sublist import subjects

pytestmark = pytest.mark.timeout(20)
SEQUENCE, TIME, SUBJECT = ("sequence",), ("time",), ("subject",)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SAMPLES = ["a", "a.b", "a.c", "a.b.c", "ab", "ab.c", "b.a", "b.c.a"]

_COMPARES = {
    EqualTo: lambda one, other: one == other,
    EqualNullSafe: lambda one, other: one == other,
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
    In: lambda one, other: one in other,
    StringStartsWith: lambda one, other: one.startswith(other),
    StringContains: lambda one, other: other in one,
}
numbers = st.integers(-3, 30)
sequence_filters = st.one_of(
    *(st.builds(kind, st.just(SEQUENCE), numbers) for kind in _COMPARES if kind is not In)
).filter(lambda one: not isinstance(one, (StringStartsWith, StringContains))) | st.builds(
    In, st.just(SEQUENCE), st.lists(numbers, min_size=1, max_size=4).map(tuple)
)
texts = st.sampled_from([*SAMPLES, "", ".", "a.", "b.c.", "*", "a.*", ">", "a\\xff", "a b"])
subject_filters = st.one_of(
    *(st.builds(kind, st.just(SUBJECT), texts) for kind in _COMPARES if kind is not In)
) | st.builds(In, st.just(SUBJECT), st.lists(texts, max_size=4).map(tuple))


def passes(filters, value):
    return all(_COMPARES[type(one)](value, one.value) for one in filters)


@given(filters=st.lists(sequence_filters, max_size=4))
def test_every_sequence_that_passes_is_read(filters):
    found = Narrowing().narrowed(filters)
    for seq in range(1, 40):
        if passes(filters, seq):
            assert found.first_seq <= seq
            assert found.end_seq is None or seq < found.end_seq


@given(filters=st.lists(subject_filters, max_size=3), option=st.sampled_from([None, "a.>", "*.c"]))
def test_every_subject_that_passes_is_read(filters, option):
    found = Narrowing(subjects=option and (option,)).narrowed(filters)
    patterns = (">",) if found.subjects is None else found.subjects
    for subject in SAMPLES:
        wanted = passes(filters, subject)
        if wanted and (option is None or subjects.matches(subject.encode(), option.encode())):
            assert any(subjects.matches(subject.encode(), p.encode()) for p in patterns)
    pairs = [(a.encode(), b.encode()) for a in patterns for b in patterns if a != b]
    assert not any(subjects.overlaps(a, b) for a, b in pairs), "JetStream refuses these"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([LessThanOrEqual(SEQUENCE, 10)], Narrowing(1, 11)),
        ([GreaterThan(SEQUENCE, 4), LessThan(SEQUENCE, 9)], Narrowing(5, 9)),
        ([In(SEQUENCE, (7, 3))], Narrowing(3, 8)),
        ([EqualTo(SUBJECT, "a.b")], Narrowing(subjects=("a.b",))),
        ([StringStartsWith(SUBJECT, "a.bc")], Narrowing(subjects=("a.>",))),
        ([StringStartsWith(SUBJECT, "a.b."), EqualTo(SUBJECT, "x.y")], Narrowing(subjects=())),
        ([StringStartsWith(SUBJECT, "ab")], Narrowing()),
        ([IsNotNull(SEQUENCE), Not(EqualTo(SEQUENCE, 3))], Narrowing()),
        ([EqualTo(("payload",), b"x"), EqualNullSafe(SEQUENCE, None)], Narrowing()),
    ],
)
def test_narrowings(filters, expected):
    assert Narrowing().narrowed(filters) == expected


def test_times_keep_a_margin_for_clocks_that_were_set_back():
    found = Narrowing().narrowed(
        [
            GreaterThan(TIME, NOON),
            LessThan(TIME, (NOON + timedelta(hours=1)).astimezone(timezone(timedelta(hours=2)))),
            LessThan(TIME, NOON + timedelta(hours=3)),
            LessThan(TIME, datetime(2020, 1, 1)),  # noqa: DTZ001 - a time without its zone is no use
        ]
    )
    assert rfc3339(found.since) == "2026-01-31T11:59:00Z"
    assert rfc3339(found.until) == "2026-01-31T13:01:00.000001Z"
