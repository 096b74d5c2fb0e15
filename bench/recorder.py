"""Measure what recording costs: the same midge with the recorder and without, round by round.

    python bench/recorder.py [--rounds 5] [--seconds 2] [--payloads] [--markdown]

Each scenario runs twice: flat out, where the recorder may drop rows as long as the rate stays, and
at a moderate pace, where it must write every message. The CPU time of the loop's thread is per
message; the CPU time of all other threads, mainly the writer's, is per written row. Payloads are
recorded only with `--payloads`. Ends with 1 if a target is missed.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

if __package__ in (None, ""):  # run as a script: the checkout is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import procfs, servers
from bench.flow import Flow
from bench.scenarios import select

SCENARIOS = ["one_16", "wildcard_1k"]
RATE_LOSS_MAX = 0.30
"""Largest loss of rate of `TARGET_SCENARIO` at full speed through recording without payloads."""
TARGET_SCENARIO = "one_16"
PACE = 500_000.0
PACED_CHUNK_BYTES = 32 * 1024
_STOPPED = re.compile(r"Recorder stopped: written=(\d+) dropped=(\d+) lost=(\d+)")
_COLUMNS = (
    "scenario",
    "rate without",
    "recording",
    "loss",
    "loop ns/msg",
    "recording",
    "writer ns/row",
    "rows written/s",
    "dropped",
)


@dataclass(frozen=True)
class LoopThread(servers.Server):
    """A server whose CPU time is only the main thread's."""

    def cpu_s(self) -> float:
        """Return the CPU time of the thread that the event loop runs in."""
        line = (procfs.PROC / str(self.pid) / "task" / str(self.pid) / "stat").read_text()
        return procfs.parse_stat(line).cpu_ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Round:
    """One run of a scenario on a fresh server."""

    rate: float
    loop_ns: float
    """CPU time of the loop's thread for one message."""
    others_busy: float
    """Cores that programs outside of the bench used meanwhile."""
    writer_s: float = 0.0
    """CPU time of all other threads, from the start of the server on."""
    written: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class Result:
    """A scenario with all its rounds, in pairs."""

    flow: Flow
    plain: Sequence[Round]
    recording: Sequence[Round]

    @property
    def rate_loss(self) -> float:
        """The share of the rate that recording costs: the median over pairs of rounds."""
        pairs = zip(self.plain, self.recording, strict=True)
        return 1 - statistics.median(after.rate / before.rate for before, after in pairs)

    @property
    def dropped(self) -> int:
        """How many rows were dropped in all rounds."""
        return sum(each.dropped for each in self.recording)

    @property
    def kept_share(self) -> float:
        """The share of all messages that was written."""
        written = sum(each.written for each in self.recording)
        return written / max(1, written + self.dropped)

    def cells(self) -> list[str]:
        """Return the figures in the order of `_COLUMNS`."""
        written = sum(each.written for each in self.recording)
        writer_ns = sum(each.writer_s for each in self.recording) / max(1, written) * 1e9
        rates = [statistics.median(each.rate for each in side) for side in self._sides]
        loops = [statistics.median(each.loop_ns for each in side) for side in self._sides]
        return [
            self.flow.title,
            f"{rates[0]:,.0f}/s",
            f"{rates[1]:,.0f}/s",
            f"{self.rate_loss:.0%}",
            f"{loops[0]:.0f}",
            f"{loops[1]:.0f}",
            f"{writer_ns:.0f}",
            f"{rates[1] * self.kept_share:,.0f}",
            f"{1 - self.kept_share:.1%}" if self.dropped else "none",
        ]

    @property
    def others_busy(self) -> float:
        """How many cores other programs used, in the worst round."""
        return max(each.others_busy for side in self._sides for each in side)

    @property
    def _sides(self) -> tuple[Sequence[Round], Sequence[Round]]:
        return self.plain, self.recording


def main() -> None:
    """Run every scenario and print a line for each, then the verdicts."""
    parser = argparse.ArgumentParser(description="Measure what recording costs.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--payloads", action="store_true", help="record payloads too")
    parser.add_argument("--only", nargs="+", default=SCENARIOS, metavar="SCENARIO")
    parser.add_argument("--markdown", action="store_true", help="print a table for the docs")
    args = parser.parse_args()
    servers.unwind_on_sigterm()
    flows = [flow for flow in select(args.only) if isinstance(flow, Flow)]
    flows += [at_a_pace(flow) for flow in flows]
    line = "| {} |" if args.markdown else "{}"
    bar = " | " if args.markdown else "  "
    print(line.format(bar.join(f"{name:>14}" for name in _COLUMNS)))
    if args.markdown:
        print("|" + " --- |" * len(_COLUMNS))
    results = []
    for flow in flows:
        results.append(_measure(flow, args.rounds, args.seconds, payloads=args.payloads))
        print(line.format(bar.join(f"{cell:>14}" for cell in results[-1].cells())), flush=True)
    others = max(result.others_busy for result in results)
    print(f"\nOther programs used {others:.1f} of {os.cpu_count()} cores in the worst round.")
    missed = [verdict for result in results for verdict in _verdicts(result)]
    sys.exit(1 if not all(missed) else 0)


def at_a_pace(flow: Flow) -> Flow:
    """Return the same flow at `PACE` messages a second."""
    title = f"{flow.title}, {PACE / 1e3:g}k/s"
    return replace(flow, title=title, rate_max=PACE, chunk_bytes=PACED_CHUNK_BYTES)


def _verdicts(result: Result) -> list[bool]:
    """Print how a result compares with its target, if it has one."""
    flow = result.flow
    if flow.rate_max:
        met = not result.dropped
        print(f"{flow.title}: {result.dropped:,} rows dropped, target none: {_word(met)}")
    elif flow.name == TARGET_SCENARIO:
        met = result.rate_loss <= RATE_LOSS_MAX
        print(
            f"{flow.title}: rate loss {result.rate_loss:.0%}, "
            f"target at most {RATE_LOSS_MAX:.0%}: {_word(met)}"
        )
    else:
        return []
    return [met]


def _word(met: bool) -> str:
    return "met" if met else "MISSED"


def _measure(flow: Flow, rounds: int, seconds: float, *, payloads: bool) -> Result:
    """Run a flow on a server without the recorder and on one with it, in turn."""
    plain, recording = [], []
    for _ in range(rounds):
        plain.append(_run(flow, seconds))
        with tempfile.TemporaryDirectory() as folder:
            recording.append(_run_recording(flow, seconds, Path(folder), payloads=payloads))
    return Result(flow, plain, recording)


def _run_recording(flow: Flow, seconds: float, folder: Path, *, payloads: bool) -> Round:
    config, log = folder / "midge.toml", folder / "midge.log"
    deny = "" if payloads else 'payload_deny = [">"]\n'
    config.write_text(f'[recorder]\ndirectory = "{folder}/records"\n{deny}')
    measured = _run(flow, seconds, "-c", str(config), "-l", str(log))
    found = _STOPPED.search(log.read_text())
    if found is None:
        raise SystemExit(f"the server did not say what it recorded:\n{log.read_text()[-2000:]}")
    written, dropped, lost = (int(number) for number in found.groups())
    return replace(measured, written=written, dropped=dropped + lost)


def _run(flow: Flow, seconds: float, *flags: str) -> Round:
    argv = (sys.executable, "-m", "midge.server", *flags)
    with servers.running(servers.Command("midge", argv)) as server:
        loop = LoopThread(server.name, server.pid, server.address)
        before_s = server.cpu_s() - loop.cpu_s()
        figures = flow.run(loop, seconds)
        writer_s = server.cpu_s() - loop.cpu_s() - before_s
    others_busy = max(0.0, figures["others_busy"] - writer_s / seconds)
    return Round(figures["rate"], figures["cpu_us"] * 1e3, others_busy, writer_s)


if __name__ == "__main__":
    main()
