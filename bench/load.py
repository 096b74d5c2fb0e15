"""Drive two NATS servers side by side and print how they compare.

    python bench/load.py "midge-server" "nats-server" --only one_16 fanout_10

Each command is started on a free loopback port with `-a 127.0.0.1 -p PORT` added. README.md in this
folder describes the method and its limits.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):  # run as a script: the checkout is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import disk, pure, report, servers
from bench.compare import Setup, compare
from bench.scenarios import SCENARIOS, Scenario, select


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the requested files; return 1 if a scenario failed."""
    servers.unwind_on_sigterm()
    parser = _parser()
    args = parser.parse_args(argv)
    if args.list:
        print("\n".join(f"{scenario.name:<20} {scenario.title}" for scenario in SCENARIOS))
        return 0
    try:
        scenarios = select(args.only)
        a, b = (servers.Command.parse(text) for text in (args.a_command, args.b_command))
    except (ValueError, servers.StartError) as error:
        parser.error(str(error))
    if args.pure:
        a = servers.Command("midge, interpreted", pure.server_argv())
    a = servers.Command(args.a_name or a.name, a.argv)
    b = servers.Command(args.b_name or b.name, b.argv)
    is_stored = any(getattr(scenario, "jetstream", False) for scenario in scenarios)
    setup = Setup(
        a,
        b,
        args.rounds,
        args.seconds,
        tls=args.tls,
        quiet_cores=args.quiet,
        disk=disk.measure() if is_stored else None,
    )
    return _run(setup, scenarios, args)


def _run(setup: Setup, scenarios: Sequence[Scenario], args: argparse.Namespace) -> int:
    print(f"{'':<28} {'':<12} {setup.a.name:>19}  {setup.b.name:>19}  {'A / B':>8}")
    comparisons = []
    for scenario in scenarios:
        try:
            comparisons.append(compare(setup, scenario))
        except servers.StartError as error:
            print(error, file=sys.stderr)
            return 1
        print("\n".join(report.lines(comparisons[-1])), flush=True)
    if args.json:
        args.json.write_text(report.to_json(setup, comparisons) + "\n")
    if args.markdown:
        args.markdown.write_text(report.to_markdown(setup, comparisons))
    return 1 if any(comparison.failure for comparison in comparisons) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Drive two NATS servers side by side.")
    parser.add_argument("a_command", nargs="?", default=beside("midge-server"), metavar="A_CMD")
    parser.add_argument("b_command", nargs="?", default=beside("nats-server"), metavar="B_CMD")
    parser.add_argument("--a-name", default="", help="what to call A in the report")
    parser.add_argument("--b-name", default="", help="what to call B in the report")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per server (default: 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="per round (default: 2)")
    parser.add_argument("--only", nargs="+", default=[], metavar="SCENARIO", help="see --list")
    parser.add_argument("--list", action="store_true", help="print the scenarios and exit")
    parser.add_argument("--pure", action="store_true", help="A is this midge, interpreted")
    parser.add_argument("--tls", action="store_true", help="run everything over TLS")
    parser.add_argument(
        "--quiet",
        type=float,
        metavar="CORES",
        help="on a shared machine: repeat a round in which other programs used more CPU",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the results page")
    return parser


def beside(program: str) -> str:
    """Return the program that pip installed beside this Python, or else the one on the path."""
    beside = Path(sys.executable).parent / program
    return str(beside) if beside.exists() else program


if __name__ == "__main__":
    sys.exit(main())
