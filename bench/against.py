"""Compare this checkout with another one, and say where it has become worse.

    python -m bench.against ../base --rounds 5
    python -m bench.against ../base --only services one_16 run_compiled --json out.json

The other folder is a built checkout of any version of midge. The servers alternate under the load
of `scenarios.py`. Scenarios without a socket, such as a subscriber within the server, alternate on
the modules of each build. Nothing may be worse by more than `--tolerance`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import report, servers
from bench.builds import Build, NoBuildError
from bench.compare import Comparison, Setup, compare, turns
from bench.internal import INTERNAL, Finding, Internal, findings
from bench.metrics import METRICS, ScenarioError
from bench.scenarios import SCENARIOS, Scenario, select

ROOT = Path(__file__).resolve().parent.parent

NOT_JUDGED = {"max_us", "p99_us", "p999_us"}
"""Scenarios that a single pause of the machine decides; shown, but never a failure."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if something is worse or has failed."""
    servers.unwind_on_sigterm()
    parser = _parser()
    args = parser.parse_args(argv)
    internal, scenarios = chosen(args.only)
    try:
        outside = select(scenarios) if scenarios else ()
        builds = Build.of(ROOT, "this"), Build.of(args.checkout, args.name or args.checkout.name)
    except (ValueError, NoBuildError) as error:
        parser.error(str(error))
    setup = Setup(*(build.server() for build in builds), args.rounds, args.seconds)
    print(f"{'':<28} {'':<12} {builds[0].name:>19}  {builds[1].name:>19}  {'ratio':>8}")
    done = []
    for scenario in (*internal, *outside):
        done.append(_compared(setup, builds, scenario))
        print("\n".join(report.lines(done[-1])), flush=True)
    judged = judge_internal(done)
    worse = [line for one in done for line in losses(one, args.tolerance)]
    print("\n".join(["", *judged, *(worse or ["Nothing is worse."])]))
    if args.json:
        args.json.write_text(report.to_json(setup, done) + "\n")
    return 1 if worse else 0


def chosen(names: Sequence[str]) -> tuple[list[Internal], list[str]]:
    """Return the in-process scenarios of those names, and the other names; all without a name."""
    known = {one.name: one for one in INTERNAL}
    if not names:
        return list(INTERNAL), [scenario.name for scenario in SCENARIOS]
    return [known[n] for n in names if n in known], [n for n in names if n not in known]


def _compared(
    setup: Setup, builds: tuple[Build, Build], scenario: Scenario | Internal
) -> Comparison:
    if not isinstance(scenario, Internal):
        return compare(setup, scenario)
    comparison = Comparison(scenario.name, scenario.title)
    try:
        for side in turns(setup.rounds):
            measured = scenario.run(builds[side], setup.seconds)
            (comparison.a if side == 0 else comparison.b).append(measured)
    except ScenarioError as error:
        comparison.failure = str(error)
    return comparison


def losses(comparison: Comparison, tolerance: float) -> list[str]:
    """Return a line for each figure by which this build is worse than the other."""
    if comparison.failure:
        return [f"{comparison.title}: failed"]
    found = []
    for name in comparison.metrics:
        metric = METRICS.get(name)
        if metric is None or not metric.compared or name in NOT_JUDGED:
            continue
        ratio = comparison.ratio(name)
        lost = 1 - ratio if metric.higher_is_better else ratio - 1
        if lost > tolerance:
            found.append(f"WORSE: {comparison.title}, {metric.title}: by {lost:.1%}")
    return found


def judge_internal(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the verdicts on the in-process figures, each beside its limit."""
    medians = {
        one.name: [side.median for side in one.summaries("cpu_us")]
        for one in comparisons
        if "cpu_us" in one.metrics
    }
    ours, theirs = ({name: both[side] for name, both in medians.items()} for side in (0, 1))
    return [_said(finding) for finding in findings(ours, theirs)]


def _said(finding: Finding) -> str:
    bound = "at least" if finding.at_least else "at most"
    kept = "kept" if finding.kept else "MISSED"
    return f"{finding.text}: {finding.value:.2f} ({bound} {finding.limit:g}: {kept})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.against", description="Compare this checkout with another one."
    )
    parser.add_argument("checkout", type=Path, help="a built checkout of midge")
    parser.add_argument("--name", default="", help="what to call it (default: its folder's name)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per build (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="per round (default: 2)")
    parser.add_argument("--only", nargs="+", default=[], metavar="SCENARIO", help="some of them")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="by how much a median may be worse (default: 0.05)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
