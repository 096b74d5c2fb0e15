"""The rows of messages, and the chains of those of one subject."""

from __future__ import annotations

import itertools
import random

import pytest

from midge.jetstream.store.message_index import MessageIndex
from midge.jetstream.store.subject_index import SubjectIndex


def test_rows_are_linked_to_those_of_their_subject() -> None:
    choose = random.Random(1)
    index, subjects = MessageIndex(), SubjectIndex(7)
    chains: dict[bytes, list[int]] = {}
    places: dict[int, tuple[int, int, int]] = {}
    seq = 0
    for _ in range(5000):  # five blocks and more, with gaps and with rows removed
        seq += choose.choice((1, 1, 1, 1, 2, 40))
        name = b"s%d" % choose.randrange(30)
        number = subjects.append(name, 0, len(name), seq)
        chain = chains.setdefault(name, [])
        assert subjects.before == (chain[-1] if chain else 0)
        places[seq] = choose.randrange(1 << 32), choose.randrange(1, 1 << 32), number
        index.enter(seq, seq, *places[seq], subjects.before)
        chain.append(seq)
    for chain in chains.values():
        for before, after in itertools.pairwise(chain):
            assert (index.after(before), index.before(after)) == (after - before, after - before)
        assert index.before(chain[0]) == index.after(chain[-1]) == 0
    for seq, place in places.items():
        position = index.locate(seq)
        block = index.block
        assert (block.offset(position), block.size(position), block.subject(position)) == place


@pytest.mark.parametrize("distance", [(1 << 32) - 2, (1 << 32) - 1, 1 << 40])
def test_a_chain_spans_any_distance(distance: int) -> None:
    index = MessageIndex()
    index.enter(1, 0, 0, 1, 0, 0)
    index.enter(1 + distance, 0, 0, 1, 0, 1)
    assert index.after(1) == index.before(1 + distance) == distance
    assert index.before(1) == index.after(1 + distance) == 0


def test_a_row_goes_behind_those_left_of_a_block() -> None:
    index = MessageIndex()
    for seq in range(1, 101):
        index.enter(seq, 0, seq, 1, 0, seq - 1)
    for seq in range(1, 100):  # so few are left that the block keeps only their rows
        index.discard(seq, index.locate(seq))
    index.enter(150, 0, 7, 1, 0, 100)
    assert index.after(100) == index.before(150) == 50
    assert index.block.offset(index.locate(150)) == 7
    for seq in (100, 150):
        index.discard(seq, index.locate(seq))
    index.enter(151, 0, 8, 1, 0, 0)  # in a new block for the same sequences
    assert (index.locate(150), index.block.offset(index.locate(151))) == (-1, 8)


def test_rows_stay_while_the_blocks_behind_them_come_and_go() -> None:
    index = MessageIndex()
    for seq in range(1, 101):
        index.enter(seq, 0, seq, 200 + seq, seq % 7, 0)
    for seq in (1025, 1026, 2049, 9999):
        index.enter(seq, 0, 0, 1, 0, 0)
        index.discard(seq, index.locate(seq))
    for seq in range(1, 101):
        row = index.locate(seq)
        block = index.block
        assert (block.offset(row), block.size(row), block.subject(row)) == (seq, 200 + seq, seq % 7)


@pytest.mark.parametrize("subjects", [1, 7, 100])
def test_rows_are_packed_once_where_limits_remove_the_oldest(subjects: int) -> None:
    index = MessageIndex()
    for seq in range(1, 3001):
        index.enter(seq, 0, 0, 1, seq % subjects, max(seq - subjects, 0))
    packed = index.block_number(1).rows
    for seq in range(1025, 1425):  # of the second block, as if the first one had gone before
        index.discard(seq, index.locate(seq))
        index.set_before(seq + subjects, 0)
    assert index.block_number(1).rows is packed
    assert index.before(1425) == index.before(1424 + subjects) == 0
    assert index.before(1425 + subjects) == subjects
