"""What all tests share: a failure stays its own, a skip shows, values of one item are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.support.each import each

LEAVES_A_SOCKET = """
import gc, socket

def test_that_fails():
    ours, theirs = socket.socketpair()
    held = [ours, theirs]
    held.append(held)
    assert False

def test_after_it():
    gc.collect()
"""


HOOKS = (
    "pytest_runtest_protocol, pytest_sessionfinish, pytest_timeout_set_timer,"
    " pytest_xdist_make_scheduler"
)


def run(folder: Path, root: Path, program: str, *arguments: str, **environment: str) -> str:
    """Return what pytest prints of `program`, run with the hooks of the suite."""
    folder.joinpath("test_it.py").write_text(program)
    folder.joinpath("conftest.py").write_text(f"from tests.conftest import {HOOKS}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "pyproject.toml"]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), str(folder), *arguments],
        cwd=root,
        env={**os.environ, "CI": "", "PYTEST_ADDOPTS": "", **environment},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    return f"{done.stderr}\n{done.stdout}\nexit {done.returncode}"


def test_what_a_failed_test_leaves_fails_no_other(tmp_path: Path, root: Path) -> None:
    printed = run(tmp_path, root, LEAVES_A_SOCKET)
    assert "1 failed, 1 passed" in printed
    plain = LEAVES_A_SOCKET.replace("assert False", "pass")  # not freed: it has not failed
    assert "1 failed, 1 passed" in run(tmp_path, root, plain)


@pytest.mark.parametrize("crash", ["0", "1", "2", "number"])
def test_what_a_crashed_worker_has_left_is_run(tmp_path: Path, root: Path, crash: str) -> None:
    program = f"""
import os, pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    if __name__.endswith("5") and number == {crash}:
        os._exit(1)
"""
    for number in range(1, 9):
        (tmp_path / f"test_{number}.py").write_text(program)
    printed = run(tmp_path, root, program, "-n", "2", "--no-loadscope-reorder")
    crashed = range(3) if crash == "number" else [crash]
    for number in crashed:
        assert f"crashed while running 'test_5.py::test_it[{number}]'" in printed
    assert f"{len(crashed)} failed, {27 - len(crashed)} passed" in printed
    assert printed.endswith("exit 1")


KILLS_A_WORKER = """
import contextlib
from xdist.workermanage import WorkerController

send = WorkerController.send_runtest_some
sent = []
killed = []

def kill_and_send(worker, indices):
    sent.append(worker)
    if max(map(sent.count, sent)) == sent.count(worker) == 3 and not killed:
        killed.append(worker)
        worker.gateway._io.popen.kill()
        with contextlib.suppress(EOFError):
            worker.channel.waitclose(60)
    send(worker, indices)

WorkerController.send_runtest_some = kill_and_send
"""


def test_a_worker_that_crashes_before_it_gets_tests_ends_nothing(
    tmp_path: Path, root: Path
) -> None:
    for number in range(1, 9):
        (tmp_path / f"test_{number}.py").write_text("def test_it():\n    pass\n")
    (tmp_path / "kills.py").write_text(KILLS_A_WORKER)
    plugin = ["-p", "kills", "-n", "2", "--no-loadscope-reorder"]
    printed = run(tmp_path, root, "def test_it():\n    pass\n", *plugin, PYTHONPATH=str(tmp_path))
    assert "crashed while running" in printed
    assert "1 failed, 8 passed" in printed
    assert printed.endswith("exit 1")


@pytest.mark.parametrize("loop", ["uvloop.new_event_loop", "asyncio.new_event_loop"])
@pytest.mark.parametrize("wait", ["sleep(0.01)", "sleep(3600)"])
def test_a_test_that_never_ends_fails_alone(
    tmp_path: Path, root: Path, loop: str, wait: str
) -> None:
    program = f"""
import asyncio, uvloop

def test_that_waits():
    async def scene():
        while True:
            await asyncio.{wait}

    with asyncio.Runner(loop_factory={loop}) as runner:
        runner.run(scene())

def test_after_it():
    pass
"""
    printed = run(tmp_path, root, program, "--timeout", "1")
    assert "1 failed, 1 passed" in printed
    assert "Timeout" in printed


def test_a_test_that_no_signal_ends_ends_its_worker(tmp_path: Path, root: Path) -> None:
    program = """
import signal, time

def test_that_waits():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # as if it were in C code
    time.sleep(3600)

def test_after_it():
    pass
"""
    printed = run(tmp_path, root, program, "--timeout", "2", "-n", "1", "--no-loadscope-reorder")
    assert "crashed while running" in printed
    assert "1 failed, 1 passed" in printed
    assert "in test_that_waits" in printed  # where it waited


@pytest.mark.parametrize(("variable", "code"), [("", 0), ("true", 1)])
def test_continuous_integration_counts_a_skip_as_a_failure(
    tmp_path: Path, root: Path, variable: str, code: int
) -> None:
    program = "import pytest\ndef test_it():\n    pytest.skip('no browser')\n"
    printed = run(tmp_path, root, program, CI=variable)
    assert "1 skipped" in printed
    assert printed.endswith(f"exit {code}")


def test_a_failure_for_one_of_many_values_names_it() -> None:
    seen = []

    @each("seed, size", [(1, 2), (3, 4), (5, 6)])
    def test(seed: int, size: int, seen: list[int]) -> None:
        seen.append(seed)
        assert size != 4

    with pytest.raises(AssertionError) as failure:
        test(seen=seen)
    assert failure.value.__notes__ == ["for seed=3, size=4"]
    assert seen == [1, 3]


async def test_the_values_of_a_coroutine_function_are_awaited() -> None:
    seen = []

    @each("seed", range(3))
    async def test(seed: int) -> None:
        seen.append(seed)

    await test()
    assert seen == [0, 1, 2]


def test_the_tables_of_the_suite_name_what_there_is(root: Path) -> None:
    missing = [path for path in conftest.SLOW + conftest.MEASURED if not (root / path).exists()]
    assert missing == []
