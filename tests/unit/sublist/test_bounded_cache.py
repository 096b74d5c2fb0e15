"""Answers are kept up to a bound, and a full cache is cleared."""

from __future__ import annotations

from midge.sublist.bounded_cache import BoundedCache


def test_an_answer_is_kept() -> None:
    cache = BoundedCache(2)
    cache.put(b"a", 1)
    assert (cache.get(b"a"), cache.get(b"b"), len(cache)) == (1, None, 1)


def test_a_full_cache_is_cleared_for_the_next_answer() -> None:
    cache = BoundedCache(2)
    for number, key in enumerate((b"a", b"b", b"c")):
        cache.put(key, number)
    assert cache.entries == {b"c": 2}


def test_a_cache_never_has_more_than_its_most() -> None:
    cache = BoundedCache(3)
    for number in range(100):
        cache.put(number, number)
        assert len(cache) <= cache.most
        assert cache.get(number) == number
