"""The server's recorder against known traffic, read back by the pipeline's readers."""

import asyncio
import json
import os
import signal
import socket
from collections import Counter

import pytest

from midge.pipeline.records.files import check_segment, list_segments, read_table
from midge.pipeline.records.format import CLIENTS, DATA_SETS, INTEREST, MESSAGES
from midge.protocol.client_side import FrameReader, publish_frame
from midge.server.config.options import Listen, Options, Shutdown
from midge.server.config.options import Recorder as RecorderOptions
from midge.server.errors import ConfigError
from midge.server.recorder.schemas import SCHEMAS
from midge.server.server import Server
from tests.support.processes import Server as ServerProcess
from tests.support.processes import midge_command


def recording(directory, **options):
    """Make a server that records into `directory`."""
    return Server(
        Options(
            server_name="s1",
            listen=Listen(port=-1),
            shutdown=Shutdown(flush_timeout_s=5.0),
            recorder=RecorderOptions(directory=str(directory), **options),
        )
    )


class Peer:
    """A client that sends given lines and waits until the server has handled them."""

    @classmethod
    async def connect(cls, server, name="peer"):
        self = cls()
        host, _, port = server.urls()["nats"][0].removeprefix("nats://").rpartition(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        hello = {"verbose": False, "pedantic": False, "name": name, "headers": True, "lang": "x"}
        await self.say(b"CONNECT %b\r\n" % json.dumps(hello).encode())
        return self

    async def say(self, data):
        """Send `data` and return when it has been handled."""
        frames = FrameReader()
        self.writer.write(data + b"PING\r\n")
        while True:
            frames.feed(await self.reader.read(1 << 16))
            if any(verb == b"PONG" for verb, _ in frames.controls):
                return

    async def leave(self):
        """Close in good order."""
        self.writer.close()
        await self.writer.wait_closed()


def rows(directory, data_set):
    """Read a data set back; a bad segment fails the test."""
    bad = []
    found = read_table(directory, data_set, on_bad=bad.append).to_pylist()
    assert bad == []
    return found


def test_both_sides_mean_the_same_format():
    for name, data_set in DATA_SETS.items():
        assert SCHEMAS[name].equals(data_set.schema), name


async def test_every_message_is_recorded_once_with_its_deliveries(tmp_path):
    server = recording(tmp_path)
    await server.start()
    listener = await Peer.connect(server, "listener")
    await listener.say(b"SUB a.* 1\r\nSUB a.> q 2\r\nSUB a.1 q 3\r\n")
    talker = await Peer.connect(server, "talker")
    for number in range(700):
        headers = b"NATS/1.0\r\nk: v\r\nk: w\r\n\r\n" if number % 5 == 0 else b""
        await talker.say(
            publish_frame(
                b"a.%d" % (number % 7), b"r" if number % 2 else b"", headers, b"x" * number
            )
        )
    await talker.say(publish_frame(b"nobody.here", b"", b"", b""))
    await talker.leave()
    await listener.leave()
    await server.stop()

    *messages, last = rows(tmp_path, MESSAGES)
    assert [len(row["payload"]) for row in messages] == list(range(700))
    assert {row["account"] for row in messages} == {"$G"}
    assert len({row["cid"] for row in messages}) == 1
    for number, row in enumerate(messages):
        assert row["subject"] == f"a.{number % 7}"
        assert row["reply"] == ("r" if number % 2 else None)
        assert row["headers"] == ([("k", ["v", "w"])] if number % 5 == 0 else None)
        assert row["size"] == number + (24 if number % 5 == 0 else 0)
        assert (row["plain_deliveries"], row["queue_deliveries"]) == (1, 1)
        assert not row["no_interest"]
    assert last["subject"] == "nobody.here"
    assert (last["payload"], last["no_interest"]) == (b"", True)
    times = [row["time"] for row in messages]
    assert times == sorted(times)


async def test_every_subscription_has_a_beginning_and_an_end(tmp_path):
    server = recording(tmp_path)
    await server.start()
    peer = await Peer.connect(server, "bob")
    await peer.say(b"SUB a 1\r\nSUB b q 2\r\nSUB c 3\r\nUNSUB 3 2\r\n")
    other = await Peer.connect(server)
    await other.say(publish_frame(b"a", b"", b"", b"") * 3 + publish_frame(b"c", b"", b"", b"") * 4)
    await peer.say(b"UNSUB 1\r\n")
    await peer.leave()
    await other.leave()
    await server.stop()

    found = [
        (
            row["sid"],
            row["event"],
            row["subject"],
            row["queue"],
            row["delivered"],
            row["client_name"],
        )
        for row in rows(tmp_path, INTEREST)
    ]
    assert found == [
        ("1", "sub", "a", None, 0, "bob"),
        ("2", "sub", "b", "q", 0, "bob"),
        ("3", "sub", "c", None, 0, "bob"),
        ("3", "auto_unsub", "c", None, 2, "bob"),
        ("1", "unsub", "a", None, 3, "bob"),
        ("2", "disconnect", "b", "q", 0, "bob"),
    ]


async def test_every_client_has_a_connect_and_a_disconnect_with_its_counts(tmp_path):
    server = recording(tmp_path)
    await server.start()
    peer = await Peer.connect(server, "bob")
    await peer.say(b"SUB a 1\r\n" + publish_frame(b"a", b"", b"", b"12345") * 3)
    await peer.leave()
    stays = await Peer.connect(server, "stays")
    await server.stop()
    stays.writer.close()

    found = rows(tmp_path, CLIENTS)
    assert Counter((row["client_name"], row["event"], row["reason"]) for row in found) == {
        ("bob", "connect", None): 1,
        ("bob", "disconnect", "Client Closed"): 1,
        ("stays", "connect", None): 1,
        ("stays", "disconnect", "Server Shutdown"): 1,
    }
    bob = next(row for row in found if row["event"] == "disconnect")
    assert (bob["in_msgs"], bob["in_bytes"], bob["out_msgs"], bob["out_bytes"]) == (3, 15, 3, 15)
    assert (bob["host"], bob["lang"]) == ("127.0.0.1", "x")
    assert bob["port"] > 0


async def test_filters_choose_subjects_and_payloads(tmp_path):
    server = recording(
        tmp_path,
        subjects_allow=("orders.>", "audit"),
        subjects_deny=("orders.secret",),
        payload_deny=("orders.card.*",),
    )
    await server.start()
    peer = await Peer.connect(server)
    for subject in (b"orders.new", b"orders.secret", b"orders.card.1", b"other", b"audit"):
        await peer.say(publish_frame(subject, b"", b"", b"12345"))
    await peer.leave()
    await server.stop()
    assert [(row["subject"], row["payload"], row["size"]) for row in rows(tmp_path, MESSAGES)] == [
        ("orders.new", b"12345", 5),
        ("orders.card.1", None, 5),
        ("audit", b"12345", 5),
    ]


async def test_runs_of_equal_messages_come_back_one_by_one(tmp_path):
    server = recording(tmp_path, payload_deny=(">",), queue_max=1 << 20)
    await server.start()
    peer = await Peer.connect(server)
    for _ in range(4):
        await peer.say(
            publish_frame(b"a", b"", b"", b"123") * 5000 + publish_frame(b"b", b"r", b"", b"") * 7
        )
    await peer.leave()
    await server.stop()
    found = Counter((row["subject"], row["reply"], row["size"]) for row in rows(tmp_path, MESSAGES))
    assert found == {("a", None, 3): 20_000, ("b", "r", 0): 28}


async def test_what_is_not_utf_8_comes_out_escaped(tmp_path):
    server = recording(tmp_path)
    await server.start()
    peer = await Peer.connect(server)
    await peer.say(
        publish_frame(b"caf\xc3\xa9.\xff", b"r\xfe", b"NATS/1.0\r\nk: \xfd\r\n\r\n", b"\xff")
    )
    await peer.leave()
    await server.stop()
    [row] = rows(tmp_path, MESSAGES)
    assert (row["subject"], row["reply"]) == ("café.\\xff", "r\\xfe")
    assert (row["headers"], row["payload"]) == ([("k", ["\\xfd"])], b"\xff")


async def test_drops_are_counted_and_nobody_waits(tmp_path):
    server = recording(tmp_path, queue_max=64)
    await server.start()
    peer = await Peer.connect(server)
    await peer.say(publish_frame(b"a", b"", b"", b"x") * 20_000)
    await peer.leave()
    recorder = server._recorder
    await server.stop()
    counts = recorder.counts()
    recorded = len(rows(tmp_path, MESSAGES))
    assert counts.dropped > 0
    assert recorded + counts.dropped == 20_000


async def test_age_makes_rows_visible(tmp_path):
    server = recording(tmp_path, roll_age_s=0.05)
    await server.start()
    peer = await Peer.connect(server)
    await peer.say(publish_frame(b"a", b"", b"", b"x"))
    async with asyncio.timeout(60):
        while not all(list_segments(tmp_path, each) for each in (MESSAGES, CLIENTS)):
            await asyncio.sleep(0.01)
    assert len(rows(tmp_path, MESSAGES)) == 1
    await peer.leave()
    await server.stop()


async def test_a_vanished_directory_does_not_disturb_clients(tmp_path):
    directory = tmp_path / "records"
    server = recording(directory, roll_age_s=0.05)
    await server.start()
    for name in DATA_SETS:
        (directory / name).rmdir()
        (directory / name).write_text("in the way")
    peer = await Peer.connect(server)
    recorder = server._recorder
    async with asyncio.timeout(60):
        while not recorder.counts().errors:
            await peer.say(publish_frame(b"a", b"", b"", b"x"))
            await asyncio.sleep(0.01)
    await peer.say(b"SUB a 1\r\n")
    await peer.leave()
    await server.stop()
    assert recorder.counts().lost > 0


async def test_a_directory_that_cannot_be_stops_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    server = recording(tmp_path / "file")
    with pytest.raises(ConfigError, match=r"cannot record into .*file"):
        await server.start()


async def test_a_pattern_that_is_no_subject_stops_the_start(tmp_path):
    server = recording(tmp_path, subjects_deny=("a..b",))
    with pytest.raises(ConfigError, match=r"recorder\.subjects_deny: expected a subject pattern"):
        await server.start()


def test_after_sigkill_every_visible_file_is_whole(tmp_path):
    config = f'[recorder]\ndirectory = "{tmp_path}"\nroll_age_s = 0.1\n'
    (tmp_path / "midge.toml").write_text(config)
    flags = ("-c", str(tmp_path / "midge.toml"))
    with (
        ServerProcess(midge_command(), flags=flags) as server,
        socket.create_connection(server.address()) as peer,
    ):
        peer.sendall(b'CONNECT {"verbose":false}\r\n')
        while len(list_segments(tmp_path, MESSAGES)) < 3:
            peer.sendall(publish_frame(b"a.b", b"", b"", b"x" * 100) * 50)
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
    visible = list_segments(tmp_path, MESSAGES)
    assert visible
    assert [check_segment(path, MESSAGES) for path in visible] == [None] * len(visible)


def test_sigterm_loses_nothing(tmp_path):
    flags = ("--record", str(tmp_path))
    with (
        ServerProcess(midge_command(), flags=flags) as server,
        socket.create_connection(server.address()) as peer,
    ):
        peer.sendall(b'CONNECT {"verbose":false}\r\n' + publish_frame(b"a", b"", b"", b"x") * 5000)
        peer.sendall(b"PING\r\n")
        heard = b""
        while b"PONG\r\n" not in heard:
            heard += peer.recv(4096)
        assert server.stop() == 0
    assert len(rows(tmp_path, MESSAGES)) == 5000
