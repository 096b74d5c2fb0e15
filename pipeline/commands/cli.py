"""Land what a server recorded in a lake, analyse it, plan with it, and report on it."""

import argparse
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from midge.client.commands.argument_types import key_and_value, positive_int, positive_number
from midge.pipeline.commands import demo
from midge.pipeline.commands import lake_commands as commands
from midge.pipeline.commands.terminal import errors_reported, termination_reported
from midge.pipeline.lake.settings import Days, Period
from midge.pipeline.matching.strategies import STRATEGIES

_Command = Callable[[argparse.Namespace], None]

_RUN = "Take all new segments through bronze and silver, then rebuild the gold tables."
_STREAM = (
    "Follow the records as they are written, until Ctrl-C; the gold tables are kept up to date."
)
_MATCH = "Match messages with patterns: print the counts, or write all pairs with --output."
_PLAN = "Route the recorded traffic with a change made, and compare it with what was recorded."
_REPORT = "Write one HTML file with plots of all gold tables; needs no Spark."
_DEMO = "Start a server, let a fleet work on it, record it, run every layer and write the report."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_run(actions)
    _add_stream(actions)
    _add_match(actions)
    _add_plan(actions)
    _add_report(actions)
    _add_demo(actions)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    codes: list[int] = []
    with errors_reported(f"midge pipeline {args.action}", codes), termination_reported():
        command: _Command = args.command
        command(args)
    return codes[0] if codes else 0


if TYPE_CHECKING:
    _Actions = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - its type


def _add_run(actions: "_Actions") -> None:
    parser = _add(actions, "run", commands.run_job, _RUN)
    _add_records(parser)
    _add_lake(parser)
    parser.add_argument(
        "--rebuild",
        nargs="?",
        const=True,
        default=False,
        type=_days,
        metavar="DAY[/DAY]",
        help="make the lake over from the records, or derive silver of some days again",
    )
    _add_spark(parser)


def _days(text: str) -> Days:
    """Return the days of `2026-03-02` or `2026-03-02/2026-03-05`."""
    first, _, last = text.partition("/")
    try:
        return Days(date.fromisoformat(first), date.fromisoformat(last or first))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected YYYY-MM-DD or YYYY-MM-DD/YYYY-MM-DD, got {text!r}"
        ) from None


def _times(text: str) -> Period:
    """Return the range of `2026-03-02T08:00/2026-03-02T09:30`; a time without a zone is in UTC."""
    try:
        first, end = (datetime.fromisoformat(each) for each in text.split("/"))
        return Period(*(each if each.tzinfo else each.replace(tzinfo=UTC) for each in (first, end)))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected two ISO 8601 times with a slash between them, got {text!r}"
        ) from None


def _add_stream(actions: "_Actions") -> None:
    parser = _add(actions, "stream", commands.stream, _STREAM)
    _add_records(parser)
    _add_lake(parser)
    _add_rebuild(parser)
    _add_spark(parser)
    parser.add_argument(
        "--for", dest="for_s", type=positive_number, metavar="SECONDS", help="end after so long"
    )


def _add_match(actions: "_Actions") -> None:
    parser = _add(actions, "match", commands.match_subjects, _MATCH)
    parser.add_argument(
        "--messages",
        metavar="PATH",
        help="Parquet with a column `subject` (default: the lake's messages)",
    )
    parser.add_argument(
        "--patterns",
        type=Path,
        metavar="FILE",
        help="a pattern a line, or Parquet with a column `pattern` (default: the subscriptions)",
    )
    parser.add_argument(
        "--strategy", choices=STRATEGIES, help="how to match (default: auto, by size)"
    )
    parser.add_argument("--output", metavar="PATH", help="write all pairs there as Parquet")
    parser.add_argument(
        "--limit", type=positive_int, default=20, metavar="N", help="rows to print (default: 20)"
    )
    _add_lake(parser)
    _add_spark(parser)


def _add_plan(actions: "_Actions") -> None:
    parser = _add(actions, "plan", commands.what_if, _PLAN)
    parser.add_argument(
        "change", type=Path, metavar="CHANGE.toml", help="the change; docs/pipeline.md shows one"
    )
    parser.add_argument(
        "--servers", type=positive_int, metavar="N", help="servers, whatever the file says"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    _add_lake(parser)
    _add_spark(parser)


def _add_report(actions: "_Actions") -> None:
    parser = _add(actions, "report", commands.write_html, _REPORT)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="where to write it (default: report.html)",
    )
    parser.add_argument(
        "--title",
        default="midge traffic report",
        metavar="TEXT",
        help="its heading (default: midge traffic report)",
    )
    parser.add_argument(
        "--csv", type=Path, metavar="DIR", help="write each gold table there too, as CSV"
    )
    parser.add_argument(
        "--compare", metavar="LAKE", help="show the figures of another recording's lake as well"
    )
    parser.add_argument(
        "--times",
        type=_times,
        metavar="TIME/TIME",
        help="report on this range of time alone, which needs Spark",
    )
    _add_lake(parser)
    _add_spark(parser)


def _add_demo(actions: "_Actions") -> None:
    parser = _add(actions, "demo", demo.run_demo, _DEMO)
    demo.add_arguments(parser)
    _add_config(parser)
    _add_spark(parser)


def _add(
    actions: "_Actions", name: str, command: _Command, summary: str
) -> argparse.ArgumentParser:
    listed = summary[0].lower() + summary[1:].rstrip(".")
    parser = actions.add_parser(name, help=listed, description=summary)
    parser.set_defaults(command=command)
    return parser


def _add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--records",
        dest="records_directory",
        metavar="DIR",
        help="where a server recorded (default: records)",
    )


def _add_lake(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument(
        "--lake",
        dest="lake_directory",
        metavar="DIR",
        help="directory or URI of the tables (default: lake)",
    )


def _add_rebuild(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="make the lake over from the records: after other settings, or another midge",
    )


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="configuration whose table [pipeline] gives other defaults",
    )


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="Spark master (default: local[*])")
    parser.add_argument(
        "--spark",
        action="append",
        type=key_and_value,
        metavar="KEY=VALUE",
        help="one more setting of Spark; may be repeated",
    )
