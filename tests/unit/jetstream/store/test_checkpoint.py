"""A checkpoint spares a start the reading of the log, and never contradicts it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import ClassVar

import pytest

from midge.jetstream.store.disk import DiskFile
from midge.jetstream.store.encrypted_disk import UserKeys
from midge.jetstream.store.file import checkpoints, directory, frames, log, opening
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.file.recovery import Replay
from midge.testing.simulated_disk import SimulatedDisk, Stopped
from tests.simulation.test_damage import copied
from tests.simulation.world import quickly_stretched
from tests.support.store_states import state_of

NAME = "checkpoint"
NEW = "checkpoint.new"


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 8 * 1024)


def opened(disk: SimulatedDisk, keys: UserKeys | None = None) -> StoreDirectory:
    return StoreDirectory(disk, lambda: None, keys=keys)


def replayed(disk: SimulatedDisk, keys: UserKeys | None = None) -> StoreDirectory:
    """Open a copy of the store without its checkpoint."""
    disk = copied(disk)
    disk.entries.pop(NAME, None)
    return opened(disk, keys)


def fill(store: StoreDirectory, disk: SimulatedDisk, count: int = 120) -> None:
    """Put a little of everything into a store, in several segments."""
    one = store.create_stream(b"$G", b"ONE", b"config of one")
    two = store.create_stream(b"$G", b"TWO", b"config of two")
    gone = store.create_stream(b"$G", b"GONE", b"config")
    for number in range(count):
        ttl_s = 60 if number % 7 == 0 else 0
        msg_id = b"id %d" % number if number % 3 == 0 else None
        one.append(b"a.%d" % (number % 10), b"", b"x" * 200, number, 0, ttl_s, msg_id)
        two.append(b"b.%d" % number, b"NATS/1.0\r\nA: b\r\n\r\n", b"y", number)
        store.flush()
        disk.pump()
    for seq in (1, 2, 30, 31):
        one.remove(seq, seq == 30)
    one.trim_subject(b"a.5", 1)
    two.purge(b"b.*", 20)
    two.skip_to(count + 100)
    one.save_consumer(b"c", b"state")
    one.log_consumer(b"c", b"step", 40)
    one.save_consumer(b"d", b"other state")
    one.delete_consumer(b"d")
    store.delete_stream(gone)


def filled(keys: UserKeys | None = None) -> SimulatedDisk:
    """Return the disk of a store that was closed in good order."""
    disk = SimulatedDisk(Random(1))
    store = opened(disk, keys)
    fill(store, disk)
    store.close()
    assert store.unfit == ""
    return disk.killed()


def user_keys() -> UserKeys:
    return UserKeys(b"a key", stretch=quickly_stretched)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_start_with_a_checkpoint_finds_what_the_log_says(is_encrypted: bool) -> None:
    keys = user_keys() if is_encrypted else None
    disk = filled(keys)
    expected = state_of(replayed(disk, keys))
    store = opened(disk, keys)
    assert (store.unfit, store.damages) == ("", [])
    assert state_of(store) == expected
    assert [one.name for one in store.streams()] == [b"ONE", b"TWO"]
    assert store.create_stream(b"$G", b"NEXT", b"").number == 4


class CountingReplay(Replay):
    """Counts the segments that are replayed."""

    scans: ClassVar[list[int]] = []

    def scan(self, segment: Segment, data: bytearray) -> int:
        self.scans.append(segment.number)
        return super().scan(segment, data)


def test_the_old_segments_are_not_read_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = filled()
    monkeypatch.setattr(opening, "Replay", CountingReplay)
    CountingReplay.scans.clear()
    turns: list[Callable[[], None]] = []
    store = StoreDirectory(disk, lambda: None, turns.append)
    assert (store.unfit, CountingReplay.scans, store.is_checking()) == ("", [], True)
    replayed(disk)
    assert len(CountingReplay.scans) > 5


def test_what_comes_after_a_checkpoint_is_replayed() -> None:
    disk = filled()
    store = opened(disk)
    one, two = store.streams()
    for number in range(60):
        one.append(b"a.%d" % number, b"", b"z" * 300, 200 + number, 0, 0, b"new %d" % number)
    one.remove(7)
    one.purge(b"a.3")
    two.purge()
    one.log_consumer(b"c", b"another step", 50)
    store.create_stream(b"$G", b"THREE", b"config of three")
    store.flush()
    disk.pump()
    disk = disk.killed()
    assert NAME in disk.entries
    expected = state_of(replayed(disk))
    store = opened(disk)
    assert store.unfit == ""
    assert state_of(store) == expected
    store.close()  # and so a second time, with a checkpoint of them all
    disk = disk.killed()
    expected = state_of(replayed(disk))
    store = opened(disk)
    assert (store.unfit, state_of(store)) == ("", expected)


def test_each_flipped_bit_makes_a_checkpoint_unfit() -> None:
    disk = SimulatedDisk(Random(1))
    store = opened(disk)
    fill(store, disk, 3)
    store.close()
    disk = disk.killed()
    expected = state_of(replayed(disk))
    size = len(disk.entries[NAME].data)
    assert 1000 < size < 10_000
    for position in range(size):
        damaged = copied(disk)
        damaged.entries[NAME].data[position] ^= 1 << position % 8
        store = opened(damaged)
        assert store.unfit, position
        assert NAME not in damaged.entries
        assert state_of(store) == expected, position


def test_a_checkpoint_that_is_cut_short_or_too_long_is_unfit() -> None:
    disk = filled()
    expected = state_of(replayed(disk))
    size = len(disk.entries[NAME].data)
    for length in [*range(0, 200, 8), *range(200, size, 997), size - 8, size - 1, size + 8]:
        damaged = copied(disk)
        data = damaged.entries[NAME].data
        damaged.entries[NAME].data[:] = data[:length].ljust(length, b"\0")
        store = opened(damaged)
        assert store.unfit, length
        assert state_of(store) == expected


def test_a_checkpoint_of_another_store_is_unfit() -> None:
    disk, other = filled(), SimulatedDisk(Random(2))
    store = opened(other)
    fill(store, other)
    store.close()
    expected = state_of(replayed(disk))
    disk.entries[NAME] = other.entries[NAME]
    store = opened(disk)
    assert store.unfit == "a checksum does not match"
    assert state_of(store) == expected


def test_a_checkpoint_of_a_longer_log_is_unfit() -> None:
    """An older copy of the log has been put back, and the newer checkpoint was left."""
    disk = filled()
    older = copied(disk)
    store = opened(disk)
    for stream in store.streams():
        stream.purge()
    store.close()
    older.entries[NAME] = disk.entries[NAME]
    expected = state_of(replayed(older))
    store = opened(older)
    assert store.unfit == "it is newer than the store's head"
    assert state_of(store) == expected


def compacted(disk: SimulatedDisk, store: StoreDirectory) -> None:
    for _ in range(60):
        store.tick()
        disk.pump()
        store.flush()
        disk.pump()


def test_compaction_makes_a_checkpoint_unfit() -> None:
    disk = filled()
    stale = disk.entries[NAME]
    store = opened(disk)
    one, _ = store.streams()
    for seq in range(3, 60):
        one.remove(seq)
    compacted(disk, store)
    assert NAME not in disk.entries
    disk = disk.killed()
    expected = state_of(replayed(disk))
    assert state_of(opened(copied(disk))) == expected
    disk.entries[NAME] = stale  # the removal was lost in a power failure
    store = opened(disk)
    assert "segment" in store.unfit or "head" in store.unfit
    assert state_of(store) == expected


def test_a_segment_without_messages_may_go() -> None:
    disk = SimulatedDisk(Random(1))
    store = opened(disk)
    one = store.create_stream(b"$G", b"ONE", b"config")
    for number in range(60):
        one.append(b"a", b"", b"x" * 300, number)
        store.flush()
        disk.pump()
    store.close()
    store = opened(disk := disk.killed())
    (one,) = store.streams()
    one.purge(None, 3)
    store.flush()
    disk.pump()
    store.close()  # the last segment has only bounds and configurations
    store = opened(disk := disk.killed())
    segments = len(store.log.segments)
    compacted(disk, store)
    assert len(store.log.segments) == segments - 1
    (one,) = store.streams()
    one.append(b"a", b"", b"y", 100)
    store.flush()
    disk.pump()
    disk = disk.killed()
    expected = state_of(replayed(disk))
    store = opened(disk)
    assert (store.unfit, state_of(store)) == ("", expected)
    assert store.checkpoints.current is not None


def unclosed(count: int = 20) -> tuple[SimulatedDisk, StoreDirectory]:
    """Return a store of which everything is on the disk."""
    disk = SimulatedDisk(Random(1))
    store = opened(disk)
    fill(store, disk, count)
    store.flush()
    while disk.pump():
        store.flush()
    return disk, store


@pytest.mark.parametrize("has_power", [True, False])
def test_a_kill_at_any_step_of_a_stop_loses_nothing(has_power: bool) -> None:
    disk, _ = unclosed()
    expected = state_of(replayed(disk))
    del expected[b""]
    kept = 0
    for stop in range(100):
        disk, store = unclosed()
        disk.stop_at = disk.steps + stop
        try:
            store.close()
        except Stopped:
            disk = disk.killed() if has_power else disk.power_failed()
            kept += NAME in disk.entries
            found = state_of(opened(disk))
            del found[b""]
            assert found == expected, stop
        else:
            break
    assert 10 < stop < 99
    assert kept == 0 or not has_power


def test_a_full_disk_gets_no_checkpoint() -> None:
    for free in [0, 100, 5_000, 10_000, 1 << 20]:
        disk, store = unclosed(60)
        disk.free = free
        store.close()
        assert NEW not in disk.entries
        assert (NAME in disk.entries) == (free == 1 << 20), free
        disk = disk.killed()
        disk.free = 1 << 40
        expected = state_of(replayed(disk))
        store = opened(disk)
        assert (store.unfit, state_of(store)) == ("", expected)


def test_a_write_that_fails_leaves_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk turns out to be full in the middle of it."""
    disk, store = unclosed(60)
    create = disk.create

    def failing(name: str) -> DiskFile:
        file = create(name)
        disk.free = 3_000
        return file

    store.flush()
    disk.pump()
    monkeypatch.setattr(disk, "create", failing)
    store.close()
    assert not {NAME, NEW}.intersection(disk.entries)


def test_damage_in_old_segments_is_found_after_the_start() -> None:
    disk = filled()
    expected = state_of(replayed(disk))
    name = min(name for name in disk.entries if name.endswith(".log"))
    data = disk.entries[name].data
    at = data.index(b"x" * 200, 4000)
    data[at + 3] ^= 1
    turns: list[Callable[[], None]] = []
    store = StoreDirectory(disk, lambda: None, turns.append)
    found: list[str] = []
    store.on_damage = lambda damage: found.append(str(damage))
    assert store.is_checking()
    assert (store.unfit, store.damages) == ("", [])
    while store.is_checking():
        store.tick()
        while turns or disk.pump():
            if turns:
                turns.pop(0)()
    (damage,) = store.damages
    assert found == [str(damage)]
    (one, two) = store.streams()
    assert damage.owner == "$G > ONE"
    assert one.lost == {damage.seq}
    assert one.load(damage.seq) is None
    assert not two.lost
    assert NAME not in disk.entries
    store.close()
    assert NAME not in disk.entries  # as long as there is damage each start looks for it
    store = opened(disk.killed())
    assert [one.seq for one in store.damages] == [damage.seq]
    after = state_of(store)
    assert after[b"ONE"]["messages"].keys() == expected[b"ONE"]["messages"].keys() - {damage.seq}


@pytest.mark.parametrize("size", [80, 700, 3000])
def test_zeroed_bytes_in_old_segments_are_found(size: int) -> None:
    disk = filled()
    name = min(name for name in disk.entries if name.endswith(".log"))
    disk.entries[name].data[2000 : 2000 + size] = bytes(size)
    lost = {str(one) for one in replayed(disk).damages}
    store = opened(disk)
    assert store.unfit == ""
    assert lost
    assert store.damages
    messages = [one for stream in store.streams() for one in stream.lost]
    assert len(messages) == sum(one.seq > 0 for one in store.damages)


def test_old_segments_are_checked_a_share_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SHARE_BYTES", 2000)
    monkeypatch.setattr(checkpoints, "_SLICE", 500)
    disk = filled()
    turns: list[Callable[[], None]] = []
    store = StoreDirectory(disk, lambda: None, turns.append)
    disk.drop_pages()
    seconds = 0
    while store.is_checking():
        store.tick()
        seconds += 1
        while turns or disk.pump() or disk.pump_fetch():
            if turns:
                turns.pop(0)()
    assert seconds > 10
    assert store.damages == []
    assert disk.cold_reads == 0


class Running:
    """A store that writes a checkpoint while it goes on, a piece with each call of `write`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkpoints, "GROWN_MIN", 1000)
        monkeypatch.setattr(frames, "_PIECE", 3000)
        self.pieces: list[tuple[Callable[[], object], Callable[[], object]]] = []
        self.disk, self.store = unclosed(120)
        self.one, self.two = self.store.streams()
        monkeypatch.setattr(
            self.disk, "beside", lambda work, done: self.pieces.append((work, done))
        )
        self.store.tick()
        self.settle()
        while self.store._compaction is not None:
            self.settle()
        assert not self.pieces

    def settle(self) -> None:
        self.store.flush()
        while self.disk.pump():
            self.store.flush()

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.one.append(b"a.1", b"", b"more" * 60, 1000)
            self.two.append(
                b"b.new", b"", b"more" * 60, 1000, 0, 0, b"an id of %d" % self.two.last_seq
            )
            self.settle()

    def write(self) -> bool:
        """Write a piece; return False if there is none."""
        if self.pieces:
            work, done = self.pieces.pop(0)
            work()
            done()
            return True
        return False

    def killed(self) -> StoreDirectory:
        """Kill the store, and compare both starts."""
        disk = copied(self.disk)
        expected = state_of(replayed(disk))
        found = opened(disk)
        assert state_of(found) == expected
        return found


def test_a_running_store_writes_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Running(monkeypatch)
    run.publish()
    run.store.tick()
    pieces = 0
    run.settle()
    assert run.pieces
    while run.write():
        pieces += 1
        run.publish()  # changes rows that are not yet written
    assert pieces > 3
    assert NAME in run.disk.entries
    run.one.remove(50)
    run.publish(3)
    found = run.killed()
    assert found.unfit == ""
    assert found.checkpoints.current is not None
    last = found.checkpoints.current.last()
    assert 0 < sum(one.end for one in found.log.segments if one.number > last) < 8_000
    for _ in range(10):  # and a quarter later another one, once compaction has come to an end
        run.publish(40)
        run.store.tick()
        run.settle()
        while run.write():
            pass
    found = run.killed()
    assert found.checkpoints.current is not None
    assert found.checkpoints.current.last() > last


@pytest.mark.parametrize("change", ["remove", "compact", "fail", "stop", "delete"])
def test_a_change_ends_a_running_checkpoint(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Running(monkeypatch)
    run.publish()
    run.store.tick()
    run.settle()
    assert run.write()
    assert NEW in run.disk.entries
    if change == "remove":
        run.one.remove(60)
    elif change == "delete":
        run.store.delete_stream(run.two)
    elif change == "compact":
        once = [True]
        monkeypatch.setattr(directory, "is_worth_it", lambda _: bool(once) and once.pop())
        run.store.compact()
    elif change == "fail":
        run.disk.fail_sync_at = 0
        run.one.append(b"a", b"", b"", 1)
        run.settle()
        assert run.store.log.failure is not None
    else:
        run.store.close()
        assert NEW not in run.disk.entries
        run.killed()
        return
    run.settle()
    while run.write():
        pass
    assert not {NAME, NEW}.intersection(run.disk.entries)
    run.disk.fail_sync_at = -1
    run.killed()


def test_no_checkpoint_is_begun_while_messages_are_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Running(monkeypatch)
    for seq in range(41, 45):
        run.publish(40)
        run.one.remove(seq)
        run.store.tick()
        run.settle()
    assert not run.pieces


def test_a_checked_store_is_read_whole_and_keeps_its_checkpoint() -> None:
    disk = filled()
    before = {name: bytes(inode.data) for name, inode in disk.entries.items()}
    disk.entries[NAME].data[100] ^= 1
    store = StoreDirectory(disk, lambda: None, is_checked=True)
    assert (store.unfit, store.is_checking()) == ("", False)
    disk.entries[NAME].data[100] ^= 1
    assert disk.entries[NAME].data == before[NAME]


def test_numbers_and_strings_come_back() -> None:
    disk = SimulatedDisk(Random(1))
    file = disk.create("a")
    out = frames.CheckpointWriter(file, zlib.crc32(b"store"))
    random = Random(1)
    values: list[int | bytes] = []
    for _ in range(300):
        values += [random.randrange(1 << 64), random.randbytes(random.randrange(30))]
    random.shuffle(values)
    values.append(bytes(frames._FRAME))
    values.append(7)
    for value in values:
        if isinstance(value, int):
            out.number(value)
        else:
            out.octets(value)
    out.finish()
    source = frames.CheckpointReader(file, zlib.crc32(b"store"))
    for value in values:
        assert (source.number() if isinstance(value, int) else source.octets()) == value
    source.finish()
