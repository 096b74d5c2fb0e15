"""Send a signal to a running server: `midge-server --signal reload=/run/midge.pid`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from midge.server.errors import ConfigError

_NAMES = {
    "stop": "SIGKILL",
    "quit": "SIGINT",
    "term": "SIGTERM",
    "reopen": "SIGUSR1",
    "ldm": "SIGUSR2",
    "reload": "SIGHUP",
}
COMMANDS = {
    command: signal.Signals[name]
    for command, name in _NAMES.items()
    if name in signal.Signals.__members__
}
"""nats-server's names for the actions of signals."""

PROGRAMS = ("midge-server",)
"""Names of executables that count as a server when no pid is given."""

_PROC = Path("/proc")


def send_signal(text: str, *, proc: Path = _PROC) -> None:
    """Send the signal `command[=pid or pid file]`; `command=12*` means all servers `12…`.

    Raises: ConfigError if the command is unknown, or not exactly one process fits.
    """
    command, _, target = text.partition("=")
    pids = _pids_of(target, proc)
    number = COMMANDS.get(command)
    if number is None:
        raise ConfigError(f'unknown signal "{command}"')
    failures = []
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError as error:
            reason = error.strerror.lower() if error.strerror else str(error)
            failures.append(f'signal "{command}" {pid}: {reason}')
    if failures:
        raise ConfigError("\n".join(failures))


def _pids_of(target: str, proc: Path) -> list[int]:
    if target.endswith("*"):
        return _servers(target[:-1], proc)
    if target:
        return [_pid_of(target)]
    pids = _servers("", proc)
    if len(pids) > 1:
        listed = "\n".join(str(pid) for pid in pids)
        raise ConfigError(f"multiple midge-server processes running:\n{listed}")
    return pids


def _pid_of(target: str) -> int:
    text = target
    if not target.isdecimal():
        try:
            text = Path(target).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            raise ConfigError(f"invalid pid: {target}") from None
    # Never 0 or less, which would signal a group of processes, or all of them.
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) > 0):
        raise ConfigError(f"invalid pid: {target}")
    return int(text)


def _servers(prefix: str, proc: Path) -> list[int]:
    """Return the pids of the running servers that begin with `prefix`."""
    if prefix and not (prefix.isascii() and prefix.isdecimal()):
        raise ConfigError(f"invalid pid: {prefix}")
    others = (pid for pid in running_servers(proc) if pid != os.getpid())
    pids = [pid for pid in others if str(pid).startswith(prefix)]
    if not pids:
        raise ConfigError("no midge-server processes running")
    return pids


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
