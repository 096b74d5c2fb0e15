"""When a client is pinged, measured and given up, by a clock that the test moves."""

from __future__ import annotations

from random import Random

import pytest

from midge.server.channels.keepalive import KeepaliveTimer
from midge.testing import ManualClock


class Watched:
    """A keepalive and the times of what it did."""

    def __init__(self, interval_s: float = 10.0, ping_max: int = 2) -> None:
        self.clock = ManualClock()
        self.pings: list[float] = []
        self.stale: list[float] = []
        self.keepalive = KeepaliveTimer(
            self, self.clock, Random(1), interval_s=interval_s, ping_max=ping_max
        )

    def send_ping(self) -> None:
        self.pings.append(self.clock.monotonic())

    def end_stale(self) -> None:
        self.stale.append(self.clock.monotonic())

    def heard(self) -> None:
        self.keepalive.last_heard = self.clock.monotonic()

    def answer(self) -> None:
        self.heard()
        self.keepalive.pong()


def test_stale_after_too_many_unanswered() -> None:
    watched = Watched()
    watched.keepalive.start()
    watched.clock.advance(100)
    assert watched.pings == [10, 20]
    assert watched.stale == [30]


@pytest.mark.parametrize("ping_max", [1, 3])
def test_ping_max(ping_max: int) -> None:
    watched = Watched(ping_max=ping_max)
    watched.keepalive.start()
    watched.clock.advance(100)
    assert len(watched.pings) == ping_max
    assert watched.stale == [10 * (ping_max + 1)]


def test_answers_keep_it_alive() -> None:
    watched = Watched()
    watched.keepalive.start()
    for _ in range(20):
        watched.clock.advance(10)
        watched.answer()
    assert len(watched.pings) == 20
    assert watched.stale == []


def test_no_ping_to_who_is_heard_of() -> None:
    watched = Watched()
    watched.keepalive.start()
    watched.clock.advance(10)
    watched.answer()
    for _ in range(20):
        watched.clock.advance(5)
        watched.heard()
    assert watched.pings == [10]


def test_who_goes_on_doing_something_need_not_answer() -> None:
    watched = Watched()
    watched.keepalive.connected()
    for _ in range(40):
        watched.clock.advance(5)
        watched.heard()
    assert len(watched.pings) == 1
    assert watched.stale == []


def test_an_answer_is_nothing_done() -> None:
    watched = Watched()
    watched.keepalive.connected()
    for _ in range(100):
        watched.clock.advance(0.5)
        if watched.keepalive.unanswered:
            watched.answer()
    assert len(watched.pings) == 5


def test_round_trip() -> None:
    watched = Watched()
    assert watched.keepalive.round_trip_s is None
    watched.keepalive.pong()
    assert watched.keepalive.round_trip_s is None
    watched.keepalive.start()
    watched.clock.advance(10)
    watched.clock.advance(0.25)
    watched.answer()
    assert watched.keepalive.round_trip_s == pytest.approx(0.25)
    assert watched.keepalive.unanswered == 0


def test_the_time_to_connect_is_an_estimate_until_the_first_pong() -> None:
    watched = Watched()
    watched.clock.advance(0.5)
    watched.keepalive.connected()
    assert watched.keepalive.round_trip_s == 0.5
    watched.clock.advance(3)
    assert len(watched.pings) == 1
    watched.clock.advance(0.25)
    watched.answer()
    assert watched.keepalive.round_trip_s != 0.5


def test_round_trip_is_measured_again_after_an_hour() -> None:
    watched = Watched(interval_s=100)
    watched.keepalive.start()
    watched.clock.advance(100)
    watched.answer()
    while watched.clock.monotonic() < 3850:
        watched.clock.advance(50)
        watched.heard()
    assert watched.pings == [100, 3800]


def test_early_ping_for_who_has_connected() -> None:
    watched = Watched()
    watched.keepalive.start()
    watched.clock.advance(1)
    watched.keepalive.connected()
    watched.heard()
    watched.clock.advance(2.4)
    assert len(watched.pings) == 1
    assert 3.0 <= watched.pings[0] <= 3.4


def test_early_ping_is_no_later_than_the_interval() -> None:
    watched = Watched(interval_s=0.5)
    watched.keepalive.connected()
    watched.clock.advance(0.6)
    assert len(watched.pings) == 1


@pytest.mark.parametrize("ending", ["stop", "forget"])
def test_nothing_after_the_end(ending: str) -> None:
    watched = Watched()
    watched.keepalive.start()
    getattr(watched.keepalive, ending)()
    watched.clock.advance(1000)
    assert (watched.pings, watched.stale) == ([], [])
