"""The /proc texts, and that the books of real processes add up."""

import mmap
import os
import subprocess
import sys

import pytest

from bench import procfs

STAT = (
    "4242 (odd (na) me) S 17 4242 4242 0 -1 4194560 100 200 0 0 "
    "31 7 5 2 20 0 9 0 12345 1000000 250 18446744073709551615\n"
)


def test_stat_line_with_brackets_and_blanks_in_the_name() -> None:
    assert procfs.parse_stat(STAT) == procfs.ProcessStat(4242, 17, 31 + 7 + 5 + 2)


@pytest.mark.parametrize("line", ["", "nonsense", "1 (short) S 0 1"])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="expected a /proc/PID/stat line"):
        procfs.parse_stat(line)


def test_memory_of_a_status_text() -> None:
    assert procfs.parse_memory_bytes("Name:\tx\nVmRSS:\t  12 kB\nVmHWM:\t 99 kB\n") == 12 * 1024
    assert procfs.parse_memory_bytes("Name:\tkthreadd\n") == 0


def test_machine_busy_leaves_out_idle_and_waiting() -> None:
    assert procfs.parse_machine_busy_ticks("cpu  1 2 4 1000 2000 8 16 32 0 0\ncpu0 1\n") == 31


def test_machine_busy_refuses_other_texts() -> None:
    with pytest.raises(ValueError, match="/proc/stat"):
        procfs.parse_machine_busy_ticks("intr 1 2 3")


def test_family_is_the_process_and_all_its_descendants() -> None:
    def stat(pid: int, parent_pid: int) -> procfs.ProcessStat:
        return procfs.ProcessStat(pid, parent_pid, 1)

    stats = [stat(9, 5), stat(1, 0), stat(3, 1), stat(5, 3), stat(4, 1), stat(8, 2)]
    assert sorted(member.pid for member in procfs.family(3, stats)) == [3, 5, 9]
    assert procfs.family(77, stats) == []


def test_cpu_of_a_child_process_is_on_the_books() -> None:
    before_s = procfs.cpu_s(os.getpid())
    burn = "import time\nwhile time.process_time() < 0.15: pass"
    subprocess.run([sys.executable, "-c", burn], check=True, timeout=30)
    assert procfs.cpu_s(os.getpid()) - before_s >= 0.1


def test_resident_memory_grows_with_what_is_held() -> None:
    size = 32 * 1024 * 1024
    before_bytes = procfs.rss_bytes(os.getpid())
    # Not from malloc, which may have room left that is resident already.
    with mmap.mmap(-1, size) as held:
        held.write(bytes(size))
        assert procfs.rss_bytes(os.getpid()) - before_bytes > size // 2
