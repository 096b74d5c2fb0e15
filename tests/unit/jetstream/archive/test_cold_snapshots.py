"""Messages that are removed while a snapshot is written, and are on the disk alone."""

from __future__ import annotations

from typing import Any

import pytest

from midge.jetstream.stream.stream import Stream
from tests.support.jetstream_account import ColdRig
from tests.unit.jetstream.archive.test_transfers import TO, Rig

MESSAGES = 300


class ColdSnapshotRig(Rig, ColdRig):
    """A snapshot of a stream of which nothing is in memory has begun."""

    def __init__(self, size: int = 1_000, **keys: Any) -> None:
        super().__init__()
        keys = {"name": "A", "subjects": ["a.>"], "storage": "file", **keys}
        self.api("STREAM.CREATE.A", keys)
        self.store(MESSAGES, size)
        assert self.stream.contents.remove(MESSAGES + 1)  # it is larger than an entry may be
        self.settle()
        self.chill()
        self.snapshot()

    @property
    def stream(self) -> Stream:
        return self.account.streams["A"]

    def acknowledge(self, reply: bytes) -> bool:
        super().acknowledge(reply)
        return True  # after the last chunk there is nothing to be acknowledged any more

    def work(self) -> None:
        self.advance(0.001)

    def finish(self) -> list[int]:
        """Receive the rest; return the sequences in the archive."""
        found, block = self.receive_all()
        assert block == b"NATS/1.0 204\r\n\r\n" or not block
        assert self.stream.store.keepers == []
        return [one.seq for one in found[1:-1]]


EVERY = list(range(1, MESSAGES + 1))


@pytest.mark.parametrize("size", [1_000, 70_000])
def test_what_is_removed_is_kept_without_waiting_for_the_disk(size: int) -> None:
    rig = ColdSnapshotRig(size)
    for seq in (200, 7, 100, 101, 102):
        assert rig.stream.contents.remove(seq)
    rig.stream.purge(b"a.1", 150, 0)
    rig.stream.purge(None, 0, 10)
    assert rig.disk.cold_reads == 0
    assert rig.finish() == EVERY
    assert rig.disk.cold_reads == 0


def test_what_is_erased_is_read_before() -> None:
    rig = ColdSnapshotRig()
    assert rig.stream.contents.remove(200, erase=True)
    rig.settle()
    assert rig.finish() == EVERY
    assert rig.disk.cold_reads == 1


@pytest.mark.slow  # interpreted, packing 60 MB takes a minute
def test_segments_that_go_or_are_rewritten_meanwhile_are_read_all_the_same() -> None:
    rig = ColdSnapshotRig(200_000)  # several segments
    segments = len(rig.disk.names())
    assert segments > 4
    rig.stream.purge(b"a.1", 0, 0)
    rig.stream.purge(None, 200, 0)
    closed: list[object] = []
    release = rig.disk.release
    rig.disk.release = lambda file, done: (closed.append(file), release(file, done))  # type: ignore[method-assign]
    for number in range(500):
        rig.clock.advance(0.0)
        rig.settle()
        rig.directory.compact()
        if number == 20:
            assert len(rig.disk.names()) < segments, "one that is all dead has gone"
            assert not closed, "but is still read"
        if number >= 20:
            rig.disk.pump_fetch()
    assert rig.finish() == EVERY
    assert len(closed) >= 3


def test_a_message_that_cannot_be_read_is_left_out() -> None:
    rig = ColdSnapshotRig()
    assert rig.stream.contents.remove(200)
    for inode in rig.disk.entries.values():
        at = bytes(inode.data).find(b"a.1" + bytes(1_000))
        while at >= 0:
            inode.data[at + 20] ^= 1
            at = bytes(inode.data).find(b"a.1" + bytes(1_000), at + 1)
    assert rig.finish() == EVERY[::2]


def test_a_snapshot_that_ends_meanwhile_needs_nothing_any_more() -> None:
    rig = ColdSnapshotRig()
    for seq in range(100, 200):
        assert rig.stream.contents.remove(seq)
    (sending,) = rig.account.transfers.sending.values()
    sending.stop()
    rig.advance(1.0)
    assert rig.wire.to(TO) == []


def test_a_directory_that_is_closed_meanwhile_reads_nothing_any_more() -> None:
    rig = ColdSnapshotRig()
    for seq in range(100, 200):
        assert rig.stream.contents.remove(seq)
    rig.directory.close()
    read = rig.disk.cold_reads  # by the checkpoint, which is written at last
    while rig.disk.pump_fetch():
        pass
    assert rig.disk.cold_reads == read
