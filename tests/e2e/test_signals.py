"""Every signal, sent as `--signal` sends it, and what a server process makes of it."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING

import pytest

from midge.server.process.cli import server_main
from tests.support.processes import Server, midge_command
from tests.support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 60
DUCK = "lame_duck_duration: '30s'\nlame_duck_grace_period: '100ms'\n"


class Process:
    """A server that logs to a file and has a pid file."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "midge.log"
        self.pid_file = directory / "midge.pid"
        flags = ("-l", str(self.log), "-P", str(self.pid_file))
        self.server = Server(midge_command(), DUCK, flags).wait_ready()

    def signal(self, command: str, by: str) -> None:
        target = str(self.pid_file) if by == "pid file" else str(self.server.pid)
        assert server_main(["--signal", f"{command}={target}"]) == 0

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not self.log.exists() or text not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.005)

    def ended(self) -> int:
        """Wait for the end; give the exit code."""
        return self.server.process.wait(TIMEOUT_S)

    def ports_files(self) -> list[str]:
        return [path.name for path in self.server.log_path.parent.glob("*.ports")]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    started = Process(tmp_path)
    yield started
    started.server.stop()


by_pid_and_file = pytest.mark.parametrize("by", ["pid", "pid file"])


@by_pid_and_file
@pytest.mark.parametrize(("command", "code"), [("term", 0), ("quit", 0), ("ldm", 0), ("stop", -9)])
def test_what_ends_it(process: Process, command: str, code: int, by: str) -> None:
    assert len(process.ports_files()) == 1
    process.signal(command, by)
    assert process.ended() == code
    left = process.ports_files()
    assert len(left) == (1 if command == "stop" else 0), "only who is killed leaves its ports file"
    assert process.pid_file.read_text() == str(process.server.pid), "nats-server leaves it too"


@by_pid_and_file
def test_reload(process: Process, by: str) -> None:
    process.server.rewrite(DUCK + "max_payload: 1kb\n")
    process.signal("reload", by)
    process.wait_for("[INF] Reloaded: limits.max_payload_bytes = 1024")


@by_pid_and_file
def test_reopen_after_a_rename(process: Process, by: str) -> None:
    old = process.log.with_suffix(".1")
    process.log.rename(old)
    process.signal("reopen", by)
    process.wait_for("[INF] File log re-opened")
    process.signal("reload", by)
    process.wait_for("[INF] Reloaded server configuration")
    assert "Reloaded" not in old.read_text()


@pytest.mark.parametrize("command", ["reload", "bogus"])
def test_what_cannot_be_sent(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server_main(["--signal", f"{command}={tmp_path}/none.pid"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"midge-server: invalid pid: {tmp_path}/none.pid\n")


async def test_lame_duck_mode_tells_and_closes_one_by_one(process: Process) -> None:
    clients = [await Raw.open(process.server.url) for _ in range(3)]
    old = await Raw.open(process.server.url)
    for client in clients:
        await client.connect(protocol=1)
    await old.connect(protocol=0)
    process.signal("ldm", "pid")
    for client in clients:
        await client.until(b'"ldm":true')
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(process.server.address(), timeout=TIMEOUT_S).close()
    process.signal("term", "pid")  # changes nothing now
    process.signal("ldm", "pid")
    ends = [asyncio.ensure_future(client.until_end()) for client in (*clients, old)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    assert sum(end.done() for end in ends) == 1, "the others stay for a while"
    await asyncio.gather(*ends)
    assert b"ldm" not in old.received, "a client of protocol 0 is told nothing unasked"
    assert await asyncio.to_thread(process.ended) == 0
    assert "[INF] Entering lame duck mode" in process.log.read_text()
    assert process.ports_files() == []
    for client in (*clients, old):
        await client.close()


async def test_an_interrupt_ends_lame_duck_mode(process: Process) -> None:
    client = await Raw.open(process.server.url)
    await client.connect(protocol=0)
    process.server.rewrite(DUCK.replace("100ms", "20s"))
    process.signal("reload", "pid")
    process.wait_for("Reloaded server configuration")
    process.signal("ldm", "pid")
    process.wait_for("Entering lame duck mode")
    process.signal("quit", "pid")
    assert await asyncio.to_thread(process.ended) == 0
    await client.until_end()
    await client.close()
