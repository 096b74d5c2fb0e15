"""Matching at scale equals a brute-force oracle, whatever the strategy."""

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.client.errors import OptionError
from midge.pipeline.match import match, match_counts
from midge.pipeline.matching import sublist_matcher as matcher_module
from midge.pipeline.matching.sublist_matcher import Matcher
from midge.sublist.subjects import is_valid_subject, matches

TOKENS = ("a", "b", "c", "dd", "e*", ">f")
ODD_SUBJECTS = ["a..b", ".a", "a.", "", "*", ">", "a.*", "a.>", "ä.b"]
ODD_PATTERNS = ["a..b", ".a", "a.", "", "a.>.b", "a b", ">", "*", "*.*", "*.>", "*.*.a", "ä.*"]


def random_workload(seed, messages=400, patterns=120):
    """Return (id, account, subject) and (pattern_id, account, pattern), odd ones among them."""
    rng = random.Random(seed)

    def subject(choices):
        return ".".join(rng.choices(choices, k=rng.randint(1, 5)))

    def pattern():
        tokens = subject((*TOKENS, "*", "*")).split(".")
        return ".".join([*tokens, ">"] if rng.random() < 0.3 else tokens)

    subjects = [subject(TOKENS) for _ in range(messages)] + ODD_SUBJECTS
    listed = [pattern() for _ in range(patterns)] + ODD_PATTERNS
    # Some patterns twice: every row must be paired, not every distinct pattern.
    listed += rng.sample(listed, 10)
    left = [(i, rng.choice("xyz"), each) for i, each in enumerate(subjects)]
    right = [(i, rng.choice("xy"), each) for i, each in enumerate(listed)]
    return left, right


def oracle(left, right, *, scoped):
    return sorted(
        (message, pattern)
        for message, account, subject in left
        for pattern, other, text in right
        if (not scoped or account == other)
        and is_valid_subject(text.encode())
        and matches(subject.encode(), text.encode())
    )


def frames(spark, left, right):
    return (
        spark.createDataFrame(left, "id long, account string, subject string"),
        spark.createDataFrame(right, "pattern_id long, account string, pattern string"),
    )


@pytest.mark.parametrize("strategy", ["broadcast", "shuffle", "auto"])
@pytest.mark.parametrize("scoped", [True, False])
def test_pairs_equal_the_oracle(spark, strategy, scoped):
    for seed in (1, 2):
        left, right = random_workload(seed)
        messages, patterns = frames(spark, left, right)
        if not scoped:
            patterns = patterns.drop("account")
        scope = ["account"] if scoped else []
        found = match(
            messages, patterns, strategy=strategy, scope=scope, columns=["id", "pattern_id"]
        )
        pairs = sorted(tuple(row) for row in found.collect())
        assert pairs == oracle(left, right, scoped=scoped)
        assert pairs


@pytest.mark.parametrize("strategy", ["broadcast", "shuffle"])
def test_all_columns_of_both_sides_come_along(spark, strategy):
    messages, patterns = frames(spark, [(1, "x", "a.b")], [(7, "x", "a.*"), (8, "y", "a.*")])
    rows = match(messages, patterns, strategy=strategy, scope=["account"]).collect()
    assert [row.asDict() for row in rows] == [
        {"id": 1, "account": "x", "subject": "a.b", "pattern_id": 7, "pattern": "a.*"}
    ]


@pytest.mark.parametrize("strategy", ["broadcast", "shuffle"])
def test_counts_equal_the_oracle(spark, strategy):
    left, right = random_workload(3)
    found = match_counts(*frames(spark, left, right), strategy=strategy, scope=["account"])
    counts = {row.pattern_id: row.messages for row in found.collect()}
    expected = {}
    for _, pattern in oracle(left, right, scoped=True):
        expected[pattern] = expected.get(pattern, 0) + 1
    assert counts == expected


@pytest.mark.parametrize("strategy", ["broadcast", "shuffle"])
def test_nothing_to_match_gives_nothing(spark, strategy):
    messages, patterns = frames(spark, [], [(1, "x", ">")])
    assert match(messages, patterns.drop("account"), strategy=strategy).count() == 0
    messages, patterns = frames(spark, [(1, "x", "a")], [])
    assert match(messages, patterns.drop("account"), strategy=strategy).count() == 0


def test_auto_chooses_by_size(spark):
    left, right = random_workload(4)
    messages, patterns = frames(spark, left, right)

    def uses_python(limit):
        found = match(messages, patterns, scope=["account"], broadcast_max_patterns=limit)
        plan = found._jdf.queryExecution().optimizedPlan().toString()
        return "shuffle_hash" not in plan

    assert uses_python(len(right))
    assert not uses_python(len(right) - 1)


def test_wrong_input_is_named(spark):
    messages, patterns = frames(spark, [], [])
    with pytest.raises(OptionError, match="expected one of auto, broadcast, shuffle, got 'fast'"):
        match(messages, patterns, strategy="fast")
    with pytest.raises(OptionError, match="messages: expected a column 'subject'"):
        match(messages.drop("subject"), patterns)
    with pytest.raises(OptionError, match=r"both sides.*account"):
        match(messages, patterns)
    with pytest.raises(OptionError, match="on neither side: size"):
        match(messages, patterns, scope=["account"], columns=["size"])


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([1, 7, 1 << 18]))
def test_a_matcher_pairs_batches_of_any_size(seed, scoped, pairs_max):
    left, right = random_workload(seed, messages=30, patterns=20)
    patterns = pa.table(list(zip(*right, strict=True)), names=["pattern_id", "account", "pattern"])
    scope = ["account"] if scoped else []
    matcher = Matcher(patterns, scope)
    batch = pa.record_batch(list(zip(*left, strict=True)), names=["id", "account", "subject"])
    before = matcher_module.PAIRS_MAX
    matcher_module.PAIRS_MAX = pairs_max
    try:
        pairs = [pair for part in matcher.pairs(batch) for pair in zip(*part, strict=True)]
    finally:
        matcher_module.PAIRS_MAX = before
    assert sorted((int(row), int(found)) for row, found in pairs) == oracle(
        left, right, scoped=scoped
    )


def test_null_matches_nothing():
    matcher = Matcher(pa.table({"pattern": [">"], "account": ["x"]}), ["account"])
    batch = pa.record_batch({"subject": ["a", None, "a"], "account": ["x", "x", None]})
    assert [list(rows) for rows, _ in matcher.pairs(batch)] == [[0]]
