"""The last groups are kept in memory, and the buffers of those that go are used again."""

from __future__ import annotations

from random import Random

from midge.jetstream.store.file.group import Group, Segment
from midge.jetstream.store.file.recent import RecentGroups
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


def test_small_groups_are_kept() -> None:
    recent = RecentGroups()
    groups = [_group(64 * 1024) for _ in range(17)]
    for group in groups:
        recent.keep(group)
    recent.drop_buffer()
    assert recent.find(groups[-1].segment, 0) is groups[-1]
    assert recent.take_buffer() is groups[0].data
