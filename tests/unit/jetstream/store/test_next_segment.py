"""Which room is prepared for the next groups, and whether it is written with zeros."""

from random import Random

import pytest

from midge.jetstream.store.disk import Write
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.next_segment import SEGMENT_MAX, Chore, NextSegment
from midge.testing.simulated_disk import SimulatedDisk

KIB = 1024
MIB = 1024 * KIB


def prepared(end: int, allocated: int, synced: int) -> Write | None:
    """Return what is prepared behind a last segment, after a group of `synced` bytes."""
    disk = SimulatedDisk(Random(1))
    chores: list[Chore] = []
    segment = Segment(7, disk.create("segment"), end, allocated)
    NextSegment(disk, chores, SEGMENT_MAX).prepare(segment, synced)
    assert len(chores) <= 1
    return chores[0][0] if chores else None


@pytest.mark.parametrize(
    ("synced", "zeroed"), [(1, True), (64 * KIB, True), (64 * KIB + 1, False), (0, False)]
)
def test_room_for_small_groups_that_are_synced_is_zeroed(synced: int, zeroed: bool) -> None:
    write = prepared(8 * MIB, 8 * MIB, synced)
    assert write is not None
    assert (write.zeroed, write.extend) == (zeroed, 8 * MIB + (512 * KIB if zeroed else 4 * MIB))
    assert not write.sync
    of_next = prepared(SEGMENT_MAX, SEGMENT_MAX, synced)
    assert of_next is not None
    assert (of_next.zeroed, of_next.extend) == (zeroed, 512 * KIB if zeroed else 4 * MIB)


@pytest.mark.parametrize(("left", "asked"), [(300 * KIB, False), (200 * KIB, True)])
def test_room_that_is_zeroed_is_asked_for_when_half_of_it_has_gone(left: int, asked: bool) -> None:
    assert (prepared(8 * MIB, 8 * MIB + left, 1000) is not None) == asked
    assert prepared(8 * MIB, 8 * MIB + left, 1 * MIB) is not None


def test_a_store_in_which_little_happens_stays_small() -> None:
    assert prepared(30 * KIB, 64 * KIB, 300) is None
    write = prepared(33 * KIB, 64 * KIB, 300)
    assert write is not None
    assert write.extend == 128 * KIB
