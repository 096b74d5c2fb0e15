"""Which worker gets the next connection."""

from __future__ import annotations

from midge.server.workers.balancer import Balancer


def ready(count: int) -> Balancer:
    balancer = Balancer(count)
    for seat in balancer.seats:
        seat.is_ready = True
    return balancer


def place(balancer: Balancer) -> int:
    seat = balancer.by_load()[0]
    seat.handed += 1
    return seat.index


def test_connections_are_spread_evenly() -> None:
    balancer = ready(3)
    assert [place(balancer) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert [seat.load() for seat in balancer.seats] == [3, 2, 2]
    assert balancer.load() == 7


def test_a_worker_that_has_lost_clients_is_next() -> None:
    balancer = ready(2)
    for _ in range(6):
        place(balancer)
    balancer.seats[1].count(received=3, open_now=1)
    assert balancer.load() == 4
    assert [place(balancer) for _ in range(3)] == [1, 1, 0]


def test_what_was_handed_over_since_the_count_is_added() -> None:
    seat = ready(1).seats[0]
    seat.handed = 10
    seat.count(received=8, open_now=5)
    assert seat.load() == 7


def test_workers_that_are_not_ready_get_nothing() -> None:
    balancer = ready(2)
    balancer.seats[0].vacate()
    assert [place(balancer) for _ in range(3)] == [1, 1, 1]
    balancer.seats[1].vacate()
    assert balancer.by_load() == []
    assert balancer.load() == 0
