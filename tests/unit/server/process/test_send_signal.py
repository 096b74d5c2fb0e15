"""`--signal`: the process, the signal, and the error if there is none."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest

from midge.server.errors import ConfigError
from midge.server.process import send_signal as signals
from midge.server.workers import process as workers

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: calls.append((pid, number)))
    return calls


def process(proc: Path, pid: int, *words: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cmdline").write_bytes(b"\0".join(w.encode() for w in words) + b"\0")


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("stop", signal.SIGKILL),
        ("quit", signal.SIGINT),
        ("term", signal.SIGTERM),
        ("reopen", signal.SIGUSR1),
        ("ldm", signal.SIGUSR2),
        ("reload", signal.SIGHUP),
    ],
)
def test_commands_to_a_pid(command: str, number: int, sent: list[tuple[int, int]]) -> None:
    signals.send_signal(f"{command}=4711")
    assert sent == [(4711, number)]


def test_pid_from_a_file(tmp_path: Path, sent: list[tuple[int, int]]) -> None:
    file = tmp_path / "midge.pid"
    file.write_text("4711\n")
    signals.send_signal(f"reload={file}")
    assert sent == [(4711, signal.SIGHUP)]


@pytest.mark.parametrize("target", ["/nonexistent", "-5", "0", "4x", "٤", "99999999999"])
def test_wrong_pid(target: str, sent: list[tuple[int, int]]) -> None:
    with pytest.raises(ConfigError, match="invalid pid: "):
        signals.send_signal(f"stop={target}")
    assert sent == []


def test_unknown_signal(sent: list[tuple[int, int]]) -> None:
    with pytest.raises(ConfigError, match='unknown signal "bogus"'):
        signals.send_signal("bogus=4711")
    assert sent == []


def test_the_workers_of_a_server_are_none(tmp_path: Path, sent: list[tuple[int, int]]) -> None:
    process(tmp_path, 100, "/usr/bin/python3", "/usr/local/bin/midge-server", "--workers", "2")
    for pid in (101, 102):
        process(tmp_path, pid, "/usr/bin/python3", "-P", "-m", workers.MODULE, "14", "16")
    signals.send_signal("term", proc=tmp_path)
    assert sent == [(100, signal.SIGTERM)]


def test_the_only_server_is_found(tmp_path: Path, sent: list[tuple[int, int]]) -> None:
    process(tmp_path, 100, "/usr/bin/python3", "/usr/local/bin/midge-server", "-p", "1")
    process(tmp_path, 200, "vim", "midge.toml")
    signals.send_signal("term", proc=tmp_path)
    assert sent == [(100, signal.SIGTERM)]


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no midge-server processes running$"):
        signals.send_signal("term", proc=tmp_path)


def test_several_servers_are_listed(tmp_path: Path, sent: list[tuple[int, int]]) -> None:
    process(tmp_path, 100, "python3", "-m", "midge.server")
    process(tmp_path, 200, "/x/midge", "serve")
    with pytest.raises(ConfigError, match="multiple midge-server processes running:\n100\n200"):
        signals.send_signal("term", proc=tmp_path)
    assert sent == []


@pytest.mark.parametrize(
    ("target", "pids"), [("*", [100, 120, 200]), ("1*", [100, 120]), ("120*", [120])]
)
def test_a_star_means_all_that_begin_so(
    target: str, pids: list[int], tmp_path: Path, sent: list[tuple[int, int]]
) -> None:
    for pid in (100, 120, 200):
        process(tmp_path, pid, "python3", "-m", "midge.server")
    process(tmp_path, 1000, "vim", "midge.toml")
    signals.send_signal(f"reopen={target}", proc=tmp_path)
    assert sent == [(pid, signal.SIGUSR1) for pid in pids]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("3*", "no midge-server processes running"),
        ("-1*", "invalid pid: -1"),
        ("**", "invalid pid: *"),
    ],
)
def test_a_star_that_means_nobody(
    target: str, text: str, tmp_path: Path, sent: list[tuple[int, int]]
) -> None:
    process(tmp_path, 100, "python3", "-m", "midge.server")
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        signals.send_signal(f"reopen={target}", proc=tmp_path)
    assert sent == []


def test_a_process_that_is_gone() -> None:
    # Above every pid that Linux gives.
    with pytest.raises(ConfigError, match='signal "reload" 999999999: no such process'):
        signals.send_signal("reload=999999999")
