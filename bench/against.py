"""Compare this checkout with another one, and say where it has become worse.

    python -m bench.against ../base --rounds 5
    python -m bench.against ../base --only services one_16 --json out.json

The other folder is a built checkout of any version of midge. The servers alternate under the load
of `scenarios.py`. Nothing may be worse by more than `--tolerance`.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report, servers
from bench.compare import Comparison, Setup, compare
from bench.metrics import METRICS
from bench.scenarios import SCENARIOS, select

ROOT = Path(__file__).resolve().parent.parent

NOT_JUDGED = {"max_us", "p99_us", "p999_us"}
"""Scenarios that a single pause of the machine decides; shown, but never a failure."""


class NoBuildError(Exception):
    """A folder is not a checkout of midge, or not compiled."""


@dataclass(frozen=True)
class Build:
    """A checkout whose extension modules are built in place."""

    name: str
    folder: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> "Build":
        """Return the build of a checkout.

        Raises:
            NoBuildError: it is not a checkout, or not compiled.
        """
        if not (folder / "midge" / "__init__.py").exists():
            raise NoBuildError(f"{folder}: expected a checkout of midge")
        if not list((folder / "protocol").glob("parser.*.so")):
            raise NoBuildError(f"{folder}: not compiled, run `make build` there")
        return cls(name, folder.resolve())

    def server(self) -> servers.Command:
        """Return the command that starts its server, with its own Python if it has one."""
        own = self.folder / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        # -P: the folder in which the bench runs also holds a midge.
        argv = ("env", f"PYTHONPATH={self.folder}", python, "-P", "-m", "midge.server")
        return servers.Command(self.name, argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if something is worse or has failed."""
    servers.unwind_on_sigterm()
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        scenarios = select(args.only) if args.only else SCENARIOS
        builds = Build.of(ROOT, "this"), Build.of(args.checkout, args.name or args.checkout.name)
    except (ValueError, NoBuildError) as error:
        parser.error(str(error))
    setup = Setup(*(build.server() for build in builds), args.rounds, args.seconds)
    print(f"{'':<28} {'':<12} {builds[0].name:>19}  {builds[1].name:>19}  {'ratio':>8}")
    done = []
    for scenario in scenarios:
        done.append(compare(setup, scenario))
        print("\n".join(report.lines(done[-1])), flush=True)
    worse = [line for one in done for line in losses(one, args.tolerance)]
    print("\n".join(["", *(worse or ["Nothing is worse."])]))
    if args.json:
        args.json.write_text(report.to_json(setup, done) + "\n")
    return 1 if worse else 0


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
