"""Subjects: validity, literalness and matching, case by case as nats-server decides them."""

from itertools import product

import pytest

from midge.sublist import subjects

VALID = [
    *(b"a", b"a.b", b"*", b">", b"a.*", b"a.>", b"*.b", b"a*", b"*a", b">a", b"**", b"a.b*", b"$x"),
    *(b"a,b", b'"q"', b"\xff\x00", b"a/b", b"a.>x.b", b"\x0b.\x0c"),
]
INVALID = [
    *(b"", b".", b"..", b"a.", b".a", b"a..b", b">.a", b"a.>.b"),
    *(b"a b", b"a\tb", b"a\rb", b"a\nb"),
]
LITERAL = [b"a", b"a.b", b"a*", b"*a", b">a", b"**", b"a.b*", b"a.>x"]
WILDCARD = [b"*", b">", b"a.*", b"*.a", b"a.>", b"a.*.b", b"*.>"]


@pytest.mark.parametrize("subject", VALID)
def test_valid(subject: bytes) -> None:
    assert subjects.is_valid_subject(subject)


@pytest.mark.parametrize("subject", INVALID)
def test_invalid(subject: bytes) -> None:
    assert not subjects.is_valid_subject(subject)
    assert not subjects.is_valid_publish_subject(subject)


@pytest.mark.parametrize("subject", LITERAL)
def test_literal(subject: bytes) -> None:
    assert subjects.is_literal(subject)
    assert subjects.is_valid_publish_subject(subject)


@pytest.mark.parametrize("subject", WILDCARD)
def test_wildcard(subject: bytes) -> None:
    assert not subjects.is_literal(subject)
    assert not subjects.is_valid_publish_subject(subject)


@pytest.mark.parametrize(
    ("literal", "pattern", "expected"),
    [
        (b"a", b"a", True),
        (b"a", b"b", False),
        (b"a", b"A", False),
        (b"a", b"*", True),
        (b"a", b">", True),
        (b"a.b", b"*", False),
        (b"a.b", b">", True),
        (b"a", b"a.>", False),
        (b"a.b", b"a.>", True),
        (b"a.b.c.d", b"a.>", True),
        (b"a.b.c", b"a.*.c", True),
        (b"a.b.c", b"*.*.*", True),
        (b"a.b.c", b"*.*", False),
        (b"a.b", b"*.*.*", False),
        (b"ab", b"a", False),
        (b"a", b"ab", False),
        (b"a.b", b"a", False),
        (b"a", b"a.b", False),
        (b"a.*", b"a.*", True),  # a wildcard in the literal is the byte it is
        (b"a.*", b"a.b", False),
        (b"*", b"a", False),
        (b"a*", b"a*", True),
        (b"ab", b"a*", False),
        (b"a..b", b"a.*.b", False),
        (b"a..b", b"a.>", False),
        (b"a..b", b">", False),
        (b"", b">", False),
        (b"a.", b"a.*", False),
        (b"a.", b">", False),
        (b".a", b"*.a", False),
        (b".a", b">", False),
    ],
)
def test_matches(literal: bytes, pattern: bytes, expected: bool) -> None:
    assert subjects.matches(literal, pattern) is expected


@pytest.mark.parametrize(
    ("pattern", "subject", "covered", "overlapping"),
    [
        (b"a", b"a", True, True),
        (b"*", b"a", True, True),
        (b"a", b"*", False, True),
        (b">", b"*.a", True, True),
        (b"*", b">", False, True),
        (b"a.>", b"a.*", True, True),
        (b"a.*", b"a.>", False, True),
        (b"a.>", b"a", False, False),
        (b"a.*.c", b"a.b.*", False, True),
        (b"a.*", b"b.*", False, False),
        (b"a.b", b"a.b.c", False, False),
        (b"a.b.c", b"a.b", False, False),
    ],
)
def test_covers_and_overlaps(
    pattern: bytes, subject: bytes, covered: bool, overlapping: bool
) -> None:
    assert subjects.covers(pattern, subject) is covered
    assert subjects.overlaps(pattern, subject) is overlapping
    assert subjects.overlaps(subject, pattern) is overlapping


def test_what_two_patterns_have_in_common() -> None:
    tokens = (b"a", b"b", b"*", b">")
    every = [b".".join(some) for size in (1, 2, 3) for some in product(tokens, repeat=size)]
    patterns = [one for one in every if subjects.is_valid_subject(one)]
    literals = [one for one in every if subjects.is_literal(one)] + [b"a.b.a.b"]
    for one, other in product(patterns, repeat=2):
        if subjects.overlaps(one, other):
            both = subjects.common(one, other)
            for literal in literals:
                in_both = subjects.matches(literal, one) and subjects.matches(literal, other)
                assert subjects.matches(literal, both) is in_both, (one, other, both)


def test_two_thousand_tokens() -> None:
    deep = b".".join([b"t"] * 2000)
    assert subjects.is_valid_subject(deep)
    assert subjects.matches(deep, b".".join([b"*"] * 2000))
    assert not subjects.matches(deep, b".".join([b"*"] * 1999))
