"""The criteria for a worse build, and the summary of in-process figures."""

from itertools import pairwise
from pathlib import Path

import pytest

from bench.against import chosen, judge_internal, losses
from bench.builds import Build, NoBuildError
from bench.compare import Comparison
from bench.internal import INTERNAL, findings
from bench.internal_run import frames, packed
from bench.scenarios import SCENARIOS


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


def test_all_is_chosen_without_names_and_names_are_told_apart() -> None:
    internal, others = chosen([])
    assert (internal, len(others)) == (list(INTERNAL), len(SCENARIOS))
    internal, others = chosen(["one_16", "run_js", "nonsense"])
    assert ([one.name for one in internal], others) == (["run_js"], ["one_16", "nonsense"])


def test_internal_figures_are_judged_by_their_limits() -> None:
    ours = {
        "run_nobody": 0.003,
        "run_compiled": 0.004,
        "run_js": 0.004,
        "run_python": 0.01,
        "lines_nobody": 0.1,
        "lines_compiled": 0.15,
    }
    found = findings(ours, {"run_python": 0.15})
    assert [(round(one.value, 2), one.kept) for one in found] == [
        (0.75, True),
        (0.75, False),
        (50.0, True),
        (15.0, True),
    ]
    assert findings({}, ours) == []


def test_internal_findings_are_said_with_their_limits() -> None:
    rows = [
        compared("run_nobody", cpu_us=(2.0, 2.0)),
        compared("run_compiled", cpu_us=(4.0, 9.0)),
    ]
    said = "compiled keeps of the rate on equal lines: 0.50 (at least 0.7: MISSED)"
    assert judge_internal(rows) == [said]


def test_a_folder_without_a_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoBuildError, match="expected a checkout"):
        Build.of(tmp_path, "x")
    (tmp_path / "midge").mkdir()
    (tmp_path / "midge" / "__init__.py").touch()
    with pytest.raises(NoBuildError, match="not compiled"):
        Build.of(tmp_path, "x")


def test_frames_are_packed_whole_and_in_order() -> None:
    pieces = packed([b"aa", b"bbb", b"c"], 5)
    assert pieces == [(b"aabbb", 2), (b"c", 1)]


@pytest.mark.parametrize(("lines", "subjects"), [("equal", 1), ("js", 1), ("unequal", 600)])
def test_frames_have_the_subjects_that_their_kind_says(lines: str, subjects: int) -> None:
    found = frames(lines)
    assert len({frame.split()[1] for frame in found}) == subjects
    repeated = sum(a.split(b"\r")[0] == b.split(b"\r")[0] for a, b in pairwise(found))
    assert (repeated == len(found) - 1) == (lines != "unequal")
    assert lines != "unequal" or repeated < len(found) / 1_000
