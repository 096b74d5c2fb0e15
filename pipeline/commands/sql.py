"""Ask streams' tables in SQL, with the messages that are not in them yet."""

import argparse
import csv
import sys
from pathlib import PurePosixPath

from midge.client.commands.connect_arguments import add_connect_arguments, given_options
from midge.client.errors import OptionError
from midge.extras import install_command
from midge.pipeline.commands.terminal import errors_reported, show_table
from midge.pipeline.errors import PipelineError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the query, the tables and the options."""
    parser.add_argument("query", metavar="QUERY", help='such as "SELECT count(*) FROM orders"')
    parser.add_argument(
        "tables",
        nargs="*",
        metavar="[NAME=]TABLE",
        help="a table's directory or URL; its name in the query is the last part of it, or NAME",
    )
    parser.add_argument("--csv", action="store_true", help="print CSV, for programs")
    parser.add_argument(
        "--landed", action="store_true", help="read the tables alone, without their streams"
    )
    add_connect_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask and print the result; return the exit code."""
    codes: list[int] = []
    with errors_reported("midge sql", codes):
        _run(args)
    return codes[0] if codes else 0


def _run(args: argparse.Namespace) -> None:
    try:
        import duckdb
    except ImportError as error:
        raise PipelineError(f"this needs duckdb: {install_command('sql')}") from error
    from midge.pipeline.tables.scanning import scan_duckdb

    server = None if args.landed else given_options(args)
    with duckdb.connect() as connection:
        for name, url in _named(args.tables).items():
            scan_duckdb(connection, name, url, server)
        try:
            result = connection.sql(args.query)
            columns = result.columns if result is not None else []
            rows = result.fetchall() if result is not None else []
        except duckdb.Error as error:
            raise PipelineError(str(error).partition("\n")[0]) from error
    if args.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])
    else:
        show_table("", columns, rows)


def _named(given: list[str]) -> dict[str, str]:
    """Return the tables by the name that each has in the query."""
    tables: dict[str, str] = {}
    for text in given:
        name, equals, url = text.partition("=")
        if not equals or "/" in name:
            name, url = PurePosixPath(text.rstrip("/")).name, text
        if name in tables:
            raise OptionError(f"{name}: expected each name once")
        tables[name] = url
    return tables
