"""The speed table of README.md, made from a results page."""

from pathlib import Path

import pytest

from bench import speed_table

RESULTS = """# Results

- date: 2026-01-02 03:04 UTC
- machine: a machine, 2 cores
- python: CPython 3.13.1
- midge: midge-server: v1.0.0
- nats-server: nats-server: v2.15.1
- commit: 0123456789ab

| scenario | metric | midge | nats-server | midge / nats-server | target |
|---|---|---|---|---|---|
| one-to-one, 16 B | rate | 22,971,629/s ±29% | 826,737/s ±1% | 10.64 | ≥ 5 reached |
|  | server CPU | 0.0434 µs ±28% | 0.548 µs ±15% | 0.08 | |
| request/reply, alone | rate | 8,705/s ±10% | 5,362/s ±8% | 1.62 | |
|  | latency p50 | 104 µs ±11% | 183 µs ±6% | 0.57 | |
| broken | failed | no answer | | | |
"""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = (("one-to-one, 16 B", "rate"), ("request/reply, alone", "latency p50"))
    monkeypatch.setattr(speed_table, "SHOWN", chosen)


@pytest.mark.usefixtures("shown")
def test_table_has_medians_ratio_and_cpu_of_each_scenario() -> None:
    lines = speed_table.table(RESULTS).splitlines()
    assert lines[2] == "| one-to-one, 16 B | 23.0 M/s | 0.8 M/s | 10.64 | 0.08 |"
    assert lines[3] == "| request/reply, alone: latency p50 | 104 µs | 183 µs | 0.57 |  |"
    assert "a machine, 2 cores, CPython 3.13.1" in lines[5]
    assert "nats-server 2.15.1, 2026-01-02, commit 0123456789ab" in lines[6]


@pytest.mark.usefixtures("shown")
def test_only_the_table_is_replaced_and_twice_is_once() -> None:
    begin, end = speed_table._BEGIN, speed_table._END
    once = speed_table.replaced(f"before\n{begin}old\n{end}after\n", RESULTS)
    assert once.startswith(f"before\n{begin}\n| |")
    assert once.endswith(f"\n{end}after\n")
    assert "old" not in once
    assert speed_table.replaced(once, RESULTS) == once


def test_scenario_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError, match="services"):
        speed_table.table(RESULTS)


def test_page_without_a_place_for_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected the lines"):
        speed_table.replaced("# midge\n", RESULTS)


def test_figures_that_nobody_can_measure_again_are_not_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, readme = tmp_path / "RESULTS.md", tmp_path / "README.md"
    results.write_text(RESULTS.replace("0123456789ab", "0123456789ab with uncommitted changes"))
    readme.write_text("as it was")
    monkeypatch.setattr(speed_table, "RESULTS", results)
    monkeypatch.setattr(speed_table, "README", readme)
    assert speed_table.main() == 1
    assert readme.read_text() == "as it was"
    assert "RESULTS.md was measured with uncommitted changes" in capsys.readouterr().err
