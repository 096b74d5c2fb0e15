"""Signals: both servers end, reload, reopen their logs and go lame in the same way."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    Dial = Callable[..., Awaitable[Raw]]

TIMEOUT_S = 60.0
COMMANDS = {"midge-server": midge_command, "nats-server": nats_server_command}
UNUSED_PID = 2**22 + 1
"""More than Linux ever gives to a process."""

BASE = """\
server_name: port_authority
authorization {
  users: [ { user: pilot, password: old }, { user: crane, password: crane } ]
}
"""
RELOADED = "[INF] Reloaded server configuration (sha256:"
REFUSED = "[ERR] Failed to reload server configuration: "


@pytest.fixture(params=sorted(COMMANDS))
def program(request: pytest.FixtureRequest) -> str:
    """The server that is asked."""
    return str(request.param)


@pytest.fixture
def start(program: str) -> Iterator[Callable[..., Server]]:
    """Start servers of that program; end the remaining ones."""
    with contextlib.ExitStack() as stack:

        def make(config: str = BASE, *flags: str) -> Server:
            return stack.enter_context(Server(COMMANDS[program](), config, flags))

        yield make


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connect to a server as one of its users; hang up in the end."""
    opened: list[Raw] = []

    async def make(server: Server, user: str = "crane", word: str = "crane", **more: Any) -> Raw:
        client = await Raw.open(server.url)
        opened.append(client)
        await client.connect(user=user, **{"pass": word}, **more)
        return client

    yield make
    for client in opened:
        await client.close()


def command(program: str, *words: str) -> tuple[int, str, str]:
    """Run the program; give its exit code and what it wrote, its name left out."""
    done = subprocess.run(
        [*COMMANDS[program](), *words], capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, done.stdout, done.stderr.replace(f"{program}: ", "")


def wait_for(log: Callable[[], str], *texts: str) -> str:
    """Wait until one of `texts` is logged."""
    deadline = time.monotonic() + TIMEOUT_S
    while not any(text in log() for text in texts):
        assert time.monotonic() < deadline, log()
        time.sleep(0.005)
    return log()


# --signal.


@pytest.mark.parametrize(("word", "code"), [("term", 0), ("quit", 0), ("ldm", 0), ("stop", -9)])
@pytest.mark.parametrize("by", ["pid", "pid file"])
def test_what_ends_it(
    program: str, start: Callable[..., Server], tmp_path: Path, word: str, code: int, by: str
) -> None:
    pid_file = tmp_path / "server.pid"
    server = start(BASE, "-P", str(pid_file))
    target = str(pid_file) if by == "pid file" else str(server.pid)
    assert command(program, "--signal", f"{word}={target}") == (0, "", "")
    assert server.process.wait(TIMEOUT_S) == code
    assert pid_file.read_text() == str(server.pid)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("reload=/nonexistent/server.pid", "invalid pid: /nonexistent/server.pid"),
        ("bogus=/nonexistent/server.pid", "invalid pid: /nonexistent/server.pid"),
        (f"bogus={UNUSED_PID}", 'unknown signal "bogus"'),
    ],
)
def test_what_cannot_be_sent(program: str, given: str, said: str) -> None:
    assert command(program, "--signal", given) == (1, "", f"{said}\n")


def test_a_process_that_is_gone(program: str) -> None:
    code, out, error = command(program, "--signal", f"reload={UNUSED_PID}")
    assert (code, out) == (1, "")
    assert error.strip() == f'signal "reload" {UNUSED_PID}: no such process'


def test_several_servers_are_listed_and_left_alone(
    program: str, start: Callable[..., Server]
) -> None:
    pids = {start().pid, start().pid}
    code, out, error = command(program, "--signal", "reload")
    first, *listed = error.splitlines()
    assert (code, out, first) == (1, "", f"multiple {program} processes running:")
    assert pids <= set(map(int, listed))


# Reload.

TAKEN = {
    "max_payload": "max_payload: 2kb",
    "max_control_line": "max_control_line: 512",
    "max_connections": "max_connections: 5",
    "ping_interval": "ping_interval: '5s'\nping_max: 3",
    "write_deadline": "write_deadline: '5s'",
    "client_advertise": "client_advertise: example.org",
    "mappings": "mappings { a: b }",
    "logging": "debug: true\nlogtime_utc: true\nmax_traced_msg_len: 5",
    "stalling": "no_fast_producer_stall: true",
    "nothing": "",
}

KEPT = {
    "http": "http: '127.0.0.1:-1'",
    "http_base_path": "http_base_path: /x",
    "websocket": "websocket { listen: '127.0.0.1:-1', no_tls: true }",
    "sublist_cache": "disable_sublist_cache: true",
}

BROKEN = {
    "syntax": ("max_payload: {", "Parse error on line 5: 'Unexpected EOF processing map.'"),
    "variable": ("port: $NO", "variable reference for 'NO' on line 5 can not be found"),
    "key": ("  foo: 1", '@:5:3: unknown field "foo"'),
    "duration": ("write_deadline: '5x'", "@:5:1: error parsing write_deadline: time: unknown unit"),
}


def test_what_a_reload_takes(start: Callable[..., Server]) -> None:
    server = start()
    refused = [name for name, more in TAKEN.items() if REFUSED in server.reload(BASE + more)]
    assert refused == []


def test_what_a_reload_cannot_change(start: Callable[..., Server]) -> None:
    server = start()
    for name, more in KEPT.items():
        text = server.reload(BASE + more)
        assert f"{REFUSED}config reload not supported for " in text, name


async def test_a_broken_file_keeps_the_old(start: Callable[..., Server], dial: Dial) -> None:
    server = start()
    client = await dial(server, "pilot", "old")
    for broken, said in BROKEN.values():
        text = server.reload(BASE.replace("old", "new") + broken)
        assert REFUSED + said.replace("@", str(server.config_path)) in text
    assert await client.ask(b"SUB a 1", b"PUB a 0", b"") == b"MSG a 1 0\r\n\r\n"
    late = await dial(server, "pilot", "old")
    assert late.received == b"PONG\r\n", "the old password still counts"


async def test_who_may_no_longer_come_in_is_sent_away(
    start: Callable[..., Server], dial: Dial
) -> None:
    server = start()
    pilot, crane = await dial(server, "pilot", "old"), await dial(server)
    server.reload(BASE.replace("old", "new"))
    assert (await pilot.until_end()).endswith(b"-ERR 'Authorization Violation'\r\n")
    assert await crane.ask() == b""


@pytest.mark.parametrize(
    ("change", "word", "reports"),
    [
        (("pilot, password: old", "pilot, password: new"), b"-ERR 'Authorization Violation'", 1),
        (("pilot, password", "sailor, password"), b"", 0),
    ],
    ids=["another password", "removed"],
)
async def test_a_lost_user_is_told_and_reported_once(
    start: Callable[..., Server], dial: Dial, change: tuple[str, str], word: bytes, reports: int
) -> None:
    server = start()
    pilot, crane = await dial(server, "pilot", "old"), await dial(server)
    await crane.ask(b"SUB $SYS.> 1")
    server.reload(BASE.replace(*change))
    assert (await pilot.until_end()).rstrip() == word
    assert (await dial(server, "crane", "no")).received.endswith(b"Violation'\r\n")
    # The report of the client that was refused last shows that no other one can follow.
    while crane.received.count(b"CLIENT.AUTH.ERR") < reports + 1:
        await crane.ask()
    assert crane.received.count(b"CLIENT.AUTH.ERR") == reports + 1


async def test_a_subscription_that_is_no_longer_allowed_ends(
    start: Callable[..., Server], dial: Dial
) -> None:
    server = start()
    pilot = await dial(server, "pilot", "old", protocol=1)
    await pilot.ask(b"SUB quay.1 1", b"SUB berth 2", b"SUB quay.2 cranes 3")
    allowed = "password: old, permissions { subscribe: berth }"
    server.reload(BASE.replace("password: old", allowed))
    told = await pilot.ask(b"PUB quay.1 0", b"", b"PUB berth 0", b"")
    lines = [line for line in told.splitlines() if not line.startswith(b"INFO")]
    violation = b"-ERR 'Permissions Violation for Subscription to "
    assert sorted(lines[:2]) == [
        violation + b'"quay.1" (sid "1")\'',
        violation + b'"quay.2" using queue "cranes" (sid "3")\'',
    ]
    assert lines[2:] == [b"MSG berth 2 0", b""]


async def test_surplus_connections_are_closed(start: Callable[..., Server], dial: Dial) -> None:
    server = start()
    clients = [await dial(server) for _ in range(3)]
    server.reload(BASE + "max_connections: 1\n")
    ends = [await client.ask() for client in clients]
    assert sorted(ends) == [b"", *[b"-ERR 'maximum connections exceeded'\r\n"] * 2]


# Reopen.


def test_a_rotated_log_is_opened_anew(start: Callable[..., Server], tmp_path: Path) -> None:
    log, old = tmp_path / "server.log", tmp_path / "server.log.1"
    server = start(BASE, "-l", str(log))
    log.rename(old)
    server.signal("SIGUSR1")
    wait_for(lambda: log.read_text() if log.exists() else "", "[INF] File log re-opened")
    server.signal("SIGHUP")
    wait_for(log.read_text, RELOADED)
    assert RELOADED not in old.read_text()


# Lame duck mode.

DUCK = BASE + "lame_duck_duration: '30s'\nlame_duck_grace_period: '@'\n"


async def test_lame_duck_mode_tells_and_sends_away(
    start: Callable[..., Server], dial: Dial
) -> None:
    server = start(DUCK.replace("@", "200ms"))
    new, old = await dial(server, protocol=1), await dial(server, protocol=0)
    server.signal("SIGUSR2")
    *_, told = (await new.until(b'"ldm":true')).splitlines()
    assert "connect_urls" not in json.loads(told.removeprefix(b"INFO ")), "there is nowhere else"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.address(), timeout=TIMEOUT_S).close()
    assert await new.ask(b"SUB a 1", b"PUB a 0", b"") == b"MSG a 1 0\r\n\r\n", "it still serves"
    assert {await new.until_end(), await old.until_end()} <= {b""}, "they see just the end"
    assert b"INFO" not in old.received, "protocol 0 is told nothing unasked"
    assert await asyncio.to_thread(server.process.wait, TIMEOUT_S) == 0


async def test_clients_go_one_by_one(start: Callable[..., Server], dial: Dial) -> None:
    server = start(DUCK.replace("@", "100ms"))
    clients = [await dial(server) for _ in range(3)]
    server.signal("SIGUSR2")
    left = [asyncio.ensure_future(client.until_end()) for client in clients]
    ended = []
    while left:
        done, pending = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        ended.append((len(done), time.monotonic()))
        left = list(pending)
    assert [count for count, _ in ended] == [1, 1, 1]
    gaps = [after - before for (_, before), (_, after) in itertools.pairwise(ended)]
    assert all(0.1 < gap < 2.0 for gap in gaps), gaps
    assert await asyncio.to_thread(server.process.wait, TIMEOUT_S) == 0


async def test_an_end_is_put_off_or_not(start: Callable[..., Server], dial: Dial) -> None:
    server = start(DUCK.replace("@", "20s"))
    client = await dial(server, protocol=1)
    server.signal("SIGUSR2")
    await client.until(b'"ldm":true')
    server.signal("SIGTERM")
    wait_for(lambda: server.log, 'Trapped "terminated" signal')
    assert await client.ask() == b"", "SIGTERM waits for the lame duck"
    server.signal("SIGINT")
    assert await client.until_end() == b""
    assert await asyncio.to_thread(server.process.wait, TIMEOUT_S) == 0
