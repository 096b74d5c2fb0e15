"""Purges and lowered limits of large streams, in pieces, with the same outcome as at once.

Messages that expire, in files: the reads for that, and the waits for the disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from midge.jetstream.store import lookups
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.stream import removal
from midge.jetstream.stream.stream import Stream
from midge.testing.simulated_disk import SimulatedFile
from tests.support.jetstream_account import AccountRig, ColdRig

COUNT = 6_000

SECOND_NS = 10**9
HEAD = 48
BLOCK = 1024  # messages of which the index knows the first one's time


class Rig(AccountRig):
    """An account with one stream, whose requests are answered turns later."""

    def fill(self, **config: Any) -> Stream:
        stream = self.create(**config)
        random = Random(3)
        for _ in range(COUNT):
            stream.publish(b"a.%d.%d" % (random.randrange(3), random.randrange(40)), b"", b"", b"x")
        for seq in random.sample(range(1, COUNT), 500):
            stream.contents.remove(seq)
        self.outbox.sent.clear()
        return stream

    def begin(self, subject: str, body: dict[str, Any]) -> None:
        assert self.exchange("$JS.API." + subject, json.dumps(body).encode()) == []

    def turns(self, meanwhile: Callable[[], object] = lambda: None) -> tuple[int, dict[str, Any]]:
        """Run turns until the answer; return their number, and the answer."""
        count = 0

        def after() -> None:
            nonlocal count
            count += 1
            meanwhile()

        self.clock.advance(0.001, after)
        answers = [one for one in self.outbox.sent if one[0] == "_INBOX.1"]
        return count, json.loads(answers[0][2])


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(removal, "PIECE_MESSAGES", 800)
    monkeypatch.setattr(removal, "PIECE_TRIMMED", 200)
    return Rig()


def held(stream: Stream) -> list[tuple[int, bytes]]:
    found = []
    seq = stream.store.next_seq((), 1)
    while seq:
        found.append((seq, stream.store.subject_of(seq) or b""))
        seq = stream.store.next_seq((), seq + 1)
    return found


def at_once(config: dict[str, Any], change: Callable[[Stream], object]) -> list[tuple[int, bytes]]:
    rig = Rig()
    stream = rig.fill(**config)
    change(stream)
    return held(stream)


@pytest.mark.parametrize(
    ("filtered", "seq", "keep"),
    [
        ("a.*.7", 0, 0),
        ("a.1.*", 0, 0),
        ("a.>", 3000, 0),
        ("", 3000, 0),
        ("a.1.*", 0, 500),
        ("a.1.*", 0, 5000),
        ("a.2.3", 0, 0),
        ("", 0, 10),
        (">", 0, 3000),
    ],
)
def test_a_purge_in_pieces_removes_what_one_at_once_does(
    rig: Rig, filtered: str, seq: int, keep: int
) -> None:
    subject = filtered.encode() or None
    expected = at_once({}, lambda one: one.purge(subject, seq, keep))
    stream = rig.fill()
    before = stream.store.messages
    rig.begin("STREAM.PURGE.A", {"filter": filtered, "seq": seq, "keep": keep})
    turns, answer = rig.turns()
    assert turns > 1
    assert held(stream) == expected
    assert answer["purged"] == before - len(expected) == before - stream.store.messages
    assert stream.usage.used == stream.store.bytes


def test_what_comes_meanwhile_stays(rig: Rig) -> None:
    stream = rig.fill()
    before = stream.store.messages
    rig.begin("STREAM.PURGE.A", {"filter": "a.*.*"})
    turns, answer = rig.turns(lambda: stream.publish(b"a.1.1", b"", b"", b"new"))
    assert answer["purged"] == before
    assert [seq for seq, _ in held(stream)] == list(range(COUNT + 1, COUNT + turns + 1))


def test_a_purge_ends_when_the_stream_is_deleted(rig: Rig) -> None:
    rig.fill()
    rig.begin("STREAM.PURGE.A", {"filter": "a.*.*"})
    assert rig.api("STREAM.DELETE.A")["success"] is True
    rig.outbox.sent.clear()
    _, answer = rig.turns()
    assert answer["error"]["err_code"] == 10059


@pytest.mark.parametrize(
    "limits",
    [
        {"max_msgs": 700},
        {"max_bytes": 10_000},
        {"max_msgs": 3000, "max_bytes": 10_000},
        {"max_msgs_per_subject": 3},
        {"max_msgs_per_subject": 3, "max_msgs": 200},
    ],
)
@pytest.mark.parametrize("has_consumer", [False, True])
def test_lowered_limits_are_enforced_in_pieces(
    rig: Rig, limits: dict[str, Any], has_consumer: bool
) -> None:
    config = {"name": "A", "subjects": ["a.>"], "storage": "memory"}
    stream = rig.fill()
    if has_consumer:
        consumer = {"stream_name": "A", "config": {"durable_name": "C", "ack_policy": "explicit"}}
        rig.api("CONSUMER.CREATE.A.C", consumer)
        rig.outbox.sent.clear()

    def late() -> None:
        before = stream.store.messages
        stream.publish(b"a.1.1", b"", b"", b"x")
        assert before - stream.store.messages < 20

    rig.begin("STREAM.UPDATE.A", config | limits)
    turns, answer = rig.turns(late)
    assert turns > 4
    assert answer["state"]["messages"] == stream.store.messages
    found = held(stream)
    assert len(found) <= limits.get("max_msgs", COUNT)
    assert stream.store.bytes <= limits.get("max_bytes", 1 << 30)
    most = limits.get("max_msgs_per_subject", COUNT)
    assert all(state.count <= most for state in lookups.subjects(stream.store, b">"))
    assert (COUNT + turns, b"a.1.1") in found
    assert stream.usage.used == stream.store.bytes


def test_a_second_change_of_the_limits_takes_over(rig: Rig) -> None:
    config = {"name": "A", "subjects": ["a.>"], "storage": "memory"}
    stream = rig.fill()
    rig.begin("STREAM.UPDATE.A", {**config, "max_msgs": 4000})
    rig.begin("STREAM.UPDATE.A", {**config, "max_msgs": 500})
    _, answer = rig.turns()
    assert answer["state"]["messages"] == stream.store.messages == 500
    assert len([one for one in rig.outbox.sent if one[0] == "_INBOX.1"]) == 2


def test_stretches_end_behind_as_many_messages_as_asked_for() -> None:
    store = MemoryStore()
    for seq in range(1, 5001):
        store.append(b"a", b"", b"", seq)
    for seq in range(1, 3001):
        store.remove(seq)
    assert store.seq_after(1, 50) == 3 * 1024 + 1
    assert store.seq_after(3001, 1000) == 4 * 1024 + 1
    assert store.seq_after(3001, 9000) == 5 * 1024 + 1
    assert store.seq_after(9000, 1) > 9000
    assert MemoryStore().seq_after(1, 5) > 1


def test_lowered_limits_of_all_come_before_that_of_each_subject() -> None:
    rig = AccountRig()
    stream = rig.create()
    for name in "abcbdb":
        rig.publish(f"a.{name}")
    rig.api("STREAM.UPDATE.A", {**stream.config.fields(), "max_msgs": 3, "max_msgs_per_subject": 1})
    kept = {one.subject: one.last_seq for one in lookups.subjects(stream.store, b">")}
    assert kept == {b"a.d": 5, b"a.b": 6}


@pytest.mark.parametrize(
    ("body", "first_seq"),
    [
        ("", 1),
        ({"filter": ">"}, 1),
        ({"filter": "a.*"}, 0),
        ({"filter": "a.b"}, 0),
        ({"seq": 1}, 0),
        ({"seq": 5}, 5),
        ({"keep": 1}, 0),
    ],
)
def test_a_purge_before_the_first_message(body: dict[str, Any] | str, first_seq: int) -> None:
    """As nats-server 2.15.1 does in a file and in memory."""
    rig = AccountRig()
    stream = rig.create()
    rig.api("STREAM.PURGE.A", body)
    assert stream.store.first_seq == first_seq


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
