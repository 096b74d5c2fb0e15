"""The `midge` command: looks up the sub-command and hands over.

It stands above all packages, so that server, client and pipeline need not import each other. A
sub-command is either a function of the argument list, or a module with `add_arguments(parser)` and
`run(args)`; nothing is imported before its name is typed.

The exit code is 0, or 1 for a failure, or 2 for a wrong argument. An error is one line on standard
error, which is a JSON object for commands with `--json`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import midge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WRONG_ARGUMENT = 2
"""The exit code for arguments that have no meaning."""
_CHOICE = re.compile(r"(?:argument (.+): )?invalid choice: '(.*)' \(choose from (.*)\)")


class Command(NamedTuple):
    """Where a sub-command lives."""

    entry: str
    """`module:function`, or a module with `add_arguments` and `run`."""
    summary: str
    extra: str = ""
    """The installation extra that it needs; empty for none."""


COMMANDS = {
    "serve": Command("midge.server.process.commands:serve", "run a server"),
    "check": Command(
        "midge.server.process.commands:check", "show the effective options and their origins"
    ),
    "convert": Command(
        "midge.server.process.commands:convert", "turn a nats-server configuration into TOML"
    ),
    "why": Command("midge.server.process.why_command", "explain why a message arrives or does not"),
    "bench": Command("midge.client.benchmark.command", "measure a server"),
    "store": Command(
        "midge.server.store_commands.store_command", "check a store directory, import nats-server's"
    ),
    "pub": Command("midge.client.commands.publish", "publish a message"),
    "sub": Command("midge.client.commands.subscribe", "print messages as they come"),
    "request": Command("midge.client.commands.request", "send a request"),
    "server": Command("midge.client.commands.servers", "the server, or all of a system"),
    "account": Command("midge.client.commands.account", "user, account, limits and usage"),
    "stream": Command("midge.client.commands.streams", "streams of any server"),
    "consumer": Command("midge.client.commands.consumers", "their consumers"),
    "kv": Command("midge.client.commands.key_value", "key-value buckets"),
    "object": Command("midge.client.commands.objects", "object stores"),
    "record": Command("midge.pipeline.commands.record", "record a server's traffic", "recorder"),
    "replay": Command("midge.pipeline.commands.replay", "replay recorded traffic", "recorder"),
    "table": Command("midge.pipeline.commands.table", "streams as Delta tables", "tables"),
    "sql": Command("midge.pipeline.commands.sql", "ask streams' tables in SQL", "sql"),
    "pipeline": Command(
        "midge.pipeline.commands.cli", "land, analyse and report recordings", "pipeline"
    ),
    "completion": Command(
        "midge.completion", "completion for a shell, or a man page", "completion"
    ),
}
"""The sub-commands by name."""

USAGE = """\
usage: midge COMMAND [arguments]

{commands}

`midge COMMAND --help` describes one, `midge --version` shows the version.
`midge-server` is `midge serve` with the habits of nats-server."""


class UsageError(Exception):
    """The arguments of the command `program` have no meaning; the text says why."""

    def __init__(self, program: str, text: str) -> None:
        super().__init__(text)
        self.program = program

    def report(self, *, as_json: bool) -> None:
        """Print the error as one line on standard error."""
        if as_json:
            line = json.dumps({"error": {"text": str(self), "kind": "UsageError"}})
        else:
            line = f"{self.program}: {self} (see {self.program} --help)"
        print(line, file=sys.stderr)


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are raised as `UsageError`, in one line and with a near word."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse with the error."""
        found = _CHOICE.fullmatch(message)
        if found is not None:
            name, word, choices = found.groups()
            known = [choice.strip(" '") for choice in choices.split(",")]
            what = f"{name}: " if name and name.startswith("-") else ""
            hint = _nearest(word, known) or f"; expected {', '.join(known)}"
            message = f"{what}there is no '{word}'{hint}"
        raise UsageError(self.prog, message.removeprefix("argument "))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sub-command that the first argument names; return the exit code."""
    try:
        try:
            return _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `| head` say, has had enough. The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else WRONG_ARGUMENT
    if words[0] in ("-v", "--version", "version"):
        print(f"midge {midge.__version__}")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        hint = _nearest(words[0], COMMANDS) or " (see midge --help)"
        print(f"midge: no such command '{words[0]}'{hint}", file=sys.stderr)
        return WRONG_ARGUMENT
    try:
        return _dispatch(words[0], command, words[1:])
    except ModuleNotFoundError as error:
        return _explain_missing(words[0], command, error)
    except KeyboardInterrupt:
        return 130


def usage() -> str:
    """Return the text of `midge --help`."""
    lines = [f"  {name:<10} {command.summary}" for name, command in COMMANDS.items()]
    return USAGE.format(commands="\n".join(lines))


def _nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the most similar of the `known` words; empty if none is similar."""
    import difflib  # noqa: PLC0415 - seldom needed

    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _dispatch(name: str, command: Command, arguments: list[str]) -> int:
    module_name, _, function = command.entry.partition(":")
    module = importlib.import_module(module_name)
    if function:
        return int(getattr(module, function)(arguments))
    parser = CommandParser(prog=f"midge {name}", description=module.__doc__)
    module.add_arguments(parser)
    try:
        args = parser.parse_args(arguments)
    except UsageError as error:
        error.report(as_json="--json" in arguments)
        return WRONG_ARGUMENT
    return int(module.run(args) or 0)


def _explain_missing(name: str, command: Command, error: ModuleNotFoundError) -> int:
    """Print the missing extra; raise the error if one of midge's own modules is missing."""
    missing = (error.name or "").partition(".")[0]
    if missing.startswith("midge") and not command.extra:
        raise error
    extras = importlib.import_module("midge.extras")
    extra = extras.EXTRAS.get(missing) or command.extra
    hint = f"; {extras.install_command(extra)}" if extra else ""
    print(f"midge {name}: needs the module '{missing}'{hint}", file=sys.stderr)
    return 1
