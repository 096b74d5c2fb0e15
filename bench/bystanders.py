"""How long messages of others wait while a stream works, side by side with nats-server.

    python -m bench.bystanders [MIDGE NATS_SERVER] [--seconds S] [--only CASE…] [--markdown FILE]

The probe is an open loop: 2,000 messages a second, sent at times that nothing changes.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import disk, report, servers, wire
from bench.jetstream.bystanders import CASES, Bystanders
from bench.load import beside
from bench.metrics import Measurement, ScenarioError

LIMITS_US = {"p999_us": 10_000.0, "max_us": 50_000.0}
"""Longest time that a message may wait in midge."""

KINDS = {"same": "on subjects that the stream takes", "other": "elsewhere"}
_RANKS = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9", "max_us": "longest"}

Result = Measurement | str
"""The figures of one server, or why there are none."""


def measure(case: Bystanders, command: servers.Command, seconds: float) -> Result:
    """Measure one case on a server of its own."""
    try:
        with servers.running(command, jetstream=True) as server:
            return case.run(server, seconds)
    except (ScenarioError, servers.StartError, wire.WireError, OSError) as error:
        return str(error) or type(error).__name__


def rows(case: Bystanders, a: Result, b: Result) -> Iterator[str]:
    """Write the rows of one case: work done, and the waits of both kinds of messages."""
    if isinstance(a, str) or isinstance(b, str):
        reason = "; ".join(side for side in (a, b) if isinstance(side, str))
        yield f"| {case.title} | failed | {reason} | | |\n"
        return
    yield f"| {case.title} | done | {a['done']:,.0f} | {b['done']:,.0f} | |\n"
    yield f"|  | cores of the server | {a['server_busy']:.2f} | {b['server_busy']:.2f} | |\n"
    others = f"| {a['others_busy']:.2f} | {b['others_busy']:.2f} "
    yield f"|  | cores of other programs {others}| |\n"
    for kind, where in KINDS.items():
        for name, rank in _RANKS.items():
            ours, theirs = a[f"{kind}_{name}"], b[f"{kind}_{name}"]
            judged = judge(ours, LIMITS_US.get(name), a["others_busy"])
            figures = f"{ours / 1e3:,.2f} ms | {theirs / 1e3:,.2f} ms"
            yield f"|  | {where}, {rank} | {figures} | {judged} |\n"


def judge(wait_us: float, limit_us: float | None, others: float) -> str:
    """Return the limit of a wait, and whether it is kept; `others` is other programs' load."""
    if limit_us is None:
        return ""
    wanted = f"≤ {limit_us / 1e3:g} ms"
    return report.judged(wanted, is_reached=wait_us <= limit_us, others=others)


def page(
    table: str, commands: Sequence[servers.Command], seconds: float, speed: disk.DiskSpeed
) -> str:
    """Return the results page."""
    a, b = commands
    listed = "\n".join(
        f"- {name}: {value}" for name, value in report.facts(commands, speed).items()
    )
    return f"""# Messages of others while a stream works

{listed}
- method: `python -m bench.bystanders`; {seconds:g} s of each case on a new server; how it is
  measured is in [README.md](README.md)

The waits are those of 2,000 messages a second that four connections publish and receive, a half of
them on subjects that the stream takes as well. "done" is how much the stream did meanwhile:
messages written, purges, expiries or snapshots of a million.

| the stream is | | {a.name} | {b.name} | wanted |
|---|---|---:|---:|---|
{table}"""


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the report and write it to the given file; return 1 if a case failed."""
    parser = argparse.ArgumentParser(
        prog="bench.bystanders", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("midge", nargs="?", default=beside("midge-server"))
    parser.add_argument("nats_server", nargs="?", default=beside("nats-server"))
    parser.add_argument("--seconds", type=float, default=30.0, help="per case (default: 30)")
    names = [case.name for case in CASES]
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="CASE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the results page")
    options = parser.parse_args(words)
    servers.unwind_on_sigterm()
    commands = [
        servers.Command.parse(options.midge, "midge"),
        servers.Command.parse(options.nats_server, "nats-server"),
    ]
    speed = disk.measure()
    table, failed = "", False
    for case in CASES:
        if case.name not in options.only:
            continue
        a, b = (measure(case, command, options.seconds) for command in commands)
        found = "".join(rows(case, a, b))
        failed = failed or isinstance(a, str) or isinstance(b, str)
        print(found, end="", flush=True)
        table += found
    if options.markdown:
        options.markdown.write_text(page(table, commands, options.seconds, speed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
