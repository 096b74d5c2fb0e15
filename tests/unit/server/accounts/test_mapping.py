"""Mappings: each function, weights, and what cannot be."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from midge.server.accounts import mapping
from midge.server.accounts.mapping import Mappings, Transform
from midge.server.config.options import Mapping, MappingDestination

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


def mappings(source: str, *destinations: tuple[str, int]) -> Mappings:
    return Mappings([table(source, *destinations)], Random(1))


def table(source: str, *destinations: tuple[str, int]) -> Mapping:
    return Mapping(
        source=source,
        destinations=tuple(
            MappingDestination(destination=name, weight_percent=weight)
            for name, weight in destinations
        ),
    )


def counted(mapped: Mappings, subject: bytes, count: int = 2000) -> Counter[bytes | None]:
    return Counter(mapped.map(subject) for _ in range(count))


def test_what_is_not_mapped_stays() -> None:
    assert mappings("a", ("b", 100)).map(b"x") == b"x"
    assert mappings("a", ("b", 100)).map(b"a..b") == b"a..b"


def test_weights_share_the_messages() -> None:
    counts = counted(mappings("a.*", ("b.$1", 70), ("c.$1", 30)), b"a.x")
    assert set(counts) == {b"b.x", b"c.x"}
    assert 1300 < counts[b"b.x"] < 1500


def test_what_the_weights_leave_stays() -> None:
    counts = counted(mappings("a", ("b", 40)), b"a")
    assert set(counts) == {b"a", b"b"}
    assert 700 < counts[b"b"] < 900


def test_naming_the_source_drops_what_the_weights_leave() -> None:
    counts = counted(mappings("a", ("a", 50)), b"a")
    assert set(counts) == {b"a", None}


def test_no_destination_leaves_all_as_it_is() -> None:
    assert counted(mappings("a"), b"a", 10) == {b"a": 10}
    assert counted(mappings("a", ("b", 0)), b"a", 10) == {b"a": 10}


def test_a_literal_source_goes_before_patterns_and_the_first_pattern_wins() -> None:
    mapped = Mappings(
        [table("a.*", ("one.$1", 100)), table("a.>", ("two.>", 100)), table("a.x", ("three", 100))],
        Random(1),
    )
    assert mapped.map(b"a.x") == b"three"
    assert mapped.map(b"a.y") == b"one.y"
    assert mapped.map(b"a.y.z") == b"two.y.z"


def test_random_destinations_are_not_remembered() -> None:
    counts = counted(mappings("a", ("b.{{random(2)}}", 100)), b"a", 100)
    assert set(counts) == {b"b.0", b"b.1"}


def test_the_memory_is_bounded() -> None:
    mapped = mappings("a.*", ("b.$1", 100))
    for i in range(3 * mapping.CACHE_MAX):
        assert mapped.map(b"a.%d" % i) == b"b.%d" % i
    assert len(mapped._cache) <= mapping.CACHE_MAX
    mapped.map(b"a." + b"x" * 1000)
    assert b"a." + b"x" * 1000 not in mapped._cache


@pytest.mark.parametrize(
    ("destinations", "text"),
    [
        ((("b", 60), ("c", 60)), "at most 100 % in all, got 120"),
        ((("b", 50), ("b", 50)), "duplicate destination 'b'"),
        ((("b.$1", 50),), "mapping of 'a': the source of"),
    ],
)
def test_bad_tables_name_their_source(destinations: tuple[tuple[str, int], ...], text: str) -> None:
    with pytest.raises(ValueError, match="mapping of 'a'") as raised:
        mappings("a", *destinations)
    assert text in str(raised.value)
