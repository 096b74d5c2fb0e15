"""Which room is prepared for the next groups, and whether it is written with zeros."""

from random import Random

import pytest

from midge.jetstream.store.disk import Write
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.space import SEGMENT_MAX, Chore, NextSegment
from midge.testing.simulated_disk import SimulatedDisk

KIB = 1024
MIB = 1024 * KIB


def prepared(
    end: int, allocated: int, synced: int, is_lone: bool = False, free: int = 1 << 40
) -> Write | None:
    """Return the prepared room behind a last segment, after a group of `synced` bytes."""
    disk = SimulatedDisk(Random(1))
    disk.free = free
    chores: list[Chore] = []
    segment = Segment(7, disk.create("segment"), end, allocated)
    NextSegment(disk, chores, SEGMENT_MAX).prepare(segment, synced, is_lone)
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
    of_lone = prepared(8 * MIB, 8 * MIB, synced, is_lone=True)
    assert of_lone is not None
    assert of_lone.sync == zeroed  # they are on the disk before the groups are
    of_next = prepared(SEGMENT_MAX, SEGMENT_MAX, synced)
    assert of_next is not None
    assert (of_next.zeroed, of_next.extend) == (zeroed, 512 * KIB if zeroed else 4 * MIB)


@pytest.mark.parametrize(("synced", "extend"), [(MIB - 1, 4 * MIB), (MIB, 20 * MIB)])
def test_a_segment_for_large_groups_gets_all_its_room_at_once(synced: int, extend: int) -> None:
    write = prepared(14 * MIB, 20 * MIB, synced)
    assert write is not None
    assert (write.file.size(), write.extend) == (0, extend)
    of_last = prepared(4 * MIB, 4 * MIB, synced)
    assert of_last is not None
    assert of_last.extend == max(extend, 8 * MIB)
    on_small_disk = prepared(14 * MIB, 20 * MIB, synced, free=256 * MIB)
    assert on_small_disk is not None
    assert on_small_disk.extend == 4 * MIB


def test_what_a_full_disk_gave_is_given_back() -> None:
    """A file system may leave a file as long as it could be made."""
    disk = SimulatedDisk(Random(1))
    chores: list[Chore] = []
    room = NextSegment(disk, chores, SEGMENT_MAX)
    assert not room.give_back()
    room.prepare(Segment(7, disk.create("7"), SEGMENT_MAX, SEGMENT_MAX), 100 * KIB, is_lone=False)
    write, then = chores.pop()
    assert not room.give_back(), "it is being made longer"
    free = disk.free
    write.file.allocate(write.extend // 2)
    then(False)
    assert disk.free == free
    assert len(disk.names()) == 2
    assert room.give_back()
    assert disk.names() == ["7"]
    assert not room.give_back()


@pytest.mark.parametrize("synced", [300, 100 * KIB, 6 * MIB])
def test_nothing_is_asked_for_ahead_on_a_disk_that_is_nearly_full(synced: int) -> None:
    assert prepared(8 * MIB, 8 * MIB, synced, free=1 * MIB + 300 * KIB) is None


def test_room_that_was_refused_is_not_kept_in_part() -> None:
    disk = SimulatedDisk(Random(1))
    chores: list[Chore] = []
    segment = Segment(7, disk.create("7"), 64 * KIB, 0)
    segment.file.allocate(64 * KIB)
    segment.allocated = 64 * KIB
    room = NextSegment(disk, chores, SEGMENT_MAX)
    room.prepare(segment, 300, False)
    write, then = chores.pop()
    disk.free = 16 * KIB  # another program has taken the rest
    with pytest.raises(OSError, match="No space"):
        write.file.allocate(write.extend)
    assert disk.free == 0
    then(False)
    assert (disk.free, segment.file.size()) == (16 * KIB, 64 * KIB)
    assert not room.is_extending


@pytest.mark.parametrize(
    ("end", "synced", "asked"),
    [
        (3 * MIB, 6 * MIB, False),
        (4 * MIB, 6 * MIB, True),
        (12 * MIB - 1, 300, False),
        (12 * MIB, 300, True),
        (12 * MIB, MIB - 1, True),
        (12 * MIB, MIB, False),
    ],
)
def test_the_next_segment_is_there_before_the_last_one_is_full(
    end: int, synced: int, asked: bool
) -> None:
    """When a large group has been written, the next one is full: the following one needs room."""
    assert (prepared(end, 20 * MIB, synced) is not None) == asked


@pytest.mark.parametrize(("left", "asked"), [(300 * KIB, False), (200 * KIB, True)])
def test_room_that_is_zeroed_is_asked_for_when_half_of_it_has_gone(left: int, asked: bool) -> None:
    assert (prepared(8 * MIB, 8 * MIB + left, 1000) is not None) == asked
    assert prepared(8 * MIB, 8 * MIB + left, 1 * MIB) is not None


def test_space_is_reserved_before_other_chores_are_done() -> None:
    disk = SimulatedDisk(Random(1))
    other = Write(disk.create("other"), bytearray(8), 8, 0)
    chores: list[Chore] = [(other, lambda _: None)]
    segment = Segment(7, disk.create("segment"), 8 * MIB, 8 * MIB)
    NextSegment(disk, chores, SEGMENT_MAX).prepare(segment, MIB // 2, is_lone=False)
    assert [write.file for write, _ in chores] == [segment.file, other.file]


def test_a_store_in_which_little_happens_stays_small() -> None:
    assert prepared(30 * KIB, 64 * KIB, 300) is None
    write = prepared(33 * KIB, 64 * KIB, 300)
    assert write is not None
    assert write.extend == 128 * KIB


def test_what_was_written_past_memory_is_read_into_it() -> None:
    """From where it was last read to the last whole page, and at once when the next one begins."""
    disk = SimulatedDisk(Random(1))
    chores: list[Chore] = []
    room = NextSegment(disk, chores, SEGMENT_MAX)
    segment = Segment(7, disk.create("7"), 10_000, 10_000)

    def warmed(of: Segment, end: int) -> list[tuple[int, int]]:
        of.end = end
        room.prepare(of, 300, is_lone=True)
        asked = [(write.warm_start, write.warm_end) for write, _ in chores]
        for write, then in chores:
            of.allocated = max(of.allocated, write.extend)
            then(True)
        chores.clear()
        return asked

    assert warmed(segment, 30_000) == [(8192, 28_672)]
    assert warmed(segment, 35_000) == []
    assert warmed(segment, 400_000) == [(28_672, 397_312)]
    segment.end = 450_000
    after = Segment(8, disk.create("8"), 0, 512 * KIB)
    assert warmed(after, 5_000) == [(397_312, 446_464)]
    assert warmed(after, 6_000) == []


def test_room_of_zeros_is_known_from_where_it_began() -> None:
    disk = SimulatedDisk(Random(1))
    chores: list[Chore] = []
    room = NextSegment(disk, chores, SEGMENT_MAX)
    segment = Segment(7, disk.create("7"), 64 * KIB, 64 * KIB)

    def extended(synced: int, is_well: bool = True, is_lone: bool = True) -> tuple[int, int]:
        segment.end = segment.allocated
        room.prepare(segment, synced, is_lone)
        write, then = chores.pop()
        assert write.position == segment.allocated
        then(is_well)
        return segment.zeroed_from, segment.zeroed_to

    assert extended(300) == (64 * KIB, 128 * KIB)
    assert extended(300) == (64 * KIB, 256 * KIB)
    assert extended(300, is_well=False) == (64 * KIB, 256 * KIB)
    assert extended(100 * KIB) == (64 * KIB, 256 * KIB)  # that has no zeros
    assert extended(300, is_lone=False) == (64 * KIB, 256 * KIB)  # those may not be on the disk
    start = segment.allocated
    assert extended(300) == (start, segment.allocated)
