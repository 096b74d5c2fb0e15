"""Bytes of messages that are erased, and what else is there when that is interrupted."""

from __future__ import annotations

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
from midge.testing.simulated_disk import SimulatedDisk
from tests.support.each import each


def settle(directory: StoreDirectory, disk: SimulatedDisk) -> None:
    """Bring to the disk all there is to write."""
    directory.flush()
    while disk.pump():
        directory.flush()


def content(disk: SimulatedDisk) -> bytes:
    """Return what all segments hold."""
    return b"".join(disk.entries[name].data for name in disk.names() if name.endswith(".log"))


@pytest.mark.parametrize("has_power", [True, False], ids=["killed", "power failed"])
@each("seed", range(8))
def test_with_an_interval_an_erasure_spares_the_messages_around(seed: int, has_power: bool) -> None:
    disk = SimulatedDisk(seed)
    directory = StoreDirectory(disk, lambda: None)
    directory.set_sync_interval(60)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for time_ns in range(10):
        stream.append(b"s", b"", b"secret %d" % time_ns, time_ns)
        settle(directory, disk)
    stream.remove(5, True)
    settle(directory, disk)
    assert b"secret 4" not in content(disk)
    found = StoreDirectory(disk.killed() if has_power else disk.power_failed(), lambda: None)
    again = next(found.streams())
    assert [seq for seq in range(1, 11) if again.exists(seq)] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert again.lost == set()


def test_an_erasure_goes_on_while_others_are_asked_for() -> None:
    disk = SimulatedDisk()
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for time_ns in range(3):
        stream.append(b"s", b"", b"secret %d" % time_ns, time_ns)
    settle(directory, disk)
    called: list[int] = []
    for seq in (1, 2, 3):
        stream.remove(seq, True)
        stream.barrier(lambda seq=seq: called.append(seq))
        directory.flush()
    settle(directory, disk)
    assert b"secret" not in content(disk)
    assert sorted(called) == [1, 2, 3]
    assert not any(segment.has_erasures for segment in directory.log.segments)
