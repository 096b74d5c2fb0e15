"""midge-server as a process: signals, files, exit codes and what it says when it cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import nats
import pytest

from tests.support.processes import Server, midge_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 60


def run(*arguments: str, module: str = "midge.server") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def wait_for(server: Server, text: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while text not in server.log:
        assert time.monotonic() < deadline, server.log
        time.sleep(0.005)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(midge_command(), "debug: false\n") as started:
        yield started


def info_of(server: Server) -> dict[str, object]:
    with socket.create_connection(server.address(), timeout=TIMEOUT_S) as connection:
        line = connection.makefile("rb").readline()
    assert line.startswith(b"INFO ")
    info: dict[str, object] = json.loads(line[5:])
    return info


async def test_a_client_talks_through_it_and_sigterm_ends_it() -> None:
    server = Server(midge_command()).wait_ready()
    client = await nats.connect(server.url)
    subscription = await client.subscribe("a.*")
    await client.publish("a.b", b"hello")
    assert (await subscription.next_msg(timeout=TIMEOUT_S)).data == b"hello"
    await client.close()
    host, port = server.address()
    assert f"[INF] Listening for client connections on {host}:{port}" in server.log
    assert "[INF] Server is ready" in server.log
    assert server.stop() == 0


def test_info_names_the_compatible_version(server: Server) -> None:
    assert info_of(server)["version"] == "2.15.1"


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGUSR2"])
def test_signals_that_end_it(number: str) -> None:
    server = Server(midge_command()).wait_ready()
    server.signal(number)
    assert server.process.wait(TIMEOUT_S) == 0
    assert "Server Exiting.." in server.log
    server.stop()


def test_a_second_sigterm_changes_nothing() -> None:
    server = Server(midge_command()).wait_ready()
    for _ in range(20):
        server.signal("SIGTERM")
    assert server.process.wait(TIMEOUT_S) == 0
    server.stop()


def test_reload_takes_what_can_change_and_refuses_the_rest(server: Server) -> None:
    server.signal("SIGHUP", "debug: true\nmax_payload: 1kb\n")
    wait_for(server, "Reloaded server configuration")
    assert "[INF] Reloaded: limits.max_payload_bytes = 1024" in server.log
    server.signal("SIGHUP", "server_name: other\n")
    wait_for(server, "config reload not supported for server_name")
    server.signal("SIGHUP", "max_payload: x\n")
    wait_for(server, "server.conf:1:0: field \"max_payload\": expected an integer, got 'x'")
    assert server.log.count("[ERR] Failed to reload server configuration: ") == 2
    assert info_of(server)["server_id"]


def test_signal_flag_reaches_the_process(server: Server) -> None:
    assert run("--signal", f"reload={server.pid}") == (0, "", "")
    wait_for(server, 'Trapped "hangup" signal')


def test_port_in_use_is_one_line_and_exit_code_1(server: Server) -> None:
    host, port = server.address()
    code, out, err = run("-a", host, "-p", str(port))
    assert (code, out) == (1, "")
    fatal = f'[FTL] Error listening on port: {host}:{port}, "address already in use"'
    assert err.splitlines()[-1].endswith(fatal)
    code, out, err = run("serve", "-a", host, "-p", str(port), module="midge")
    assert code == 1
    assert json.loads(err.splitlines()[-1])["event"] == "server_failed"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-a", "192.0.2.1", "-p", "-1"], "annot assign requested address"),
        (["-p", "-1", "-l", "/nonexistent/log"], "error opening log file: open /nonexistent/log"),
        (["-p", "-1", "-P", "/nonexistent/pid"], "Could not write pidfile: open /nonexistent/pid"),
        (["-c", "/nonexistent.conf"], "open /nonexistent.conf: no such file or directory"),
    ],
)
def test_what_keeps_it_from_starting(arguments: list[str], text: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert text in err.splitlines()[-1]
    assert "Traceback" not in err


def test_pid_and_ports_files(tmp_path: Path) -> None:
    pid_file = tmp_path / "midge.pid"
    with Server(midge_command(), flags=("-P", str(pid_file))) as server:
        assert pid_file.read_text() == str(server.pid)
        server.stop()
    assert pid_file.exists(), "nats-server leaves the pid file too"


def test_the_log_is_reopened(tmp_path: Path) -> None:
    log = tmp_path / "midge.log"
    with Server(midge_command(), flags=("-l", str(log))) as server:
        log.rename(tmp_path / "old.log")
        os.kill(server.pid, signal.SIGUSR1)
        deadline = time.monotonic() + TIMEOUT_S
        while not log.exists() or "File log re-opened" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.005)


def test_midge_alone_helps() -> None:
    code, out, _ = run("--help", module="midge")
    assert code == 0
    assert out.startswith("usage: midge COMMAND")
