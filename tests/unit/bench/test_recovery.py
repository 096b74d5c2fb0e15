"""The report on restarts: medians of all starts, their ratios, and midge's limits."""

from __future__ import annotations

import pytest

from bench import recovery, servers
from bench.disk import DiskSpeed
from bench.jetstream.restart import Restart
from bench.metrics import ScenarioError
from bench.recovery import CASES, LIMITS, METRICS, Comparison, rows

SUBJECTS, KEYS, STREAMS, _ = CASES
A, B = servers.Command("midge", ("midge",)), servers.Command("nats-server", ("nats-server",))


def told(case: Restart, a: dict[str, list[float]], b: dict[str, list[float]]) -> str:
    return "".join(rows(Comparison(case, a, b)))


def test_a_time_is_the_median_of_all_starts_and_judged_by_itself() -> None:
    quiet = {"others": [0.1]}
    text = told(SUBJECTS, {"start": [480, 990, 4_000], **quiet}, {"start": [500, 495, 490]} | quiet)
    assert "| start, files in the page cache | 990 ms ±178% | 495 ms ±1% | 2.00 |" in text
    assert "| ≤ 1,000 ms reached |" in text
    slow = told(SUBJECTS, {"start": [1_001]} | quiet, {"start": [9_000]} | quiet)
    assert "| ≤ 1,000 ms **missed** |" in slow
    slow = told(KEYS, {"start": [1_500]} | quiet, {"start": [1]} | quiet)
    assert "| ≤ 1,500 ms reached |" in slow


def test_a_slow_start_on_a_busy_machine_is_not_judged() -> None:
    busy = {"others": [1.4, 1.5, 0.1]}
    slow = told(SUBJECTS, {"first_start": [1_001]} | busy, {"first_start": [9]} | busy)
    assert "| ≤ 1,000 ms not judged: others used 1.4 cores |" in slow
    fast = told(SUBJECTS, {"first_start": [999]} | busy, {"first_start": [9]} | busy)
    assert "| ≤ 1,000 ms reached |" in fast


def test_the_memory_of_a_stream_is_judged_beside_that_of_nats_server() -> None:
    assert "| memory a stream, 2 s after the last ack | 20 B ±0% | 50 B ±0% | 0.40 |" in told(
        STREAMS, {"memory": [20]}, {"memory": [50]}
    )
    assert "| ≤ 0.5 of it reached |" in told(STREAMS, {"memory": [20]}, {"memory": [50]})
    assert "| ≤ 0.5 of it **missed** |" in told(STREAMS, {"memory": [26]}, {"memory": [50]})


def test_a_file_that_may_shorten_a_start_is_counted() -> None:
    assert "| 0 | 1 |  |  |" in told(KEYS, {"checkpoints": [0]}, {"checkpoints": [1]})


def test_every_limit_is_of_something_that_is_reported() -> None:
    assert LIMITS.keys() == {case.name for case in CASES}
    assert all(limits.keys() <= METRICS.keys() for limits in LIMITS.values())


def test_servers_take_turns_and_a_failure_is_part_of_the_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = []

    def run(case: Restart, command: servers.Command, starts: int) -> dict[str, list[float]]:
        played.append(command.name)
        if len(played) > 4:
            raise ScenarioError("message 5 is gone")
        return {"start": [float(starts)] * starts, "memory": [1.0]}

    monkeypatch.setattr(recovery.restart, "run", run)
    comparison = recovery.compare(KEYS, A, B, rounds=2, starts=3)
    assert played == ["midge", "nats-server", "nats-server", "midge"]
    assert comparison.a == {"start": [3.0] * 6, "memory": [1.0, 1.0]}
    failed = recovery.compare(KEYS, A, B, rounds=1, starts=3)
    assert "| failed | message 5 is gone |" in "".join(rows(failed))


def test_the_page_names_commit_and_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.report, "machine", lambda: {"commit": "c0ffee"})
    monkeypatch.setattr(recovery.report, "version", lambda argv: f"{argv[0]} 7")
    speed = DiskSpeed(1e9, 2e9, 100)
    text = recovery.page([Comparison(KEYS, {"memory": [1]}, {"memory": [2]})], (A, B), 2, 3, speed)
    listed = f"- commit: c0ffee\n- disk: {speed}\n- midge: midge 7\n- nats-server: nats-server 7\n"
    assert listed in text
    assert "killed and started 4 times" in text
    assert "| case | metric | midge | nats-server | midge / nats-server | target |" in text
