"""Bytes of messages that are erased, and what else is there when that is interrupted."""

from __future__ import annotations

import pytest

from midge.jetstream.store.file import log
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


def test_compaction_keeps_the_removal_of_an_erased_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record is there without a sound body: without the removal it would count as lost."""
    monkeypatch.setattr(log, "SEGMENT_MAX", 4096)
    disk = SimulatedDisk(1)
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    firsts: dict[int, int] = {}

    def publish(count: int) -> None:
        for _ in range(count):
            stream.append(b"s", b"", b"x" * 300, 1)
            settle(directory, disk)
            firsts.setdefault(directory.log.segments[-1].number, stream.last_seq)

    def remove_and_compact(first: int, end: int) -> None:
        for seq in range(first, end):
            stream.remove(seq)
        for _ in range(20):
            directory.tick()
            settle(directory, disk)

    publish(60)
    erased = firsts[2]
    stream.remove(erased, True)
    settle(directory, disk)
    has_removal = directory.log.segments[-1].number
    publish(30)
    disk = disk.killed()
    disk.entries.pop("checkpoint", None)
    directory = StoreDirectory(disk, lambda: None)
    (stream,) = directory.streams()
    remove_and_compact(2, erased)
    remove_and_compact(firsts[has_removal - 1], firsts[has_removal - 1] + 14)
    rewritten = {one.number for one in directory.log.segments if one.is_rewritten}
    assert rewritten == {1, has_removal}
    found = StoreDirectory(disk.killed(), lambda: None)
    assert found.damages == []
    assert next(found.streams()).lost == set()
