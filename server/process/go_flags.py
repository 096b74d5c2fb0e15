"""Parse command lines in Go's spelling, as nats-server does.

`-p 4222`, `--p 4222`, `-p=4222` and `--port=4222` are the same; a boolean is `-D` or `-D=false`,
and never takes the next word, unlike midge's own switches. Parsing stops at the first word that is
not a flag, or after `--`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from midge.server.config.from_text import TRUTH
from midge.server.config.type_check import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Value = bool | int | str
Kind = Literal["bool", "int", "str", "switch"]

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER = r"[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]*|[1-9][0-9]*)"
_DIGITS_MAX = 66
"""Longest number in digits, more than 64 bits need; a longer text is not converted."""


class FlagError(Exception):
    """A command line that cannot be parsed; the text is Go's."""


class Flag(msgspec.Struct, frozen=True):
    """One flag under all its names."""

    names: tuple[str, ...]
    """Names without dashes."""
    kind: Kind
    """The type of its value; a `switch` is a bool whose value may also follow, as in `--flag
    true`."""
    target: tuple[str, ...]
    """The setting it sets, or one word for a flag that the command itself handles."""
    has_no_effect: bool = False
    """Whether midge ignores it with a warning; never suggested."""


class GivenFlag(msgspec.Struct, frozen=True):
    """A flag of a command line."""

    flag: Flag
    spelling: str
    """As it was typed, with dashes, without its value."""
    value: Value


class CommandLine(msgspec.Struct, frozen=True):
    """A parsed command line."""

    given: list[GivenFlag]
    words: list[str]
    """The words after the flags."""


def parse(arguments: Sequence[str], flags: Iterable[Flag]) -> CommandLine:
    """Return the flags and words of `arguments`.

    Raises: FlagError for an unknown flag, a missing or a wrong value.
    """
    known = {name: flag for flag in flags for name in flag.names}
    given: list[GivenFlag] = []
    rest = list(arguments)
    while rest and len(rest[0]) > 1 and rest[0].startswith("-"):
        argument = rest.pop(0)
        if argument == "--":
            break
        dashes = 2 if argument.startswith("--") else 1
        name, equals, text = argument[dashes:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {argument}")
        flag = known.get(name)
        if flag is None:
            raise FlagError(f"flag provided but not defined: -{name}{_nearest(name, known)}")
        if not equals and (flag.kind == "bool" or (flag.kind == "switch" and not _has_truth(rest))):
            text = "true"
        elif not equals:
            if not rest:
                raise FlagError(f"flag needs an argument: -{name}")
            text = rest.pop(0)
        given.append(GivenFlag(flag, argument[:dashes] + name, _value(text, name, flag.kind)))
    return CommandLine(given, rest)


def _nearest(name: str, known: Mapping[str, Flag]) -> str:
    """Return the most similar flag; none for short names, which are all similar."""
    offered = [one for one, flag in known.items() if len(one) > 2 and not flag.has_no_effect]
    hint = nearest(name, offered) if len(name) > 2 else ""
    return hint.replace("mean '", "mean '--")


def _has_truth(rest: Sequence[str]) -> bool:
    return bool(rest) and rest[0].strip().lower() in TRUTH


def _value(text: str, name: str, kind: Kind) -> Value:
    if kind == "bool":
        return _boolean(text, name)
    return _integer(text, name) if kind == "int" else text


def _boolean(text: str, name: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise FlagError(f'invalid boolean value "{text}" for -{name}: parse error')


def _integer(text: str, name: str) -> int:
    if not re.fullmatch(_INTEGER, text) or len(text) > _DIGITS_MAX:
        raise FlagError(f'invalid value "{text}" for flag -{name}: parse error')
    number = _number(text)
    if not -(2**63) <= number < 2**63:
        raise FlagError(f'invalid value "{text}" for flag -{name}: value out of range')
    return number


def _number(text: str) -> int:
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    number = int(digits, 8 if octal else 0)
    return -number if text.startswith("-") else number
