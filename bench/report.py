"""Turn comparisons into text for the terminal, a JSON document and a Markdown page."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.compare import Comparison, Setup
from bench.disk import DiskSpeed
from bench.metrics import METRICS, format_value
from bench.scenarios import TARGETS
from bench.servers import Command

_ROOT = Path(__file__).resolve().parent.parent
_MEASURED = ("midge", "jetstream", "protocol", "server", "sublist", "setup.py", "pyproject.toml")

UNCOMMITTED = "with uncommitted changes"
"""Marks a commit whose figures cannot be reproduced from the repository."""

QUIET_CORES = 0.2
"""A time over its limit counts as the server's fault if other programs used at most these cores."""


@dataclass(frozen=True)
class Verdict:
    """The comparison of one ratio with midge's target."""

    limit: float
    at_least: bool
    reached: bool

    def __str__(self) -> str:
        """Return the limit and whether it was reached."""
        bound = "≥" if self.at_least else "≤"
        return f"{bound} {self.limit:.3g} {'reached' if self.reached else '**missed**'}"


def judge(comparison: Comparison, metric: str) -> Verdict | None:
    """Compare a ratio, or the share that A reaches, with its target; None without a target.

    In a scenario without a target, the rate of A must not be lower than B's.
    """
    at_least = METRICS[metric].higher_is_better
    default = 1.0 if at_least and comparison.name not in TARGETS else None
    limit = TARGETS.get(comparison.name, {}).get(metric, default)
    if limit is None:
        return None
    is_share = METRICS[metric].is_share
    reached = comparison.summaries(metric)[0].median if is_share else comparison.ratio(metric)
    return Verdict(limit, at_least, reached >= limit if at_least else reached <= limit)


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield the terminal lines of one scenario."""
    if comparison.failure:
        yield f"{comparison.title:<28} FAILED: {comparison.failure}"
        return
    title = comparison.title
    for name in _reported(comparison):
        metric = METRICS[name]
        a, b = comparison.summaries(name)
        cells = [f"{format_value(metric, side.median):>14} ±{side.spread:>3.0%}" for side in (a, b)]
        ratio = f"{comparison.ratio(name):8.2f}" if metric.compared else ""
        yield f"{title:<28} {metric.title:<12} {cells[0]}  {cells[1]}  {ratio}"
        title = ""


def _reported(comparison: Comparison) -> list[str]:
    return [name for name in comparison.metrics if name in METRICS]


def to_json(setup: Setup, comparisons: Iterable[Comparison]) -> str:
    """Return all measurements, round by round."""
    document = {
        "environment": environment(setup),
        "seconds": setup.seconds,
        "scenarios": [
            {
                "name": comparison.name,
                "title": comparison.title,
                "failure": comparison.failure,
                "a": comparison.a,
                "b": comparison.b,
                "ratios": {name: comparison.ratio(name) for name in comparison.metrics},
            }
            for comparison in comparisons
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def to_markdown(setup: Setup, comparisons: Sequence[Comparison]) -> str:
    """Return the results page."""
    facts = "\n".join(f"- {name}: {value}" for name, value in environment(setup).items())
    rows = "\n".join(row for comparison in comparisons for row in _rows(comparison))
    a, b = setup.a.name, setup.b.name
    return f"""# Results

{facts}
- method: medians of {setup.rounds} rounds of {setup.seconds:g} s in alternation, ± is half the
  distance between the extremes; how it is measured is in [README.md](README.md)

Server CPU is per delivered message (per published one without subscribers, per request, per
connection, per subscription). "generator" is the number of cores that the busiest process of the
load generator used during {a}'s rounds and {b}'s: near one core, the figures would
measure the generator and not the server. "others" is the CPU use of all other programs.

| scenario | metric | {a} | {b} | {a} / {b} | target | generator | others |
|---|---|---|---|---|---|---|---|
{rows}
"""


def _rows(comparison: Comparison) -> Iterator[str]:
    if comparison.failure:
        yield f"| {comparison.title} | failed | {comparison.failure} | | | | | |"
        return
    title = comparison.title
    busy = " | ".join(_busy(comparison, who) for who in ("generator_busy", "others_busy"))
    for name in _reported(comparison):
        metric = METRICS[name]
        if not metric.compared:
            continue
        a, b = comparison.summaries(name)
        cells = [f"{format_value(metric, side.median)} ±{side.spread:.0%}" for side in (a, b)]
        verdict = judge(comparison, name) or ""
        ratio = f"{comparison.ratio(name):.2f}"
        row = (title, metric.title, *cells, ratio, verdict, busy)
        yield f"| {' | '.join(str(cell) for cell in row)} |"
        title, busy = "", " | "


def _busy(comparison: Comparison, who: str) -> str:
    if who not in comparison.metrics:
        return ""
    return ", ".join(f"{side.median:.2f}" for side in comparison.summaries(who))


def environment(setup: Setup) -> dict[str, str]:
    """Return the facts that every figure needs: commit, builds, machine and date."""
    return facts((setup.a, setup.b), setup.disk)


def facts(commands: Sequence[Command], disk: DiskSpeed | None = None) -> dict[str, str]:
    """Return the facts about a measurement of these servers, and of this disk if it matters."""
    on = {} if disk is None else {"disk": str(disk)}
    return {**machine(), **on, **{one.name: version(one.argv) for one in commands}}


def judged(wanted: str, *, is_reached: bool, others: float) -> str:
    """Return the verdict on a time; `others` is the number of cores that other programs used."""
    if is_reached:
        return f"{wanted} reached"
    if others > QUIET_CORES:
        return f"{wanted} not judged: others used {others:.1f} cores"
    return f"{wanted} **missed**"


def machine() -> dict[str, str]:
    """Return the facts about every measurement made now from this checkout."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "machine": f"{_cpu_model()}, {os.cpu_count()} cores",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _commit() -> str:
    """Return the commit of the measured code; pages and tests may have uncommitted changes."""
    commit = _output(["git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"])
    status = ["status", "--porcelain", "--untracked-files=no", "--", *_MEASURED]
    if _output(["git", "-C", str(_ROOT), *status]):
        return f"{commit} {UNCOMMITTED}"
    return commit or "unknown"


def version(argv: Sequence[str]) -> str:
    """Return the version that a server reports, with its build."""
    return _output([*argv, "--version"]) or "unknown version"


def _output(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
