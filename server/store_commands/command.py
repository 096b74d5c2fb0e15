"""Work on a store directory while no server uses it."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from midge.server.store_commands.importing import Imported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="import")
    importing = verbs.add_parser(
        "import", help="take over the streams of a nats-server's store directory"
    )
    importing.add_argument(
        "source", type=Path, metavar="DIR", help="nats-server's store_dir; it is only read"
    )
    importing.add_argument(
        "--into", type=Path, required=True, metavar="DIR", help="midge's store_dir; made if need be"
    )
    importing.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; return the exit code: 1 when something could not be read."""
    try:
        return _import(args)
    except (MidgeError, OSError) as error:
        sys.stderr.write(f"midge store {args.verb}: {error}\n")
        return 1


def _import(args: argparse.Namespace) -> int:
    from midge.server.store_commands.importing import import_store  # noqa: PLC0415 - a whole server

    def tell(one: Imported) -> None:
        if not args.json:
            sys.stdout.write(_line(one))
            sys.stdout.flush()

    done = asyncio.run(import_store(args.source, args.into, tell))
    if args.json:
        sys.stdout.write(json.dumps([dataclasses.asdict(one) for one in done], indent=2) + "\n")
    else:
        sys.stdout.write(_total(done))
    return 1 if any(one.error or one.damages for one in done) else 0


def _line(one: Imported) -> str:
    """Return what there is to say of a stream, with its line ends."""
    name = f"{one.account} > {one.stream}"
    if one.error:
        return f"{name}: not imported: {one.error}\n"
    lines = [f"{name}: {one.messages:,} messages, {one.consumers:,} consumers"]
    if one.read != one.messages:
        lines.append(f"  {one.read:,} messages were read; the stream's limits removed the others")
    lines += [f"  lost: {damage}" for damage in one.damages]
    return "\n".join(lines) + "\n"


def _total(done: list[Imported]) -> str:
    good = [one for one in done if not one.error]
    lost = sum(len(one.damages) for one in done)
    messages = sum(one.messages for one in good)
    damage = f"{lost:,} records lost" if lost else "every checksum matched"
    return f"{len(good):,} of {len(done):,} streams, {messages:,} messages, {damage}\n"
