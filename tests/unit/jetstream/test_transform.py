"""Subjects are changed, and transforms refused, as nats-server does."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.transform import StreamTransform, TransformError, check


@pytest.mark.parametrize(
    ("source", "destination", "subject", "changed"),
    [
        ("a.*", "b.$1", b"a.x", b"b.x"),
        ("a.*.*", "b.{{wildcard(2)}}.{{wildcard(1)}}", b"a.x.y", b"b.y.x"),
        ("a.>", "b.>", b"a.x.y", b"b.x.y"),
        (">", ">", b"a.b", b"a.b"),
        ("", "x.>", b"a.b", b"x.a.b"),
        ("a.*", "b.$1", b"c.x", None),
        ("a.*", "b.{{partition(5,1)}}", b"a.x", b"b.0"),
        ("a.*", "b.{{split(1,-)}}", b"a.x-y--z", b"b.x.y.z"),
        ("a.*", "b.{{splitFromLeft(1,2)}}", b"a.xyz", b"b.xy.z"),
        ("a.*", "b.{{SplitFromRight(1,2)}}", b"a.xyz", b"b.x.yz"),
        ("a.*", "b.{{sliceFromLeft(1,2)}}", b"a.vwxyz", b"b.vw.xy.z"),
        ("a.*", "b.{{sliceFromRight(1,2)}}", b"a.vwxyz", b"b.v.wx.yz"),
        ("a.*", "b.{{left(1,2)}}", b"a.xyz", b"b.xy"),
        ("a.*", "b.{{right(1,2)}}", b"a.xyz", b"b.yz"),
        ("a.*", "b.{{left(1,1)}}", "a.\u00e9x".encode(), b"b.\xc3"),
        ("a.*", "b.{{splitFromLeft(1,1)}}", "a.\u00e9x".encode(), b"b.\xc3.\xa9x"),
        ("a", "b.$x", b"a", b"b.$x"),
    ],
)
def test_a_subject_is_changed(
    source: str, destination: str, subject: bytes, changed: bytes | None
) -> None:
    check(source, destination)
    assert StreamTransform(source, destination, Random(1)).apply(subject) == changed


@pytest.mark.parametrize(
    ("source", "destination", "refusal"),
    [
        ("a.*", "b.$2", "wildcard index out of range in $2: [2]"),
        ("a", "b.{{wildcard(1)}}", "wildcard index out of range in {{wildcard(1)}}"),
        ("*", "{{foo(1)}}", "unknown function in {{foo(1)}}"),
        ("*", "{{wildcard()}}", "not enough arguments passed to the function in {{wildcard()}}"),
        ("*", "{{split(1,2,3)}}", "too many arguments passed to the function in {{split(1,2,3)}}"),
        (
            "*",
            "{{partition(x)}}",
            "function argument is invalid or in the wrong format in {{partition(x)}}",
        ),
        ("*", "a..b", "invalid transform"),
        ("*", "a.>.b", "invalid transform in b"),
    ],
)
def test_a_bad_destination_is_refused(source: str, destination: str, refusal: str) -> None:
    with pytest.raises(TransformError) as raised:
        check(source, destination)
    assert str(raised.value) == f"invalid mapping destination: {refusal}"


@pytest.mark.parametrize(("source", "destination"), [("a.>", "b"), ("*", "x.*"), ("a..b", "c")])
def test_subjects_that_do_not_go_together_are_refused(source: str, destination: str) -> None:
    with pytest.raises(TransformError, match="invalid subject"):
        StreamTransform(source, destination)
