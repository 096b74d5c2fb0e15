"""Measure what recording costs: the same midge with `--record` and without, round by round.

    python bench/recorder.py [--rounds 5] [--seconds 2] [--payloads]

Prints CPU time per message, of the loop's thread (which bounds the rate when the writer has a core
of its own) and of the whole process. Payloads are left out of the record unless asked for.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # run as a script: the checkout is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import procfs, servers
from bench.scenarios import Scenario, select

SCENARIOS = ["one_16", "one_128", "publish_16", "wildcard_1k"]


@dataclass(frozen=True)
class LoopThread(servers.Server):
    """A server of which only the main thread's CPU time counts."""

    def cpu_s(self) -> float:
        """Return the CPU time of the thread that the event loop runs in."""
        line = (procfs.PROC / str(self.pid) / "task" / str(self.pid) / "stat").read_text()
        return procfs.parse_stat(line).cpu_ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run every scenario and print a line for each."""
    parser = argparse.ArgumentParser(description="Measure what recording costs.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--payloads", action="store_true", help="record payloads too")
    parser.add_argument("--only", nargs="+", default=SCENARIOS, metavar="SCENARIO")
    args = parser.parse_args()
    print(f"{'':<14}{'loop thread, ns/message':>34}{'whole process, ns/message':>34}")
    print(f"{'':<14}" + f"{'plain':>10}{'recording':>12}{'ratio':>12}" * 2)
    for scenario in select(args.only):
        cells = []
        for kind in (LoopThread, servers.Server):
            plain, recording = [], []
            for _ in range(args.rounds):
                plain.append(_measure(scenario, kind, args.seconds, None))
                with _config(args.payloads) as config:
                    recording.append(_measure(scenario, kind, args.seconds, config))
            before, after = statistics.median(plain), statistics.median(recording)
            cells.append(f"{before * 1e3:>10.1f}{after * 1e3:>12.1f}{after / before:>12.2f}")
        print(f"{scenario.name:<14}" + "".join(cells), flush=True)


def _measure(
    scenario: Scenario, kind: type[servers.Server], seconds: float, config: Path | None
) -> float:
    """Return the CPU time per message, in microseconds, of one round."""
    argv = (sys.executable, "-m", "midge.server", *(("-c", str(config)) if config else ()))
    with servers.running(servers.Command("midge", argv)) as server:
        return scenario.run(kind(server.name, server.pid, server.address), seconds)["cpu_us"]


@contextmanager
def _config(payloads: bool) -> Iterator[Path]:
    """Write the configuration of a server that records into a directory of its own."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "midge.toml"
        deny = "" if payloads else 'payload_deny = [">"]\n'
        config.write_text(f'[recorder]\ndirectory = "{folder}/records"\n{deny}')
        yield config


if __name__ == "__main__":
    main()
