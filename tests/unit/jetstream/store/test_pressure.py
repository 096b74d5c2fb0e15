"""What waits for a slow disk is bounded: whoever publishes is told to wait."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
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
    stream.append(b"s", b"", b"x" * 1000, 99)
    disk.pump()
    assert told == [True, False]
    assert log.pending_bytes() < 10_000
    assert not log.is_pressed


def test_a_failed_sync_ends_it() -> None:
    disk = SimulatedDisk(Random(1))
    directory = StoreDirectory(disk, lambda: None)
    directory.log.pressed_bytes = 20_000
    told: list[bool] = []
    directory.log.on_pressure = told.append
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for i in range(25):
        stream.append(b"s", b"", b"x" * 1000, i)
    disk.fail_sync_at = 0
    directory.flush()
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
