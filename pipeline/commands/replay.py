"""Replay recorded messages to a NATS server, at their own pace, faster or flat out."""

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from midge.client.commands.argument_types import positive_int
from midge.client.commands.connect_arguments import add_connect_arguments, connect_options
from midge.client.errors import OptionError
from midge.pipeline.commands.terminal import bars, counted, errors_reported, say, warn
from midge.pipeline.subject_rewriting import Rewrite

if TYPE_CHECKING:
    from midge.pipeline.replay.replay import Replayed, ReplayOptions

FLAT_OUT = "max"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("records", type=Path, metavar="DIR", help="directory of a recording")
    parser.add_argument(
        "--speed",
        default="1",
        metavar="N|max",
        help="1 is the original pace (default), 10 ten times as fast, max flat out",
    )
    parser.add_argument(
        "--subject",
        action="append",
        default=[],
        metavar="PATTERN",
        help="replay only these; may be repeated (default: all)",
    )
    parser.add_argument(
        "--account",
        action="append",
        default=[],
        metavar="NAME",
        help="replay only these; may be repeated (default: all)",
    )
    parser.add_argument("--since", metavar="TIME", help="from here on, as 2026-03-02T08:50:00Z")
    parser.add_argument("--until", metavar="TIME", help="before this time")
    parser.add_argument(
        "--rewrite",
        action="append",
        default=[],
        metavar="FROM:TO",
        help="publish under another subject, such as 'orders.*.new:test.$1'; may be repeated, the "
        "first that matches counts",
    )
    parser.add_argument("--no-reply", action="store_true", help="leave the reply subjects out")
    add_connect_arguments(parser)
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--spark", action="store_true", help="replay from Spark tasks")
    spark.add_argument(
        "--master", default="local[*]", metavar="URL", help="Spark master (default: local[*])"
    )
    spark.add_argument(
        "--connections",
        type=positive_int,
        metavar="N",
        help="how many tasks (default: a task a core)",
    )


def run(args: argparse.Namespace) -> int:
    """Replay; return the exit code."""
    from midge.pipeline.records.files import require_records

    codes: list[int] = []
    with errors_reported("midge replay", codes):
        require_records(args.records)
        options = options_of(args)
        begun_s = time.monotonic()
        done = _from_spark(args, options) if args.spark else _from_here(args, options)
        _show_result(done, time.monotonic() - begun_s)
    return codes[0] if codes else 0


def options_of(args: argparse.Namespace) -> "ReplayOptions":
    """Return the options from the arguments.

    Raises:
        OptionError: an option is invalid.
    """
    from midge.pipeline.replay.replay import ReplayOptions

    connect = connect_options(args)
    return ReplayOptions(
        connect,
        tuple(args.subject),
        tuple(args.account),
        _time("since", args.since),
        _time("until", args.until),
        tuple(Rewrite.parse(text) for text in args.rewrite),
        _speed(args.speed),
        keep_reply=not args.no_reply,
    )


def _from_here(args: argparse.Namespace, options: "ReplayOptions") -> "Replayed":
    from midge.pipeline.records.files import read_counts
    from midge.pipeline.records.format import MESSAGES
    from midge.pipeline.replay.replay import replay

    total = read_counts(args.records, MESSAGES)
    with bars() as show:

        def progress(done: "Replayed") -> None:
            show.update("messages", done.messages + done.skipped, total)

        return replay(args.records, options, progress)


def _from_spark(args: argparse.Namespace, options: "ReplayOptions") -> "Replayed":
    from midge.pipeline.commands.lake_commands import session
    from midge.pipeline.lake.settings import PipelineSettings
    from midge.pipeline.replay.on_spark import replay_from_spark

    with bars() as show, session(PipelineSettings(master=args.master), show) as spark:
        return replay_from_spark(spark, str(args.records), options, args.connections)


def _show_result(done: "Replayed", took_s: float) -> None:
    rate = done.messages / max(took_s, 1e-9)
    say(
        f"{counted(done.messages, 'message')} in {took_s:.1f} s ({rate:,.0f}/s), "
        f"{done.skipped:,} left out by the filters"
    )
    if done.padded:
        was = "message was" if done.padded == 1 else "messages were"
        warn(f"{done.padded:,} {was} recorded without payload and sent with zero bytes")
    for bad in done.bad_segments:
        warn(f"passed over {bad.path}: {bad.reason}")


def _speed(text: str) -> float | None:
    if text == FLAT_OUT:
        return None
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"speed: expected a number or {FLAT_OUT}, got {text!r}") from None


def _time(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time_ = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"{name}: expected a time such as 2026-03-02T08:50:00Z, got {text!r}"
        ) from None
    return time_ if time_.tzinfo else time_.replace(tzinfo=UTC)
