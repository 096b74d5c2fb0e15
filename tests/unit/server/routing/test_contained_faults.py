"""Faults of internal subscribers and observers: all are counted, few are logged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midge.server.routing.contained_faults import SOURCES_MAX, ContainedFaults
from midge.server.routing.subscription import RoutedSubscription

Fail = Callable[..., list[str]]


class Time:
    """A clock to be set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def faults(time: Time) -> ContainedFaults:
    return ContainedFaults(time)


@pytest.fixture
def fail(faults: ContainedFaults, caplog: pytest.LogCaptureFixture) -> Fail:
    """Record faults of a source; return the log lines about them."""

    def fail(source: object, times: int = 1) -> list[str]:
        caplog.clear()
        for _ in range(times):
            faults.note(source, ValueError("no"))
        return [record.getMessage() for record in caplog.records]

    return fail


def test_a_source_is_logged_once_a_minute(fail: Fail, faults: ContainedFaults, time: Time) -> None:
    source = RoutedSubscription(b"orders.*")
    (line,) = fail(source, 3)
    assert line.startswith("internal_receiver_failed source='")
    assert line.endswith("RoutedSubscription orders.*' error='ValueError: no'")
    time.now = 59.9
    assert fail(source) == []
    time.now = 60.0
    (line,) = fail(source, 2)
    assert line.endswith("suppressed=3")
    assert faults.count == 6


def test_sources_are_told_apart(fail: Fail) -> None:
    for source in (RoutedSubscription(b"a"), RoutedSubscription(b"b"), object()):
        assert len(fail(source)) == 1


def test_sources_are_bounded(fail: Fail, faults: ContainedFaults) -> None:
    first = RoutedSubscription(b"first")
    fail(first)
    for i in range(SOURCES_MAX):
        fail(RoutedSubscription(b"%d" % i))
    assert len(fail(first)) == 1
    assert faults.count == SOURCES_MAX + 2
