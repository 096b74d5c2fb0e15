"""The CPUs that a process may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from midge.server.config.options import Options, ServerProcesses
from midge.server.workers.cpus import usable_cpus, worker_count

if TYPE_CHECKING:
    from pathlib import Path


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_a_quota_it_is_the_affinity(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path, 6) == 6
    put(tmp_path, "proc/self/cgroup", "0::/\n")
    put(tmp_path, "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert usable_cpus(tmp_path, 6) == 6


@pytest.mark.parametrize(
    ("quota", "cpus"), [("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 6), ("x", 6)]
)
def test_a_quota_is_rounded_down_to_one_at_least(tmp_path: Path, quota: str, cpus: int) -> None:
    put(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    put(tmp_path, "sys/fs/cgroup/a/b/cpu.max", quota)
    assert usable_cpus(tmp_path, 6) == cpus


def test_a_group_around_it_counts_too(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    put(tmp_path, "sys/fs/cgroup/a/cpu.max", "300000 100000")
    put(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "max 100000")
    assert usable_cpus(tmp_path, 6) == 3


def test_the_first_version_of_cgroups(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n")
    put(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n")
    put(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert usable_cpus(tmp_path, 6) == 4
    put(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert usable_cpus(tmp_path, 6) == 6


def test_as_many_workers_as_are_asked_for() -> None:
    assert worker_count(Options()) == 1
    assert worker_count(Options(server=ServerProcesses(workers=3))) == 3
    assert worker_count(Options(server=ServerProcesses(workers="auto"))) == usable_cpus()
