"""Mappings: weights, cached subjects, and invalid mappings."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from midge.server.config.options import Mapping, MappingDestination
from midge.server.routing import mapping
from midge.server.routing.mapping import Mappings


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
    assert b"a." + b"x" * 1000 not in mapped._cache.entries


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
