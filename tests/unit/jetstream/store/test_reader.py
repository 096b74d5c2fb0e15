"""Records are read back from the segments, some of them ahead."""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream.store.disk import Write
from midge.jetstream.store.file.directory import StoreDirectory
from midge.testing.simulated_disk import SimulatedCommitter, SimulatedDisk


def test_what_is_written_after_it_was_read_ahead_is_read_again() -> None:
    """A reader that lags behind finds messages that its buffer had only zeros of."""
    disk = SimulatedDisk()
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")

    def store(count: int) -> None:
        for _ in range(count):
            stream.append(b"s", b"", bytes(70_000), 1)
            directory.flush()
            disk.pump()

    store(40)  # more bytes than memory keeps
    for seq in range(1, 11):
        assert stream.load(seq) is not None
    store(60)
    for seq in range(11, 101):
        assert stream.load(seq) is not None
    assert stream.lost == set()


def test_a_record_whose_head_ends_behind_what_was_read_ahead_is_read_again() -> None:
    """Small messages count fewer bytes than the heads of their records have."""
    disk = SimulatedDisk()
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for _ in range(40):  # more groups than memory keeps
        for size in range(60):
            stream.append(b"s", b"", b"x" * size, 1)
        directory.flush()
        disk.pump()
    for first in range(1, 40):  # so that reading ahead ends anywhere in a record
        for seq in range(first, stream.last_seq + 1, first):
            assert stream.load(seq) is not None, (first, seq)
    assert stream.lost == set()


class WatchedDisk(SimulatedDisk):
    """Notes of each write whether it is passing."""

    def __init__(self) -> None:
        super().__init__()
        self.passing: list[bool] = []

    def committer(self, done: Callable[[int, int], None]) -> SimulatedCommitter:
        committer = super().committer(done)
        write = committer.write

        def watch(one: Write) -> None:
            self.passing.append(one.is_passing)
            write(one)

        committer.write = watch  # type: ignore[method-assign]
        return committer


def test_groups_are_passing_until_a_stream_reads_from_its_files() -> None:
    disk = WatchedDisk()
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")

    def store(count: int) -> None:
        disk.passing.clear()
        for _ in range(count):
            stream.append(b"s", b"", bytes(70_000), 1)
            directory.flush()
            disk.pump()

    store(40)  # more bytes than memory keeps
    assert stream.load(40) is not None
    store(1)
    assert disk.passing == [True]
    assert stream.first_time_ns() == 1  # for the info of a stream
    store(1)
    assert disk.passing == [True]
    assert stream.load(1) is not None
    store(1)
    assert disk.passing == [False]
    stream.delete()
    other = directory.create_stream(b"$G", b"T", b"{}")
    disk.passing.clear()
    other.append(b"s", b"", b"payload", 1)
    directory.flush()
    disk.pump()
    assert disk.passing[-1]
