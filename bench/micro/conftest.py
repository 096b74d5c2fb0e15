"""Print nanoseconds per operation beside midge's own limits."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from bench.micro.build import is_compiled, load_loops

Measure = Callable[..., None]


@pytest.fixture(scope="session")
def loops() -> ModuleType:
    """The loops, compiled when midge is."""
    return load_loops()


@pytest.fixture
def measure(benchmark: Any) -> Measure:
    """A function that times `target(*setup())`, which does `count` operations, for 15 rounds."""

    def run(target: Callable[..., Any], setup: Callable[[], tuple[Any, ...]], count: int) -> None:
        benchmark.extra_info["operations"] = count
        benchmark.pedantic(target, setup=lambda: (setup(), {}), rounds=15, warmup_rounds=1)

    return run


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker for limits."""
    config.addinivalue_line("markers", "limit(ns): nanoseconds that a compiled operation may take")


@pytest.fixture(autouse=True)
def _limit(request: pytest.FixtureRequest, benchmark: Any) -> None:
    marker = request.node.get_closest_marker("limit")
    benchmark.extra_info["limit_ns"] = marker.args[0] if marker else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the best rounds, because other programs disturbed them least."""
    session = getattr(config, "_benchmarksession", None)
    if session is None or not session.benchmarks:
        return
    build = "compiled" if is_compiled() else "interpreted"
    terminalreporter.section(f"nanoseconds per operation, {build}")
    for one in session.benchmarks:
        ns = one.stats.min / one.extra_info["operations"] * 1e9
        limit = one.extra_info["limit_ns"] if is_compiled() else None
        verdict = "" if limit is None else f"at most {limit:,}: {'yes' if ns <= limit else 'NO'}"
        terminalreporter.write_line(f"{one.name:<44} {ns:>10,.1f}  {verdict}")
