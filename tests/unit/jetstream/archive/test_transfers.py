"""Snapshots and restores: one cut, the flow of chunks, and every way to end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.archive import entries, snapshot, transfers
from midge.jetstream.archive.entries import ArchiveEntry
from midge.jetstream.archive.framing import S2Writer
from midge.jetstream.stream.stream import Stream
from tests.support.jetstream_account import AccountRig, Outbox
from tests.unit.jetstream.archive.samples import SNAPSHOT
from tests.unit.jetstream.archive.test_entries import read
from tests.unit.jetstream.archive.test_s2 import unpacked

TO = "_INBOX.to"


class Wire(Outbox):
    """Also keeps the replies."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[tuple[str, bytes, bytes, bytes]] = []

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        self.replies.append((subject.decode(), reply, headers, payload))
        return super().send(subject, reply, headers, payload)

    def to(self, subject: str) -> list[tuple[bytes, bytes, bytes]]:
        return [(reply, block, body) for to, reply, block, body in self.replies if to == subject]


class Rig(AccountRig):
    """An account that sends snapshots and takes archives."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = Wire()
        self.outbox = self.wire
        self.account.surroundings.sink = self.wire

    def fill(self, count: int, size: int = 100, **config: Any) -> Stream:
        stream = self.create(**config)
        for number in range(count):
            stream.publish(b"a.%d" % (number % 3), b"", b"", b"%d " % number + bytes(size))
        return stream

    def snapshot(self, **body: Any) -> dict[str, Any]:
        return self.api("STREAM.SNAPSHOT.A", {"deliver_subject": TO, **body})

    def work(self) -> None:
        self.clock.advance(0.001)

    def acknowledge(self, reply: bytes) -> bool:
        return self.account.transfers.take(reply, b"", b"")

    def receive_all(self) -> tuple[list[ArchiveEntry], bytes]:
        """Acknowledge every chunk; return what the archive holds, and the last header block."""
        done = 0
        while True:
            chunks = self.wire.to(TO)
            if done == len(chunks):
                self.work()
            chunks = self.wire.to(TO)
            assert done < len(chunks), "nothing comes"
            for reply, block, body in chunks[done:]:
                done += 1
                if not body:
                    return read(unpacked(b"".join(one[2] for one in chunks))), block
                if reply:
                    assert self.acknowledge(reply)

    def restore(self, name: str, *pieces: bytes, **config: Any) -> list[dict[str, Any]]:
        """Send pieces of an archive and the end of it; return the answers that are not empty."""
        body = {"config": {"name": name, "storage": "memory", **config}, "state": {}}
        to = self.api(f"STREAM.RESTORE.{name}", body)["deliver_subject"].encode()
        for number, piece in enumerate((*pieces, b"")):
            self.account.transfers.take(to, b"_INBOX.r%d" % number, piece)
            self.work()
        answers = [body for one, _, _, body in self.wire.replies if one.startswith("_INBOX.r")]
        return [json.loads(one) for one in answers if one]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def archive(*packed: ArchiveEntry, end: bool = True) -> bytes:
    writer = S2Writer()
    writer.write(entries.MAGIC)
    for entry in packed:
        writer.write(entries.pack(*entry))
    if end:
        writer.write(entries.END)
    writer.finish()
    return writer.take()


def state_entry(**fields: Any) -> ArchiveEntry:
    return ArchiveEntry(entries.STATE, 1, 0, b"", json.dumps(fields).encode())


def test_the_cut_is_the_moment_of_the_request(rig: Rig) -> None:
    stream = rig.fill(50)
    answer = rig.snapshot()
    assert answer["state"]["last_seq"] == 50
    stream.publish(b"a.new", b"", b"", b"later")
    assert stream.contents.remove(10)
    stream.purge(b"a.1", 0, 0)
    stream.purge(None, 40, 0)
    found, block = rig.receive_all()
    assert [one.seq for one in found[1:-1]] == list(range(1, 51))
    assert found[10].payload.startswith(b"9 ")
    assert block == b"NATS/1.0 204\r\n\r\n" or not block
    assert stream.store.keepers == []


def test_all_that_is_purged_at_once_is_kept_if_it_is_little(rig: Rig) -> None:
    stream = rig.fill(50)
    rig.snapshot()
    stream.purge(None, 0, 0)
    found, _ = rig.receive_all()
    assert [one.seq for one in found[1:-1]] == list(range(1, 51))


def test_a_snapshot_from_which_much_is_taken_fails(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_PURGE_MAX_MESSAGES", 20)
    stream = rig.fill(50)
    rig.snapshot()
    stream.purge(None, 0, 0)
    rig.work()
    assert rig.wire.to(TO) == [(b"", b"NATS/1.0 500 the stream was purged meanwhile\r\n\r\n", b"")]
    monkeypatch.setattr(snapshot, "KEPT_MAX_BYTES", 1000)
    rig.wire.replies.clear()
    for _ in range(50):
        stream.publish(b"a.x", b"", b"", bytes(200))
    rig.snapshot()
    stream.purge(b"a.x", 0, 0)
    rig.work()
    ((_, block, _),) = rig.wire.to(TO)
    assert block == b"NATS/1.0 500 too much was removed from the stream meanwhile\r\n\r\n"
    assert stream.store.keepers == []


def test_only_so_many_chunks_are_under_way(rig: Rig) -> None:
    rig.fill(500, 1000)
    rig.snapshot(chunk_size=1024, window_size=4096)
    rig.work()
    chunks = rig.wire.to(TO)
    assert [len(body) for _, _, body in chunks] == [1024] * 4
    assert chunks[0][0].startswith(b"$JS.SNAPSHOT.ACK.A.")
    assert chunks[3][0].endswith(b".1024.4")
    assert rig.acknowledge(chunks[0][0])
    rig.work()
    assert len(rig.wire.to(TO)) == 5


def test_who_does_not_acknowledge_is_given_up(rig: Rig) -> None:
    stream = rig.fill(200, 1000)
    rig.wire.interest.add(b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.A")
    rig.snapshot(chunk_size=1024, window_size=1024)
    rig.work()
    rig.clock.advance(4.9)
    assert rig.account.transfers.sending
    rig.clock.advance(0.2)
    assert rig.wire.to(TO)[-1] == (b"", b"NATS/1.0 408 No Flow Response\r\n\r\n", b"")
    assert not rig.account.transfers.sending
    assert stream.store.keepers == []
    ((_, _, told),) = rig.wire.to("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.A")
    assert json.loads(told)["error"] == "no flow response"


def test_who_goes_away_is_given_up(rig: Rig) -> None:
    rig.fill(200, 1000)
    rig.wire.interest.add(b"to.me")
    rig.snapshot(deliver_subject="to.me", chunk_size=1024, window_size=1024)
    rig.work()
    rig.wire.interest.clear()
    assert rig.acknowledge(rig.wire.to("to.me")[0][0])
    rig.work()
    assert rig.wire.to("to.me")[-1][1] == b"NATS/1.0 408 No Interest\r\n\r\n"


def test_a_snapshot_waits_for_who_subscribes_late(rig: Rig) -> None:
    rig.fill(10)
    rig.snapshot(deliver_subject="to.me")
    rig.work()
    assert rig.wire.to("to.me") == []
    rig.wire.interest.add(b"to.me")
    rig.clock.advance(2.0)
    rig.work()
    assert rig.wire.to("to.me") != []


def test_a_snapshot_of_a_stream_that_is_deleted_ends(rig: Rig) -> None:
    rig.fill(10)
    rig.snapshot()
    rig.exchange("$JS.API.STREAM.DELETE.A")
    assert rig.wire.to(TO) == [(b"", b"NATS/1.0 500 the stream was deleted meanwhile\r\n\r\n", b"")]


def test_what_nats_server_wrote_becomes_a_stream(rig: Rig) -> None:
    pieces = [SNAPSHOT[at : at + 100] for at in range(0, len(SNAPSHOT), 100)]
    (answer,) = rig.restore("S", *pieces, subjects=["s.>"])
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert answer["state"]["messages"] == 3
    stream = rig.account.streams["S"]
    message = stream.store.load(1)
    assert message is not None
    assert message.payload == b"abcdefgh" * 40_000
    (consumer,) = stream.consumers
    assert (consumer.acks.delivered_seq, consumer.acks.floor_seq) == (3, 1)
    assert list(consumer.acks.pending.entries) == [3]


def test_a_restore_keeps_ids_and_ttls(rig: Rig) -> None:
    now_ns = rig.clock.wall_ns()
    old = ArchiveEntry(b"s", now_ns - 60 * 10**9, 1, b"NATS/1.0\r\nNats-TTL: 5s\r\n\r\n", b"gone")
    kept = ArchiveEntry(b"s", now_ns, 2, b"NATS/1.0\r\nNats-TTL: 5s\r\nNats-Msg-Id: x\r\n\r\n", b"")
    state = state_entry(first_seq=1, last_seq=9)
    (answer,) = rig.restore("S", archive(state, old, kept), subjects=["s"], allow_msg_ttl=True)
    assert (answer["state"]["first_seq"], answer["state"]["last_seq"]) == (2, 9)
    assert rig.publish("s", "", {"Nats-Msg-Id": "x"})["duplicate"] is True
    rig.clock.advance(6)
    assert rig.account.streams["S"].store.messages == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "EOF"),
        (b"garbage!", "a chunk of the compressed stream is too long"),
        (archive(state_entry(), end=False), "EOF"),
        (archive(ArchiveEntry(b"x", 1, 0, b"", b"")), "expected state.json first"),
        (
            archive(state_entry(consumer_count=1), ArchiveEntry(b"s", 1, 1, b"", b"")),
            "expected consumer",
        ),
        (
            archive(
                state_entry(),
                ArchiveEntry(b"s", 1, 4, b"", b""),
                ArchiveEntry(b"s", 1, 4, b"", b""),
            ),
            "order",
        ),
        (archive(state_entry(), ArchiveEntry(b"s", 1, 1, b"", bytes(9))), "maximum message size"),
        (archive(state_entry())[:-3], "unexpected EOF"),
    ],
    ids=["nothing", "garbage", "no end", "no state", "no consumer", "order", "size", "cut"],
)
def test_a_restore_that_fails_leaves_nothing(rig: Rig, data: bytes, said: str) -> None:
    pieces = [data] if data else []
    (answer,) = rig.restore("S", *pieces, max_msg_size=8)
    assert answer["error"]["err_code"] == 10062
    assert said in answer["error"]["description"]
    assert rig.account.streams == {}
    assert rig.account.transfers.receiving == {}


def test_a_restore_beside_which_the_stream_was_made_fails(rig: Rig) -> None:
    body = {"config": {"name": "A", "storage": "memory"}, "state": {}}
    to = rig.api("STREAM.RESTORE.A", body)["deliver_subject"].encode()
    rig.create()
    rig.account.transfers.take(to, b"_INBOX.r", archive(state_entry()))
    rig.account.transfers.take(to, b"_INBOX.r", b"")
    rig.work()
    assert json.loads(rig.wire.to("_INBOX.r")[-1][2])["error"]["err_code"] == 10130


def test_a_restore_in_which_nothing_comes_is_given_up(rig: Rig) -> None:
    body = {"config": {"name": "S", "storage": "memory"}, "state": {}}
    to = rig.api("STREAM.RESTORE.S", body)["deliver_subject"].encode()
    rig.clock.advance(4)
    rig.account.transfers.take(to, b"_INBOX.r", archive(state_entry(), end=False))
    rig.clock.advance(4)
    assert rig.account.transfers.receiving
    rig.clock.advance(2)
    assert not rig.account.transfers.receiving
    assert not rig.account.transfers.take(to, b"_INBOX.r", b"")


def test_only_so_many_are_under_way(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "UNDER_WAY_MAX", 2)
    rig.fill(50, 1000)
    for expected in (None, None, 10023):
        answer = rig.snapshot(chunk_size=1024, window_size=1024)
        assert answer.get("error", {}).get("err_code") == expected
    for number, expected in enumerate((None, None, 10023)):
        name = f"S{number}"
        answer = rig.api(f"STREAM.RESTORE.{name}", {"config": {"name": name}, "state": {}})
        assert answer.get("error", {}).get("err_code") == expected
    rig.clock.advance(10)
    assert rig.account.transfers.receiving == {}
    assert rig.account.transfers.sending == {}
    assert rig.account.streams["A"].store.keepers == []


@pytest.mark.parametrize(
    ("request_of", "body", "code"),
    [
        ("STREAM.SNAPSHOT.A", b"", 10003),
        ("STREAM.SNAPSHOT.NONE", {"deliver_subject": "x"}, 10059),
        ("STREAM.SNAPSHOT.A", {"deliver_subject": "x.*"}, 10015),
        ("STREAM.SNAPSHOT.A", {"bogus": 1}, 10025),
        ("STREAM.RESTORE.R", b"", 10003),
        ("STREAM.RESTORE.R", {"config": {"name": "X"}}, 10056),
        ("STREAM.RESTORE.R", {"config": {"name": "R"}, "state": {"bogus": 1}}, 10025),
        ("STREAM.RESTORE.A", {"config": {"name": "A"}, "state": {}}, 10130),
    ],
)
def test_requests_that_are_refused(rig: Rig, request_of: str, body: Any, code: int) -> None:
    rig.create()
    assert rig.api(request_of, body)["error"]["err_code"] == code
