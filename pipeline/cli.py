"""Land what a server recorded in a lake, analyse it, plan with it, and report on it."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from midge.pipeline import commands, demo
from midge.pipeline.console import errors_told
from midge.pipeline.match import STRATEGIES
from midge.pipeline.tables import FORMATS

_Command = Callable[[argparse.Namespace], None]


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
    """Do what the arguments say; return the exit code."""
    codes: list[int] = []
    with errors_told(f"midge pipeline {args.action}", codes):
        command: _Command = args.command
        command(args)
    return codes[0] if codes else 0


if TYPE_CHECKING:
    _Actions = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - its type


def _add_run(actions: "_Actions") -> None:
    parser = _add(actions, "run", commands.run_job, "take all new records through every layer")
    _add_records(parser)
    _add_lake(parser)
    _add_spark(parser)


def _add_stream(actions: "_Actions") -> None:
    parser = _add(actions, "stream", commands.stream, "follow the records as they are written")
    _add_records(parser)
    _add_lake(parser)
    _add_spark(parser)
    parser.add_argument(
        "--for", dest="for_s", type=float, metavar="SECONDS", help="stop after so long"
    )


def _add_match(actions: "_Actions") -> None:
    parser = _add(actions, "match", commands.match_subjects, "match messages with patterns")
    parser.add_argument("--messages", metavar="PATH", help="Parquet with a column `subject`")
    parser.add_argument(
        "--patterns",
        type=Path,
        metavar="FILE",
        help="a pattern a line, or Parquet with a column `pattern`; default: the subscriptions",
    )
    parser.add_argument("--strategy", choices=STRATEGIES)
    parser.add_argument("--output", metavar="PATH", help="write all pairs there as Parquet")
    parser.add_argument("--limit", type=int, default=20, help="rows to print (default: 20)")
    _add_lake(parser)
    _add_spark(parser)


def _add_plan(actions: "_Actions") -> None:
    parser = _add(actions, "plan", commands.what_if, "say what a change would lead to")
    parser.add_argument("change", type=Path, metavar="CHANGE.toml", help="what is proposed")
    parser.add_argument("--servers", type=int, metavar="N", help="instead of the file's number")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_lake(parser)
    _add_spark(parser)


def _add_report(actions: "_Actions") -> None:
    parser = _add(actions, "report", commands.write_html, "write the HTML report of a lake")
    parser.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument("--title", default="midge traffic report")
    _add_lake(parser)
    parser.set_defaults(spark=None)


def _add_demo(actions: "_Actions") -> None:
    parser = _add(actions, "demo", demo.run_demo, "a server, a fleet, all layers and the report")
    demo.add_arguments(parser)
    _add_spark(parser)
    parser.set_defaults(config=None)


def _add(
    actions: "_Actions", name: str, command: _Command, summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=summary)
    parser.set_defaults(command=command)
    return parser


def _add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--records", dest="records_directory", metavar="DIR", help="where a server recorded"
    )


def _add_lake(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML with a table [pipeline]")
    parser.add_argument("--lake", dest="lake_directory", metavar="DIR", help="where the tables are")
    parser.add_argument("--format", choices=FORMATS, help="plain Parquet, or a Delta log beside it")


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="the Spark master (default: local[*])")
    parser.add_argument(
        "--spark",
        action="append",
        type=_key_and_value,
        metavar="KEY=VALUE",
        help="more of Spark's configuration",
    )


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key, value
