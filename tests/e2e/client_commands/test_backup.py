"""`midge stream backup` and `restore`."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.client_commands.conftest import Run
from tests.support.processes import Server


def test_a_stream_is_backed_up_and_restored(
    ok: Run, run: Run, stream: str, scratch: Path, jetstream_server: Server
) -> None:
    for number in range(5):
        ok("pub", f"{stream}.a", f"m{number}", "--ack", "-H", "A: b")
    ok("consumer", "add", stream, "C")
    ok("consumer", "next", stream, "C", "--count", 2)
    done = ok("stream", "backup", stream, "saved")
    assert done.out.startswith(f"{stream}: 5 messages, ")
    assert sorted(path.name for path in (scratch / "saved").iterdir()) == [
        *("backup.json", "stream.tar.s2")
    ]
    again = run("stream", "backup", stream, "saved")
    assert again.err == "midge stream backup: saved: exists already\n"
    ok("stream", "rm", stream, "--yes")
    assert ok("stream", "restore", "saved").out.startswith(f"{stream}: 5 messages restored in ")
    found = ok("stream", "get", stream, 3, "--json").json
    assert (found["payload"], found["headers"]) == ("m2", {"A": ["b"]})
    assert ok("consumer", "next", stream, "C", "--raw").out == "m2\n"
    refused = run("stream", "restore", "saved")
    assert refused.code == 1
    assert refused.err.startswith(f"midge stream restore: stream {stream}: ")


def test_a_backup_that_is_none(run: Run, scratch: Path) -> None:
    missing = run("stream", "restore", "saved")
    assert missing.err == "midge stream restore: saved/backup.json: no such file or directory\n"
    assert run("stream", "backup", "NONE", "saved").err == (
        "midge stream backup: stream NONE: not found\n"
    )
    assert list(scratch.iterdir()) == []
