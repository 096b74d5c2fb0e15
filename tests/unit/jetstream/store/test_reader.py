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
