"""Count the instructions that a server executes for each message, under valgrind.

    python -m bench.instructions ../base --only services one_16

On a shared machine, times vary by a fifth and these counts by one or two hundredths. A run that
counts few messages shows the cost of its connections as well, 460,000 instructions each. The
kernel's instructions and waits for memory are not counted. The other folder is a built checkout of
any version of midge. Each scenario with one server runs once on each build, and the server's own
counters say how many messages it took or sent.
"""

import argparse
import functools
import json
import re
import ssl
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import servers
from bench.against import ROOT, Build, NoBuildError
from bench.compare import Setup, prepared
from bench.metrics import ScenarioError
from bench.scenarios import Scenario, select
from bench.wire import WireError

PATIENCE_S = 180.0
"""How long a start may take: valgrind runs a server at a fiftieth of its speed."""

_TOTAL = re.compile(r"^(?:summary|totals): (\d+)$", re.MULTILINE)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts of both builds; return 1 if this one takes more, or a scenario fails."""
    servers.unwind_on_sigterm()
    parser = argparse.ArgumentParser(
        prog="python -m bench.instructions", description="Compare this checkout with another one."
    )
    parser.add_argument("checkout", type=Path, help="a built checkout of midge")
    parser.add_argument("--only", nargs="+", required=True, metavar="SCENARIO")
    parser.add_argument("--seconds", type=float, default=8.0, help="per scenario (default: 8)")
    parser.add_argument("--tolerance", type=float, default=0.02, metavar="SHARE")
    args = parser.parse_args(argv)
    try:
        scenarios = select(args.only)
        builds = Build.of(ROOT, "this"), Build.of(args.checkout, args.checkout.name)
    except (ValueError, NoBuildError) as error:
        parser.error(str(error))
    print(f"{'':<28} {builds[0].name:>12} {builds[1].name:>12}  ratio")
    has_lost = False
    for scenario in scenarios:
        try:
            this, other = (per_message(build.server(), scenario, args.seconds) for build in builds)
        except (ScenarioError, WireError, OSError, servers.StartError) as error:
            print(f"{scenario.title:<28} FAILED: {error}", flush=True)
            has_lost = True
            continue
        print(
            f"{scenario.title:<28} {this:>12,.0f} {other:>12,.0f}  {this / other:.3f}", flush=True
        )
        has_lost |= this > other * (1 + args.tolerance)
    return 1 if has_lost else 0


def per_message(command: servers.Command, scenario: Scenario, seconds: float) -> float:
    """Return the instructions for each message, without the start's and the stop's."""
    jetstream = getattr(scenario, "jetstream", False)
    with prepared(Setup(command, command), scenario) as (flags, tls):
        instructions, messages = _count(
            command, jetstream, lambda server: scenario.run(server, seconds), flags, tls
        )
    return (instructions - _idle(command, jetstream)) / messages


@functools.cache
def _idle(command: servers.Command, jetstream: bool) -> int:
    """Return the instructions of a start and a stop."""
    return _count(command, jetstream, lambda _: None)[0]


def _count(
    command: servers.Command,
    jetstream: bool,
    use: Callable[[servers.Server], object],
    flags: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
) -> tuple[int, int]:
    """Use a server under valgrind; return its instructions, and the messages that it counted."""
    with tempfile.NamedTemporaryFile() as report:
        valgrind = ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={report.name}")
        argv = (*command.argv[:2], *valgrind, *command.argv[2:])  # behind `env PYTHONPATH=…`
        under = servers.Command(command.name, argv, PATIENCE_S)
        with servers.running(under, flags, tls, monitored=True, jetstream=jetstream) as server:
            use(server)
            page = f"http://127.0.0.1:{server.monitoring_port}/varz"
            with urllib.request.urlopen(page) as answer:
                varz = json.load(answer)
        return total(Path(report.name).read_text()), max(varz["in_msgs"], varz["out_msgs"])


def total(report: str) -> int:
    """Return all instructions in a report of callgrind.

    Raises:
        ScenarioError: the report has no total, because the server was killed.
    """
    if (found := _TOTAL.search(report)) is None:
        raise ScenarioError("valgrind has written no total: the server did not stop by itself")
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
