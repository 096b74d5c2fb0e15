"""A server without what Windows lacks: see tests/support/without_posix.py.

It shows that midge uses none of it, not that midge runs on Windows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PLUGIN = "tests.support.without_posix"
E2E = ("publish_subscribe", "queue_groups", "requests", "proxy_protocol")
UNIT = (
    "unit/server/embedded/test_faults.py",
    "unit/server/embedded/test_jetstream.py",
    "unit/testing/test_capture.py",
    "unit/testing/test_clock.py",
)


def pytest_ends(*arguments: str, **environment: str) -> None:
    """Run pytest in a process of its own; fail with its output."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.timeout(960)
def test_clients_are_served_by_a_process_without_it() -> None:
    files = [f"tests/e2e/test_{name}.py" for name in E2E]
    command = f"{sys.executable} -m {PLUGIN}"
    pytest_ends(*files, "-k", "not workers", MIDGE_SERVER_CMD=command)


@pytest.mark.timeout(960)
def test_a_server_is_embedded_without_it() -> None:
    pytest_ends("-p", PLUGIN, *(f"tests/{name}" for name in UNIT), "-k", "not [file]")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--workers", "2"], "several workers need AF_UNIX sockets, which this system lacks"),
        (["-js", "-sd", "."], "streams on a disk need file locks (flock), which this system lacks"),
        (["--signal", "reload=1"], 'unknown signal "reload"'),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    flags: list[str], told: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", PLUGIN, "-a", "127.0.0.1", "-p", "-1", *flags]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
