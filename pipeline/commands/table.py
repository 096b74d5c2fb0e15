"""Streams as Delta tables: make one, keep them up to date, show, compact and rebuild them."""

import argparse
import logging
import os
import time
from pathlib import Path

from midge.client.commands.argument_types import positive_number
from midge.client.commands.connect_arguments import add_connect_arguments, given_options
from midge.client.commands.verbs import add_yes, confirm
from midge.client.errors import OptionError
from midge.pipeline.commands.terminal import counted, errors_reported, say, show_table, stop_signals
from midge.pipeline.errors import TableError

_NICENESS = 10
_STOP_S = 60.0
_LOOK_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="make an empty table of a stream")
    add.add_argument("url", metavar="TABLE", help="a directory, or an object store's URL")
    add.add_argument("stream", metavar="STREAM")
    add.add_argument("--subject", default="", metavar="PATTERN", help="only these messages")
    add.set_defaults(act=_add)
    rebuild = actions.add_parser("rebuild", help="give a table other columns, in one commit")
    rebuild.add_argument("url", metavar="TABLE")
    rebuild.set_defaults(act=_rebuild)
    build = actions.add_parser("build", help="land a stream from a store's directory, not a server")
    build.add_argument("url", metavar="TABLE", help="made where there is none")
    build.add_argument("stream", metavar="STREAM")
    build.add_argument("--store", type=Path, required=True, metavar="DIR", help="only read")
    build.add_argument("--account", default="$G", metavar="NAME", help="default: $G")
    build.add_argument("--key-file", type=Path, metavar="FILE", help="key of an encrypted store")
    build.add_argument("--subject", default="", metavar="PATTERN", help="only these messages")
    build.set_defaults(act=_build)
    for action in (add, rebuild, build):
        _add_layout(action)
    serve = actions.add_parser("serve", help="keep tables up to date until SIGTERM or Ctrl-C")
    serve.add_argument(
        "--every", type=positive_number, default=60.0, metavar="SECONDS", help="default: 60"
    )
    serve.set_defaults(act=_serve)
    work = actions.add_parser("work")  # without help, since only a server starts it
    work.set_defaults(act=_work)
    ls = actions.add_parser("ls", help="list the tables in a directory")
    ls.add_argument("directory", type=Path, metavar="DIR")
    ls.set_defaults(act=_ls)
    rm = actions.add_parser("rm", help="delete a table in a directory, and its quarantine")
    rm.add_argument("directory", type=Path, metavar="TABLE")
    add_yes(rm)
    rm.set_defaults(act=_rm)
    status = actions.add_parser("status", help="show positions, lag and sizes")
    status.set_defaults(act=_status)
    compact = actions.add_parser("compact", help="join small files, remove those unused for 7 days")
    compact.set_defaults(act=_compact)
    for action in (serve, status, compact):
        action.add_argument("urls", nargs="+", metavar="TABLE")
    for action in (add, serve, status):
        add_connect_arguments(action)


def _add_layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--column",
        action="append",
        metavar="NAME:KIND",
        help="a column, by default from payloads in JSON; may be repeated (default: raw payloads)",
    )
    parser.add_argument(
        "--infer", action="store_true", help="make a column of each further key, as it comes"
    )
    parser.add_argument(
        "--partition-by",
        action="append",
        default=[],
        metavar="NAME",
        help="a column of the kind date or token(N); may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Do the action; return the exit code."""
    codes: list[int] = []
    with errors_reported(f"midge table {args.action}", codes):
        args.act(args)
    return codes[0] if codes else 0


def _add(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.landing import create_table

    create_table(
        args.url,
        args.stream,
        given_options(args),
        columns=_columns(args),
        infer=args.infer,
        subject=args.subject,
        partition_by=args.partition_by,
    )
    say(f"{args.url}: a table of stream {args.stream}")


def _build(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.stored import build

    logging.basicConfig(format="%(message)s")
    done = build(
        args.url,
        args.store,
        args.stream,
        account=args.account,
        key=args.key_file.read_bytes().strip() if args.key_file else b"",
        columns=_columns(args),
        infer=args.infer,
        subject=args.subject,
        partition_by=args.partition_by,
    )
    say(f"{args.url}: {counted(done.rows, 'row')} up to sequence {done.position:,}")


def _rebuild(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.rebuilding import rebuild

    count = rebuild(args.url, _columns(args), infer=args.infer, partition_by=args.partition_by)
    say(f"{args.url}: {counted(count, 'row')}")


def _columns(args: argparse.Namespace) -> dict[str, str] | None:
    columns = dict(_column(text) for text in args.column) if args.column else None
    if columns is not None and len(columns) < len(args.column):
        raise OptionError("--column: expected each name once")
    return columns


def _column(text: str) -> tuple[str, str]:
    name, colon, kind = text.rpartition(":")
    if not colon:
        raise OptionError(f"--column: expected NAME:KIND, got {text!r}")
    return name, kind


def _serve(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.serving import Job, TableServer
    from midge.pipeline.tables.table_handle import TableHandle

    for url in args.urls:
        TableHandle(url)
    logging.basicConfig(format="%(message)s")
    os.nice(_NICENESS)
    tables = TableServer()
    with stop_signals() as stop_asked:
        tables.change({url: Job(url, given_options(args), args.every) for url in args.urls})
        while not stop_asked():
            time.sleep(_LOOK_S)
        late = tables.stop(_STOP_S)
    for url, task in tables.tasks.items():
        done = task.landed
        say(f"{url}: {counted(done.rows, 'row')} in {counted(done.commits, 'commit')}")
    if late:
        raise TableError(f"not ended after {_STOP_S:.0f} s: {', '.join(late)}")
    if failed := [url for url, task in tables.tasks.items() if task.error]:
        raise TableError(f"not up to date: {', '.join(failed)}")


def _work(_args: argparse.Namespace) -> None:
    from midge.pipeline.tables.landing_worker import work

    os.nice(_NICENESS)
    with stop_signals() as stop_asked:
        work(stop_asked)


def _ls(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.table_handle import tables_in

    rows = [
        (table.url, table.source.stream, table.position, *table.size())
        for table in tables_in(args.directory)
    ]
    show_table("", ("table", "stream", "position", "rows", "files", "bytes"), rows)


def _rm(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.table_handle import TableHandle, remove

    source = TableHandle(str(args.directory)).source
    confirm(args, f"delete the table {args.directory} and its quarantine")
    remove(args.directory)
    say(f"{args.directory}: deleted")
    if source.consumer:
        say(f"stream {source.stream} keeps messages for consumer {source.consumer}: delete it, too")


def _status(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.landing import options_of, same_stream, stream_state
    from midge.pipeline.tables.table_handle import TableHandle

    rows = []
    for url in args.urls:
        table = TableHandle(url)
        state = same_stream(table, stream_state(options_of(table, given_options(args))))
        position = table.position  # a commit since then counts as lag
        lag = max(0, state.end_seq - 1 - position)
        rows.append((url, table.source.stream, position, lag, *table.size()))
    show_table("", ("table", "stream", "position", "lag", "rows", "files", "bytes"), rows)


def _compact(args: argparse.Namespace) -> None:
    from midge.pipeline.tables.table_handle import LOCK_WAIT_S, TableHandle, locked

    for url in args.urls:
        with locked(url, LOCK_WAIT_S):
            added, removed = TableHandle(url).compact()
        say(f"{url}: {counted(removed, 'file')} joined into {added:,}")
