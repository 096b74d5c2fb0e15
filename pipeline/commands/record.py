"""Record the traffic of any NATS server by listening to it; needs no Spark.

A midge server records more by itself, interest and deliveries included: midge serve --record DIR.
"""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from midge.client.commands.argument_types import positive_number
from midge.client.commands.connect_arguments import add_connect_arguments, connect_options
from midge.pipeline.commands.terminal import bars, counted, errors_reported, say, stop_signals

if TYPE_CHECKING:
    from midge.pipeline.replay.listen import TapOptions, Tapped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "records", type=Path, metavar="DIR", help="directory of the recording; made if need be"
    )
    add_connect_arguments(parser)
    parser.add_argument(
        "--subject",
        action="append",
        metavar="PATTERN",
        help="record only these; may be repeated, but they must not overlap (default: >)",
    )
    parser.add_argument("--no-payload", action="store_true", help="leave the payloads out")
    parser.add_argument(
        "--for",
        dest="for_s",
        type=positive_number,
        metavar="SECONDS",
        help="end then (default: Ctrl-C ends it)",
    )


def run(args: argparse.Namespace) -> int:
    """Record until interrupted; return the exit code."""
    from midge.pipeline.replay.listen import TapOptions

    codes: list[int] = []
    with errors_reported("midge record", codes):
        options = TapOptions(
            connect_options(args),
            tuple(args.subject or (">",)),
            keeps_payload=not args.no_payload,
        )
        done = _record(args, options)
        messages, segments = counted(done.messages, "message"), counted(done.segments, "segment")
        say(f"{messages} in {segments}: {args.records}")
    return codes[0] if codes else 0


def _record(args: argparse.Namespace, options: "TapOptions") -> "Tapped":
    from midge.pipeline.replay.listen import tap

    with bars() as show, stop_signals() as stop_asked:
        begun_s = time.monotonic()

        def is_over() -> bool:
            spent_s = time.monotonic() - begun_s
            return stop_asked() or (args.for_s is not None and spent_s >= args.for_s)

        def progress(done: "Tapped") -> None:
            show.update("messages", done.messages)

        return tap(args.records, options, is_over, progress)
