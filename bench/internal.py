"""Publishing with a subscriber within the server, or on a `$JS.` subject, measured in process.

A connection's protocol gets prebuilt bytes in the way in which the loop passes bytes that it has
read; there is no socket and no other process to measure. `internal_run.py`, which runs on any build
of midge, does the work.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.builds import Build
from bench.metrics import Measurement, ScenarioError

PROGRAM = Path(__file__).with_name("internal_run.py")
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Internal:
    """One kind of subscriber on one kind of lines."""

    name: str
    title: str
    subscriber: str
    """`nobody`, `compiled`, `python`, or `client`: a client in another process, over a socket."""
    lines: str
    """`equal`, `unequal` or `js`: equal ones on a `$JS.` subject."""

    def run(self, build: Build, seconds: float) -> Measurement:
        """Publish for `seconds` on a build; return messages a second of CPU time, and CPU each.

        Raises:
            ScenarioError: the program failed, or the subscriber has missed a message.
        """
        argv = [build.python, "-P", str(PROGRAM), self.subscriber, self.lines, f"{seconds:g}"]
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=build.environment,
            cwd=build.folder,
            check=False,
        )
        if done.returncode:
            raise ScenarioError(f"{build.name}: {done.stderr.strip()[-500:]}")
        figures: Measurement = json.loads(done.stdout)
        return figures


INTERNAL = (
    Internal("run_nobody", "equal lines, nobody", "nobody", "equal"),
    Internal("run_js", "equal lines on $JS.", "nobody", "js"),
    Internal("run_compiled", "equal lines, compiled", "compiled", "equal"),
    Internal("run_python", "equal lines, Python", "python", "equal"),
    Internal("lines_nobody", "unequal lines, nobody", "nobody", "unequal"),
    Internal("lines_client", "unequal lines, a client", "client", "unequal"),
    Internal("lines_compiled", "unequal lines, compiled", "compiled", "unequal"),
    Internal("lines_python", "unequal lines, Python", "python", "unequal"),
)


@dataclass(frozen=True)
class Finding:
    """The summary of the figures of both builds."""

    text: str
    value: float
    limit: float
    at_least: bool

    @property
    def kept(self) -> bool:
        """Return whether the limit is kept."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def findings(ours: Mapping[str, float], theirs: Mapping[str, float]) -> list[Finding]:
    """Judge CPU microseconds a message by scenario name, of this build and of the baseline.

    Scenarios that are not in `ours` are not judged.
    """
    rows = (
        ("compiled keeps of the rate on equal lines", _kept, "run_nobody", "run_compiled", 0.7),
        ("a `$JS.` subject keeps of the rate", _kept, "run_nobody", "run_js", 0.9),
        ("compiled costs ns on unequal lines", _cost_ns, "lines_nobody", "lines_compiled", 100.0),
    )
    found = [
        Finding(text, judge(ours[without], ours[with_]), limit, judge is _kept)
        for text, judge, without, with_, limit in rows
        if without in ours and with_ in ours
    ]
    if "run_python" in ours and "run_python" in theirs:
        gain = theirs["run_python"] / ours["run_python"]
        found.append(Finding("Python is so many times as fast as before", gain, 10.0, True))
    return found


def _kept(without_us: float, with_us: float) -> float:
    return without_us / with_us


def _cost_ns(without_us: float, with_us: float) -> float:
    return (with_us - without_us) * 1e3
