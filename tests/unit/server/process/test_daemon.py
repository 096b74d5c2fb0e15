"""The daemon around a server that is only pretended: lines, files, signals, exit codes."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from midge.protocol.errors import MidgeError
from midge.server.config.load import Loaded
from midge.server.config.options import Logging, Options, Process
from midge.server.errors import ConfigError
from midge.server.log import logger as logging
from midge.server.process import daemon
from midge.server.process.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path


class PretendedServer:
    server_id = "NTEST"

    def __init__(self, options: Options) -> None:
        self.calls: list[str] = []
        self.options = options
        self.started = asyncio.Event()
        self.lame_duck_done = asyncio.Event()
        self.start_error: Exception | None = None
        self.reload_error: Exception | None = None

    async def start(self) -> None:
        self.calls.append("start")
        if self.start_error is not None:
            raise self.start_error

    async def stop(self) -> None:
        self.calls.append("stop")

    async def reload(self, options: Options) -> None:
        self.options = options
        self.calls.append("reload")
        if self.reload_error is not None:
            raise self.reload_error

    def name_configuration(self, digest: str) -> None:
        self.digest = digest

    def reload_on_request(self, load_again: Callable[[], Awaitable[None]]) -> None:
        self.load_again = load_again

    async def lame_duck(self) -> None:
        self.calls.append("lame_duck")
        await self.lame_duck_done.wait()

    def urls(self) -> Mapping[str, Sequence[str]]:
        self.started.set()
        return {"nats": ["nats://127.0.0.1:4222"], "monitoring": ["http://127.0.0.1:8222"]}


class Stage:
    """A daemon in a task, with its pretended server and its log."""

    def __init__(self, options: Options) -> None:
        self.server = PretendedServer(options)
        self.options = options
        self.load_error: ConfigError | None = None
        self.daemon = Daemon(self.load, lambda _options: self.server, source="x.toml")

    def load(self) -> Loaded:
        if self.load_error is not None:
            raise self.load_error
        return Loaded(self.options, {}, ("MIDGE_X: no such setting",))

    async def ready(self) -> asyncio.Task[int]:
        task = asyncio.create_task(self.daemon.run())
        await self.server.started.wait()
        return task


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "midge.log"
    logging.JOURNAL.reset()
    structlog.reset_defaults()


def options(log_file: Path, **tables: Any) -> Options:
    settings = Logging(file=str(log_file), format="nats", logtime=False)
    return Options(logging=settings, **tables)


def lines(log_file: Path) -> list[str]:
    return [re.sub(r"^\[\d+\] ", "", line) for line in log_file.read_text().splitlines()]


async def logged(log_file: Path, text: str) -> None:
    """Wait until `text` is in the log; the test's time-out bounds it."""
    while text not in log_file.read_text():
        await asyncio.sleep(0.001)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("compiled", [True, False])
async def test_an_interpreted_server_warns_at_start(
    log_file: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    monkeypatch.setattr(daemon, "is_compiled", lambda: compiled)
    running = await Stage(options(log_file)).ready()
    send(signal.SIGHUP)
    await logged(log_file, "Reloaded")
    send(signal.SIGTERM)
    assert await running == 0
    warned = [line for line in lines(log_file) if line.startswith("[WRN] running interpreted")]
    assert len(warned) == (0 if compiled else 1)


async def test_sigterm_ends_it_with_exit_code_0(log_file: Path, tmp_path: Path) -> None:
    files = Process(pid_file=str(tmp_path / "midge.pid"), ports_file_dir=str(tmp_path))
    stage = Stage(options(log_file, process=files))
    running = await stage.ready()
    (ports,) = tmp_path.glob("[!.]*.ports")
    assert json.loads(ports.read_text())["nats"] == ["nats://127.0.0.1:4222"]
    assert (tmp_path / "midge.pid").read_text() == str(os.getpid())
    send(signal.SIGTERM)
    send(signal.SIGTERM)
    assert await running == 0
    assert stage.server.calls == ["start", "stop"]
    assert list(tmp_path.glob("*.ports")) == []
    written = lines(log_file)
    assert "[INF]   Protocol: 2.15.1" in written
    assert "[WRN] MIDGE_X: no such setting" in written
    ready = written.index("[INF] Server is ready")
    assert written[ready - 2 : ready] == [
        "[INF] Starting http monitor on 127.0.0.1:8222",
        "[INF] Listening for client connections on 127.0.0.1:4222",
    ]
    assert '[INF] Trapped "terminated" signal' in written
    assert written[-2:] == ["[INF] Initiating Shutdown...", "[INF] Server Exiting.."]


async def test_sigint_ends_it_too(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    send(signal.SIGINT)
    assert await running == 0


async def test_port_in_use_is_one_fatal_line_and_exit_code_1(log_file: Path) -> None:
    stage = Stage(options(log_file))
    stage.server.start_error = OSError(errno.EADDRINUSE, "Address already in use", "h:4222")
    assert await stage.daemon.run() == 1
    expected = '[FTL] Error listening on port: h:4222, "address already in use"'
    assert lines(log_file)[-1] == expected


async def test_log_file_that_cannot_be_opened_is_no_start() -> None:
    stage = Stage(Options(logging=Logging(file="/nonexistent/log")))
    with pytest.raises(MidgeError) as caught:
        await stage.daemon.run()
    expected = "error opening log file: open /nonexistent/log: no such file or directory"
    assert str(caught.value) == expected
    assert stage.server.calls == []


async def test_pid_file_that_cannot_be_written_ends_it(log_file: Path) -> None:
    stage = Stage(options(log_file, process=Process(pid_file="/nonexistent/pid")))
    assert await stage.daemon.run() == 1
    expected = "[FTL] Could not write pidfile: open /nonexistent/pid: no such file or directory"
    assert lines(log_file)[-1] == expected
    assert stage.server.calls == []


async def test_ports_directory_that_is_missing_does_not_end_it(log_file: Path) -> None:
    stage = Stage(options(log_file, process=Process(ports_file_dir="/nonexistent")))
    running = await stage.ready()
    send(signal.SIGTERM)
    assert await running == 0
    assert any("[WRN] Error writing ports file: open" in line for line in lines(log_file))


async def test_sighup_reloads_options_and_logging(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    debug = Logging(file=str(log_file), format="nats", logtime=False, debug=True)
    stage.options = Options(logging=debug, server_name="new")
    send(signal.SIGHUP)
    await logged(log_file, "Reloaded server configuration")
    send(signal.SIGTERM)
    assert await running == 0
    assert stage.server.options.server_name == "new"
    assert '[INF] Reloaded: server_name = "new"' in lines(log_file)
    assert "[INF] Reloaded: logging.debug = true" in lines(log_file)
    assert logging.JOURNAL.level == logging.LEVELS["debug"]


async def test_a_broken_file_keeps_the_old_options(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    stage.load_error = ConfigError("expected int, got 'x'", key="listen.port", where="x.toml:2")
    send(signal.SIGHUP)
    await logged(log_file, "Failed to reload")
    send(signal.SIGTERM)
    assert await running == 0
    assert "reload" not in stage.server.calls
    refused = "[ERR] Failed to reload server configuration: listen.port: expected int, got 'x'"
    assert f"{refused} (x.toml:2)" in lines(log_file)


async def test_a_reload_on_request_says_what_is_wrong_to_who_asked(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    await stage.server.load_again()
    stage.load_error = ConfigError("expected int, got 'x'", key="listen.port", where="x.toml:2")
    with pytest.raises(ConfigError, match="expected int"):
        await stage.server.load_again()
    send(signal.SIGTERM)
    assert await running == 0
    assert stage.server.calls == ["start", "reload", "stop"]
    assert any("[ERR] Failed to reload" in line for line in lines(log_file))


async def test_a_setting_that_cannot_change_is_refused(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    stage.server.reload_error = ConfigError("config reload not supported for Port: old=1, new=2")
    send(signal.SIGHUP)
    await logged(log_file, "config reload not supported for Port")
    send(signal.SIGTERM)
    assert await running == 0
    assert not any("Reloaded" in line for line in lines(log_file))


async def test_a_reload_moves_pid_and_ports_files(log_file: Path, tmp_path: Path) -> None:
    directory = tmp_path / "new"
    directory.mkdir()
    stage = Stage(options(log_file, process=Process(ports_file_dir=str(tmp_path))))
    running = await stage.ready()
    files = Process(ports_file_dir=str(directory), pid_file=str(directory / "pid"))
    stage.options = options(log_file, process=files)
    send(signal.SIGHUP)
    await logged(log_file, "Reloaded server configuration")
    assert list(tmp_path.glob("*.ports")) == []
    assert len(list(directory.iterdir())) == 2
    send(signal.SIGTERM)
    assert await running == 0


async def test_a_log_file_that_cannot_be_opened_is_no_reload(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    stage.options = Options(logging=Logging(file="/nonexistent/log"))
    send(signal.SIGHUP)
    await logged(log_file, "error opening log file")
    send(signal.SIGTERM)
    assert await running == 0
    assert lines(log_file)[-1] == "[INF] Server Exiting.."


async def test_sigusr1_reopens_the_log(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    log_file.rename(log_file.with_suffix(".old"))
    send(signal.SIGUSR1)
    send(signal.SIGTERM)
    assert await running == 0
    assert lines(log_file)[0] == "[INF] File log re-opened"


async def test_lame_duck_ends_when_the_clients_are_gone(log_file: Path) -> None:
    stage = Stage(options(log_file))
    running = await stage.ready()
    send(signal.SIGUSR2)
    send(signal.SIGUSR2)
    send(signal.SIGTERM)  # waits, as nats-server does
    while "lame_duck" not in stage.server.calls:
        await asyncio.sleep(0)
    assert not running.done()
    stage.server.lame_duck_done.set()
    assert await running == 0
    assert stage.server.calls == ["start", "lame_duck", "stop"]
