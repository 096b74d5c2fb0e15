"""Buffers of streams that are read, within one budget."""

from __future__ import annotations

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.fetches import ReadBuffers
from midge.testing.simulated_disk import SimulatedDisk


class Buffer:
    """Counts how often it was dropped."""

    def __init__(self) -> None:
        self.dropped = 0

    def drop_ahead(self) -> None:
        self.dropped += 1


def test_the_longest_unused_go_first() -> None:
    buffers = ReadBuffers(100)
    one, two, three = Buffer(), Buffer(), Buffer()
    for owner in (one, two, one, three):
        buffers.filled(owner, 40)
    assert [owner.dropped for owner in (one, two, three)] == [0, 1, 0]
    assert buffers.total_bytes == 80
    buffers.filled(three, 1000)
    assert [owner.dropped for owner in (one, two, three)] == [1, 1, 0]
    buffers.emptied(three)
    buffers.emptied(two)
    assert buffers.total_bytes == 0


def test_streams_share_the_budget_and_read_again_what_was_dropped() -> None:
    disk = SimulatedDisk()
    directory = StoreDirectory(disk, lambda: None)
    streams = [directory.create_stream(b"$G", b"S%d" % i, b"{}") for i in range(20)]
    for number in range(40):  # more groups than memory keeps
        for stream in streams:
            stream.append(b"s", b"", b"%d " % number * 50, 1)
        directory.flush()
        disk.pump()
    log = directory.log
    log.buffers._budget_bytes = 4000
    for seq in range(1, 41):
        for stream in streams:
            message = stream.load(seq)
            assert message is not None
            assert message.payload == b"%d " % (seq - 1) * 50
            assert log.buffers.total_bytes <= max(4000, 64 * 1024)
    for stream in streams:
        directory.delete_stream(stream)
    assert log.buffers.total_bytes == 0
