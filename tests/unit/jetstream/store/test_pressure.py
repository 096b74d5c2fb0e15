"""The data waiting for a slow disk is bounded, because publishers are held back."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest

from midge.jetstream.store.disk import DiskFile
from midge.jetstream.store.file import log
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.space import RESERVE, Space
from midge.jetstream.store.interface import StoreError, StoreFullError
from midge.testing.simulated_disk import SimulatedDisk


def test_pressure_begins_and_ends_once() -> None:
    disk = SimulatedDisk(Random(1))
    directory = StoreDirectory(disk, lambda: None)
    log = directory.log
    log.pressed_bytes = 20_000
    told: list[bool] = []
    log.on_pressure = told.append
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for i in range(25):
        stream.append(b"s", b"", b"x" * 1000, i)
    assert told == [True]
    directory.flush()
    assert told == [True, False], "the next group is filled while this one is written"
    stream.append(b"s", b"", b"x" * 1000, 99)
    disk.pump()
    assert told == [True, False]
    assert log.pending_bytes() < 10_000
    assert not log.is_pressed


def test_two_groups_wait_at_most() -> None:
    disk = SimulatedDisk(Random(1))
    directory = StoreDirectory(disk, lambda: None)
    log = directory.log
    log.pressed_bytes = 20_000
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for i in range(100):
        while not log.is_pressed:
            stream.append(b"s", b"", b"x" * 1000, i)
        directory.flush()  # the first is written, the second one waits for it
        assert log.pending_bytes() < 45_000
        while log.is_pressed:  # until the first and all work before the second are done
            assert disk.pump()


def test_a_failed_sync_ends_it() -> None:
    disk = SimulatedDisk(Random(1))
    directory = StoreDirectory(disk, lambda: None)
    directory.log.pressed_bytes = 20_000
    told: list[bool] = []
    directory.log.on_pressure = told.append
    stream = directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"s", b"", b"x" * 1000, 0)
    disk.fail_sync_at = 0
    directory.flush()
    for i in range(25):
        stream.append(b"s", b"", b"x" * 1000, i)
    directory.flush()
    assert told == [True]
    disk.pump()
    assert told == [True, False]
    with pytest.raises(StoreError, match="cannot be synced"):
        stream.append(b"s", b"", b"x", 100)


def test_a_full_disk_refuses_messages_and_takes_removals() -> None:
    disk = SimulatedDisk(Random(1))
    disk.free = 300_000
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    while not directory.log.full:
        with contextlib.suppress(StoreFullError):
            stream.append(b"s", b"", b"x" * 1000, stream.last_seq)
    last = stream.last_seq
    assert last > 50
    with pytest.raises(StoreFullError, match="no room"):
        stream.append(b"s", b"", b"y", 2000)
    stream.remove(2)
    stream.purge(None, last - 5)
    stream.log_consumer(b"c", b"an ack")
    directory.flush()
    while disk.pump():
        directory.flush()
    assert stream.visible_seq == last
    disk.free = 1 << 30
    directory.tick()
    assert stream.append(b"s", b"", b"x", 3000) == last + 1
    directory.flush()
    while disk.pump():
        directory.flush()
    (again,) = StoreDirectory(disk.killed(), lambda: None).streams()
    assert (again.first_seq, again.last_seq) == (last - 5, last + 1)
    assert [name for name, _, _ in again.consumers()] == [b"c"]


class FullDisk:
    """A store on a disk of 24 MiB, worked by hand."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.disk.free = 24 << 20
        self.directory = StoreDirectory(self.disk, lambda: None)
        self.stream = self.directory.create_stream(b"$G", b"S", b"{}")

    def settle(self) -> None:
        self.directory.flush()
        while self.disk.pump():
            self.directory.flush()

    def fill(self) -> int:
        """Store messages until one is refused; return how many were stored."""
        before = self.stream.last_seq
        with contextlib.suppress(StoreFullError):
            while True:
                self.stream.append(b"s", b"", b"x" * 65_000, self.stream.last_seq)
                self.settle()
        self.settle()
        return self.stream.last_seq - before

    def tick(self) -> None:
        """Advance two seconds: room is given back, and then used for messages."""
        for _ in range(2):
            self.directory.tick()
            self.settle()

    def reopened(self) -> FileStore:
        self.disk = self.disk.killed()
        self.directory = StoreDirectory(self.disk, lambda: None)
        assert self.directory.damages == []
        (self.stream,) = self.directory.streams()
        return self.stream


def test_a_disk_is_filled_and_purged_over_and_over() -> None:
    store = FullDisk()
    stored = []
    for _ in range(8):
        stored.append(store.fill())
        store.stream.purge(None, 0)
        store.settle()
        store.tick()
    assert min(stored) > 300, stored
    assert max(stored) - min(stored) < 40, stored
    last = store.stream.last_seq
    again = store.reopened()
    assert (again.first_seq, again.last_seq, again.messages) == (last + 1, last, 0)


def test_a_few_messages_left_do_not_hold_the_room_of_the_others() -> None:
    store = FullDisk()
    kept: list[int] = []
    stored = []
    for _ in range(6):
        stored.append(store.fill())
        for seq in kept:
            store.stream.remove(seq)
        kept = [store.stream.last_seq - i for i in range(0, 100, 10)]
        for seq in range(store.stream.first_seq, store.stream.last_seq + 1):
            if seq not in kept:
                store.stream.remove(seq)
        store.settle()
        store.tick()
    assert min(stored) > 250, stored
    again = store.reopened()
    assert [seq for seq in range(1, again.last_seq + 1) if again.load(seq)] == sorted(kept)


def test_a_last_segment_is_kept_where_there_is_room() -> None:
    store = FullDisk()
    for i in range(20):
        store.stream.append(b"s", b"", b"x" * 65_000, i)
    store.stream.purge(None, 0)
    store.settle()
    store.tick()
    assert [segment.number for segment in store.directory.log.segments] == [1]


def test_a_new_segment_gets_the_reserve_of_the_last_one() -> None:
    disk = SimulatedDisk(Random(1))
    space = Space(disk)
    old, following, third = (Segment(i, disk.create(f"{i}"), 0, 0) for i in (1, 2, 3))
    disk.free = 256 * 1024
    assert space.promise(old, 128 * 1024, True) == 0
    disk.free = 0
    assert not space.is_short
    assert space.begin(following, old, 100_000)
    assert space.is_short
    assert (old.allocated, following.allocated) == (100_000, RESERVE)
    disk.free = 0  # what else was given back has been taken
    assert not space.begin(third, following, 1_000)
    assert (following.allocated, third.allocated) == (RESERVE, 0)
    assert following.file.size() == RESERVE


def test_a_file_that_cannot_be_made_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 64 * 1024)
    store = FullDisk()

    def refuse(_: str) -> DiskFile:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store.disk, "create", refuse)
        for i in range(100):
            store.stream.append(b"s", b"", b"x" * 1000, i)
            store.settle()
        assert len(store.directory.log.segments) == 1
    store.stream.append(b"s", b"", b"x" * 1000, 100)
    store.settle()
    assert len(store.directory.log.segments) == 2
    assert store.reopened().messages == 101


def test_a_copy_that_cannot_be_made_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 64 * 1024)
    store = FullDisk()
    for i in range(100):
        store.stream.append(b"s", b"", b"x" * 1000, i)
        store.settle()
    store.stream.purge(None, 50)
    store.settle()
    first = store.directory.log.segments[0]

    def refuse(_: str) -> DiskFile:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store.disk, "create", refuse)
        store.tick()
    assert not first.is_rewritten
    store.tick()
    assert first.is_rewritten
    assert first.end < 16 * 1024
    assert store.reopened().messages == 51
