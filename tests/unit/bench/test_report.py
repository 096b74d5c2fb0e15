"""Ratios, verdicts and the pages that are made of them."""

import json

import pytest

from bench import report
from bench.compare import Comparison, Setup
from bench.meter import Reading, figures
from bench.servers import Command, StartError


def comparison(a_rate: float, b_rate: float, name: str = "one_16") -> Comparison:
    def measured(rate: float) -> dict[str, float]:
        return {"rate": rate, "cpu_us": 1e6 / rate, "generator_busy": 0.25, "others_busy": 0.01}

    rounds = (0.9, 1.0, 1.1)
    return Comparison(
        name,
        "a title",
        [measured(a_rate * factor) for factor in rounds],
        [measured(b_rate * factor) for factor in rounds],
    )


@pytest.fixture
def setup() -> Setup:
    return Setup(Command("ours", ("false",)), Command("theirs", ("/does/not/exist",)))


def test_ratio_is_that_of_the_medians() -> None:
    assert comparison(600.0, 100.0).ratio("rate") == pytest.approx(6.0)
    assert comparison(600.0, 100.0).ratio("cpu_us") == pytest.approx(1 / 6)


@pytest.mark.parametrize(("rate", "reached"), [(501.0, True), (499.0, False)])
def test_a_rate_must_reach_its_target(rate: float, reached: bool) -> None:
    verdict = report.judge(comparison(rate, 100.0), "rate")
    assert verdict is not None
    assert (verdict.limit, verdict.at_least, verdict.reached) == (5.0, True, reached)


@pytest.mark.parametrize(("rate", "reached"), [(701.0, True), (699.0, False)])
def test_cpu_must_stay_under_its_target(rate: float, reached: bool) -> None:
    verdict = report.judge(comparison(rate, 100.0), "cpu_us")
    assert verdict is not None
    assert (verdict.at_least, verdict.reached) == (False, reached)


def test_a_scenario_without_target_must_not_be_slower() -> None:
    verdict = report.judge(comparison(99.0, 100.0, "churn"), "rate")
    assert verdict is not None
    assert not verdict.reached
    assert report.judge(comparison(99.0, 100.0, "churn"), "cpu_us") is None


@pytest.mark.parametrize(("share", "reached"), [(0.41, True), (0.39, False)])
def test_a_share_is_judged_whatever_the_other_server_reaches(share: float, reached: bool) -> None:
    found = Comparison("js_lines_16", "a title", [{"of_core": share}], [{"of_core": 0.9}])
    verdict = report.judge(found, "of_core")
    assert verdict is not None
    assert (verdict.limit, verdict.at_least, verdict.reached) == (0.4, True, reached)


def test_the_page_has_a_row_per_compared_metric(setup: Setup) -> None:
    page = report.to_markdown(setup, [comparison(600.0, 100.0)])
    assert "| a title | rate | 600/s ±10% | 100/s ±10% | 6.00 | ≥ 5 reached | 0.25, 0.25" in page
    assert "|  | server CPU | 1,667 µs" in page
    assert "unknown version" in page


def test_a_failure_is_on_the_page_and_in_the_lines(setup: Setup) -> None:
    failed = Comparison("one_16", "a title", failure="a message was lost")
    assert "a message was lost" in report.to_markdown(setup, [failed])
    assert list(report.lines(failed)) == [f"{'a title':<28} FAILED: a message was lost"]


def test_json_has_every_round(setup: Setup) -> None:
    document = json.loads(report.to_json(setup, [comparison(600.0, 100.0)]))
    scenario = document["scenarios"][0]
    assert [round_["rate"] for round_ in scenario["b"]] == pytest.approx([90.0, 100.0, 110.0])
    assert scenario["ratios"]["rate"] == pytest.approx(6.0)


def test_figures_share_out_the_cpu() -> None:
    before = Reading(at_s=5.0, server_s=1.0, workers_s=(0.5, 0.0), ours_s=0.1, machine_s=10.0)
    after = Reading(at_s=7.5, server_s=3.0, workers_s=(1.0, 1.0), ours_s=0.2, machine_s=14.0)
    assert figures(before, after, count=1000, elapsed_s=2.0) == pytest.approx(
        {
            "rate": 500.0,
            "cpu_us": 2000.0,
            "server_busy": 0.8,
            "generator_busy": 0.4,
            "others_busy": 0.16,
        }
    )


def test_a_command_is_named_after_its_program_unless_told() -> None:
    assert Command.parse("/opt/bin/some-server -D --x 'a b'") == Command(
        "some-server", ("/opt/bin/some-server", "-D", "--x", "a b")
    )
    with pytest.raises(StartError, match="empty"):
        Command.parse("  ")
