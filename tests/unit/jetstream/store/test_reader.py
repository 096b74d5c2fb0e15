"""Records are read back from the segments, some of them ahead."""

from __future__ import annotations

from midge.jetstream.store.file.directory import StoreDirectory
from midge.testing.simulated_disk import SimulatedDisk


def test_what_is_written_after_it_was_read_ahead_is_read_again() -> None:
    """A reader that lags behind finds messages that its buffer had only zeros of."""
    disk = SimulatedDisk()
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")

    def store(count: int) -> None:
        for _ in range(count):
            stream.append(b"s", b"", b"payload", 1)
            directory.flush()
            disk.pump()

    store(40)  # so many groups are not kept in memory
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
    for _ in range(40):  # so many groups are not kept in memory
        for size in range(60):
            stream.append(b"s", b"", b"x" * size, 1)
        directory.flush()
        disk.pump()
    for first in range(1, 40):  # so that what is read ahead ends anywhere in a record
        for seq in range(first, stream.last_seq + 1, first):
            assert stream.load(seq) is not None, (first, seq)
    assert stream.lost == set()
