"""Run scenarios on two servers in alternation and keep every round."""

import ssl
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import linked, servers, stats, wire
from bench.disk import DiskSpeed
from bench.metrics import Measurement, ScenarioError
from bench.scenarios import Scenario

QUIET_ATTEMPTS = 6

ROUNDS_A_START = 2
"""Rounds that a pair of servers runs before a new pair is started."""


@dataclass(frozen=True)
class Setup:
    """The two contestants and how they are measured."""

    a: servers.Command
    b: servers.Command
    rounds: int = 3
    seconds: float = 2.0
    flags: tuple[str, ...] = ()
    """Further flags for both servers."""
    tls: bool = False
    """Run everything over TLS, not only the scenarios that are about it."""
    quiet_cores: float | None = None
    """Repeat a round while programs outside of the bench use more CPU than this."""
    disk: DiskSpeed | None = None
    """The speed of the disk, for scenarios that store anything."""


@dataclass
class Comparison:
    """All rounds of one scenario on both servers, or the reason why it was not run."""

    name: str
    title: str
    a: list[Measurement] = field(default_factory=list)
    b: list[Measurement] = field(default_factory=list)
    failure: str = ""

    @property
    def metrics(self) -> list[str]:
        """Return the names of the metrics that both servers have."""
        return [name for name in self.a[0] if name in self.b[0]] if self.a and self.b else []

    def summaries(self, metric: str) -> tuple[stats.Summary, stats.Summary]:
        """Return the rounds of one metric on A and on B."""
        a, b = (tuple(round_[metric] for round_ in side) for side in (self.a, self.b))
        return stats.Summary(a), stats.Summary(b)

    def ratio(self, metric: str) -> float:
        """Return the median on A over the median on B."""
        a, b = self.summaries(metric)
        return stats.ratio(a.median, b.median)


def compare(setup: Setup, scenario: Scenario) -> Comparison:
    """Measure one scenario on both servers; a failure is part of the result."""
    comparison = Comparison(scenario.name, scenario.title)
    rounds = _rounds_on_fresh_servers if scenario.fresh_server else _rounds_side_by_side
    try:
        for side, measurement in rounds(setup, scenario):
            (comparison.a if side == 0 else comparison.b).append(measurement)
    except (ScenarioError, wire.WireError, OSError) as error:
        comparison.failure = f"{type(error).__name__}: {error}"
    return comparison


def _rounds_side_by_side(setup: Setup, scenario: Scenario) -> Iterator[tuple[int, Measurement]]:
    # The server that is not measured is idle, and its cost is not measurable. Two processes of one
    # build differ by up to 5 %, with the order in which they started and the addresses they got,
    # so every other round has new ones, started in the other order.
    with prepared(setup, scenario) as (flags, tls):
        for first in range(0, setup.rounds, ROUNDS_A_START):
            with ExitStack() as stack:
                contestants = {
                    side: stack.enter_context(
                        _running((setup.a, setup.b)[side], scenario, flags, tls)
                    )
                    for side in start_order(first)
                }
                for side in turns(min(ROUNDS_A_START, setup.rounds - first)):
                    yield side, _quiet_run(setup, scenario, contestants[side])


def _rounds_on_fresh_servers(setup: Setup, scenario: Scenario) -> Iterator[tuple[int, Measurement]]:
    with prepared(setup, scenario) as (flags, tls):
        for side in turns(setup.rounds):
            command = (setup.a, setup.b)[side]
            with _running(command, scenario, flags, tls) as server:
                yield side, _quiet_run(setup, scenario, server)


def _running(
    command: servers.Command,
    scenario: Scenario,
    flags: tuple[str, ...],
    tls: ssl.SSLContext | None,
) -> AbstractContextManager[servers.Server]:
    """Run the servers of a scenario: one server, or two linked ones."""
    side = getattr(scenario, "linked", "")
    if side:
        return linked.running(command, side)
    return servers.running(command, flags, tls, **_server_options(scenario))


def _server_options(scenario: Scenario) -> dict[str, bool]:
    """Return the options that a scenario needs for its servers, beyond the configuration."""
    return {name: getattr(scenario, name, False) for name in ("monitored", "jetstream")}


@contextmanager
def prepared(
    setup: Setup, scenario: Scenario
) -> Iterator[tuple[tuple[str, ...], ssl.SSLContext | None]]:
    """Yield the flags for both servers, with the files they name, and the clients' TLS context."""
    flags, tls = setup.flags, None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if text := getattr(scenario, "configuration", ""):
            file = folder / "scenario.conf"
            file.write_text(text)
            flags = (*flags, "-c", str(file))
        if setup.tls or getattr(scenario, "tls", False):
            certificate, key = servers.make_certificate(folder)
            flags = (*flags, "--tls", "--tlscert", str(certificate), "--tlskey", str(key))
            tls = ssl.create_default_context(cafile=certificate)
        yield flags, tls


def _quiet_run(setup: Setup, scenario: Scenario, server: servers.Server) -> Measurement:
    """Repeat a round until it is quiet enough; return the quietest of a few otherwise."""
    attempts = []
    for _ in range(1 if scenario.fresh_server else QUIET_ATTEMPTS):
        attempts.append(scenario.run(server, setup.seconds))
        if setup.quiet_cores is None or attempts[-1]["others_busy"] <= setup.quiet_cores:
            break
    return min(attempts, key=lambda measurement: measurement.get("others_busy", 0.0))


def turns(rounds: int) -> Iterator[int]:
    """Yield 0 for A and 1 for B: A B, B A, A B …, so that drift of the machine hits both."""
    for number in range(rounds):
        yield from (0, 1) if number % 2 == 0 else (1, 0)


def start_order(first: int) -> tuple[int, int]:
    """Return which of the two starts first in the pair whose first round has this number."""
    return (0, 1) if first // ROUNDS_A_START % 2 == 0 else (1, 0)
