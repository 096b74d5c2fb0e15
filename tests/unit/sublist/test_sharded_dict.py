"""A dictionary of very many entries behaves like one, and never copies itself as a whole."""

from __future__ import annotations

import random
import sys

import pytest

from midge.sublist.sharded_dict import ShardedDict

MANY = 200_000


def filled(count: int) -> ShardedDict:
    table = ShardedDict()
    for number in range(count):
        table.put(b"%d" % number, number)
    return table


@pytest.mark.parametrize("count", [0, 1, 40_000, 40_001, 100_000])
def test_what_was_put_is_there(count: int) -> None:
    table = filled(count)
    assert len(table) == count
    assert all(table.get(b"%d" % number) == number for number in range(count))
    assert table.get(b"other") is None
    assert b"other" not in table
    assert (b"0" in table) is (count > 0)
    assert sorted(table.values()) == list(range(count))


@pytest.mark.parametrize("count", [3, 100_000])
def test_all_can_be_taken_out(count: int) -> None:
    table = filled(count)
    assert table.pop(b"other") is None
    assert table.pop(b"1") == 1
    assert table.pop(b"1") is None
    assert sorted(table.pop_any() for _ in range(count - 1)) == [0, *range(2, count)]
    assert table.pop_any() is None
    assert len(table) == 0
    assert list(table.values()) == []


def test_few_keep_their_order_and_the_latest_goes_first() -> None:
    table = filled(1000)
    assert list(table.values()) == list(range(1000))
    assert [table.pop_any() for _ in range(1000)] == list(reversed(range(1000)))


def test_it_is_a_dictionary() -> None:
    choose, model, table = random.Random(1), {}, ShardedDict()
    for step in range(400_000):
        key = b"%d" % choose.randrange(90_000)
        if choose.random() < 0.7:
            model[key] = step
            table.put(key, step)
        elif choose.random() < 0.9:
            assert table.pop(key) == model.pop(key, None)
        assert table.get(key) == model.get(key)
        assert len(table) == len(model)
    assert sorted(table.values()) == sorted(model.values())
    assert len(table.parts()) > 1


def test_none_of_its_dictionaries_is_large() -> None:
    parts = filled(MANY).parts()
    assert max(map(len, parts)) < 1.2 * MANY / len(parts)
    assert max(map(sys.getsizeof, parts)) < 256 * 1024
