"""Print what a shell completes of `midge`, or its man page: `midge completion bash`.

Both are made from the parsers of the commands, so that they know each verb and each flag.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from midge.server.process.go_flags import Flag

_FORMS = ("bash", "zsh", "fish", "man")
_DESCRIPTION = "A NATS server in Python, and its tools."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("form", choices=_FORMS, help="shell, or man for a man page")


def run(args: argparse.Namespace) -> int:
    """Print the text; return the exit code."""
    sys.stdout.write(text_of(args.form))
    return 0


def text_of(form: str) -> str:
    """Return the completion for a shell, or the man page."""
    parser = full_parser()
    if form == "man":
        from argparse_manpage.manpage import Manpage  # noqa: PLC0415 - either is seldom needed

        return str(Manpage(parser))
    import shtab  # noqa: PLC0415 - as above

    return str(shtab.complete(parser, form))


def full_parser() -> argparse.ArgumentParser:
    """Return a parser of all commands; it is for looking at, and runs none."""
    from midge.cli import COMMANDS  # noqa: PLC0415 - which imports this module by name

    parser = argparse.ArgumentParser(prog="midge", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        module_name, _, function = command.entry.partition(":")
        module = importlib.import_module(module_name)
        help_text = None if function else module.__doc__
        one = commands.add_parser(name, help=command.summary, description=help_text)
        if function:
            _add_server_flags(one, function)
        else:
            module.add_arguments(one)
    return parser


def _add_server_flags(parser: argparse.ArgumentParser, function: str) -> None:
    """Declare what a command that reads its own arguments takes."""
    from midge.server.process.flags import ACTIONS, SETTINGS  # noqa: PLC0415 - as above

    if function != "serve":
        parser.add_argument("file", nargs=None if function == "convert" else "?")
    if function == "check":
        parser.add_argument("--changed", action="store_true", help="leave defaults out")
    if function != "convert":
        _add_flags(parser, [flag for flag in (*ACTIONS, *SETTINGS) if "h" not in flag.names])


def _add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    for flag in flags:
        names = [
            f"-{name}" if len(name) < 3 or name.isupper() else f"--{name}" for name in flag.names
        ]
        if flag.kind == "bool":
            parser.add_argument(*names, action="store_true", help=" ".join(flag.target))
        else:
            parser.add_argument(*names, metavar="VALUE", help=" ".join(flag.target))
