"""Connections that the parent hands to workers."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from midge.server.workers.balancer import Balancer
from midge.server.workers.reception import Reception
from midge.server.workers.worker_role import HandedSockets

if TYPE_CHECKING:
    from collections.abc import Iterator


class FakeCrew:
    """Two workers, of which each may have no room."""

    def __init__(self) -> None:
        self.balancer = Balancer(2)
        for worker in self.balancer.workers:
            worker.is_ready = True
        self.full: set[int] = set()
        self.notes: list[tuple[int, dict[str, Any]]] = []

    def process(self, index: int) -> Any:
        def hand_over(note: dict[str, Any], handed: socket.socket) -> bool:
            if index in self.full:
                return False
            self.notes.append((index, note))
            return True

        return SimpleNamespace(hand_over=hand_over)


@pytest.fixture
def ends() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for end in opened:
        end.close()


def receive(reception: Reception, ends: list[socket.socket]) -> socket.socket:
    accepted, other = socket.socketpair()
    ends.append(other)
    reception.receive("nats", accepted, ("127.0.0.1", 5))
    return accepted


def test_each_goes_to_the_least_loaded_and_the_copy_is_closed(ends: list[socket.socket]) -> None:
    pool = FakeCrew()
    reception = Reception(cast("Any", pool), lambda: 3)
    accepted = [receive(reception, ends) for _ in range(4)]
    assert [index for index, _ in pool.notes] == [0, 1, 0, 1]
    assert [note["cid"] for _, note in pool.notes] == [5, 6, 7, 8]
    assert [note["full"] for _, note in pool.notes] == [False, False, False, True]
    assert [one.fileno() for one in accepted] == [-1] * 4


def test_what_does_not_fit_goes_to_another_or_is_refused(ends: list[socket.socket]) -> None:
    pool = FakeCrew()
    reception = Reception(cast("Any", pool), lambda: 100)
    pool.full = {0}
    receive(reception, ends)
    assert [index for index, _ in pool.notes] == [1]
    pool.full = {0, 1}
    refused = receive(reception, ends)
    assert (refused.fileno(), reception.refused) == (-1, 1)
    assert reception.is_open()
    for worker in pool.balancer.workers:
        worker.reset()
    assert not reception.is_open()


def test_what_the_first_worker_alone_can_serve_goes_to_it_while_it_is_there(
    ends: list[socket.socket],
) -> None:
    pool = FakeCrew()
    reception = Reception(cast("Any", pool), lambda: 100, lambda kind: kind == "nats")
    for _ in range(3):
        receive(reception, ends)
    pool.balancer.workers[0].reset()
    receive(reception, ends)
    assert [index for index, _ in pool.notes] == [0, 0, 0, 1]


def test_a_worker_gives_each_to_the_listener_of_its_kind(ends: list[socket.socket]) -> None:
    source = HandedSockets({"nats": ("127.0.0.1", 4222)})
    taken: list[Any] = []
    listener = SimpleNamespace(take=lambda *given, full: taken.append((*given[1:], full)))
    assert source.open("nats", cast("Any", listener), "", 0) == ("127.0.0.1", 4222)
    note = {"host": "10.0.0.1", "port": 7, "cid": 9, "full": True}
    for kind in ("nats", "websocket"):
        accepted, other = socket.socketpair()
        ends += [accepted, other]
        source.take(kind, note, accepted)
    assert taken == [(("10.0.0.1", 7), 9, True)]
    assert source.received == 2
