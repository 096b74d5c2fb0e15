"""Backups: what one server writes, another one takes; midge and nats-server in each role."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from midge import cli
from midge.client.client import NatsClient
from midge.client.errors import StreamError
from midge.client.jetstream import JetStreamApi
from midge.client.options import ClientOptions
from midge.protocol.client_side import publish_frame
from midge.protocol.headers import format_headers
from tests.support.processes import Server, midge_command, nats_server_command

PAIRS = [
    ("midge", "midge"),
    ("midge", "nats-server"),
    ("nats-server", "midge"),
]


REMOVAL_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def nats_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where nats-server keeps its streams."""
    return tmp_path_factory.mktemp("nats")


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, nats_store: Path
) -> Iterator[dict[str, Server]]:
    flags = ("-js", "-sd", str(tmp_path_factory.mktemp("midge")))
    others = ("-js", "-sd", str(nats_store))
    with (
        Server(midge_command(), flags=flags) as midge,
        Server(nats_server_command(), flags=others) as real,
    ):
        yield {"midge": midge, "nats-server": real}


class Peer:
    """A client of one server."""

    def __init__(self, name: str, server: Server) -> None:
        self.is_midge = name == "midge"
        self.url = server.url
        self.client = NatsClient(ClientOptions.parse({"servers": server.url}))
        self.js = JetStreamApi(self.client)

    def make(self, name: str, **config: Any) -> None:
        defaults = {"name": name, "subjects": [f"{name}.>"], "storage": "file"}
        self.js.call(f"STREAM.CREATE.{name}", {**defaults, "retention": "limits", **config})

    def publish(self, subject: str, payload: bytes, **headers: str) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        block = format_headers(named) if named else b""
        return self.js.publish(subject.encode(), payload, block)

    def consume(self, stream: str, name: str, **config: Any) -> None:
        config = {"durable_name": name, "ack_policy": "explicit", **config}
        body = {"stream_name": stream, "config": config, "action": "create"}
        self.js.call(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)

    def pull(self, stream: str, name: str, count: int, answer: bytes | None = b"+ACK") -> list[int]:
        inbox = self.client.new_inbox()
        to = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}".encode()
        body = json.dumps({"batch": count, "expires": 3 * 10**9}).encode()
        self.client.send(publish_frame(to, inbox, b"", body))
        seqs: list[int] = []
        while len(seqs) < count:
            for message in self.client.receive(5):
                assert message.reply, message
                seqs.append(int(message.reply.split(b".")[5]))
                if answer:
                    self.client.request(message.reply, answer)
        return seqs

    def messages(self, stream: str) -> dict[int, tuple[str, str, str, str]]:
        state = self.js.call(f"STREAM.INFO.{stream}")["state"]
        found = {}
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            try:
                one = self.js.call(f"STREAM.MSG.GET.{stream}", {"seq": seq})["message"]
            except StreamError:
                continue
            found[seq] = (one["subject"], one["time"], one.get("hdrs", ""), one.get("data", ""))
        return found

    def state(self, stream: str) -> dict[str, Any]:
        state = self.js.call(f"STREAM.INFO.{stream}", {"deleted_details": True})["state"]
        return dict(state)

    def consumer(self, stream: str, name: str) -> dict[str, Any]:
        info = self.js.call(f"CONSUMER.INFO.{stream}.{name}")
        config = info["config"]
        config["metadata"] = {
            key: value
            for key, value in config.get("metadata", {}).items()
            if key not in ("_nats.ver", "_nats.level")
        }
        pairs = {
            which: (info[which]["consumer_seq"], info[which]["stream_seq"])
            for which in ("delivered", "ack_floor")
        }
        counts = ("num_ack_pending", "num_redelivered", "num_pending")
        return {"config": config, **pairs, **{name: info[name] for name in counts}}


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]} to {pair[1]}")
def pair(
    request: pytest.FixtureRequest, servers: dict[str, Server], nats_store: Path
) -> Iterator[tuple[Peer, Peer]]:
    one, other = (Peer(name, servers[name]) for name in request.param)
    yield one, other
    for peer in (one, other):
        for name in peer.js.call("STREAM.NAMES")["streams"] or []:
            peer.js.call(f"STREAM.DELETE.{name}")
        peer.client.close()
    wait_until_removed(nats_store / "jetstream" / "$G" / "streams")


def wait_until_removed(streams: Path) -> None:
    """Wait until nats-server has removed the files of the streams that it has deleted.

    It answers before: it renames the directory `S` to `.S` and removes that later. While an earlier
    `.S` is there, the next one stays what it is, and a new stream of the same name goes on from its
    files.
    """
    deadline = time.monotonic() + REMOVAL_TIMEOUT_S
    while streams.exists() and any(streams.iterdir()):
        assert time.monotonic() < deadline, list(streams.iterdir())
        time.sleep(0.005)


def move(pair: tuple[Peer, Peer], stream: str, directory: Path) -> None:
    """Back a stream up at one peer and restore it at the other."""
    one, other = pair
    saved = directory / "saved"
    assert cli.main(["stream", "backup", stream, str(saved), "--server", one.url]) == 0
    if other.url == one.url:
        one.js.call(f"STREAM.DELETE.{stream}")
    assert cli.main(["stream", "restore", str(saved), "--server", other.url]) == 0


def test_messages_stay_what_they_are(pair: tuple[Peer, Peer], tmp_path: Path) -> None:
    one, other = pair
    rng = random.Random(7)
    one.make("S", first_seq=100, allow_msg_ttl=True)
    for number in range(300):
        body = rng.randbytes(rng.choice((0, 10, 5000))) if number % 3 else b"text " * number
        if number % 4:
            one.publish(f"S.{number % 7}", body)
        else:
            one.publish(f"S.{number % 7}", body, A="é", Nats_Msg_Id=f"id{number}", Nats_TTL="1h")
    for seq in (100, 150, 151, 399):
        one.js.call("STREAM.MSG.DELETE.S", {"seq": seq})
    before, state = one.messages("S"), one.state("S")
    move(pair, "S", tmp_path)
    assert other.messages("S") == before
    del state["last_ts"]  # a deleted message's time is in no backup
    assert state.items() <= other.state("S").items()
    if not other.is_midge:
        return  # nats-server forgets the ids
    assert other.publish("S.new", b"", Nats_Msg_Id="id296") == {
        "stream": "S",
        "seq": 396,
        "duplicate": True,
    }
    assert other.publish("S.new", b"")["seq"] == 400


def test_consumers_go_on_where_they_were(pair: tuple[Peer, Peer], tmp_path: Path) -> None:
    one, other = pair
    one.make("S")
    for number in range(20):
        one.publish(f"S.{number % 2}", b"%d" % number)
    one.consume("S", "mixed", ack_wait=3600 * 10**9, filter_subject="S.1", max_deliver=5)
    assert one.pull("S", "mixed", 2) == [2, 4]
    assert one.pull("S", "mixed", 1, b"-NAK") == [6]
    assert one.pull("S", "mixed", 1, None) == [6]
    assert one.pull("S", "mixed", 1, None) == [8]
    assert one.pull("S", "mixed", 1) == [10]
    one.consume("S", "fresh", deliver_policy="by_start_sequence", opt_start_seq=15)
    one.consume("S", "none", ack_policy="none")
    one.pull("S", "none", 7, None)
    one.consume("S", "push", deliver_subject="to.here", idle_heartbeat=5 * 10**9, flow_control=True)
    names = ("mixed", "fresh", "none", "push")
    before = {name: one.consumer("S", name) for name in names}
    move(pair, "S", tmp_path)
    assert {name: other.consumer("S", name) for name in names} == before
    assert other.pull("S", "fresh", 1) == [15]
    assert other.pull("S", "none", 1, None) == [8]
    assert other.pull("S", "mixed", 1, b"+ACK") == [12]


def test_an_empty_stream_keeps_its_sequence(pair: tuple[Peer, Peer], tmp_path: Path) -> None:
    one, other = pair
    one.make("S")
    for _ in range(5):
        one.publish("S.x", b"")
    one.js.call("STREAM.PURGE.S")
    move(pair, "S", tmp_path)
    assert other.state("S")["first_seq"] == 6
    assert other.publish("S.x", b"")["seq"] == 6


def test_key_value_markers_and_work_queues(pair: tuple[Peer, Peer], tmp_path: Path) -> None:
    one, other = pair
    one.make("KV_B", subjects=["$KV.B.>"], max_msgs_per_subject=3, allow_rollup_hdrs=True)
    for number in range(9):
        one.publish(f"$KV.B.{number % 2}", b"%d" % number)
    one.publish("$KV.B.0", b"", KV_Operation="DEL")
    before = one.messages("KV_B")
    move(pair, "KV_B", tmp_path)
    assert other.messages("KV_B") == before
    one.make("W", retention="workqueue")
    for number in range(6):
        one.publish("W.x", b"%d" % number)
    one.consume("W", "C", ack_wait=3600 * 10**9)
    assert one.pull("W", "C", 2) == [1, 2]
    assert one.pull("W", "C", 1, None) == [3]
    move(pair, "W", tmp_path / "w")
    assert sorted(other.messages("W")) == [3, 4, 5, 6]
    assert other.pull("W", "C", 3) == [4, 5, 6]
    assert sorted(other.messages("W")) == [3]


def test_publishing_goes_on(pair: tuple[Peer, Peer], tmp_path: Path) -> None:
    """The cut is the moment of the request: later messages are not in it.

    Messages that are removed later are in it on midge, and not on nats-server.
    """
    one, other = pair
    one.make("S", max_msgs=2000)
    for number in range(2000):
        one.client.send(publish_frame(b"S.x", b"", b"", b"%d" % number * 100))
    while one.state("S")["messages"] < 2000:
        one.client.ping()  # nats-server stores messages without a reply subject later
    inbox = one.client.new_inbox().replace(b"_INBOX", b"_INBOX.s")
    sid = one.client.subscribe(inbox)
    request = {"deliver_subject": inbox.decode(), "chunk_size": 1024, "window_size": 2048}
    answer = one.js.call("STREAM.SNAPSHOT.S", request)
    chunks: list[bytes] = []
    is_over = False
    while not is_over:
        for message in one.client.receive(5):
            if message.sid == sid:
                if message.reply:
                    one.client.send(publish_frame(message.reply, b"", b"", b""))
                    one.client.send(publish_frame(b"S.x", b"", b"", b"later"))
                is_over = not message.payload
                chunks.append(message.payload)
    assert len(chunks) > 20
    saved = tmp_path / "saved"
    saved.mkdir()
    kept = {"config": {**answer["config"], "max_msgs": -1}, "state": answer["state"]}
    (saved / "backup.json").write_text(json.dumps(kept))
    (saved / "stream.tar.s2").write_bytes(b"".join(chunks))
    one.js.call("STREAM.DELETE.S")
    assert cli.main(["stream", "restore", str(saved), "--server", other.url]) == 0
    assert other.state("S")["last_seq"] == 2000
    found = other.messages("S")
    assert all(base64.b64decode(entry[3]) != b"later" for entry in found.values())
    if one.is_midge:
        assert sorted(found) == list(range(1, 2001))


def test_a_restore_that_is_cut_short_leaves_nothing(
    pair: tuple[Peer, Peer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = pair
    rng = random.Random(9)
    one.make("S")
    for _ in range(50):
        one.publish("S.x", rng.randbytes(100))  # nothing to compress, so that every bit counts
    saved = tmp_path / "saved"
    assert cli.main(["stream", "backup", "S", str(saved), "--server", one.url]) == 0
    one.js.call("STREAM.DELETE.S")
    whole = (saved / "stream.tar.s2").read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    capsys.readouterr()
    for wrong in (damaged, b"no archive"):
        (saved / "stream.tar.s2").write_bytes(wrong)
        assert cli.main(["stream", "restore", str(saved), "--server", other.url]) == 1
        assert capsys.readouterr().err.startswith("midge stream restore: restore of S: ")
    assert other.js.call("STREAM.NAMES")["streams"] is None
