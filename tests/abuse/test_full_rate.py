"""Full rate with slow and vanishing subscribers: memory is flat, and the healthy get everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.abuse.full_rate import PUBLISHERS, RECEIVERS
from tests.support.processes import CHECKOUT, Server, midge_command

CONFIG = 'max_pending: 8MB\nwrite_deadline: "2s"\nping_interval: "1h"\n'
DRAIN_S = 90.0
MIB = 1 << 20
MARGIN_BYTES = 24 * MIB
"""What the subscribers that are slow at the moment may hold, and how far an allocator varies."""


class Role:
    """A process of clients."""

    def __init__(self, name: str, server: Server, progress: Path) -> None:
        host, port = server.address()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.abuse.full_rate", name, host, str(port), str(progress)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self, word: str = "") -> Any:
        """End it; return its counts."""
        out, _ = self.process.communicate(word + "\n", timeout=DRAIN_S)
        assert self.process.returncode == 0
        return json.loads(out)


@contextmanager
def roles(server: Server, progress: Path, *names: str) -> Iterator[list[Role]]:
    """Start such processes in this order, and leave none behind."""
    started: list[Role] = []
    try:
        for name in names:
            started.append(Role(name, server, progress))
        yield started
    finally:
        for role in started:
            role.process.kill()
            role.process.communicate()


def rss_bytes(server: Server) -> int:
    pages = Path(f"/proc/{server.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [15, pytest.param(600, marks=pytest.mark.full)])
def test_slow_and_vanishing_subscribers_cost_the_others_nothing(
    seconds: int, tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    progress.write_bytes(bytes(8 * RECEIVERS * PUBLISHERS))
    with Server(midge_command(), CONFIG) as server:
        with roles(server, progress, "verify", "vex", "publish") as (verify, vex, publish):
            samples = []
            started = time.monotonic()
            while time.monotonic() < started + seconds:
                time.sleep(seconds / 60)
                samples.append(rss_bytes(server))
            elapsed_s = time.monotonic() - started
            vexed = vex.end()
            sent = publish.end()
            seen = verify.end(json.dumps(sent))
        quarter = len(samples) // 4
        early, late = max(samples[quarter : 2 * quarter]), max(samples[-quarter:])
        print(
            f"{sum(sent):,} messages in {elapsed_s:.0f} s, {sum(sent) / elapsed_s:,.0f}/s;"
            f" cut {vexed['cut']}, vanished {vexed['vanished']};"
            f" MiB in the second and the last quarter: {early / MIB:.0f}, {late / MIB:.0f};"
            f" now {rss_bytes(server) / MIB:.0f}"
        )
        assert seen["failures"] == []
        assert vexed["cut"] > 0
        assert vexed["vanished"] >= 10
        assert late < early + MARGIN_BYTES
        assert server.process.poll() is None
        assert "Traceback" not in server.log
