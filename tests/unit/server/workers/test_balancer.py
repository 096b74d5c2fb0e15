"""Which worker gets the next connection."""

from __future__ import annotations

from midge.server.workers.balancer import Balancer


def ready(count: int) -> Balancer:
    balancer = Balancer(count)
    for worker in balancer.workers:
        worker.is_ready = True
    return balancer


def place(balancer: Balancer) -> int:
    worker = balancer.by_load()[0]
    worker.handed += 1
    return worker.index


def test_connections_are_spread_evenly() -> None:
    balancer = ready(3)
    assert [place(balancer) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert [worker.load() for worker in balancer.workers] == [3, 2, 2]
    assert balancer.load() == 7


def test_a_worker_that_has_lost_clients_is_next() -> None:
    balancer = ready(2)
    for _ in range(6):
        place(balancer)
    balancer.workers[1].count(received=3, open_now=1)
    assert balancer.load() == 4
    assert [place(balancer) for _ in range(3)] == [1, 1, 0]


def test_what_was_handed_over_since_the_count_is_added() -> None:
    worker = ready(1).workers[0]
    worker.handed = 10
    worker.count(received=8, open_now=5)
    assert worker.load() == 7


def test_workers_that_are_not_ready_get_nothing() -> None:
    balancer = ready(2)
    balancer.workers[0].reset()
    assert [place(balancer) for _ in range(3)] == [1, 1, 1]
    balancer.workers[1].reset()
    assert balancer.by_load() == []
    assert balancer.load() == 0
