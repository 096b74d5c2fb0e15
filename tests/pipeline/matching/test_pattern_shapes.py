"""Shapes and keys agree with the definition of a match, without Spark."""

import re

from hypothesis import given
from hypothesis import strategies as st

from midge.pipeline.matching.pattern_shapes import (
    INVALID_PATTERN,
    INVALID_SUBJECT,
    is_general,
    key_of,
    shape_of,
)
from midge.sublist.subjects import is_valid_subject, matches

TOKEN = st.sampled_from(["a", "b", "c", "a*", ">b", ""])
SUBJECTS = st.lists(st.one_of(TOKEN, st.sampled_from(["*", ">"])), min_size=1, max_size=5)
PATTERNS = st.lists(st.one_of(TOKEN, st.sampled_from(["*", ">"])), min_size=1, max_size=5)


@given(SUBJECTS, PATTERNS)
def test_equal_keys_are_a_match(subject_tokens, pattern_tokens):
    subject, pattern = ".".join(subject_tokens), ".".join(pattern_tokens)
    if re.search(INVALID_PATTERN, pattern) or re.search(INVALID_SUBJECT, subject):
        return
    shape = shape_of(pattern)
    found = shape.takes(len(subject_tokens)) and shape.key(subject_tokens) == key_of(pattern)
    assert found == matches(subject.encode(), pattern.encode())


@given(PATTERNS)
def test_the_expression_refuses_what_the_sublist_refuses(tokens):
    pattern = ".".join(tokens)
    assert bool(re.search(INVALID_PATTERN, pattern)) != is_valid_subject(pattern.encode())


def test_a_shape_is_the_mask_of_literals_and_wildcards():
    assert shape_of("orders.*.new.>").mask == "L*L>"
    assert key_of("orders.*.new.>") == "orders.new"
    assert shape_of("a*.b>").mask == "LL"


def test_general_patterns_have_hardly_a_literal():
    assert [
        mask for mask in (">", "*", "**>", "**L", "L>", "L*", "LL>", "L") if is_general(mask)
    ] == [
        ">",
        "*",
        "**>",
        "**L",
    ]
