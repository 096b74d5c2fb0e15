"""The model of what a message costs with several workers."""

from __future__ import annotations

import pytest

from bench.scaling import FAN, Costs, Place, cases, fan_out, fit, pairs, rate, report


def test_the_cases_that_it_is_made_of_give_its_costs_back() -> None:
    costs = Costs(take_ns=60.0, deliver_ns=40.0, cross_ns=150.0)
    pair, fan, crossing = (costs.of(case.place) for case in cases()[:3])
    found = fit(pair, fan, FAN, crossing)
    assert (found.take_ns, found.deliver_ns) == pytest.approx((60.0, 40.0))
    assert found.cross_ns == pytest.approx(150.0)


def test_a_message_crosses_to_each_other_worker_once() -> None:
    assert pairs(1) == Place(1.0, 0.0)
    assert pairs(4) == Place(1.0, 0.75)
    assert fan_out(4, 100) == Place(100, 3)
    assert fan_out(64, 10) == Place(10, 10)
    places = {case.name: case.place for case in cases()}
    assert places[f"fan-out {FAN} over 3 workers"] == Place(FAN, 2)
    assert places["pair within one of 2 workers"] == Place(1, 0)


def test_a_core_more_is_worth_less_where_more_crosses() -> None:
    costs = Costs(take_ns=60.0, deliver_ns=40.0, cross_ns=150.0)
    assert rate(costs, pairs(1), 1) == pytest.approx(1e7)
    assert rate(costs, pairs(2), 2) == pytest.approx(2e9 / 175.0)


def test_the_report_says_how_far_off_the_model_is() -> None:
    costs = Costs(take_ns=60.0, deliver_ns=40.0, cross_ns=150.0)
    found = {case.name: costs.of(case.place) for case in cases()}
    found["pair that crosses, 3 workers"] = 200.0
    text = "".join(report(costs, found))
    assert "| pair that crosses, 3 workers | 200 ns | 250 ns | +25% |" in text
    assert "| 64 |" in text
