"""The checker proves itself: each of these faults, planted in a store that has none, is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midge.jetstream.store.disk import Disk, Write
from midge.jetstream.store.encrypted_disk import EncryptedDisk
from midge.jetstream.store.file import (
    compaction,
    directory,
    log,
    log_identity,
    opening,
    replayed,
)
from midge.jetstream.store.file.compaction import Compaction
from midge.jetstream.store.file.file_store import FileStore, StreamSegments
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.log import Log
from midge.jetstream.store.file.recovery import Replay
from midge.jetstream.store.interface import StoreError
from midge.testing.simulated_disk import SimulatedCommitter, SimulatedDisk, SimulatedFile
from tests.simulation.world import (
    EncryptedWorld,
    FailingWorld,
    PassingWorld,
    PlainWorld,
    World,
    WrongState,
    run,
)

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: Patch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 8 * 1024)
    monkeypatch.setattr(compaction, "SLICE_BYTES", 1500)


def ack_before_sync(patch: Patch) -> None:
    result = SimulatedCommitter.result

    def without_sync(committer: SimulatedCommitter, job: Write) -> tuple[int, int]:
        job.sync = False
        return result(committer, job)

    patch.setattr(SimulatedCommitter, "result", without_sync)


def no_directory_sync(patch: Patch) -> None:
    patch.setattr(SimulatedDisk, "sync_directory", lambda disk: None)


def ack_before_write(patch: Patch) -> None:
    def at_once(committer: SimulatedCommitter, write: Write) -> None:
        committer.job = None
        committer.done(0, 0)

    patch.setattr(SimulatedCommitter, "write", at_once)


class Unchecked(Replay):
    """Believes every group that looks like one."""

    def group_end(self, segment: Segment, data: bytearray, at: int) -> int:
        if data[at + 12 : at + 13] != b"\1":
            return 0
        end = at + int.from_bytes(data[at + 48 : at + 56], "little")
        position = at
        while position < end:
            length = int.from_bytes(data[position + 8 : position + 12], "little")
            if length < 48 or position + length > len(data):
                return 0
            position += (length + 7) & ~7
        return end if position == end > at else 0


def checksums_unchecked(patch: Patch) -> None:
    patch.setattr(opening, "Replay", Unchecked)


def tail_not_cut(patch: Patch) -> None:
    patch.setattr(SimulatedFile, "truncate", lambda file, size: None)


class CutsTooMuch(Replay):
    """Takes the last group of a segment for torn."""

    def scan(self, segment: Segment, data: bytearray) -> int:
        end = Replay.scan(self, segment, data)
        return max(0, end - 80)


def tail_cut_too_early(patch: Patch) -> None:
    patch.setattr(opening, "Replay", CutsTooMuch)


def recovery_not_synced(patch: Patch) -> None:
    patch.setattr(SimulatedFile, "sync", unless_committing(SimulatedFile.sync))


def unless_committing(sync: Callable[[SimulatedFile], None]) -> Callable[[SimulatedFile], None]:
    def maybe(file: SimulatedFile) -> None:
        if any(committer.job is not None for committer in file.disk.committers):
            sync(file)

    return maybe


def page_cache_believed(patch: Patch) -> None:
    """The tail is synced at the start, but not written again."""
    write = SimulatedFile.write

    def only_new(file: SimulatedFile, position: int, data: bytes | bytearray) -> None:
        if file.inode.data[position : position + len(data)] != data:
            write(file, position, data)

    patch.setattr(SimulatedFile, "write", only_new)
    patch.setattr(SimulatedFile, "truncate", cut_if_longer_than_a_group)


def cut_if_longer_than_a_group(file: SimulatedFile, size: int) -> None:
    """A process that dies before it can cut off what a failed sync has left."""
    if not any(committer.job is not None for committer in file.disk.committers):
        file.inode.resize(size)


def rename_before_sync(patch: Patch) -> None:
    result = SimulatedCommitter.result

    def no_sync_of_copies(committer: SimulatedCommitter, job: Write) -> tuple[int, int]:
        job.sync = job.sync and (job.with_directory or not job.seal or job.position > 0)
        return result(committer, job)

    patch.setattr(SimulatedCommitter, "result", no_sync_of_copies)


class Visible(World):
    """Streams show their messages before they are durable."""

    def create(self) -> None:
        super().create()
        for stream in self.directory.streams():
            stream.is_async = True


class Halved(Replay):
    """Replays the whole records of a torn group."""

    def scan(self, segment: Segment, data: bytearray) -> int:
        end = Replay.scan(self, segment, data)
        at = end + 80
        while at + 48 <= len(data) and data[at + 12] in range(2, 12):
            length = int.from_bytes(data[at + 8 : at + 12], "little")
            number = int.from_bytes(data[at + 16 : at + 20], "little")
            stream: Any = self.stream_of(number)
            if stream is None or at + length > len(data):
                break
            replayed.replay(stream, data, at, segment, at)
            at += (length + 7) & ~7
        return at if at > end + 80 else end


def batch_cut_in_half(patch: Patch) -> None:
    patch.setattr(opening, "Replay", Halved)


def with_segments(patch: Patch, kind: type[StreamSegments]) -> None:
    class Store(FileStore):
        def __init__(self, log: Log, number: int, seed: int) -> None:
            super().__init__(log, number, seed)
            self.segments = kind(self)

    patch.setattr(opening, "FileStore", Store)


def tombstones_dropped_early(patch: Patch) -> None:
    class Segments(StreamSegments):
        def needs_tombstone(self, seq: int, group: int, segment: Segment) -> bool:
            return False

    with_segments(patch, Segments)


def purges_dropped_early(patch: Patch) -> None:
    class Segments(StreamSegments):
        def needs_purge(self, upto: int, group: int, segment: Segment) -> bool:
            return False

    with_segments(patch, Segments)


def deletions_of_consumers_dropped_early(patch: Patch) -> None:
    class Segments(StreamSegments):
        def needs_deletion(self, name: bytes, segment: Segment) -> bool:
            return False

    with_segments(patch, Segments)


def ids_forgotten(patch: Patch) -> None:
    class Segments(StreamSegments):
        def carry(
            self,
            segment: Segment,
            names: set[bytes],
            removals: list[int],
            ids: list[Any],
            purges: dict[bytes, int],
        ) -> None:
            StreamSegments.carry(self, segment, names, removals, [], purges)

    with_segments(patch, Segments)


def unread_though_it_holds_more(patch: Patch) -> None:
    """Ids, removals, consumers and deletions of streams go with a segment that is not read."""

    class Unread(Compaction):
        def read_on(self) -> bool:
            self.segment.holds_more = False
            return Compaction.read_on(self)

    patch.setattr(directory, "Compaction", Unread)


def not_noted_at_the_start(patch: Patch) -> None:
    """After a restart, what a segment holds besides messages is not known."""

    class Unnoted(Replay):
        def scan(self, segment: Segment, data: bytearray) -> int:
            end = Replay.scan(self, segment, data)
            segment.holds_more = False
            return end

    patch.setattr(opening, "Replay", Unnoted)


def told_by_no_other_segment(patch: Patch) -> None:
    """Configurations and sequences go with a segment that is not read."""

    class Segments(StreamSegments):
        def is_recorded_in(self, segment: Segment) -> bool:
            return False

    with_segments(patch, Segments)


def unlinked_before_it_is_durable(patch: Patch) -> None:
    """A segment goes before the removal of its messages is on the disk."""

    class Early(Compaction):
        def _carry(self) -> None:
            self._kept()

    patch.setattr(directory, "Compaction", Early)


def same_data_key(patch: Patch) -> None:
    patch.setattr(EncryptedDisk, "random_bytes", lambda disk, count: bytes(count))


def both_identities_at_once(patch: Patch) -> None:
    def rewrite(disk: Disk, found: list[Any], wanted: log_identity.LogIdentity) -> None:
        if found != [wanted, wanted]:
            for name in set(log_identity.NAMES) & set(disk.names()):
                disk.unlink(name)
            for name in log_identity.NAMES:
                log_identity._write(disk, name, wanted)

    patch.setattr(log_identity, "_write_where_missing", rewrite)


FAULTS = [
    ack_before_sync,
    ack_before_write,
    no_directory_sync,
    checksums_unchecked,
    tail_not_cut,
    tail_cut_too_early,
    recovery_not_synced,
    rename_before_sync,
    batch_cut_in_half,
    tombstones_dropped_early,
    purges_dropped_early,
    ids_forgotten,
]


def is_found(make: type[World] = World) -> bool:
    """Return whether some crashes of some worlds show that something is wrong."""
    for seed in range(200):
        try:
            run(seed, 40, make)
        except (WrongState, StoreError, AssertionError, LookupError, ValueError, OverflowError):
            return True
    return False


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(monkeypatch: Patch, fault: Callable[[Patch], None]) -> None:
    fault(monkeypatch)
    assert is_found()


def test_what_is_visible_before_it_is_durable_is_found() -> None:
    assert is_found(Visible)


def test_that_the_page_cache_is_believed_after_a_failed_sync_is_found(monkeypatch: Patch) -> None:
    page_cache_believed(monkeypatch)
    assert is_found(FailingWorld)


def test_a_deletion_of_a_consumer_dropped_early_is_found(monkeypatch: Patch) -> None:
    deletions_of_consumers_dropped_early(monkeypatch)
    assert is_found(PassingWorld)


@pytest.mark.parametrize(
    "fault",
    [
        unread_though_it_holds_more,
        not_noted_at_the_start,
        told_by_no_other_segment,
        unlinked_before_it_is_durable,
    ],
)
def test_a_fault_of_segments_that_go_unread_is_found(
    monkeypatch: Patch, fault: Callable[[Patch], None]
) -> None:
    fault(monkeypatch)
    assert is_found(PlainWorld)


@pytest.mark.parametrize("fault", [same_data_key, both_identities_at_once])
def test_a_fault_of_the_encryption_is_found(
    monkeypatch: Patch, fault: Callable[[Patch], None]
) -> None:
    fault(monkeypatch)
    assert is_found(EncryptedWorld)
