"""Rules that rewrite subjects, without Spark."""

import pytest

from midge.pipeline.errors import OptionError
from midge.pipeline.subject_rewriting import Rewrite, rewrite_subject


@pytest.mark.parametrize(
    ("rule", "subject", "expected"),
    [
        ("orders.*.new:replay.$1.new", "orders.eu.new", "replay.eu.new"),
        ("a.*.*:b.$2.{{wildcard(1)}}", "a.x.y", "b.y.x"),
        ("a.>:copy.a.>", "a.b.c", "copy.a.b.c"),
        (">:test.>", "a.b", "test.a.b"),
        ("a.*.>:b.>", "a.x.y.z", "b.y.z"),
        ("a.>:b", "a.x", "b"),
        ("a.b:c.d", "a.b", "c.d"),
        ("a.b:c.d", "a.c", None),
        ("a.*:c.$1", "a", None),
    ],
)
def test_a_rule_rewrites_what_it_matches(rule, subject, expected):
    assert Rewrite.parse(rule).apply(subject) == expected


def test_the_first_rule_that_matches_counts():
    rules = [Rewrite.parse("a.b:x"), Rewrite.parse("a.*:y.$1")]
    assert [rewrite_subject(s, rules) for s in ("a.b", "a.c", "c")] == ["x", "y.c", "c"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("a.b", "expected SOURCE:DESTINATION, got 'a.b'"),
        ("a..b:c", "'a..b' is not a valid subject"),
        ("a.*:c.$2", r"asks for wildcard 2, and 'a.\*' has 1"),
        ("a.*:c.$0", "asks for wildcard 0"),
        ("a.*:c.*", "is not a subject"),
        ("a.b:", "is not a subject"),
        ("a.b:c d", "is not a subject"),
        ("a.b:c.>", "ends in > and 'a.b' does not"),
    ],
)
def test_a_rule_without_meaning_is_refused(rule, message):
    with pytest.raises(OptionError, match=message):
        Rewrite.parse(rule)
