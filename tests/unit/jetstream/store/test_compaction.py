"""What a segment says is kept when it is rewritten or goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.stream import FileStore
from midge.testing.simulated_disk import SimulatedDisk

Removal = Callable[[FileStore], object]

REMOVALS: dict[str, Removal] = {
    "removed": lambda stream: stream.remove(2),
    "erased": lambda stream: stream.remove(2, True),
    "acknowledged": lambda stream: stream.log_consumer(b"c", b"ack 2", 2),
    "purged by its subject": lambda stream: stream.purge(b"last"),
}


class Store:
    """A store directory on a simulated disk, which writes when `settle` is called."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.directory = StoreDirectory(disk, lambda: None)

    def settle(self) -> None:
        """Bring to the disk all there is to write."""
        self.directory.flush()
        while self.disk.pump():
            self.directory.flush()

    def in_next_segment(self) -> None:
        """Have everything from now on go to another segment."""
        self.settle()
        self.directory.log.leave_segment()

    def count(self, part: bytes) -> int:
        """Return how often `part` is in the log."""
        segments = self.directory.log.segments
        return sum(bytes(one.file.read(0, one.end)).count(part) for one in segments)

    def after_a_kill(self) -> FileStore:
        """Return the first stream as the next process finds it."""
        return next(Store(self.disk.killed()).directory.streams())


@pytest.mark.parametrize("way", REMOVALS)
@pytest.mark.parametrize("is_shared", [False, True], ids=["goes", "rewritten"])
def test_a_last_sequence_outlives_the_segment_of_its_message(way: str, is_shared: bool) -> None:
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    other = store.directory.create_stream(b"$G", b"OTHER", b"{}")
    stream.save_consumer(b"c", b"state")
    stream.append(b"first", b"", bytes(5000), 1)  # so much that this segment stays as it is
    store.in_next_segment()
    if is_shared:
        other.append(b"left", b"", b"", 1)
    stream.append(b"last", b"", bytes(200), 2)
    store.in_next_segment()
    REMOVALS[way](stream)
    store.settle()
    segment = store.directory.log.segments[1]
    store.directory.compact()
    store.settle()
    assert segment.is_rewritten == is_shared
    assert (segment in store.directory.log.segments) == is_shared
    again = store.after_a_kill()
    assert (again.first_seq, again.last_seq, again.messages) == (1, 2, 1)
    assert again.last_time_ns == 2
    assert again.append(b"next", b"", b"", 3) == 3


@pytest.mark.parametrize("seed", range(8))
def test_with_an_interval_a_segment_goes_after_a_sync(seed: int) -> None:
    store = Store(SimulatedDisk(seed))
    store.directory.set_sync_interval(60)
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"gone", b"", bytes(200), 1)
    store.in_next_segment()
    stream.append(b"left", b"", bytes(5000), 2)
    store.settle()
    store.directory.log.sync_written()
    store.settle()
    stream.purge(b"gone")
    store.in_next_segment()
    store.directory.compact()
    store.settle()
    assert store.directory.log.segments[0].number == 2
    again = next(Store(store.disk.power_failed()).directory.streams())
    assert (again.name, again.config()) == (b"S", b"{}")
    assert (again.first_seq, again.last_seq, again.messages) == (2, 2, 1)


@pytest.mark.parametrize("seed", range(8))
def test_with_an_interval_a_start_syncs_all_that_was_written(seed: int) -> None:
    store = Store(SimulatedDisk(seed))
    store.directory.set_sync_interval(60)
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    for time_ns in range(5):
        stream.append(b"s", b"", bytes(2000), time_ns)
        store.in_next_segment()
    restarted = Store(store.disk.killed())
    again = next(Store(restarted.disk.power_failed()).directory.streams())
    assert (again.first_seq, again.last_seq, again.messages) == (1, 5, 5)


def test_the_deletion_of_a_consumer_leaves_the_log_with_what_it_deletes() -> None:
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.save_consumer(b"consumer", b"state")
    stream.append(b"left", b"", bytes(5000), 1)
    store.in_next_segment()
    stream.delete_consumer(b"consumer")
    store.in_next_segment()
    store.directory.compact()
    store.settle()
    assert store.count(b"consumer") == 2, "the first segment, which stays, would bring it back"
    assert list(store.after_a_kill().consumers()) == []
    stream.purge(None, 0)
    store.in_next_segment()
    store.directory.compact()
    store.settle()
    assert store.count(b"consumer") == 0
    assert list(store.after_a_kill().consumers()) == []


def test_a_consumer_that_came_and_went_leaves_nothing() -> None:
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"left", b"", bytes(5000), 1)
    store.in_next_segment()
    stream.save_consumer(b"consumer", b"state")
    stream.delete_consumer(b"consumer")
    store.in_next_segment()
    store.directory.compact()
    store.settle()
    assert store.count(b"consumer") == 0
    stream.save_consumer(b"consumer", b"another")
    store.settle()
    assert list(store.after_a_kill().consumers()) == [(b"consumer", b"another", [])]


def test_with_an_interval_an_idle_store_writes_nothing() -> None:
    store = Store(SimulatedDisk())
    store.directory.set_sync_interval(3)
    store.directory.create_stream(b"$G", b"S", b"{}")
    for _ in range(12):
        store.directory.tick()
        store.settle()
    written, end = store.directory.log.written_groups, store.directory.log.segments[-1].end
    assert written == 2, "the stream, and how far it is synced"
    for _ in range(12):
        store.directory.tick()
        store.settle()
    assert store.directory.log.written_groups == written
    assert store.directory.log.segments[-1].end == end
