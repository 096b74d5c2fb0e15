"""Send a signal to a running server: `midge-server --signal reload=/run/midge.pid`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from midge.server.errors import ConfigError

COMMANDS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "ldm": signal.SIGUSR2,
    "reload": signal.SIGHUP,
}
"""nats-server's names for what a signal does."""

PROGRAMS = ("midge-server",)
"""Names of executables that count as a server when no pid is given."""

_PROC = Path("/proc")


def send_signal(text: str, *, proc: Path = _PROC) -> None:
    """Send the signal `command[=pid or pid file]`.

    Raises: ConfigError when there is no such command or process, or more than one process.
    """
    command, _, target = text.partition("=")
    pid = _pid_of(target) if target else _only_server(proc)
    number = COMMANDS.get(command)
    if number is None:
        raise ConfigError(f'unknown signal "{command}"')
    try:
        os.kill(pid, number)
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)
        raise ConfigError(f'signal "{command}" {pid}: {reason}') from None


def _pid_of(target: str) -> int:
    text = target
    if not target.isdecimal():
        try:
            text = Path(target).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            raise ConfigError(f"invalid pid: {target}") from None
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) > 0):
        raise ConfigError(f"invalid pid: {target}")
    return int(text)


def _only_server(proc: Path) -> int:
    pids = [pid for pid in running_servers(proc) if pid != os.getpid()]
    if not pids:
        raise ConfigError("no midge-server processes running")
    if len(pids) > 1:
        listed = "\n".join(str(pid) for pid in pids)
        raise ConfigError(f"multiple midge-server processes running:\n{listed}")
    return pids[0]


def running_servers(proc: Path = _PROC) -> list[int]:
    """Return the pids of this machine's midge servers, by their command lines."""
    pids = []
    for directory in proc.glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if _is_server(words):
            pids.append(int(directory.name))
    return sorted(pids)


def _is_server(words: list[str]) -> bool:
    names = [Path(word).name for word in words[:4]]
    if any(name in PROGRAMS for name in names[:2]):
        return True
    as_module = words[1:3] == ["-m", "midge.server"] or words[1:4] == ["-m", "midge", "serve"]
    return as_module or ("midge" in names[:2] and "serve" in names[1:3])
