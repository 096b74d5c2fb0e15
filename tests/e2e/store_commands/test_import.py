"""`midge store import`: directories that nats-server itself wrote."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from midge import cli
from midge.server.config.jetstream import JetStream
from midge.server.jetstream.filesystem import unread_nats_streams
from tests.e2e.jetstream.test_archives import Peer
from tests.support.processes import Server, midge_command, nats_server_command

ACCOUNTS = """
accounts {
  ONE { jetstream: enabled, users: [{user: one, password: one}] }
  TWO { jetstream: enabled, users: [{user: two, password: two}] }
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


def nats_server(source: Path, config: str = "") -> Server:
    return Server(nats_server_command(), config, flags=("-js", "-sd", str(source)))


def midge_on(target: Path, config: str = "") -> Server:
    return Server(midge_command(), config, flags=("-js", "-sd", str(target)))


class Place(Server):
    """A server reached as a user."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        return self._url


def peer(server: Server, user: str = "") -> Peer:
    url = server.url.replace("nats://", f"nats://{user}:{user}@") if user else server.url
    return Peer("", Place(url))


def hash_of(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted(path.rglob("*"))
        if one.is_file()
    }


def importing(source: Path, target: Path, capsys: Any, *flags: str) -> tuple[int, Any, str]:
    capsys.readouterr()
    command = ["store", "import", str(source), "--into", str(target), "--json", *flags]
    code = cli.main(command)
    out, err = capsys.readouterr()
    return code, json.loads(out or "null"), err


def fill(one: Peer) -> None:
    """Make streams of many kinds; the blocks of one are compressed, and of several."""
    rng = random.Random(5)
    one.make("PLAIN", first_seq=10)
    for number in range(200):
        headers = {"Nats_Msg_Id": f"id{number}", "A": "é"} if number % 3 else {}
        one.publish(f"PLAIN.{number % 5}", rng.randbytes(rng.choice((0, 5, 3000))), **headers)
    for seq in (10, 50, 51, 209):
        one.js.call("STREAM.MSG.DELETE.PLAIN", {"seq": seq, "no_erase": seq != 50})
    one.js.call("STREAM.PURGE.PLAIN", {"filter": "PLAIN.4", "keep": 2})
    one.make("PACKED", compression="s2")
    for number in range(120):
        one.publish("PACKED.x", b"%d " % number * 40_000)
    one.js.call("STREAM.MSG.DELETE.PACKED", {"seq": 3})
    one.make("KV_B", subjects=["$KV.B.>"], max_msgs_per_subject=2, allow_rollup_hdrs=True)
    for number in range(30):
        one.publish(f"$KV.B.{number % 4}", b"%d" % number)
    one.publish("$KV.B.0", b"", KV_Operation="PURGE", Nats_Rollup="sub")
    one.make("LIMITED", max_msgs=5)
    for number in range(20):
        one.publish("LIMITED.x", b"%d" % number)
    one.make("WORK", retention="workqueue")
    for number in range(6):
        one.publish("WORK.x", b"%d" % number)
    one.consume("WORK", "C", ack_wait=3600 * 10**9)
    one.pull("WORK", "C", 2)
    one.pull("WORK", "C", 1, None)
    one.consume("PLAIN", "mixed", ack_wait=3600 * 10**9, filter_subject="PLAIN.1")
    one.pull("PLAIN", "mixed", 2)
    one.pull("PLAIN", "mixed", 1, b"-NAK")
    one.pull("PLAIN", "mixed", 2, None)
    one.consume("PLAIN", "fresh", deliver_policy="by_start_sequence", opt_start_seq=100)


STREAMS = ("PLAIN", "PACKED", "KV_B", "LIMITED", "WORK")
CONSUMERS = (("WORK", "C"), ("PLAIN", "mixed"), ("PLAIN", "fresh"))


def contents(one: Peer) -> dict[str, Any]:
    state = {name: one.state(name) for name in STREAMS}
    for fields in state.values():
        del fields["last_ts"]  # the time of a deleted message is not imported
    return {
        "messages": {name: one.messages(name) for name in STREAMS},
        "state": state,
        "consumers": {pair: one.consumer(*pair) for pair in CONSUMERS},
    }


def ended(source: Path, signal: str) -> dict[str, Any]:
    """Fill a nats-server and end it; return what it held."""
    with nats_server(source) as server:
        one = peer(server)
        fill(one)
        held = contents(one)
        one.client.close()
        server.signal(signal)
        server.process.wait()
    return held


def taken_over(source: Path, target: Path, capsys: Any) -> dict[str, Any]:
    """Import a directory; return what midge then holds."""
    files = hash_of(source)
    code, report, err = importing(source, target, capsys)
    assert (code, err) == (0, "")
    assert {entry["stream"]: entry["damages"] for entry in report} == {name: [] for name in STREAMS}
    assert hash_of(source) == files
    with midge_on(target) as server:
        other = peer(server)
        held = contents(other)
        other.client.close()
    return held


def test_streams_are_taken_over(source: Path, tmp_path: Path, capsys: Any) -> None:
    before = ended(source, "SIGTERM")
    assert taken_over(source, tmp_path / "target", capsys) == before


def test_streams_of_a_killed_server_are_what_it_would_recover(
    source: Path, tmp_path: Path, capsys: Any
) -> None:
    ended(source, "SIGKILL")
    shutil.copytree(source, tmp_path / "copy")
    held = taken_over(source, tmp_path / "target", capsys)
    with nats_server(tmp_path / "copy") as server:
        one = peer(server)
        recovered = contents(one)
        one.client.close()
    assert held["messages"] == recovered["messages"]
    assert held["state"] == recovered["state"]


def test_accounts_stay_apart(source: Path, tmp_path: Path, capsys: Any) -> None:
    with nats_server(source, ACCOUNTS) as server:
        for user in ("one", "two"):
            one = peer(server, user)
            one.make("S")
            one.publish("S.x", user.encode())
            one.client.close()
    code, report, _ = importing(source / "jetstream", tmp_path / "target", capsys)
    assert code == 0
    assert [(entry["account"], entry["messages"]) for entry in report] == [("ONE", 1), ("TWO", 1)]
    with midge_on(tmp_path / "target", ACCOUNTS) as server:
        two = peer(server, "two")
        (message,) = two.messages("S").values()
        assert message[3] == "dHdv"
        two.client.close()


@pytest.fixture
def small(source: Path, tmp_path: Path) -> Path:
    with nats_server(source) as server:
        one = peer(server)
        one.make("S")
        for number in range(5):
            one.publish("S.x", b"message %d" % number, A="b")
        one.consume("S", "C")
        one.client.close()
    return source


def test_a_flipped_bit_costs_a_message_and_is_told(
    small: Path, tmp_path: Path, capsys: Any
) -> None:
    (block,) = small.rglob("1.blk")
    data = bytearray(block.read_bytes())
    data[data.index(b"message 2")] ^= 1
    block.write_bytes(data)
    code, (report,), err = importing(small, tmp_path / "target", capsys)
    assert (code, err, report["messages"]) == (1, "", 4)
    (damage,) = report["damages"]
    assert re.fullmatch(r"block 1: the message 3 at \d+ is damaged", damage)
    block.write_bytes(data[:-10])
    code, (report,), _ = importing(small, tmp_path / "other", capsys)
    assert (code, report["messages"]) == (1, 3)
    assert "are no records" in report["damages"][1]


def test_damaged_metadata_is_told(small: Path, tmp_path: Path, capsys: Any) -> None:
    (consumer,) = small.rglob("obs/C/meta.inf")
    consumer.write_bytes(consumer.read_bytes().replace(b"explicit", b"exqlicit"))
    code, (report,), _ = importing(small, tmp_path / "target", capsys)
    assert (code, report["messages"], report["consumers"]) == (1, 5, 0)
    told = "consumer C: its meta.inf is damaged: the checksum does not match"
    assert report["damages"] == [told]
    (meta,) = small.rglob("S/meta.inf")
    meta.write_bytes(meta.read_bytes().replace(b"limits", b"limitz"))
    code, (report,), _ = importing(small, tmp_path / "other", capsys)
    assert (code, report["error"]) == (1, "its meta.inf is damaged: the checksum does not match")


def test_what_there_is_to_say_to_people(small: Path, tmp_path: Path, capsys: Any) -> None:
    target = str(tmp_path / "target")
    assert cli.main(["store", "import", str(small), "--into", target]) == 0
    assert capsys.readouterr().out == (
        "$G > S: 5 messages, 1 consumer\n1 of 1 stream, 5 messages, every checksum matched\n"
    )
    assert cli.main(["store", "import", str(small), "--into", target]) == 1
    out = capsys.readouterr().out
    assert out.startswith("$G > S: not imported: stream name already in use, cannot restore\n")


def test_the_command_names_the_danger_of_one_directory(small: Path, capsys: Any) -> None:
    """With `accounts`, nats-server deletes all plain files beside the directories of accounts."""
    assert cli.main(["store", "import", str(small), "--into", str(small)]) == 0
    assert "deletes midge's files there" in capsys.readouterr().err
    place = small / "jetstream"
    assert (place / "imported").exists()
    with nats_server(small):
        assert (place / "imported").exists()
    with nats_server(small, "accounts { A { jetstream: enabled, users: [{user: a, pass: a}] } }\n"):
        assert not [path for path in place.iterdir() if path.is_file()]


def test_a_directory_that_is_none(tmp_path: Path, capsys: Any) -> None:
    code, _, err = importing(tmp_path, tmp_path / "target", capsys)
    assert code == 1
    assert err == f"midge store import: {tmp_path}: there are no streams of nats-server in it\n"
    assert not (tmp_path / "target").exists()


def test_streams_are_imported_in_place_beside_those_that_are_there(
    small: Path, capsys: Any
) -> None:
    """nats-server's files stay as they are; a start needs each of its streams, or the flag."""
    files = hash_of(small)
    refused = subprocess.run(
        [*midge_command(), "-p", "-1", "-js", "-sd", str(small)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    command = f"midge store import {small} --into {small}"
    assert refused.returncode == 1
    assert command in refused.stderr
    config = f'jetstream {{ store_dir: "{small}" }}'
    flags = ("--jetstream-ignore-nats-streams",)
    with Server(midge_command(), config, flags) as server:
        ask(server, "STREAM.CREATE.S", {"name": "S"})
    code, found, _ = importing(small, small, capsys)
    assert (code, [one["error"] for one in found]) == (
        1,
        ["stream name already in use, cannot restore"],
    )
    assert command in unread_nats_streams(JetStream(store_dir=str(small)))
    with Server(midge_command(), config, flags) as server:
        ask(server, "STREAM.DELETE.S")
    code, found, _ = importing(small, small, capsys)
    assert (code, [one["error"] for one in found]) == (0, [""])
    assert files.items() <= hash_of(small).items()
    with midge_on(small) as server:
        assert ask(server, "STREAM.INFO.S")["state"]["messages"] == 5


def ask(server: Server, request: str, body: dict[str, Any] | None = None) -> Any:
    one = peer(server)
    try:
        return one.js.call(request, body)
    finally:
        one.client.close()


def encrypted(source: Path, cipher: str, key: str, previous: str = "") -> Server:
    config = f'jetstream {{ store_dir: "{source}", key: "{key}", cipher: {cipher} '
    config += f'prev_key: "{previous}" }}\n' if previous else "}\n"
    return Server(nats_server_command(), config)


@pytest.mark.parametrize("cipher", ["chacha", "aes"])
def test_encrypted_streams_are_taken_over(
    source: Path, tmp_path: Path, capsys: Any, cipher: str
) -> None:
    with encrypted(source, cipher, "secret") as server:
        one = peer(server)
        fill(one)
        before = contents(one)
        one.client.close()
    keys = tmp_path / "keys"
    keys.write_text("another\nsecret\n")
    files = hash_of(source)
    assert not any(b"PLAIN" in data for data in files.values())
    code, report, err = importing(source, tmp_path / "target", capsys, "--nats-key-file", str(keys))
    assert (code, err) == (0, "")
    assert [entry["damages"] for entry in report] == [[]] * len(STREAMS)
    assert hash_of(source) == files
    with midge_on(tmp_path / "target") as server:
        other = peer(server)
        assert contents(other) == before
        other.client.close()


def test_a_wrong_or_missing_key_is_told(source: Path, tmp_path: Path, capsys: Any) -> None:
    with encrypted(source, "aes", "secret") as server:
        one = peer(server)
        one.make("S")
        for number in range(5):
            one.publish("S.x", b"%d" % number)
        one.client.close()
    code, (report,), _ = importing(source, tmp_path / "target", capsys)
    told = "it is encrypted; --nats-key-file has to name the file of its key"
    assert (code, report["error"]) == (1, told)
    keys = tmp_path / "keys"
    keys.write_text("wrong")
    chosen = ("--nats-key-file", str(keys))
    code, (report,), _ = importing(source, tmp_path / "target", capsys, *chosen)
    assert (code, report["error"]) == (1, "it is encrypted with another key")
    keys.write_text("secret")
    (block_key,) = source.rglob("1.key")
    block_key.write_bytes(block_key.read_bytes()[::-1])
    code, (report,), _ = importing(source, tmp_path / "target", capsys, *chosen)
    assert (code, report["messages"]) == (1, 0)
    assert report["damages"] == ["block 1: it is encrypted with another key"]
