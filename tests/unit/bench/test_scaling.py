"""The model of what a message costs with several workers."""

from __future__ import annotations

import pytest

from bench.scaling import FAN, MADE_OF, Costs, Place, cases, fan_out, fit, pairs, rate, report

COSTS = Costs(take_ns=60.0, deliver_ns=40.0, cross_ns=150.0, pass_ns=90.0)


def test_the_cases_that_it_is_made_of_give_its_costs_back() -> None:
    found = fit(*(COSTS.of(case.place) for case in cases()[:MADE_OF]))
    assert (found.take_ns, found.deliver_ns) == pytest.approx((60.0, 40.0))
    assert (found.cross_ns, found.pass_ns) == pytest.approx((150.0, 90.0))


def test_a_message_crosses_to_each_other_worker_once() -> None:
    assert pairs(1) == Place(1.0, 0.0)
    assert pairs(4) == Place(1.0, 0.75, 0.75)
    assert fan_out(4, 100) == Place(100, 3)
    assert fan_out(64, 10) == Place(10, 10, 10)
    assert fan_out(64, 100) == Place(100, 63, 28)
    places = {case.name: case.place for case in cases()}
    assert places[f"fan-out {FAN} over 3 workers"] == Place(FAN, 2)
    assert places["pair within one of 2 workers"] == Place(1, 0)
    assert places["two subscribers in 2 other workers of 3"] == Place(2, 2, 2)


def test_a_core_more_is_worth_less_where_more_crosses() -> None:
    assert rate(COSTS, pairs(1), 1) == pytest.approx(1e7)
    assert rate(COSTS, pairs(2), 2) == pytest.approx(2e9 / 125.0)


def test_the_report_says_how_far_off_the_model_is() -> None:
    found = {case.name: COSTS.of(case.place) for case in cases()}
    found["pair that crosses, 3 workers"] = 120.0
    text = "".join(report(COSTS, found))
    assert "| pair that crosses, 3 workers | 120 ns | 150 ns | +25% |" in text
    assert "| 64 |" in text
