"""CPU time and memory of a process, read from /proc.

A server is measured with all its threads and all its descendants, so that work in a worker process
counts as well.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessStat:
    """The fields of one `/proc/PID/stat` line that the bench uses."""

    pid: int
    parent_pid: int
    cpu_ticks: int
    """User and system time of all threads, and of reaped children."""


def parse_stat(line: str) -> ProcessStat:
    """Parse a `/proc/PID/stat` line; the command in it may have blanks and brackets.

    Raises:
        ValueError: the line has another form.
    """
    pid, _, rest = line.partition(" (")
    _, closing, tail = rest.rpartition(") ")
    fields = tail.split()
    if not closing or len(fields) < 15:
        raise ValueError(f"expected a /proc/PID/stat line, got {line[:80]!r}")
    # Field 3 of proc(5) is fields[0]: ppid is field 4, utime to cstime are fields 14 to 17.
    return ProcessStat(int(pid), int(fields[1]), sum(int(field) for field in fields[11:15]))


def parse_memory_bytes(status: str, field: str = "VmRSS") -> int:
    """Return one memory figure of a `/proc/PID/status` text, or 0 for a kernel thread."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return 0


def family(root_pid: int, stats: Iterable[ProcessStat]) -> list[ProcessStat]:
    """Return the process and all its descendants, in no particular order."""
    children: dict[int, list[ProcessStat]] = {}
    found: list[ProcessStat] = []
    for stat in stats:
        children.setdefault(stat.parent_pid, []).append(stat)
        if stat.pid == root_pid:
            found.append(stat)
    for member in found:
        found.extend(children.get(member.pid, ()))
    return found


def cpu_s(root_pid: int) -> float:
    """Return the CPU seconds that a process and its descendants have used so far."""
    return sum(stat.cpu_ticks for stat in family(root_pid, _all_stats())) / _TICKS_PER_S


def parse_machine_busy_ticks(text: str) -> int:
    """Return the ticks of a `/proc/stat` text that some process, or the kernel for one, used.

    Raises:
        ValueError: the text does not start with the line of all CPUs.
    """
    name, *fields = text.partition("\n")[0].split()
    if name != "cpu" or len(fields) < 7:
        raise ValueError(f"expected the first line of /proc/stat, got {text[:80]!r}")
    user, nice, system, _idle, _io_wait, irq, soft_irq = (int(field) for field in fields[:7])
    return user + nice + system + irq + soft_irq


def machine_busy_s() -> float:
    """Return the CPU seconds that the whole machine has been busy since it started."""
    return parse_machine_busy_ticks((PROC / "stat").read_text()) / _TICKS_PER_S


def rss_bytes(root_pid: int) -> int:
    """Return the resident memory of a process and its descendants."""
    total = 0
    for stat in family(root_pid, _all_stats()):
        try:
            total += parse_memory_bytes((PROC / str(stat.pid) / "status").read_text())
        except OSError:
            continue  # it ended after the listing
    return total


def _all_stats() -> list[ProcessStat]:
    stats = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                stats.append(parse_stat((entry / "stat").read_text()))
            except OSError:
                continue  # it ended after the listing
    return stats
