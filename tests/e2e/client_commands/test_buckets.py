"""`midge kv` and `midge object`, beside nats.py, so that either reads what the other wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nats
import pytest

from tests.e2e.client_commands.conftest import Run, until_shown
from tests.support.processes import Server


@pytest.fixture
def bucket(ok: Run, run: Run) -> object:
    ok("kv", "add", "B", "--history", 5, "--storage", "memory")
    yield "B"
    run("kv", "rm", "B", "--yes")


def test_values_are_written_read_and_deleted(ok: Run, run: Run, bucket: str) -> None:
    assert ok("kv", "put", "B", "a.b", "one").out == "1\n"
    assert ok("kv", "put", "B", "a.b", stdin=b"\xff\x00").out == "2\n"
    assert ok("kv", "get", "B", "a.b", "--json").json["value_base64"] == "/wA="
    assert ok("kv", "get", "B", "a.b", "--revision", 1).out == "one\n"
    assert ok("kv", "put", "B", "a.b", "three", "--revision", 2).out == "3\n"
    stale = run("kv", "put", "B", "a.b", "four", "--revision", 2)
    assert (stale.code, stale.err) == (
        1,
        "midge kv put: key a.b of bucket B: wrong last sequence: 3\n",
    )
    exists = run("kv", "create", "B", "a.b", "x")
    assert (exists.code, exists.err) == (1, "midge kv create: key a.b: exists already\n")
    assert ok("kv", "del", "B", "a.b").out == "4\n"
    gone = run("kv", "get", "B", "a.b")
    assert gone.err == "midge kv get: key a.b: not found in bucket B, it was deleted\n"
    assert ok("kv", "create", "B", "a.b", "again", "--json").json == {"revision": 5}
    history = ok("kv", "history", "B", "a.b", "--json").json
    assert [one["operation"] for one in history] == ["PUT", "PUT", "PUT", "DEL", "PUT"]
    ok("kv", "purge", "B", "a.b")
    rows = ok("kv", "history", "B", "a.b").out.splitlines()
    assert [row.split()[:2] for row in rows[1:]] == [["6", "PURGE"]]


def test_a_bucket_is_new_or_was_there(ok: Run, run: Run) -> None:
    for what, kind in (("bucket", "kv"), ("object store", "object")):
        assert ok(kind, "add", "NEW").out == f"{what} NEW is made\n"
        assert ok(kind, "add", "NEW").out == f"{what} NEW is there already, with these settings\n"
        changed = run(kind, "add", "NEW", "--max-bytes", "1M")
        assert (changed.code, changed.out) == (1, "")
        assert ok(kind, "add", "NEW", "--json").json["state"]["messages"] == 0
        ok(kind, "rm", "NEW", "--yes")


def test_a_watch_ends_with_its_timeout(ok: Run, run: Run, bucket: str) -> None:
    watch = ("kv", "watch", "B")
    silent, _ = until_shown(run, watch, 0)
    assert silent == (0, "", "")
    ok("kv", "put", "B", "a", "one")
    shown, _ = until_shown(run, (*watch, "--json"), 1)
    assert (shown.code, shown.json["value"]) == (0, "one")
    few, timeout = until_shown(run, (*watch, "--count", 2), 1)
    assert (few.code, few.out.count("\n")) == (1, 1)
    assert few.err == f"midge kv watch: 1 of 2 came, and no other within {timeout}\n"


def test_keys_and_buckets_are_listed(ok: Run, bucket: str) -> None:
    assert ok("kv", "ls", "B").out == ""
    for key in ("a", "b.c", "b.d"):
        ok("kv", "put", "B", key, f"value of {key}")
    ok("kv", "del", "B", "a")
    assert ok("kv", "ls", "B").out == "b.c\nb.d\n"
    assert ok("kv", "ls", "B", "b.*", "--values").out == "b.c: value of b.c\nb.d: value of b.d\n"
    assert ok("kv", "ls", "B", "--json").json == ["b.c", "b.d"]
    (row,) = [line.split() for line in ok("kv", "ls").out.splitlines() if line.startswith("B ")]
    assert row[1] == "4"


def test_changes_are_watched(jetstream_server: Server, ok: Run, bucket: str) -> None:
    ok("kv", "put", "B", "k", "before")
    words = ["kv", "watch", "B", "--count", "3", "--json", "--server", jetstream_server.url]
    with subprocess.Popen(
        [sys.executable, "-m", "midge", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["key"], first["value"], first["revision"]) == ("k", "before", 1)
        ok("kv", "put", "B", "k", "after")
        ok("kv", "del", "B", "k")
        rest = [json.loads(line) for line in process.stdout]
    assert [(one["operation"], one["value"]) for one in rest] == [("PUT", "after"), ("DEL", "")]
    assert process.returncode == 0


def test_a_key_that_is_none(run: Run, bucket: str) -> None:
    done = run("kv", "put", "B", "a b", "x")
    assert done.err == (
        "midge kv put: expected a key of letters, digits and -/_=. in it, got 'a b'\n"
    )
    assert run("kv", "get", "B", "nothing").err == (
        "midge kv get: key nothing: not found in bucket B\n"
    )
    assert run("kv", "get", "NONE", "a").err == ("midge kv get: bucket NONE: not found\n")


async def test_buckets_are_those_of_the_official_client(
    jetstream_server: Server, ok: Run, bucket: str
) -> None:
    client = await nats.connect(jetstream_server.url)
    values = await client.jetstream().key_value("B")
    ok("kv", "put", "B", "ours", "1")
    await values.put("theirs", b"2")
    assert (await values.get("ours")).value == b"1"
    assert ok("kv", "get", "B", "theirs").out == "2\n"
    status = await values.status()
    assert status.history == 5
    await client.close()


@pytest.fixture
def store(ok: Run, run: Run) -> object:
    ok("object", "add", "O", "--storage", "memory")
    yield "O"
    run("object", "rm", "O", "--yes")


def test_files_are_stored_and_come_back(ok: Run, run: Run, store: str, scratch: Path) -> None:
    content = os.urandom(1 << 20) + b"end"
    (scratch / "a.bin").write_bytes(content)
    assert ok("object", "put", "O", "a.bin").out == "a.bin: 1.0 MiB in 9 chunks\n"
    ok("object", "get", "O", "a.bin", "-o", "b.bin")
    assert (scratch / "b.bin").read_bytes() == content
    assert [path.name for path in scratch.iterdir() if path.name.startswith(".")] == []
    ok("object", "put", "O", "-", "--name", "empty")
    assert ok("object", "get", "O", "empty", "-o", "-").out == ""
    listed = ok("object", "ls", "O", "--json").json
    assert {one["name"]: one["size"] for one in listed} == {"a.bin": (1 << 20) + 3, "empty": 0}
    assert "Chunks: " in ok("object", "info", "O", "a.bin").out
    ok("object", "put", "O", "-", "--name", "a.bin", stdin=b"short")
    assert ok("object", "get", "O", "a.bin", "-o", "-").out == "short"
    assert ok("stream", "info", "OBJ_O", "--json").json["state"]["messages"] == 3
    assert ok("object", "rm", "O", "a.bin", "--yes").out == "a.bin is deleted\n"
    missing = run("object", "get", "O", "a.bin")
    assert missing.err == "midge object get: object a.bin: not found in O\n"
    assert [line.split()[0] for line in ok("object", "ls", "O").out.splitlines()] == [
        *("OBJECT", "empty")
    ]
    (row,) = [line for line in ok("object", "ls").out.splitlines() if line.startswith("O ")]
    assert "memory" in row


async def test_objects_are_those_of_the_official_client(
    jetstream_server: Server, ok: Run, store: str, scratch: Path
) -> None:
    client = await nats.connect(jetstream_server.url)
    objects = await client.jetstream().object_store("O")
    ok("object", "put", "O", "-", "--name", "ours", stdin=b"x" * 300_000)
    await objects.put("theirs", b"y" * 300_000)
    assert (await objects.get("ours")).data == b"x" * 300_000
    assert ok("object", "get", "O", "theirs", "-o", "-").out == "y" * 300_000
    await client.close()
