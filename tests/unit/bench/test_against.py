"""The criteria for a worse build."""

from pathlib import Path

import pytest

from bench.against import Build, NoBuildError, losses
from bench.compare import Comparison


def compared(name: str = "x", **figures: tuple[float, float]) -> Comparison:
    a, b = ({metric: pair[side] for metric, pair in figures.items()} for side in (0, 1))
    return Comparison(name, f"title of {name}", [a], [b])


def test_a_lower_rate_and_a_higher_cost_are_worse() -> None:
    assert losses(compared(rate=(94, 100), cpu_us=(106, 100)), 0.05) == [
        "WORSE: title of x, rate: by 6.0%",
        "WORSE: title of x, server CPU: by 6.0%",
    ]


def test_what_is_better_or_within_tolerance_is_not_worse() -> None:
    assert losses(compared(rate=(96, 100), cpu_us=(104, 100), rss_bytes=(50, 100)), 0.05) == []


def test_extremes_and_the_generator_are_not_judged() -> None:
    extremes = compared(max_us=(900, 1), p999_us=(900, 1), generator_busy=(9, 1), unknown=(9, 1))
    assert losses(extremes, 0.05) == []


def test_a_failure_is_a_loss() -> None:
    assert losses(Comparison("x", "title", failure="no"), 0.05) == ["title: failed"]


def test_a_folder_without_a_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoBuildError, match="expected a checkout"):
        Build.of(tmp_path, "x")
    (tmp_path / "midge").mkdir()
    (tmp_path / "midge" / "__init__.py").touch()
    with pytest.raises(NoBuildError, match="not compiled"):
        Build.of(tmp_path, "x")
