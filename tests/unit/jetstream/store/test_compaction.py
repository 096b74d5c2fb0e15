"""What a segment says is kept when it is rewritten or goes."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from midge.jetstream.store.disk import DiskFile
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.group import Segment
from midge.testing.simulated_disk import SimulatedDisk, SimulatedFile
from tests.support.each import each

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
        """Write everything from now on to another segment."""
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


def purged(store: Store, stream: FileStore, is_restarted: bool) -> tuple[Store, FileStore]:
    """Purge removed messages, in a separate segment, and perhaps restart on the files."""
    store.in_next_segment()
    stream.purge(b"gone")
    store.in_next_segment()
    store.settle()
    if not is_restarted:
        return store, stream
    again = Store(store.disk.killed())
    return again, next(again.directory.streams())


def unreadable(segment: Segment, patch: pytest.MonkeyPatch) -> None:
    """Make reads of a segment's file fail."""
    read = SimulatedFile.read

    def failing(file: SimulatedFile, position: int, size: int) -> bytes:
        if file is segment.file:
            raise OSError(errno.EIO, "read")
        return read(file, position, size)

    patch.setattr(SimulatedFile, "read", failing)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("last", ["message", "bounds", "configuration"])
def test_a_segment_of_messages_that_are_gone_goes_unread(
    monkeypatch: pytest.MonkeyPatch, last: str, is_restarted: bool
) -> None:
    """Facts about the stream that no later segment has are written again."""
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"left", b"", bytes(5000), 1)  # so much that this segment stays as it is
    store.in_next_segment()
    stream.append(b"gone", b"", bytes(200), 2)
    if last == "configuration":
        stream.save_config(b"{new}")
    if last == "bounds":
        stream.skip_to(7)
    last_seq = stream.last_seq
    store, stream = purged(store, stream, is_restarted)
    segment = store.directory.log.segments[1]
    unreadable(segment, monkeypatch)
    store.directory.compact()
    store.settle()
    assert segment not in store.directory.log.segments
    again = store.after_a_kill()
    assert (again.first_seq, again.last_seq, again.messages) == (1, last_seq, 1)
    assert again.last_time_ns == 2
    assert again.config() == (b"{new}" if last == "configuration" else b"{}")


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("kind", ["id", "removal", "consumer", "deletion", "purge"])
def test_a_segment_that_holds_more_than_messages_is_read(kind: str, is_restarted: bool) -> None:
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    other = store.directory.create_stream(b"$G", b"OTHER", b"{}")
    for time_ns in range(3):
        stream.append(b"left", b"", bytes(5000), time_ns)
    stream.append(b"removed", b"", b"", 4)
    stream.append(b"left", b"", b"", 5)
    store.in_next_segment()
    stream.append(b"gone", b"", bytes(200), 6, 0, 0, b"an id" if kind == "id" else None)
    if kind == "removal":
        stream.remove(4)
    elif kind == "purge":
        stream.purge(b"removed")
    elif kind == "consumer":
        stream.save_consumer(b"c", b"state")
    elif kind == "deletion":
        store.directory.delete_stream(other)
    store, stream = purged(store, stream, is_restarted)
    before = store.after_a_kill()
    stream.set_dedup_window(1000)
    store.directory.compact()
    store.settle()
    assert 2 not in [one.number for one in store.directory.log.segments]
    again = Store(store.disk.killed()).directory
    (after,) = [one for one in again.streams() if one.name == b"S"]
    assert len(list(again.streams())) == (1 if kind == "deletion" else 2)
    assert list(after.ids()) == list(before.ids())
    assert list(after.consumers()) == list(before.consumers())
    assert after.messages == (4 if kind in {"removal", "purge"} else 5)
    assert after.exists(4) == (kind not in {"removal", "purge"})


def test_what_could_not_be_read_at_the_start_is_not_unlinked_unread() -> None:
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"left", b"", bytes(5000), 1)
    store.in_next_segment()
    stream.append(b"gone", b"", bytes(200), 2)
    stream.append(b"hit", b"", bytes(200), 3)
    store.in_next_segment()
    stream.append(b"left", b"", b"", 4)
    store.settle()
    segment = store.directory.log.segments[1]
    segment.file.write(segment.end - 20, b"\1")
    store = Store(store.disk.killed())
    stream = next(store.directory.streams())
    assert [damage.seq for damage in store.directory.damages] == [3]
    stream.purge(b"gone")
    store.settle()
    store.directory.compact()
    store.settle()
    assert [one.number for one in store.directory.log.segments][:3] == [1, 2, 3]


def test_an_id_in_a_rewritten_segment_outlives_its_message() -> None:
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"left", b"", bytes(5000), 1)
    store.in_next_segment()
    stream.append(b"gone", b"", bytes(1000), 2)
    stream.append(b"later", b"", bytes(200), 3, 0, 0, b"an id")
    store.in_next_segment()
    segment = store.directory.log.segments[1]
    for subject in (b"gone", b"later"):
        stream.purge(subject)
        store.in_next_segment()
        store.settle()
        store.directory.compact()
        store.settle()
        assert segment.is_rewritten
    assert segment not in store.directory.log.segments
    assert list(store.after_a_kill().ids()) == [(b"an id", 3, 3)]


@each("seed", range(8))
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


@each("seed", range(8))
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


def test_what_is_compacted_is_fetched_from_the_disk_first() -> None:
    store = Store(SimulatedDisk())
    disk = store.disk
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    for number in range(400):  # of several slices
        stream.append(b"s", b"", b"%d " % number * 1000, number + 1)
    store.in_next_segment()
    stream.append(b"s", b"", b"later", 1000)
    for seq in range(1, 401):
        if seq % 10:
            stream.remove(seq)
    store.settle()
    before = disk.free
    disk.drop_pages()
    disk.cold_reads = 0
    store.directory.compact()
    store.settle()
    assert len(disk.fetches) == 1
    while disk.pump_fetch():
        store.settle()
    assert disk.cold_reads == 0
    assert disk.free > before + 1_000_000
    again = store.after_a_kill()
    assert again.messages == 41
    for seq in range(10, 401, 10):
        message = again.load(seq)
        assert message is not None
        assert message.payload == b"%d " % (seq - 1) * 1000


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_the_next_segment_waits_until_the_room_of_one_is_free(
    is_rewritten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else many files could be removed whose room is not free yet."""
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"first", b"", bytes(5000), 1)
    for seq in range(2, 6):
        store.in_next_segment()
        stream.append(b"gone", b"", bytes(1000), seq)
        if is_rewritten:
            stream.append(b"left", b"", b"", seq)
    store.in_next_segment()
    stream.purge(b"gone")
    store.settle()
    released: list[tuple[DiskFile, Callable[[], object]]] = []
    monkeypatch.setattr(store.disk, "release", lambda file, done: released.append((file, done)))
    files = [one.file for one in store.directory.log.segments[1:5]]
    store.directory.compact()
    for file in files:
        store.settle()
        store.directory.tick()
        store.settle()
        assert [one for one, _ in released] == [file]
        released.pop()[1]()
    assert stream.messages == (5 if is_rewritten else 1)


def test_a_segment_whose_removal_may_be_undone_is_not_let_go_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(SimulatedDisk())
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"first", b"", bytes(5000), 1)
    store.in_next_segment()
    stream.append(b"gone", b"", bytes(1000), 2)
    store.in_next_segment()
    stream.remove(2)
    store.settle()

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(store.disk, "sync_directory", fail)
    monkeypatch.setattr(store.disk, "release", lambda *_: pytest.fail("it is let go of"))
    segment = store.directory.log.segments[1]
    store.directory.compact()
    store.settle()
    assert segment.is_damaged
    assert segment in store.directory.log.segments
