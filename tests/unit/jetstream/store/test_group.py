"""The last groups are kept in memory, and the buffers of those that go are used again."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.store.file.group import Group, RecentGroups, Segment
from midge.testing.simulated_disk import SimulatedDisk

_MIB = 1024 * 1024


def _group(size: int) -> Group:
    segment = Segment(1, SimulatedDisk(Random(1)).create("1"), 0, 0)
    return Group(1, segment, 0, bytearray(size))


def test_the_buffer_of_a_large_group_is_used_again_until_the_store_rests() -> None:
    recent = RecentGroups()
    group = _group(5 * _MIB)
    recent.keep(group)
    assert recent.find(group.segment, 0) is None
    assert recent.take_buffer() is group.data
    assert len(recent.take_buffer()) < _MIB
    recent.keep(group)
    recent.drop_buffer()
    assert len(recent.take_buffer()) < _MIB


def test_groups_that_are_begun_while_one_is_written_take_turns_with_two_buffers() -> None:
    segment = Segment(1, SimulatedDisk(Random(1)).create("1"), 0, 0)
    recent = RecentGroups()
    used: dict[int, bytearray] = {}  # by id: none of them goes, so that no id comes twice
    end = 0

    def begun() -> Group:
        group = Group(1, segment, end, recent.take_buffer())
        used[id(group.data)] = group.data
        group.used = 5_000
        return group

    recent.keep(begun())  # what the others are kept behind
    used.clear()
    for is_overlapped in [False, True, True, False, False, True, False] * 3:
        end += 5_000
        first = begun()
        end += 5_000
        second = begun() if is_overlapped else None
        recent.keep(first)
        if second is None:
            end -= 5_000
        else:
            recent.keep(second)
    assert len(used) == 2


def test_small_groups_are_kept() -> None:
    recent = RecentGroups()
    groups = [_group(64 * 1024) for _ in range(17)]
    for group in groups:
        recent.keep(group)
    recent.drop_buffer()
    assert recent.find(groups[-1].segment, 0) is groups[-1]
    assert recent.take_buffer() is groups[12].data  # four of 256 KiB are kept


@pytest.mark.parametrize(
    ("sizes", "backs"),
    [
        ([80, 264, 1_000, 30_000], (0, 8, 5_000, 300_000, 600_000)),
        ([80, 264, 30_000, 100_000], (0, 8, 5_000, 100_000)),
    ],
)
def test_groups_that_follow_each_other_are_found_where_they_are_kept(
    sizes: list[int], backs: tuple[int, ...]
) -> None:
    segment = Segment(1, SimulatedDisk(Random(1)).create("1"), 0, 0)
    recent = RecentGroups()
    random = Random(2)
    written = bytearray()
    for number in range(1, 2_000):
        used = random.choice(sizes)
        group = Group(number, segment, len(written), recent.take_buffer())
        group.data.extend(bytes(max(used - len(group.data), 0)))
        group.data[:used] = bytes([number % 251]) * used
        group.used = used
        recent.keep(group)
        written += group.data[:used]
        for back in backs:
            offset = len(written) - 8 - back
            if offset >= 0:
                found = recent.find(segment, offset)
                assert found is not None
                at = offset - found.base
                assert found.data[at : at + 8] == written[offset : offset + 8]
    assert recent.find(segment, len(written)) is None
    assert recent.find(segment, 0) is None
    recent.forget(segment)
    assert recent.find(segment, len(written) - 8) is None


def test_what_does_not_follow_is_kept_for_itself() -> None:
    first = Segment(1, SimulatedDisk(Random(1)).create("1"), 0, 0)
    second = Segment(2, SimulatedDisk(Random(1)).create("2"), 0, 0)
    recent = RecentGroups()
    for segment, base in ((first, 0), (second, 80), (second, 400)):
        group = Group(1, segment, base, recent.take_buffer())
        group.data[0] = (segment.number + base) % 256
        recent.keep(group)
    for segment, base in ((first, 0), (second, 80), (second, 400)):
        found = recent.find(segment, base)
        assert found is not None
        assert (found.base, found.data[0]) == (base, (segment.number + base) % 256)
    assert recent.find(second, 200) is None
