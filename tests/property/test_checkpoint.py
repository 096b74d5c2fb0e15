"""A store that starts with a checkpoint is the one that a replay of its whole log makes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midge.jetstream.store.file import compaction, directory, log
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.testing.simulated_disk import SimulatedDisk
from tests.simulation.test_damage import copied
from tests.support.store_states import differences, state_of

SUBJECTS = [b"a", b"a.b", b"k.1", b"k.2", b"k.3", b"long.subject.with.some.tokens"]
NAMES = [b"c1", b"c2", b"another"]

subjects = st.sampled_from(SUBJECTS)
numbers = st.integers(0, 60)
steps = st.one_of(
    st.tuples(st.just("append"), subjects, st.sampled_from([0, -1, 5]), st.booleans(), numbers),
    st.tuples(st.just("many"), subjects, st.integers(1, 40)),
    st.tuples(st.just("remove"), numbers, st.booleans()),
    st.tuples(st.just("trim"), subjects),
    st.tuples(st.just("roll up"), st.sampled_from([None, b"k.*", b"a.>", *SUBJECTS]), numbers),
    st.tuples(st.just("limit"), numbers),
    st.tuples(st.just("expire"), numbers),
    st.tuples(st.just("skip"), st.sampled_from([1, 3, 5000])),
    st.tuples(st.just("consumer"), st.sampled_from(NAMES), numbers),
    st.tuples(st.just("ack"), st.sampled_from(NAMES), numbers),
    st.tuples(st.just("forget"), st.sampled_from(NAMES)),
    st.tuples(st.just("config"), numbers),
    st.tuples(st.just("create")),
    st.tuples(st.just("delete")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("restart")),
)


@pytest.fixture(autouse=True, scope="module")
def small_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "SEGMENT_MAX", 4 * 1024)
        patch.setattr(directory, "LEFT_MIN", 512)
        patch.setattr(compaction, "SLICE_BYTES", 1500)
        yield


class Program:
    """A store and the steps that were done with it."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.clock = 0
        self.open()

    def open(self) -> None:
        self.directory = StoreDirectory(self.disk, lambda: None)
        self.streams = list(self.directory.streams())

    def do(self, kind: str, *rest: object) -> None:
        if kind == "create" or not self.streams:
            stream = self.directory.create_stream(b"$G", b"S%d" % self.clock, b"config")
            stream.set_dedup_window(1 << 62)
            self.streams.append(stream)
            self.clock += 1
        getattr(self, kind.replace(" ", "_"), self.nothing)(self.streams[-1], *rest)
        self.settle()

    def settle(self) -> None:
        self.directory.flush()
        while self.disk.pump():
            self.directory.flush()

    def nothing(self, stream: FileStore) -> None:
        pass

    def append(
        self, stream: FileStore, subject: bytes, ttl_s: int, has_id: bool, size: int
    ) -> None:
        self.clock += 1
        msg_id = b"id %d" % self.clock if has_id else None
        headers = b"NATS/1.0\r\nA: b\r\n\r\n" if size % 3 == 0 else b""
        stream.append(subject, headers, b"x" * size * 5, self.clock, 0, ttl_s, msg_id)

    def many(self, stream: FileStore, subject: bytes, count: int) -> None:
        for _ in range(count):
            self.append(stream, subject, 0, False, 20)

    def remove(self, stream: FileStore, seq: int, erase: bool) -> None:
        stream.remove(seq, erase)

    def trim(self, stream: FileStore, subject: bytes) -> None:
        stream.trim_subject(subject, 1)

    def roll_up(self, stream: FileStore, subject: bytes | None, upto: int) -> None:
        stream.purge(subject, upto)

    def limit(self, stream: FileStore, count: int) -> None:
        stream.enforce(count, -1)

    def expire(self, stream: FileStore, time_ns: int) -> None:
        stream.expire(time_ns, 20)

    def skip(self, stream: FileStore, count: int) -> None:
        stream.skip_to(stream.last_seq + count)

    def consumer(self, stream: FileStore, name: bytes, number: int) -> None:
        stream.save_consumer(name, b"state %d" % number)

    def ack(self, stream: FileStore, name: bytes, seq: int) -> None:
        stream.log_consumer(name, b"ack %d" % seq, seq if stream.exists(seq) else 0)

    def forget(self, stream: FileStore, name: bytes) -> None:
        stream.delete_consumer(name)

    def config(self, stream: FileStore, number: int) -> None:
        stream.save_config(b"config %d" % number)

    def delete(self, stream: FileStore) -> None:
        self.directory.delete_stream(self.streams.pop())

    def compact(self, stream: FileStore) -> None:
        for _ in range(5):
            self.directory.tick()
            self.settle()

    def restart(self, stream: FileStore) -> None:
        """Stop in good order, and compare both starts."""
        self.directory.close()
        self.disk = self.disk.killed()
        self.compare()
        self.open()

    def compare(self) -> None:
        disk = copied(self.disk)
        disk.entries.pop("checkpoint", None)
        expected = state_of(StoreDirectory(disk, lambda: None))
        found = StoreDirectory(copied(self.disk), lambda: None)
        assert found.damages == []
        assert not differences(without_log(state_of(found)), without_log(expected))
        self.used = found.checkpoints.current is not None


def without_log(state: dict[bytes, dict[str, object]]) -> dict[bytes, dict[str, object]]:
    """Return a state without the figures of segments, which erasures make differ."""
    return {name: of for name, of in state.items() if name}


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, min_size=1, max_size=60))
def test_both_ways_of_a_start(program: list[tuple[object, ...]]) -> None:
    run = Program()
    for kind, *rest in program:
        run.do(str(kind), *rest)
    run.restart(run.streams[-1]) if run.streams else None
    assert not run.streams or run.used
    for kind, *rest in program[:10]:
        run.do(str(kind), *rest)
    run.disk = run.disk.killed()  # with a tail behind the checkpoint
    run.compare()
