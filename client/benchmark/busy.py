"""CPU time of the generator, and of a server on the same machine.

On a small machine the generator may be the slower side; then a rate says nothing about the server.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

_LISTENS = "0A"


class CpuUsage(NamedTuple):
    """CPU and wall-clock time in seconds; `server_s` is None for a server that is elsewhere."""

    elapsed_s: float
    generator_s: float
    server_s: float | None

    @classmethod
    def now(cls, pids: list[int]) -> Self:
        """Return the times so far of this process and of the processes `pids`."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        server_s = sum(_cpu_s(pid) for pid in pids) if pids else None
        return cls(time.monotonic(), own.ru_utime + own.ru_stime, server_s)

    def since(self, before: CpuUsage) -> CpuUsage:
        """Return the times spent after `before`."""
        is_known = self.server_s is not None and before.server_s is not None
        return CpuUsage(
            max(self.elapsed_s - before.elapsed_s, 1e-9),
            self.generator_s - before.generator_s,
            (self.server_s or 0) - (before.server_s or 0) if is_known else None,
        )


def server_processes(host: str, port: int) -> list[int]:
    """Return the processes of this machine that listen on the port; empty if none is to be seen.

    Only Linux shows it, and only of one's own processes.
    """
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(address[0], socket.SOCK_DGRAM) as probe:
            probe.connect(address[4][:2])
            if probe.getsockname()[0] != address[4][0]:
                return []  # another machine
    except OSError:
        return []
    sockets = _listening(port)
    return [pid for pid in _processes() if sockets & _sockets_of(pid)] if sockets else []


def _listening(port: int) -> set[str]:
    """Return the inodes of sockets that listen on `port`, as in the names of open files."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _sockets_of(pid: int) -> set[str]:
    files: set[str] = set()
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                files.add(str(file.readlink()))
    return files


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
