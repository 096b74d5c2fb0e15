"""Flags that become the keys of a stream's or consumer's configuration.

Each flag has its key. `--config FILE` sets a whole configuration, and `--set KEY=JSON` sets a key
that has no flag, for example one of a newer server.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from midge.client.commands.argument_types import key_and_value
from midge.client.errors import OptionError, reason_of


class CommandSetting(NamedTuple):
    """A flag with a value: its key and its parser."""

    flag: str
    key: str
    kind: Callable[[str], Any]
    metavar: str
    meaning: str
    is_list: bool = False


class Switch(NamedTuple):
    """A flag that means yes, and `--no-…` that means no."""

    flag: str
    key: str
    meaning: str
    is_inverse: bool = False
    """The key is true if the flag means no."""


class _Inverse(argparse.BooleanOptionalAction):
    """Stores the opposite of the flag."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, (option_string or "").startswith("--no-"))


class CommandChoice(NamedTuple):
    """A flag with one of several words."""

    flag: str
    key: str
    words: tuple[str, ...]
    meaning: str


def add_settings(
    parser: argparse.ArgumentParser, settings: Sequence[CommandSetting | Switch | CommandChoice]
) -> None:
    """Declare the flags; a flag that is not given does not change its key."""
    for one in settings:
        if isinstance(one, Switch):
            action = _Inverse if one.is_inverse else argparse.BooleanOptionalAction
            parser.add_argument(one.flag, dest=one.key, action=action, help=one.meaning)
        elif isinstance(one, CommandChoice):
            parser.add_argument(one.flag, dest=one.key, choices=one.words, help=one.meaning)
        else:
            parser.add_argument(
                one.flag,
                dest=one.key,
                type=one.kind,
                action="append" if one.is_list else "store",
                metavar=one.metavar,
                help=one.meaning + ("; may be repeated" if one.is_list else ""),
            )
    parser.add_argument(
        "--metadata",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=VALUE",
        help="metadata; may be repeated",
    )
    parser.add_argument(
        "--set",
        dest="more",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=JSON",
        help="any other key of the configuration; may be repeated",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="JSON with the configuration to start from; - is stdin"
    )


def settings_of(
    args: argparse.Namespace, settings: Sequence[CommandSetting | Switch | CommandChoice]
) -> dict[str, Any]:
    """Return the keys that the arguments set.

    Raises:
        OptionError: the file or a value cannot be read.

    """
    given: dict[str, Any] = _from_file(args.config) if args.config else {}
    for one in settings:
        value = getattr(args, one.key)
        if value is not None:
            given[one.key] = value
    if args.metadata:
        given["metadata"] = {**given.get("metadata", {}), **dict(args.metadata)}
    for key, text in args.more:
        try:
            given[key] = json.loads(text)
        except ValueError:
            given[key] = text
    return given


def _from_file(path: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        value = json.loads(text)
    except (OSError, ValueError) as error:
        raise OptionError(f"--config {path}: {reason_of(error)}") from error
    value = value.get("config", value) if isinstance(value, dict) else value
    if not isinstance(value, dict):
        raise OptionError(f"--config {path}: expected a JSON object")
    return value
