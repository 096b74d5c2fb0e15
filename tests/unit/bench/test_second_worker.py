"""What a second worker adds: what is sent, and what is said of it."""

from __future__ import annotations

from bench import second_worker
from bench.second_worker import Result, chunks, report


def test_no_two_subjects_are_alike_and_every_one_comes_once(monkeypatch) -> None:
    monkeypatch.setattr(second_worker, "SUBJECTS", 5_000)
    sent = b"".join(chunk.data for number in (0, 1) for chunk in chunks(number))
    lines = sent.split(b"\r\n")[:-1:2]
    assert len(lines) == len(set(lines)) == 10_000
    assert sum(chunk.messages for chunk in chunks(0)) == 5_000


def _rounds(metric: str, *values: float, server: float = 0.9, clients: float = 0.2) -> list:
    return [{metric: value, "server_busy": server, "clients_busy": clients} for value in values]


def test_a_ratio_is_that_of_medians_and_judged() -> None:
    fast = Result("fast", "rate", _rounds("rate", 1, 100, 110), _rounds("rate", 150, 160, 900))
    slow = Result("slow", "rate", _rounds("rate", 100), _rounds("rate", 130))
    wait = Result("wait", "p50_us", _rounds("p50_us", 50), _rounds("p50_us", 80))
    text = "".join(report([fast, slow, wait]))
    assert "| fast | 100/s | 160/s | 1.60 | ≥ 1.4 reached | 4.5 |" in text
    assert "| slow | 100/s | 130/s | 1.30 | ≥ 1.4 **missed** | 4.5 |" in text
    assert "| wait | 50.0 µs | 80.0 µs | 1.60 | ≤ 1.5 **missed** |  |" in text


def test_nothing_is_judged_where_the_clients_cost_too_much() -> None:
    dear = Result("dear", "rate", _rounds("rate", 100, clients=0.5), _rounds("rate", 200))
    assert "not judged" in "".join(report([dear]))
