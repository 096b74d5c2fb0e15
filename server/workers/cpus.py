"""How many CPUs this process may use: those it may run on, and what its cgroup allows of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.server.config.options import Options

_ROOT = Path("/")
_UNLIMITED = float("inf")


def worker_count(options: Options) -> int:
    """Return the number of workers that `options` ask for."""
    workers = options.server.workers
    return usable_cpus() if workers == "auto" else workers


def usable_cpus(root: Path = _ROOT, affine: int | None = None) -> int:
    """Return the number of CPUs to use, 1 at least: the affinity, or the quota where that is less.

    A quota is rounded down, for a worker more than it allows would be throttled with the others.
    `root` is where `proc` and `sys` are, and `affine` the CPUs that this process may run on.
    """
    count = _affine_cpus() if affine is None else affine
    return max(1, int(min(count, _quota(root))))


def _affine_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(root: Path) -> float:
    """Return the CPUs that the cgroups of this process, and those around them, allow."""
    found = [_UNLIMITED]
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            found += [_quota_v2(folder) for folder in _upwards(root / "sys/fs/cgroup", path)]
        elif "cpu" in controllers.split(","):
            base = root / "sys/fs/cgroup/cpu"
            found += [_quota_v1(folder) for folder in _upwards(base, path)]
    return min(found)


def _upwards(base: Path, path: str) -> list[Path]:
    """List the folder of a cgroup and those above it up to `base`.

    In a container its own group is often mounted as `base`, while `path` is the machine's path.
    """
    here = base / path.strip("/")
    folders = [here, *here.parents]
    return folders[: folders.index(base) + 1]


def _quota_v2(folder: Path) -> float:
    quota, period = [*_read(folder / "cpu.max").split(), "", ""][:2]
    if not quota.isdecimal() or not period.isdecimal() or period == "0":
        return _UNLIMITED
    return int(quota) / int(period)


def _quota_v1(folder: Path) -> float:
    quota = _read(folder / "cpu.cfs_quota_us").strip()
    period = _read(folder / "cpu.cfs_period_us").strip()
    if not quota.isdecimal() or not period.isdecimal() or period == "0":
        return _UNLIMITED
    return int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
