"""Scale curves: how both servers hold up as payloads, subjects, connections … grow.

    python -m bench.curves [A_CMD B_CMD] [--only CURVE ...]

Every point is measured like a scenario of load.py, in alternation. Writes one SVG per curve and a
JSON file with all points beside RESULTS.md.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from bench import load, report, servers
from bench.compare import Comparison, Setup, compare
from bench.flow import CHUNK_BYTES, Flow

FOLDER = Path(__file__).resolve().parent / "curves"
COLOURS = ("#1565c0", "#ef6c00")


@dataclass(frozen=True)
class Curve:
    """A family of flows with one size that grows."""

    name: str
    title: str
    axis: str
    sizes: tuple[int, ...]
    flow: Callable[[int], Flow]


CURVES = (
    Curve(
        "payload",
        "One publisher, one subscriber",
        "payload, bytes",
        (0, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_000_000),
        lambda size: Flow(name="payload", title=f"payload {size}", payload_bytes=size),
    ),
    Curve(
        "fan_out",
        "One publisher, 16 B, many subscribers",
        "subscribers",
        (1, 2, 5, 10, 20, 50, 100, 200),
        lambda size: Flow(
            name="fan_out",
            title=f"fan-out {size}",
            subscribers=size,
            chunk_bytes=min(CHUNK_BYTES, 8 * 1024 * 1024 // size),
        ),
    ),
    Curve(
        "subjects",
        "One publisher through many subjects, 16 B, one wildcard subscriber",
        "distinct subjects",
        (1, 10, 100, 1000, 3000, 10_000, 50_000, 200_000),
        lambda size: Flow(name="subjects", title=f"{size} subjects", subjects=size, wildcard=True),
    ),
    Curve(
        "subscriptions",
        "One publisher through many literal subscriptions, 16 B",
        "subscriptions",
        (1, 10, 100, 1000, 10_000, 100_000, 300_000),
        lambda size: Flow(name="subscriptions", title=f"{size} subscriptions", subjects=size),
    ),
    Curve(
        "connections",
        "Pairs of publisher and subscriber, 16 B, each on a subject of its own",
        "connections",
        (2, 4, 8, 16, 32, 64, 128),
        lambda size: Flow(name="connections", title=f"{size} connections", groups=size // 2),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and draw; return 1 if something failed."""
    servers.unwind_on_sigterm()
    parser = argparse.ArgumentParser(description="Measure and draw the scale curves.")
    parser.add_argument("a_command", nargs="?", default=load.beside("midge-server"))
    parser.add_argument("b_command", nargs="?", default=load.beside("nats-server"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=[curve.name for curve in CURVES])
    args = parser.parse_args(argv)
    a = servers.Command("midge", servers.Command.parse(args.a_command).argv)
    b = servers.Command("nats-server", servers.Command.parse(args.b_command).argv)
    setup = Setup(a, b, args.rounds, args.seconds)
    FOLDER.mkdir(exist_ok=True)
    failures = [
        failure
        for curve in CURVES
        if not args.only or curve.name in args.only
        for failure in measure_and_draw(curve, setup)
    ]
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0


def measure_and_draw(curve: Curve, setup: Setup) -> list[str]:
    """Write `<name>.svg` and `<name>.json` of one curve; return the failures."""
    points: dict[int, Comparison] = {}
    failures = []
    for size in curve.sizes:
        comparison = compare(setup, curve.flow(size))
        print("\n".join(report.lines(comparison)), flush=True)
        if comparison.failure:
            failures.append(f"{comparison.title}: {comparison.failure}")
        else:
            points[size] = comparison
    if points:
        draw(curve, setup, points)
        document = report.to_json(setup, points.values())
        (FOLDER / f"{curve.name}.json").write_text(f"{document}\n")
    return failures


def draw(curve: Curve, setup: Setup, points: dict[int, Comparison]) -> None:
    """Draw rate and server CPU per message over the size, both servers in each picture."""
    mpl.rcParams["svg.hashsalt"] = curve.name  # so that the same points make the same file
    figure, (rate, cpu) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axes, metric, label in (
        (rate, "rate", "messages delivered per second"),
        (cpu, "cpu_us", "server CPU per message, µs"),
    ):
        for side, (name, colour) in enumerate(
            zip((setup.a.name, setup.b.name), COLOURS, strict=True)
        ):
            summaries = [point.summaries(metric)[side] for point in points.values()]
            medians = [summary.median for summary in summaries]
            low = [min(summary.rounds) for summary in summaries]
            high = [max(summary.rounds) for summary in summaries]
            axes.plot(list(points), medians, marker="o", color=colour, label=name)
            axes.fill_between(list(points), low, high, color=colour, alpha=0.15, linewidth=0)
        if min(points) > 0:
            axes.set_xscale("log")
        else:  # zero has no logarithm: linear up to the first size above it
            axes.set_xscale("symlog", linthresh=min(size for size in points if size > 0))
        axes.set_yscale("log")
        axes.set_xlabel(curve.axis)
        axes.set_ylabel(label)
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend()
    figure.suptitle(curve.title)
    figure.savefig(FOLDER / f"{curve.name}.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
