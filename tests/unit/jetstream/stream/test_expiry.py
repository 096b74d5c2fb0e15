"""Messages that expire, in files: the reads for that, and the waits for the disk."""

from __future__ import annotations

from typing import Any

import pytest

from midge.jetstream.stream.stream import Stream
from midge.testing.simulated_disk import SimulatedFile
from tests.support.jetstream_account import ColdRig

SECOND_NS = 10**9
HEAD = 48
BLOCK = 1024  # messages of which the index knows the first one's time


class AgeRig(ColdRig):
    """A stream whose messages end a minute after they were stored."""

    def make(self, **keys: Any) -> Stream:
        self.api(
            "STREAM.CREATE.A",
            {"name": "A", "subjects": ["a.>"], "storage": "file", "max_age": 60 * SECOND_NS}
            | {"duplicate_window": SECOND_NS, **keys},
        )
        return self.account.streams["A"]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that each read of a file asks for."""
    found: list[int] = []
    read = SimulatedFile.read

    def counted(file: SimulatedFile, position: int, size: int) -> bytes:
        found.append(size)
        return read(file, position, size)

    monkeypatch.setattr(SimulatedFile, "read", counted)
    return found


def test_of_long_messages_only_heads_are_read(sizes: list[int]) -> None:
    rig = AgeRig()
    stream = rig.make()
    rig.store(100, 70_000)
    sizes.clear()
    rig.advance(59)
    assert stream.store.messages == 101
    rig.advance(3)
    assert stream.store.messages == 0
    assert set(sizes) == {HEAD}


def test_the_times_of_one_block_of_the_index_are_read_at_most(sizes: list[int]) -> None:
    rig = AgeRig()
    stream = rig.make()
    rig.store(3 * BLOCK, 5_000)
    sizes.clear()
    rig.advance(65)
    assert stream.store.messages == 0
    assert sum(sizes) <= (2 * BLOCK + 10) * HEAD  # one read for its existence, one for its time


@pytest.mark.parametrize("size", [100, 5_000])
def test_what_is_not_in_the_page_cache_is_waited_for(size: int) -> None:
    rig = AgeRig()
    stream = rig.make()
    rig.store(300, size)
    rig.chill()
    rig.clock.advance(70)
    assert stream.store.messages == 301
    rig.advance(1)
    assert stream.store.messages == 0
    assert rig.disk.cold_reads == 0


def test_messages_of_which_markers_are_left_are_waited_for() -> None:
    rig = AgeRig()
    stream = rig.make(allow_msg_ttl=True, subject_delete_marker_ttl=3600 * SECOND_NS)
    rig.store(300, 5_000)
    rig.chill()
    rig.advance(70)
    assert stream.store.messages == 3, "a marker of each subject"
    assert rig.disk.cold_reads == 0


@pytest.mark.parametrize("marker_s", [0, 3600])
def test_messages_with_a_ttl_are_read_only_where_markers_are_left(
    marker_s: int, sizes: list[int]
) -> None:
    rig = AgeRig()
    keys = {"subject_delete_marker_ttl": marker_s * SECOND_NS} if marker_s else {}
    stream = rig.make(allow_msg_ttl=True, max_age=0, **keys)
    rig.store(300, 5_000, {"Nats-TTL": "10s"})
    rig.chill()
    sizes.clear()
    rig.advance(9)
    assert stream.store.messages == 301
    rig.advance(3602 if marker_s else 3)
    assert stream.store.messages == (3 if marker_s else 1)
    assert bool(sizes) == bool(marker_s)
    assert rig.disk.cold_reads == 0


def test_a_clock_that_is_exact_is_not_asked_again_and_again() -> None:
    rig = AgeRig()
    rig.clock.is_exact = True
    stream = rig.make(allow_msg_ttl=True, max_age=0, subject_delete_marker_ttl=3600 * SECOND_NS)
    rig.store(300, 5_000, {"Nats-TTL": "10s"})
    rig.chill()
    looks: list[int] = []
    rig.clock.advance(3601, lambda: looks.append(1))
    assert len(looks) < 200  # one in 30 s, as it is until then
    rig.advance(1)
    assert stream.store.messages == 3
    assert rig.disk.cold_reads == 0


def test_a_stream_that_is_deleted_meanwhile_waits_for_nothing() -> None:
    rig = AgeRig()
    rig.make()
    rig.store(10, 5_000)
    rig.chill()
    rig.clock.advance(70)
    rig.api("STREAM.DELETE.A")
    while rig.disk.pump_fetch():
        pass
    assert rig.clock.waiting() == 0


def test_a_message_that_cannot_be_read_does_not_keep_the_others() -> None:
    rig = AgeRig()
    stream = rig.make(allow_msg_ttl=True, subject_delete_marker_ttl=3600 * SECOND_NS)
    rig.store(10, 5_000)
    (inode,) = (one for one in rig.disk.entries.values() if len(one.data) > 1 << 20)
    at = inode.data.index(bytes(4_000), 0) + 1_000
    inode.data[at] ^= 1
    rig.advance(70)
    assert stream.store.first_seq > 11
