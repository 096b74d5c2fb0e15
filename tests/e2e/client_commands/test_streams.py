"""`midge stream` and `midge consumer`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.client_commands.conftest import Run


def test_a_stream_is_made_shown_changed_and_deleted(ok: Run, run: Run) -> None:
    words = ["--subjects", "made.a,made.b", "--max-age", "7d", "--max-bytes", "10MB"]
    words += ["--storage", "memory", "--allow-direct", "--metadata", "team=a"]
    made = ok("stream", "add", "MADE", *words, "--set", "max_consumers=3", "--json").json
    config = made["config"]
    assert config["subjects"] == ["made.a", "made.b"]
    assert config["max_age"] == 7 * 24 * 3600 * 10**9
    assert (config["max_bytes"], config["max_consumers"]) == (10 << 20, 3)
    assert (config["storage"], config["allow_direct"]) == ("memory", True)
    edited = ok("stream", "edit", "MADE", "--max-msgs", 5, "--metadata", "x=y", "--json").json
    assert edited["config"]["max_msgs"] == 5
    assert edited["config"]["max_bytes"] == 10 << 20
    assert {"team": "a", "x": "y"}.items() <= edited["config"]["metadata"].items()
    shown = ok("stream", "info", "MADE").out
    assert "Subjects:         made.a, made.b\n" in shown
    assert "Max age:          7d\n" in shown
    assert "Max messages:     5\n" in shown
    assert "Metadata:         team=a, x=y\n" in shown
    assert ok("stream", "rm", "MADE", "--yes").out == "stream MADE is deleted\n"
    gone = run("stream", "info", "MADE")
    assert (gone.code, gone.err) == (
        1,
        "midge stream info: stream MADE: not found\n",
    )


def test_streams_are_listed(ok: Run, stream: str) -> None:
    ok("pub", f"{stream}.a", "12345", "--ack")
    lines = ok("stream", "ls").out.splitlines()
    assert lines[0].split() == [
        *("NAME", "STORAGE", "MESSAGES", "SIZE", "CONSUMERS", "LAST", "MESSAGE", "SUBJECTS")
    ]
    (row,) = [line.split() for line in lines if line.startswith(stream)]
    assert row[:3] == [stream, "file", "1"]
    assert stream in ok("stream", "ls", "--names").out.splitlines()
    assert ok("stream", "ls", "--subject", f"{stream}.*", "--names").out == f"{stream}\n"
    assert [one["config"]["name"] for one in ok("stream", "ls", "--json").json].count(stream) == 1


def test_a_configuration_comes_from_a_file(ok: Run, scratch: Path) -> None:
    (scratch / "c.json").write_text('{"subjects": ["filed"], "max_msgs": 3, "storage": "memory"}')
    made = ok("stream", "add", "FILED", "--config", "c.json", "--max-msgs", 4, "--json").json
    assert made["config"]["max_msgs"] == 4
    assert made["config"]["subjects"] == ["filed"]
    ok("stream", "rm", "FILED", "--yes")


def test_messages_are_read_purged_and_deleted(ok: Run, run: Run, stream: str) -> None:
    for number in range(6):
        ok("pub", f"{stream}.{number % 2}", f"m{number}", "--ack", "-H", f"N: {number}")
    shown = ok("stream", "get", stream, 3).out.splitlines()
    assert shown[0].startswith(f"[{stream}.0] seq 3 ")
    assert shown[1:] == ["N: 2", "", "m2"]
    assert ok("stream", "get", stream, "--last", f"{stream}.0", "--raw").out == "m4"
    found = ok("stream", "get", stream, "--next", f"{stream}.1", "--from", 3, "--json").json
    assert (found["seq"], found["headers"], found["payload"]) == (4, {"N": ["3"]}, "m3")
    assert ok("stream", "rm", stream, 3, "--yes").out == "message 3 is deleted\n"
    assert run("stream", "get", stream, 3).code == 1
    purged = ok("stream", "purge", stream, "--subject", f"{stream}.1", "--keep", 1, "--yes")
    assert purged.out == "2 messages removed\n"
    assert ok("stream", "info", stream, "--json").json["state"]["messages"] == 3


def test_what_would_be_taken_for_something_else_is_refused(run: Run, ok: Run, stream: str) -> None:
    """The API takes a sequence of 0 for none, so a purge up to 0 would purge the whole stream."""
    ok("pub", f"{stream}.1", "m", "--ack")
    done = run("stream", "purge", stream, "--seq", 0, "--yes")
    assert (done.code, "expected a sequence, of which the first is 1" in done.err) == (2, True)
    assert ok("stream", "info", stream, "--json").json["state"]["messages"] == 1
    done = run("stream", "get", stream, 1, "--from", 1)
    assert (done.code, "expected it, too" in done.err) == (2, True)
    done = run("stream", "rm", stream, "--no-erase", "--yes")
    assert (done.code, "expected its sequence, too" in done.err) == (2, True)


def test_what_destroys_wants_a_yes(run: Run, stream: str) -> None:
    done = run("stream", "rm", stream)
    assert done.code == 2
    assert done.err == (
        f"midge stream rm: this would delete stream {stream} with all it holds; "
        "say --yes to do so without being asked\n"
    )


def test_a_consumer_is_made_shown_changed_and_deleted(ok: Run, run: Run, stream: str) -> None:
    words = ["--filter", f"{stream}.a", "--filter", f"{stream}.b", "--ack-wait", "1m"]
    made = ok("consumer", "add", stream, "C", *words, "--start", 3, "--json").json
    config = made["config"]
    assert config["filter_subjects"] == [f"{stream}.a", f"{stream}.b"]
    assert (config["deliver_policy"], config["opt_start_seq"]) == ("by_start_sequence", 3)
    assert (config["ack_wait"], config["ack_policy"]) == (60 * 10**9, "explicit")
    ok("consumer", "edit", stream, "C", "--max-ack-pending", 7, "--filter", f"{stream}.c")
    shown = ok("consumer", "info", stream, "C").out
    assert f"Filter:          {stream}.c\n" in shown
    assert "Max ack pending: 7\n" in shown
    assert "Starts with:     sequence 3\n" in shown
    assert "Ack wait:        1m\n" in shown
    assert ok("consumer", "ls", stream, "--names").out == "C\n"
    (row,) = ok("consumer", "ls", stream).out.splitlines()[1:]
    assert row.split()[:4] == ["C", "pull", "explicit", "0"]
    assert ok("consumer", "rm", stream, "C", "--yes").out == "consumer C is deleted\n"
    assert ok("consumer", "ls", stream, "--json").json == []
    assert run("consumer", "info", stream, "C").err == (
        f"midge consumer info: consumer C of stream {stream}: not found\n"
    )


def test_a_push_consumer(ok: Run, stream: str) -> None:
    words = ["--deliver", "push.here", "--heartbeat", "5s", "--flow-control", "--ephemeral"]
    config = ok("consumer", "add", stream, "P", *words, "--json").json["config"]
    assert config["deliver_subject"] == "push.here"
    assert (config["idle_heartbeat"], config["flow_control"]) == (5 * 10**9, True)
    assert "durable_name" not in config


def test_messages_are_taken(ok: Run, run: Run, stream: str) -> None:
    ok("consumer", "add", stream, "C")
    empty = run("consumer", "next", stream, "C")
    assert (empty.code, empty.err) == (1, "midge consumer next: no message\n")
    for number in range(5):
        ok("pub", f"{stream}.a", f"m{number}", "--ack")
    assert ok("consumer", "next", stream, "C", "--count", 2, "--raw").out == "m0\nm1\n"
    (line,) = ok("consumer", "next", stream, "C", "--json", "--answer", "none").out.splitlines()
    assert json.loads(line) == {"subject": f"{stream}.a", "seq": 3, "payload": "m2"}
    ok("consumer", "next", stream, "C", "--answer", "nak")
    shown = ok("consumer", "next", stream, "C", "--count", 9, "--wait", "200ms").out
    assert f"[{stream}.a] seq 4\nm3\n" in shown
    info = ok("consumer", "info", stream, "C", "--json").json
    assert (info["num_ack_pending"], info["num_pending"]) == (1, 0)
    missing = run("consumer", "next", stream, "NONE")
    assert missing.err == "midge consumer next: there is no pull consumer NONE\n"


def test_a_consumer_is_paused_and_resumed(ok: Run, stream: str) -> None:
    ok("consumer", "add", stream, "C")
    assert ok("consumer", "pause", stream, "C", "1h").out.startswith("C is paused until ")
    assert ok("consumer", "info", stream, "C", "--json").json["paused"] is True
    assert ok("consumer", "resume", stream, "C").out == "C is not paused\n"
    assert ok("consumer", "pause", stream, "C", "--json").json["paused"] is True
