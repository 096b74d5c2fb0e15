"""`midge server`, `midge account` and the reports, and the form of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.client_commands.conftest import Run
from tests.support.processes import Server, midge_command, nats_server_command

ACCOUNTS = """
server_name: one
accounts {
  SYS { users: [ { user: s, password: p } ] }
  A { users: [ { user: a, password: p, permissions: { publish: { deny: "secret.>" } } } ] }
}
system_account: SYS
"""


@pytest.fixture(scope="module", params=["midge", "nats-server"])
def with_accounts(request: pytest.FixtureRequest) -> Iterator[Server]:
    command = midge_command() if request.param == "midge" else nats_server_command()
    with Server(command, ACCOUNTS) as running:
        yield running


def as_user(server: Server, user: str) -> list[str]:
    return ["--user", user, "--password", "p", "-s", server.url]


def test_the_server_of_the_connection_is_shown(ok: Run) -> None:
    info = ok("server", "info", "--json").json
    assert info["rtt_ns"] > 0
    assert "nonce" not in info
    lines = ok("server", "info").out.splitlines()
    assert f"Id:              {info['server_id']}" in lines
    assert "JetStream:       yes" in lines
    assert "Login:           not required" in lines


def test_round_trips_are_timed(ok: Run) -> None:
    assert len(ok("server", "ping", "--count", 3, "--json").json["rtt_ns"]) == 3
    lines = ok("server", "ping", "--count", 2).out.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("least ")


def test_all_servers_are_listed_for_the_system_account(run: Run, with_accounts: Server) -> None:
    done = run("server", "ls", *as_user(with_accounts, "s"))
    assert (done.code, done.err) == (0, "")
    head, row = done.out.splitlines()
    assert head.split()[:2] == ["NAME", "CLUSTER"]
    assert row.startswith("one ")
    (answer,) = run("server", "ls", "--json", *as_user(with_accounts, "s")).json
    assert answer["server"]["name"] == "one"
    refused = run("server", "ls", *as_user(with_accounts, "a"))
    assert refused.code == 1
    assert refused.err == (
        "midge server ls: no server answers; only users of the system account may ask all servers\n"
    )


def test_the_account_is_shown(ok: Run, run: Run, with_accounts: Server) -> None:
    assert {"Streams", "Storage"} <= {
        line.split(":")[0] for line in ok("account", "info").out.splitlines()
    }
    usage = ok("account", "info", "--json").json["jetstream"]
    assert usage["limits"]["max_streams"] == -1
    lines = run("account", "info", *as_user(with_accounts, "a")).out.splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        *("User: a", "Account: A", "Publish, deny: secret.>", "JetStream: off")
    ]


def test_streams_are_compared(ok: Run, stream: str) -> None:
    ok("pub", f"{stream}.a", "12345", "--ack", "--count", 3)
    ok("stream", "rm", stream, 2, "--yes")
    lines = ok("stream", "report").out.splitlines()
    (row,) = [line.split() for line in lines if line.startswith(f"{stream} ")]
    assert row[:4] == [stream, "file", "0", "2"]
    assert row[6:] == ["0", "1", "-"]
    assert " in all, with " in lines[-1]
    names = [
        one["config"]["name"] for one in ok("stream", "report", "--sort", "name", "--json").json
    ]
    assert names == sorted(names)


def test_consumers_of_a_stream_are_compared(ok: Run, run: Run, stream: str) -> None:
    ok("pub", f"{stream}.a", "x", "--ack", "--count", 5)
    for name in ("BEHIND", "AHEAD"):
        ok("consumer", "add", stream, name)
    ok("consumer", "next", stream, "AHEAD", "--count", 4)
    lines = [line.split() for line in ok("consumer", "report", stream).out.splitlines()]
    assert lines[0] == [f"{stream}:", "last", "sequence", "5"]
    assert [line[:4] for line in lines[2:]] == [["BEHIND", "5", "0", "0"], ["AHEAD", "1", "4", "0"]]
    missing = run("consumer", "report", "NONE")
    assert missing.err == "midge consumer report: stream NONE: not found\n"


def test_keys_are_listed_by_name(ok: Run) -> None:
    ok("kv", "add", "SORTED")
    for key in ("b", "c", "a"):
        ok("kv", "put", "SORTED", key, "1")
    assert ok("kv", "ls", "SORTED").out == "a\nb\nc\n"
    ok("kv", "rm", "SORTED", "--yes")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["kv", "get", "NONE", "k"], 1, {"text": "bucket NONE: not found", "code": 10059}),
        (["object", "ls", "NONE"], 1, {"text": "object store NONE: not found", "code": 10059}),
        (["kv", "put", "NONE", "k", "v"], 1, {"text": "key k of bucket NONE: not found"}),
        (["stream", "edit", "NONE"], 2, {"kind": "OptionError"}),
        (["stream", "lss"], 2, {"text": "there is no 'lss'; did you mean 'ls'?"}),
        (["kv", "get"], 2, {"kind": "UsageError"}),
    ],
)
def test_errors_are_json_for_programs_and_one_line_for_people(
    run: Run, words: list[str], code: int, error: dict[str, object]
) -> None:
    done = run(*words, "--json")
    assert (done.code, done.out) == (code, "")
    told = json.loads(done.err)["error"]
    assert error.items() <= told.items()
    done = run(*words)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert "$JS" not in done.err
    assert "usage:" not in done.err


@pytest.mark.parametrize("timeout", ["30", "30.5", "30000ms"])
def test_a_time_out_may_be_a_number_of_seconds(ok: Run, timeout: str) -> None:
    assert ok("stream", "ls", "--names", "--timeout", timeout).err == ""
