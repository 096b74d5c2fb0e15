"""Rules that rewrite subjects, without Spark."""

import pytest

from midge.client.errors import OptionError
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
        ("a.*.*:copy-$2.x{{wildcard(1)}}$2", "a.x.y", "copy-y.xxy"),
        ("a.*:{{left(1, 1)}}.{{partition(1,1)}}", "a.xy", "x.0"),
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
        ("a..b:c", "expected subjects, got 'a..b' to 'c'"),
        ("a.*:c.$2", r"the source of '\$2' has 1 '\*', not 2"),
        ("a.*:c.x$0", r"the source of '\$0' has 1 '\*', not 0"),
        ("a.*:c.*", "expected subjects"),
        ("a.b:", "expected subjects"),
        ("a.b:c d", "expected subjects"),
        ("a.b:c.>", "must both end in '>', or neither"),
    ],
)
def test_a_rule_without_meaning_is_refused(rule, message):
    with pytest.raises(OptionError, match=message):
        Rewrite.parse(rule)
