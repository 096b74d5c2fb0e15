"""Common to all tests: the code under test is the code in the checkout, freshly built."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
import signal
import sys
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# How long an example takes is the machine's business.
hypothesis_settings.register_profile(
    "untimed", hypothesis_settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = tuple(EXTENSION_SUFFIXES)

SLOW = (
    "tests/abuse/",
    "tests/compat/",
    "tests/differential/test_slow_consumers.py",
    "tests/docs/test_pages.py",
    "tests/durability/",
    "tests/e2e/cluster/test_chaos.py",
    "tests/e2e/cluster/test_mesh.py",
    "tests/e2e/cluster/test_pools.py",
    "tests/e2e/jetstream/test_full_disk.py",
    "tests/e2e/leafnodes/test_hub.py",
    "tests/e2e/leafnodes/test_jetstream.py",
    "tests/e2e/leafnodes/test_links.py",
    "tests/e2e/links/",
    "tests/e2e/store_commands/test_import.py",
    "tests/e2e/tables/test_server_tables.py",
    "tests/e2e/test_bench_command.py",
    "tests/e2e/test_load.py",
    "tests/e2e/test_recovery_bench.py",
    "tests/e2e/workers/",
    "tests/pipeline/replay/test_recorder_server.py",
    "tests/pipeline/tables/test_bad_input.py",
    "tests/pipeline/tables/test_exactly_once.py",
    "tests/pipeline/tables/test_tables.py",
    "tests/unit/test_build.py",
    "tests/unit/test_suite.py",
    "tests/unit/testing/test_plugin.py",
    "tests/unit/testing/test_stream_plugin.py",
)
"""Paths that `make check` leaves out: they flood, kill, compile, or start a process per test."""

MEASURED = (
    "tests/abuse/test_jetstream_work.py",
    "tests/e2e/jetstream/test_soak.py",
    "tests/e2e/test_memory_soak.py",
    "tests/e2e/test_polled_client.py",
    "tests/e2e/test_soak.py",
    "tests/unit/jetstream/consumer/test_memory.py",
    "tests/unit/jetstream/store/test_kept.py",
    "tests/unit/server/channels/test_charges.py",
    "tests/unit/server/clients/test_many_subscriptions.py",
    "tests/unit/server/channels/test_polled_sockets.py",
    "tests/unit/server/process/test_gc_pauses.py",
    "tests/unit/sublist/test_allocations.py",
)
"""Paths that measure memory, allocations or processor time: `make test` runs two at a time."""

SERVER_PER_TEST = ("tests/abuse/test_jetstream_work.py",)
"""Files whose tests share nothing, so that several workers may run them."""

WITHOUT_SPARK = "tests/pipeline/tables/"
"""The folder of the pipeline whose tests need no Spark session."""

OF_LAKES = ("tests/pipeline/lake/", "tests/pipeline/what_if/")
"""Half of the time of Spark's tests; they have a worker and a session of their own."""

LONG = (
    "tests/pipeline/",
    "tests/abuse/test_rates.py",
    "tests/differential/test_differential.py",
    "tests/browser/",
    "tests/docs/test_pages.py",
    "tests/e2e/links/",
    "tests/e2e/cluster/",
    "tests/unit/test_build.py",
    "tests/abuse/",
    "tests/simulation/",
)
"""Paths that take a minute or more, which workers begin with: one that came last would be alone."""


def stale_extensions(root: Path) -> list[str]:
    """Name every extension module under `root` that does not come from the sources beside it.

    A module also counts as stale when any `.pxd` or `.h` is newer: those are inlined elsewhere.
    """
    folders = [path for path in (root / "midge").iterdir() if path.is_dir()]
    headers = [path.stat().st_mtime for folder in folders for path in folder.rglob("*.pxd")]
    headers += [path.stat().st_mtime for folder in folders for path in folder.rglob("*.h")]
    built = [
        path for folder in folders for path in folder.rglob("*") if path.name.endswith(SUFFIXES)
    ]
    stale = []
    for path in built:
        source = path.with_name(path.name.split(".", maxsplit=1)[0] + ".py")
        if not source.with_suffix(".pxd").exists():
            stale.append(f"{path.relative_to(root)} has no .pxd any more")
        elif path.stat().st_mtime < max([source.stat().st_mtime, *headers]):
            stale.append(f"{path.relative_to(root)} is older than its sources")
    return sorted(stale)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test yesterday's code."""
    stale = stale_extensions(ROOT)
    if stale:
        todo = "`make build` brings them up to date, and removes those without a source"
        pytest.exit("\n".join(["stale extension modules:", *stale, todo]), returncode=4)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full`."""
    parser.addoption(
        "--full", action="store_true", help="run shortened tests in their long form, too"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the items of the tables above; leave out long forms unless `--full` asks for them.

    In a single process, Spark's tests come last: once Spark has started, its threads and its Java
    run beside every later test.
    """
    for item in items:
        path = item.nodeid.split("::", maxsplit=1)[0]
        for marker, table in (("slow", SLOW), ("measured", MEASURED)):
            if path.startswith(table):
                item.add_marker(marker)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(item.nodeid))
    else:
        items.sort(key=lambda item: "spark" in getattr(item, "fixturenames", ()))
    if config.getoption("--full") or "full" in config.getoption("-m"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect tests without the garbage collector: a fifth of the time, and hardly any garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector off the items: it would walk over 13,000 again and again."""
    gc.collect()
    gc.freeze()


def _place(nodeid: str) -> int:
    """Return the place of an item's path in `LONG`, or behind all."""
    return next((place for place, path in enumerate(LONG) if nodeid.startswith(path)), len(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give whole files to the workers of `-n`, and all of Spark's files to two of them.

    Files share servers between their tests, and a Spark session takes seconds to start and a GiB.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.split("::", maxsplit=1)[0]
            if path in SERVER_PER_TEST:
                return nodeid
            if path.startswith(OF_LAKES):
                return "lakes"
            is_spark = path.startswith("tests/pipeline/") and not path.startswith(WITHOUT_SPARK)
            return "spark" if is_spark else path

        # When a worker has crashed, xdist 3.8.0 gives all of its files to others: the test that it
        # crashed in is run again, and a worker that gets only finished files waits for ever. When
        # two have crashed, it gives files to a worker that has not collected the tests yet. When
        # one crashes just before it gets files, or the tests of its successor are known only when
        # all is done, the whole run ends with an internal error.

        def add_node_collection(self, node: Any, collection: Any) -> None:
            if node in self.assigned_work:
                super().add_node_collection(node, collection)

        def remove_node(self, node: Any) -> str | None:
            files = self.assigned_work.pop(node)
            tests = [item for file in files.values() for item in file.items()]
            crashed = next((test for test, is_done in tests if not is_done), None)
            if crashed is not None:
                files[self._split_scope(crashed)][crashed] = True
                self.workqueue.update(files)
                for other in self.assigned_work:
                    self._reschedule(other)
            return crashed

        def _reschedule(self, node: Any) -> None:
            if node not in self.registered_collections:
                return
            with contextlib.suppress(OSError):  # `remove_node` is about to be called for it
                super()._reschedule(node)
                while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                    super()._reschedule(node)  # the last test is run when known to be the last

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Free what a failed test has left, so that its sockets cannot fail a later test.

    A failed test's frames live on in its traceback. Their sockets would be collected, with a
    ResourceWarning that is an error, while some other test runs.
    """
    failed_before = item.session.testsfailed
    try:
        outcome = yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    if item.session.testsfailed > failed_before:
        sys.last_type = sys.last_value = sys.last_traceback = None
        report_unraisable, sys.unraisablehook = sys.unraisablehook, lambda _: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
        sys.unraisablehook = report_unraisable
    return outcome


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Iterator[object]:
    """Stop a running uvloop at a test's time-out: it logs the error of a signal handler.

    A test that waits in C code, where the signal of its time-out does not reach it, ends its worker
    after twice that time, with the stacks of all threads.
    """
    stderr = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(2 * settings.timeout, exit=True, file=stderr)
    outcome = yield
    fail: Any = signal.getsignal(signal.SIGALRM)

    def end(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # no loop runs
            loop = asyncio.get_running_loop()
            if not isinstance(loop, asyncio.BaseEventLoop):
                loop.stop()
        fail(number, frame)

    if callable(fail):
        signal.signal(signal.SIGALRM, end)
    return outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of continuous integration that skipped a test: there everything can run."""
    gc.unfreeze()  # libraries look for leaks at the end
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\nCI counts {len(skipped)} skipped tests as failures", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def is_pure_build() -> bool:
    """Whether these tests are meant to run interpreted, with no extension module anywhere."""
    return os.environ.get("MIDGE_PURE", "") not in {"", "0"}
