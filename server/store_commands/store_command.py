"""Work on a store directory while no server uses it."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from midge.jetstream.store.interface import StoreKeyError
from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.store_commands.checking import Checked
    from midge.server.store_commands.importing import Imported

_LOST_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="check|import")
    checking = verbs.add_parser(
        "check", help="read a store directory of midge's and say what of it is lost"
    )
    checking.add_argument("directory", type=Path, metavar="DIR", help="store_dir; only read")
    _add_key_file(checking)
    checking.add_argument("--json", action="store_true", help="print JSON")
    checking.set_defaults(act=_check)
    importing = verbs.add_parser(
        "import", help="take over the streams of a nats-server's store directory"
    )
    importing.add_argument(
        "source", type=Path, metavar="DIR", help="nats-server's store_dir; it is only read"
    )
    importing.add_argument(
        "--into", type=Path, required=True, metavar="DIR", help="midge's store_dir; made if need be"
    )
    _add_key_file(importing)
    importing.add_argument(
        "--nats-key-file",
        type=argparse.FileType("rb"),
        metavar="FILE",
        help="file with the key of nats-server's store, below it a prev_key, each on its own line",
    )
    importing.add_argument("--json", action="store_true", help="print JSON")
    importing.set_defaults(act=_import)


def _add_key_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        type=argparse.FileType("rb"),
        metavar="FILE",
        help="file with the encryption_key of midge's store; - reads it from standard input",
    )


def _key_of(args: argparse.Namespace) -> str:
    """Return the key that was given, without the end of its line; empty for none.

    Raises:
        StoreKeyError: the file has no key in it.
    """
    try:
        return "" if args.key_file is None else _lines_of(args.key_file)[0].decode()
    except UnicodeDecodeError:
        raise StoreKeyError(f"{args.key_file.name}: the key is not UTF-8") from None


def _nats_keys_of(args: argparse.Namespace) -> tuple[bytes, ...]:
    """Return the keys of nats-server's store, one a line. Raises: StoreKeyError, as above."""
    if args.nats_key_file is None:
        return ()
    if args.nats_key_file is args.key_file:
        raise StoreKeyError("only one of the files with keys can be standard input")
    return tuple(line for line in _lines_of(args.nats_key_file) if line)


def _lines_of(opened: BinaryIO) -> list[bytes]:
    """Return what the lines of a file hold, of which the first must not be empty."""
    with opened as file:
        lines = file.read().splitlines()
    if not lines or not lines[0]:
        raise StoreKeyError(f"{opened.name}: there is no key in the first line")
    return lines


def run(args: argparse.Namespace) -> int:
    """Do it; return the exit code: 1 when something could not be read."""
    try:
        return int(args.act(args))
    except MidgeError as error:
        text = str(error)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    sys.stderr.write(f"midge store {args.verb}: {text}\n")
    return 1


def _check(args: argparse.Namespace) -> int:
    from midge.server.store_commands.checking import check_store  # noqa: PLC0415 - the whole store

    found = check_store(args.directory, _key_of(args).encode())
    if args.json:
        sys.stdout.write(json.dumps(dataclasses.asdict(found), indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_check_lines(found)) + "\n")
    is_bad = any(one.lost_count or one.invalid for one in found.streams)
    return 1 if found.damages or found.aside or is_bad else 0


def _check_lines(found: Checked) -> Iterator[str]:
    """Yield what there is to say of a store."""
    for one in found.streams:
        messages, consumers = _count(one.messages, "message"), _count(one.consumers, "consumer")
        yield (
            f"{one.account} > {one.stream}: {messages}, {one.bytes:,} bytes, "
            f"sequences {one.first_seq:,} to {one.last_seq:,}, {consumers}"
        )
        if one.lost_count:
            some = ", ".join(str(seq) for seq in one.lost[:_LOST_SHOWN])
            yield f"  lost: {_count(one.lost_count, 'message')}: {some}" + (
                ", …" if one.lost_count > _LOST_SHOWN else ""
            )
        if one.invalid:
            yield f"  invalid: {one.invalid}; a start sets the whole stream aside"
    yield from (f"damaged: {damage}" for damage in found.damages)
    if found.repairable:
        amount = _count(found.repairable, "damaged byte")
        yield f"{amount} can be put right; the next start does so"
    yield from (f"torn: {torn}; the next start cuts that off" for torn in found.torn)
    yield from (f"aside: {file}; the next start gives it another name" for file in found.aside)
    messages_total = sum(one.messages for one in found.streams)
    total = f"{_count(len(found.streams), 'stream')}, {_count(messages_total, 'message')}"
    yield f"{total}, {_verdict(found)}"


def _verdict(found: Checked) -> str:
    """Return the losses in words. The stream and the messages of damaged bytes are not known."""
    lost = sum(one.lost_count for one in found.streams)
    parts = [f"{_count(lost, 'message')} lost"] if lost else []
    if found.unknown_bytes:
        parts.append(f"{_count(found.unknown_bytes, 'byte')} of unknown content lost")
    if found.aside:
        parts.append(f"{_count(len(found.aside), 'file')} of no use")
    return ", ".join(parts) or "every checksum matched"


_DELETED_BY_NATS_SERVER = (
    "note: a nats-server with accounts that starts in {} again deletes midge's files there; run "
    "midge stream backup before\n"
)


def _count(number: int, what: str) -> str:
    """Return `1 message`, `1,000 messages`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _import(args: argparse.Namespace) -> int:
    from midge.server.store_commands.importing import import_store  # noqa: PLC0415 - a whole server

    def report(one: Imported) -> None:
        if not args.json:
            sys.stdout.write(_line(one))
            sys.stdout.flush()

    nats_keys, key = _nats_keys_of(args), _key_of(args)
    done = asyncio.run(import_store(args.source, args.into, report, key, nats_keys))
    if args.json:
        sys.stdout.write(json.dumps([dataclasses.asdict(one) for one in done], indent=2) + "\n")
    else:
        sys.stdout.write(_total(done))
    if args.source.resolve() == args.into.resolve():
        sys.stderr.write(_DELETED_BY_NATS_SERVER.format(args.into))
    return 1 if any(one.error or one.damages for one in done) else 0


def _line(one: Imported) -> str:
    """Return what there is to say of a stream, with its line ends."""
    name = f"{one.account} > {one.stream}"
    if one.error:
        return f"{name}: not imported: {one.error}\n"
    lines = [f"{name}: {_count(one.messages, 'message')}, {_count(one.consumers, 'consumer')}"]
    if one.read != one.messages:
        lines.append(f"  of {_count(one.read, 'message')}; the stream's limits removed the others")
    lines += [f"  lost: {damage}" for damage in one.damages]
    return "\n".join(lines) + "\n"


def _total(done: list[Imported]) -> str:
    good = [one for one in done if not one.error]
    lost = sum(len(one.damages) for one in done)
    messages = sum(one.messages for one in good)
    damage = f"{_count(lost, 'record')} lost" if lost else "every checksum matched"
    total = _count(len(done), "stream")
    return f"{len(good):,} of {total}, {_count(messages, 'message')}, {damage}\n"
