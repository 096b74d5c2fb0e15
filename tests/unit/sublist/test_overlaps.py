from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from midge.sublist.overlaps import OverlapIndex
from midge.sublist.subjects import covers, overlaps

MANY = 5_000

SHAPES: dict[str, Callable[[int], bytes]] = {
    "literals": lambda i: b"s.%d" % i,
    "wildcards behind": lambda i: b"s.%d.*" % i,
    "wildcards before": lambda i: b"*.%d.>" % i,
    "wildcards that meet many literals": lambda i: (
        b"a.%d.b" % i if i < MANY / 2 else b"a.*.c%d" % i
    ),
}


def patterns(rng: random.Random, count: int) -> list[bytes]:
    """Return patterns of few tokens, of which many overlap."""
    made = []
    for _ in range(count):
        tokens = [rng.choice((b"a", b"b", b"c", b"*", b"*")) for _ in range(rng.randint(1, 4))]
        made.append(b".".join(tokens + [b">"] * (rng.random() < 0.2)))
    return made


def filled(some: list[bytes]) -> OverlapIndex:
    made = OverlapIndex()
    for number, pattern in enumerate(some):
        made.insert(pattern, number)
    return made


def test_a_set_finds_what_comparing_each_with_each_finds() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        some = patterns(rng, rng.randint(0, 7))
        pairs = [(i, j) for i in range(len(some)) for j in range(len(some)) if i != j]
        lowest = min((min(i, j) for i, j in pairs if overlaps(some[i], some[j])), default=-1)
        assert filled(some).first_overlap() == lowest, some
        is_covered = any(covers(some[i], some[j]) for i, j in pairs)
        assert filled(some).has_covered() == is_covered, some


def test_two_sets_overlap_as_their_patterns_do_also_after_removals() -> None:
    rng = random.Random(2)
    for _ in range(2_000):
        some, others = patterns(rng, rng.randint(0, 4)), patterns(rng, rng.randint(0, 4))
        one = filled([*others, *some])
        for pattern in rng.sample(others, len(others)):
            one.remove(pattern)
        assert one.size == len(some)
        expected = any(overlaps(a, b) for a in some for b in others)
        assert one.overlaps(filled(others)) == expected, (some, others)


def test_a_set_that_absorbed_others_is_as_if_it_had_been_filled_with_all() -> None:
    rng = random.Random(3)
    for _ in range(2_000):
        parts = [patterns(rng, rng.randint(0, 4)) for _ in range(3)]
        one, *others = map(filled, parts)
        for other in others:
            one.absorb(other)
            assert other.size == 0
            assert not other.overlaps(filled([b">"]))
        inserted = [pattern for part in parts for pattern in part]
        left = rng.sample(inserted, rng.randint(0, len(inserted)))
        for pattern in left:
            one.remove(pattern)
            inserted.remove(pattern)
        del other, others
        asked = patterns(rng, 3)
        assert one.size == len(inserted)
        assert one.overlaps(filled(asked)) == filled(inserted).overlaps(filled(asked)), parts


def test_what_another_set_begins_otherwise_is_absorbed_at_once() -> None:
    one = filled([b"a.%d" % i for i in range(MANY)])
    other = filled([b"b.%d" % i for i in range(MANY)])
    before = one.steps
    one.absorb(other)
    assert one.steps == before + 1
    assert one.size == 2 * MANY
    assert one.matches(b"b.%d" % (MANY - 1))


@pytest.mark.parametrize("shape", SHAPES)
def test_many_patterns_take_a_few_steps_each(shape: str) -> None:
    some = filled([SHAPES[shape](i) for i in range(MANY)])
    assert some.first_overlap() == -1
    assert not some.has_covered()
    assert not filled([b"other.%d.b.c" % i for i in range(MANY)]).overlaps(
        filled([b"s.%d.>" % i for i in range(MANY)])
    )
    assert some.steps < 12 * MANY


def test_patterns_of_many_tokens_need_no_stack() -> None:
    some = filled([b".".join([b"*"] * 200_000), b".".join([b"a"] * 200_000)])
    assert some.first_overlap() == 0
