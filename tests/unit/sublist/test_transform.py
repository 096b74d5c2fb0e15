"""Transforms: each function, and what cannot be."""

from __future__ import annotations

from random import Random

import pytest

from midge.sublist.transform import Transform

RANDOM = Random(1)


def transform(source: str, destination: str, subject: str) -> str | None:
    mapped = Transform(source, destination, RANDOM).apply(subject.encode())
    return None if mapped is None else mapped.decode()


@pytest.mark.parametrize(
    ("source", "destination", "subject", "mapped"),
    [
        ("a", "b", "a", "b"),
        ("a", "b", "c", None),
        ("a.*", "b.$1", "a.x", "b.x"),
        ("a.*.*", "b.$2.$1", "a.x.y", "b.y.x"),
        ("a.*.*", "b.{{wildcard(2)}}.{{Wildcard( 1 )}}", "a.x.y", "b.y.x"),
        ("a.*", "b", "a.x", "b"),
        ("a.>", "b.>", "a.x.y", "b.x.y"),
        ("*.a.>", "b.$1.>", "x.a.y.z", "b.x.y.z"),
        (">", "p.>", "x.y", "p.x.y"),
        ("a.*", "$SYS.x", "a.b", "$SYS.x"),
        ("a.*", "b.$1", "a.x.y", None),
        ("a.*", "b.$1", "a..", None),
        ("a.*", "b.$1", "a.*", "b.*"),
        ("*", "{{split(1,-)}}", "abc-def--ghi-", "abc.def.ghi"),
        ("*", "{{split(1,-)}}", "abc", "abc"),
        ("*", "{{splitFromLeft(1,3)}}", "12345", "123.45"),
        ("*", "{{SplitFromLeft(1,5)}}", "12345", "12345"),
        ("*", "{{splitFromRight(1,3)}}", "12345", "12.345"),
        ("*", "{{splitfromright(1,9)}}", "12345", "12345"),
        ("*", "{{sliceFromLeft(1,2)}}", "12345", "12.34.5"),
        ("*", "{{sliceFromLeft(1,2)}}", "1234", "12.34"),
        ("*", "{{sliceFromRight(1,2)}}", "12345", "1.23.45"),
        ("*", "{{sliceFromRight(1,2)}}", "1234", "12.34"),
        ("*", "{{sliceFromRight(1,9)}}", "1234", "1234"),
        ("*", "{{left(1,2)}}", "1234", "12"),
        ("*", "{{left(1,9)}}", "1234", "1234"),
        ("*", "{{right(1,2)}}", "1234", "34"),
        ("*", "{{right(1,0)}}", "1234", "1234"),
        ("foo.*", "foo.{{partition(0,1)}}", "foo.a", "foo.0"),
        # Values that nats-server computes as well.
        ("foo.*", "{{partition(3,1)}}.$1", "foo.a", "1.a"),
        ("foo.*", "{{partition(3,1)}}.$1", "foo.b", "1.b"),
        ("foo.*.*", "{{partition(10,1,2)}}", "foo.a.b", "6"),
        ("p0", "bar.{{partition(10)}}", "p0", "bar.3"),
    ],
)
def test_functions(source: str, destination: str, subject: str, mapped: str | None) -> None:
    assert transform(source, destination, subject) == mapped


def test_random_numbers_stay_below_the_size() -> None:
    numbers = {transform("a", "{{random(3)}}", "a") for _ in range(100)}
    assert numbers == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("a..b", "c"),
        ("a", "b..c"),
        ("a", ""),
        ("a", "b.*"),
        ("a", "b.>.c"),
        ("a", "b c"),
        ("a", "b\r\nPING"),
        ("a.>", "b"),
        ("a", "b.>"),
        ("a", "b.$1"),
        ("a.*", "b.$2"),
        ("a.*", "b.$0"),
        ("a.*", "b.{{wildcard(2)}}"),
        ("a.*", "b.{{wildcard()}}"),
        ("a.*", "b.{{wildcard(1,1)}}"),
        ("a.*", "b.{{wildcard(x)}}"),
        ("a.*", "b.{{partition(x,1)}}"),
        ("a.*", "b.{{partition(2147483648,1)}}"),
        ("a.*", "b.{{partition(3,2)}}"),
        ("a.*", "b.{{left(1)}}"),
        ("a.*", "b.{{left(1,-1)}}"),
        ("a.*", "b.{{split(1,)}}"),
        ("a.*", "b.{{split(1,a b)}}"),
        ("a.*", "b.{{unknown(1,2)}}"),
        ("a.*", "b.{{unknown}}"),
    ],
)
def test_what_cannot_be_is_refused(source: str, destination: str) -> None:
    with pytest.raises(ValueError, match=r"expected|must|has|unknown"):
        Transform(source, destination, RANDOM)


@pytest.mark.parametrize("destination", ["b.$1", "b.$1.$1", "b.$1.$2.$2", "b.$1.{{left(2,1)}}"])
def test_an_import_must_use_each_wildcard_once(destination: str) -> None:
    Transform("a.*.*", "b.$2.$1", RANDOM, is_reversible=True)
    with pytest.raises(ValueError, match="once, unchanged"):
        Transform("a.*.*", destination, RANDOM, is_reversible=True)


def test_a_template_has_wildcards_within_tokens_and_may_drop_the_rest() -> None:
    template = Transform("a.*.>", "b.x$1-{{wildcard(1)}}", RANDOM, is_template=True)
    assert template.apply(b"a.1.2.3") == b"b.x1-1"
    assert Transform("a.*", "b.x$1", RANDOM).apply(b"a.1") == b"b.x$1"
    with pytest.raises(ValueError, match="must both end"):
        Transform("a.>", "b", RANDOM)
    with pytest.raises(ValueError, match="must both end"):
        Transform("a", "b.>", RANDOM, is_template=True)
