"""Slots are counted by name over all workers, and free again when they are left."""

from __future__ import annotations

from midge.server.workers.worker_pool import ConnectionCounts

A_LOT = -1


def take(cid: int, *claims: tuple[str, str, int], number: int = 1) -> list[object]:
    return ["take", cid, number, list(claims)]


def test_the_limit_holds_over_workers_and_names_are_apart() -> None:
    counts = ConnectionCounts()
    assert counts.update(0, [take(5, ("user", "a", 2))]) == [(1, "")]
    assert counts.update(1, [take(6, ("user", "a", 2)), take(7, ("user", "a", 2), number=2)]) == [
        (1, ""),
        (2, "user"),
    ]
    assert counts.update(1, [take(8, ("user", "b", 2)), take(9, ("account", "a", 2))]) == [
        (1, ""),
        (1, ""),
    ]


def test_what_needs_no_answer_is_counted_too() -> None:
    counts = ConnectionCounts()
    assert counts.update(0, [take(5, ("user", "a", A_LOT), number=0)]) == []
    assert counts.update(1, [take(6, ("user", "a", 1))]) == [(1, "user")]


def test_a_connection_has_one_row_of_slots_which_a_refusal_ends() -> None:
    counts = ConnectionCounts()
    counts.update(0, [take(5, ("user", "a", 1), ("account", "x", 1))])
    assert counts.update(0, [take(5, ("user", "b", 1), ("account", "x", 1))]) == [(1, "")]
    assert (counts.count("user", "a"), counts.count("account", "x")) == (0, 1)
    assert counts.update(0, [take(5, ("user", "b", 1), ("account", "x", 0))]) == [(1, "account")]
    assert (counts.count("user", "b"), counts.count("account", "x")) == (0, 0)


def test_slots_are_free_when_a_connection_or_its_worker_ends() -> None:
    counts = ConnectionCounts()
    counts.update(0, [take(5, ("user", "a", 2)), take(6, ("user", "a", 2))])
    counts.update(1, [["leave", 5], ["leave", 99]])
    assert counts.count("user", "a") == 2
    counts.update(0, [["leave", 5]])
    assert counts.count("user", "a") == 1
    counts.forget(0)
    assert counts.count("user", "a") == 0
