"""Restarts after a SIGKILL and the memory of file streams, side by side with nats-server.

    python -m bench.recovery [MIDGE NATS_SERVER] [--rounds N] [--starts N] [--markdown FILE]

Each round fills a new store, kills the server, and starts it four times on what it left, and once
after a clean stop. The case `large`, of 20 million messages, takes ten minutes a round and 8 GB of
disk: it is measured where `--only` names it.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import disk, report, servers, stats, wire
from bench.jetstream import restart
from bench.jetstream.restart import Restart
from bench.load import beside
from bench.metrics import ScenarioError

MILLION = 1_000_000
LARGE = "large"

CASES = (
    Restart(
        name="subjects",
        title="1 M messages of 128 B in 1,000 subjects",
        unit="message",
        messages=MILLION,
        subjects=1_000,
    ),
    Restart(
        name="keys",
        title="1 M keys of one message",
        unit="key",
        messages=MILLION,
        subjects=MILLION,
        per_subject=1,
        listed=True,
    ),
    Restart(
        name="streams",
        title="1,000 file streams of one message",
        unit="stream",
        messages=1_000,
        subjects=1_000,
        streams=1_000,
    ),
    Restart(
        name=LARGE,
        title="20 M messages of 128 B in 200,000 subjects",
        unit="message",
        messages=20 * MILLION,
        subjects=200_000,
    ),
)


@dataclass(frozen=True)
class Limit:
    """Largest figure of midge, or its largest share of nats-server's figure."""

    most: float
    is_share: bool = False

    def judge(self, unit: str, a: float, ratio: float, others: float = 0.0) -> str:
        """Return the limit, and whether it is kept; `others` is the load by other programs."""
        wanted = f"≤ {self.most:g} of it" if self.is_share else f"≤ {self.most:,g} {unit}".rstrip()
        is_reached = (ratio if self.is_share else a) <= self.most
        return report.judged(wanted, is_reached=is_reached, others=others)


LIMITS: Mapping[str, Mapping[str, Limit]] = {
    "subjects": {
        "first_start": Limit(1_000),
        "start": Limit(1_000),
        "memory": Limit(32),
        "memory_after": Limit(32),
    },
    "keys": {
        "first_start": Limit(1_500),
        "start": Limit(1_500),
        "memory": Limit(160),
        "memory_after": Limit(160),
        "consumer": Limit(30),
        "consumer_after": Limit(30),
    },
    "streams": {
        "first_start": Limit(1_000),
        "start": Limit(1_000),
        "memory": Limit(0.5, is_share=True),
        "memory_after": Limit(0.5, is_share=True),
        "files": Limit(256),
        "files_after": Limit(256),
    },
    LARGE: {
        "first_start": Limit(2_500),
        "start": Limit(2_500),
        "clean_start": Limit(1_500),
        "memory": Limit(12),
        "memory_after": Limit(12),
    },
}
"""The limits of midge, by case and metric."""

_TIMED = ("first_start", "start", "clean_start")

METRICS = {
    "first_start": ("first start, files as the kill left them", "ms"),
    "start": ("start, files in the page cache", "ms"),
    "start_cpu": ("CPU time of a start", "ms"),
    "clean_start": ("start after a clean stop", "ms"),
    "clean_cpu": ("CPU time of that", "ms"),
    "checkpoints": ("checkpoints newer than half", ""),
    "memory": ("memory a {unit}, 2 s after the last ack", "B"),
    "memory_after": ("memory a {unit}, 2 s after a start", "B"),
    "consumer": ("consumer of the last of each made", "ms"),
    "consumer_after": ("the same after a start", "ms"),
    "files": ("open files", ""),
    "files_after": ("open files after a start", ""),
    "others": ("cores used by other programs in a start", ""),
}
"""Title and unit of each, in the order of the report."""


@dataclass
class Comparison:
    """All rounds of one case on both servers, or the reason why there are none."""

    case: Restart
    a: dict[str, list[float]] = field(default_factory=dict)
    b: dict[str, list[float]] = field(default_factory=dict)
    failure: str = ""

    def add(self, figures: restart.Figures, *, is_a: bool) -> None:
        """Add the figures of a round."""
        side = self.a if is_a else self.b
        for name, values in figures.items():
            side.setdefault(name, []).extend(values)


def compare(
    case: Restart, a: servers.Command, b: servers.Command, rounds: int, starts: int
) -> Comparison:
    """Measure one case on both servers alternately: A B, B A, A B."""
    comparison = Comparison(case)
    try:
        for number in range(rounds):
            for is_a in (True, False) if number % 2 == 0 else (False, True):
                comparison.add(restart.run(case, a if is_a else b, starts), is_a=is_a)
    except (ScenarioError, servers.StartError, wire.WireError, OSError) as error:
        comparison.failure = str(error)
    return comparison


def rows(comparison: Comparison) -> Iterator[str]:
    """Write the rows of one case."""
    case = comparison.case
    if comparison.failure:
        yield f"| {case.title} | failed | {comparison.failure} | | | |\n"
        return
    title = case.title
    for name, (text, unit) in METRICS.items():
        if name not in comparison.a:
            continue
        a, b = (stats.Summary(tuple(side[name])) for side in (comparison.a, comparison.b))
        ratio = stats.ratio(a.median, b.median)
        limit = LIMITS[case.name].get(name)
        others = statistics.median(comparison.a["others"]) if name in _TIMED else 0.0
        judged = limit.judge(unit, a.median, ratio, others) if limit else ""
        compared = "" if name in ("checkpoints", "others") else f"{ratio:.2f}"
        cells = " | ".join(_shown(side, unit) for side in (a, b))
        yield f"| {title} | {text.format(unit=case.unit)} | {cells} | {compared} | {judged} |\n"
        title = ""


def _shown(summary: stats.Summary, unit: str) -> str:
    value = summary.median
    digits = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    spread = f" ±{summary.spread:.0%}" if unit else ""
    return f"{digits} {unit}".rstrip() + spread


def page(
    comparisons: Sequence[Comparison],
    commands: Sequence[servers.Command],
    rounds: int,
    starts: int,
    speed: disk.DiskSpeed,
) -> str:
    """Return the results page."""
    a, b = commands
    listed = "\n".join(
        f"- {name}: {value}" for name, value in report.facts(commands, speed).items()
    )
    table = "".join(row for comparison in comparisons for row in rows(comparison))
    return f"""# Restarts and memory of file streams

{listed}
- method: `python -m bench.recovery`; medians of {rounds} rounds in alternation, in each of which a
  store is filled, its server is killed and started {starts + 1} times, and started once after a
  clean stop; ± is half the distance between the extremes; how it is measured is in
  [README.md](README.md)

A start lasts from the creation of the process to the first answer to STREAM.INFO, which must count
every message. Load by other programs makes starts longer; their CPU time stays the same.

| case | metric | {a.name} | {b.name} | {a.name} / {b.name} | target |
|---|---|---:|---:|---:|---|
{table}"""


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the report and write it to the given file; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="bench.recovery", description=__doc__.partition("\n")[0])
    parser.add_argument("midge", nargs="?", default=beside("midge-server"))
    parser.add_argument("nats_server", nargs="?", default=beside("nats-server"))
    parser.add_argument("--rounds", type=int, default=2, help="rounds per server (default: 2)")
    parser.add_argument(
        "--starts", type=int, default=3, help="starts after the first, per round (default: 3)"
    )
    names = [case.name for case in CASES]
    usual = [name for name in names if name != LARGE]
    parser.add_argument("--only", nargs="+", default=usual, choices=names, metavar="CASE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the results page")
    options = parser.parse_args(words)
    servers.unwind_on_sigterm()
    a = servers.Command.parse(options.midge, "midge")
    b = servers.Command.parse(options.nats_server, "nats-server")
    speed = disk.measure()
    found = []
    for case in CASES:
        if case.name in options.only:
            found.append(compare(case, a, b, options.rounds, options.starts))
            print("".join(rows(found[-1])), end="", flush=True)
    if options.markdown:
        options.markdown.write_text(page(found, (a, b), options.rounds, options.starts, speed))
    return 1 if any(comparison.failure for comparison in found) else 0


if __name__ == "__main__":
    sys.exit(main())
