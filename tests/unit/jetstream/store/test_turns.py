"""Long work is split over turns of the event loop, which are counted here and not timed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from midge.jetstream.store import lookups
from midge.jetstream.store.file import compaction, log
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.interface import Keeper
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.turns import Turns
from midge.testing.simulated_disk import SimulatedDisk, SimulatedFile

Calls = list[Callable[[], None]]


def test_each_turn_does_one_piece() -> None:
    calls: Calls = []
    turns = Turns(calls.append)
    done: list[str] = []

    def work(name: str, pieces: int) -> Callable[[], bool]:
        def step() -> bool:
            done.append(name)
            return done.count(name) < pieces

        return step

    turns.add(work("a", 3))
    turns.add(work("b", 2))
    while calls:
        assert len(calls) == 1
        before = len(done)
        calls.pop()()
        assert len(done) == before + 1
    assert done == ["a", "b", "a", "b", "a"]


def test_a_turn_ends_with_its_time_and_accounts_have_turns_of_their_own() -> None:
    calls: Calls = []
    now_ns = 0
    turns = Turns(calls.append, lambda: now_ns)
    done: list[str] = []

    def work(name: str, pieces: int, piece_ns: int) -> Callable[[], bool]:
        def step() -> bool:
            nonlocal now_ns
            now_ns += piece_ns
            done.append(name)
            return done.count(name) < pieces

        return step

    hostile, other = turns.share(), turns.share()
    for number in range(4):
        hostile.start(work(f"h{number}", 2, 3_000_000))
    assert done == ["h0", "h1"]  # for the others there is no time left
    other.start(work("o", 1, 1_000))
    assert done == ["h0", "h1"]
    while calls:
        calls.pop()()
    assert done == ["h0", "h1", "h0", "o", "h1", "h2", "h3", "h2", "h3"]
    other.start(work("o", 2, 1_000))
    assert done[-1] == "o"
    assert not calls


def test_without_a_loop_everything_is_done_at_once() -> None:
    left = [3]

    def step() -> bool:
        left[0] -= 1
        return left[0] > 0

    Turns().add(step)
    assert left == [0]


def test_a_failing_piece_holds_up_no_other() -> None:
    calls: Calls = []
    turns = Turns(calls.append)
    done: list[int] = []

    def failing() -> bool:
        raise ValueError("of the first")

    def working() -> bool:
        done.append(1)
        return False

    turns.add(failing)
    turns.add(working)
    with pytest.raises(ValueError, match="of the first"):
        calls.pop()()
    calls.pop()()
    assert done == [1]


def test_subjects_are_forgotten_a_few_in_each_turn() -> None:
    calls: Calls = []
    store = MemoryStore(1, Turns(calls.append))
    for i in range(20_001):
        store.append(b"k.%d" % i, b"", b"x", i)
    assert store.purge(b"k.*", 20_001) == 20_000
    assert (store.messages, store.subject_count, store.first_seq) == (1, 1, 20_001)
    assert [state.subject for state in lookups.subjects(store, b">")] == [b"k.20000"]
    store.append(b"k.7", b"", b"y", 30_000)
    assert store.subject_count == 2
    turns = 0
    while calls:
        calls.pop()()
        turns += 1
        assert store.subject_count == 2
        assert store.last_for_subject(b"k.7") == 20_002
    assert turns == 4
    assert store.purge() == 2
    assert store.subject_count == 0


def test_thin_chunks_are_copied_one_in_each_turn() -> None:
    calls: Calls = []
    store = MemoryStore(1, Turns(calls.append))
    for i in range(8_000):
        store.append(b"a" if i % 4 else b"b", b"", b"x" * 1000, i)
    full = store.memory_bytes()
    assert store.purge(b"a") == 6_000
    before = store.memory_bytes()
    turns = 0
    while calls:
        calls.pop()()
        turns += 1
        after = store.memory_bytes()
        assert before - after <= 1024 * 1024
        before = after
    assert turns >= 7
    assert before < full / 2
    assert [store.load(seq).payload for seq in (1, 4_001, 7_997)] == [b"x" * 1000] * 3


def test_a_purge_is_one_short_record() -> None:
    disk = SimulatedDisk(Random(1))
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for i in range(5_000):
        stream.append(b"a.%d" % (i % 10), b"", b"x", i)
    directory.flush()
    disk.pump()
    for purge in ((b"a.*", 3_000), (b"a.7",), (None, 0, 10), (b"a.1", 0, 1)):
        stream.purge(*purge)
        assert directory.log.pending_bytes() < 400
        directory.flush()
        disk.pump()
    kept = [seq for seq in range(1, 5_001) if stream.exists(seq)]
    directory.close()
    (again,) = StoreDirectory(disk.killed(), lambda: None).streams()
    assert [seq for seq in range(1, 5_001) if again.exists(seq)] == kept


def test_compaction_reads_a_slice_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 64 * 1024)
    monkeypatch.setattr(compaction, "SLICE_BYTES", 4 * 1024)
    calls: Calls = []
    disk = SimulatedDisk(Random(1))
    directory = StoreDirectory(disk, lambda: None, calls.append)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for i in range(1_000):
        stream.append(b"a.%d" % (i % 3), b"", b"x" * 100, i)
        if i % 10 == 0:
            directory.flush()
            disk.pump()
    stream.purge(b"a.1")
    stream.purge(b"a.2")
    while directory.log.pending_bytes():
        directory.flush()
        disk.pump()
    sizes: list[int] = []
    read = SimulatedFile.read

    def counted(file: SimulatedFile, position: int, size: int) -> bytes:
        sizes.append(size)
        return read(file, position, size)

    monkeypatch.setattr(SimulatedFile, "read", counted)
    before = directory.size()
    directory.compact()
    turns = 0
    while calls or disk.pump():
        if calls:
            sizes.clear()
            calls.pop()()
            assert len(sizes) <= 1
            assert sum(sizes) <= 4 * 1024
            turns += 1
    assert turns > 30
    assert directory.size() < before / 2
    assert [stream.load(seq).payload for seq in (1, 4, 997)] == [b"x" * 100] * 3


class Reader(Keeper):
    """Reads the removed messages, up to a number."""

    def __init__(self, store: MemoryStore, most: int) -> None:
        self.store = store
        self.most = most
        self.read: list[int] = []
        store.keepers.append(self)

    def removing(self, seq: int) -> None:
        assert self.store.load(seq) is not None
        self.read.append(seq)
        if len(self.read) == self.most:
            self.store.keepers.remove(self)


def test_keepers_read_what_a_sweep_removes() -> None:
    store = MemoryStore(1)
    for i in range(100):
        store.append(b"a.%d" % (i % 2), b"", b"x", i)
    one, other = Reader(store, 1000), Reader(store, 10)
    store.purge(b"a.1", 0, 20)
    assert one.read == list(range(2, 61, 2))
    assert other.read == one.read[:10]
    store.enforce(40, -1)
    gone = [*range(1, 60, 2), *range(2, 61, 2)]
    assert sorted(one.read) == sorted(gone)
    assert [store.exists(seq) for seq in gone] == [False] * 60
