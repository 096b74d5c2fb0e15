"""Subject transforms: turn the subjects that a source stands for into others.

Rules and refusals are nats-server's, to the letter, for they are part of what JetStream answers.
In a destination ``$n`` or ``{{wildcard(n)}}`` is the token that the n-th ``*`` of the source stood
for; other functions hash, split and cut such tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from midge.sublist.subjects import matches

_INVALID = "invalid mapping destination"
INVALID_SUBJECT = "invalid subject"

_ALL = ">"
_BLANKS = re.compile(r"[\t\n\f\r ]")
_COMMA = re.compile(r",\s*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_INT32_MAX = 2**31 - 1


def _function(name: str) -> re.Pattern[str]:
    """Return the pattern of a call; the first letter of each word may be of either case."""
    words = re.sub(r"[A-Z]", lambda letter: f"[{letter[0].lower()}{letter[0]}]", name)
    return re.compile(r"\{\{\s*" + words + r"\s*\((.*)\)\s*\}\}")


_WILDCARD = _function("Wildcard")
_PARTITION = _function("Partition")
_SPLIT = _function("Split")
_RANDOM = _function("Random")
_CUT_FUNCTIONS = {
    "splitfromleft": _function("SplitFromLeft"),
    "splitfromright": _function("SplitFromRight"),
    "slicefromleft": _function("SliceFromLeft"),
    "slicefromright": _function("SliceFromRight"),
    "right": _function("Right"),
    "left": _function("Left"),
}
_FUNCTIONS = (_PARTITION, _WILDCARD, *_CUT_FUNCTIONS.values(), _SPLIT, _RANDOM)

Part = Callable[[list[str]], str]
"""Makes one piece of a destination of the tokens of a subject."""


class TransformError(ValueError):
    """A transform cannot be made; the message is nats-server's."""


def check(source: str, destination: str) -> None:
    """Refuse a destination that streams may not have.

    Raises:
        TransformError: it is malformed, or its functions are.
    """
    if not destination:
        return
    has_fwc = False
    for token in destination.split("."):
        if not token or has_fwc:
            where = f" in {token}" if token else ""
            raise TransformError(f"{_INVALID}: invalid transform{where}")
        if len(token) > 4 and token.startswith("{{") and token.endswith("}}"):
            if not any(pattern.search(token) for pattern in _FUNCTIONS):
                raise TransformError(f"{_INVALID}: unknown function in {token}")
        elif token == _ALL:
            has_fwc = True
        elif _BLANKS.search(token):
            raise TransformError(f"{_INVALID}: invalid transform")
    Transform(source, destination)


class Transform:
    """Turn subjects that match `source` into others. Immutable."""

    def __init__(self, source: str, destination: str, random: Random | None = None) -> None:
        """Compile `destination`; an empty source stands for all subjects.

        Without `random`, ``{{random(n)}}`` is 0.

        Raises:
            TransformError: a subject is bad, or a function or its arguments are.
        """
        source = source or _ALL
        source_tokens = _tokens(source)
        tokens = _tokens(destination)
        has_fwc = source_tokens[-1:] == [_ALL]
        if not source_tokens or not tokens or "*" in tokens or has_fwc != (tokens[-1] == _ALL):
            raise TransformError(INVALID_SUBJECT)
        self._keeps_all = source == destination == _ALL
        self._source = source.encode("utf-8", "surrogateescape")
        self._rest = len(source_tokens) - 1 if has_fwc else -1
        compiler = _Compiler(source_tokens, random)
        self._parts = [compiler.compile(token) for token in (tokens[:-1] if has_fwc else tokens)]

    def apply(self, subject: bytes) -> bytes | None:
        """Return what the published `subject` becomes, or None when the source does not match."""
        if self._keeps_all:
            return subject
        tokens = subject.decode("utf-8", "surrogateescape").split(".")
        if "" in tokens or "*" in tokens or _ALL in tokens or not matches(subject, self._source):
            return None
        pieces = [part(tokens) for part in self._parts]
        if self._rest >= 0:
            pieces += tokens[self._rest :]
        return ".".join(pieces).encode("utf-8", "surrogateescape")


class _Compiler:
    """Turns the tokens of one destination into parts."""

    def __init__(self, source_tokens: list[str], random: Random | None) -> None:
        self._positions = [i for i, token in enumerate(source_tokens) if token == "*"]
        self._has_wildcards = bool(self._positions) or source_tokens[-1] == _ALL
        self._random = random

    def compile(self, token: str) -> Part:
        """Return the part that `token` stands for.

        Raises:
            TransformError: it is a malformed call.
        """
        if len(token) > 1 and token[0] == "$":
            if _WHOLE.fullmatch(token[1:]) is None:
                return _always(token)
            return self._wildcard(int(token[1:]), token)
        if len(token) > 4 and token.startswith("{{") and token.endswith("}}"):
            return self._call(token)
        return _always(token)

    def _call(self, token: str) -> Part:
        """Return the part that a call in double braces stands for."""
        if (found := _WILDCARD.search(token)) is not None:
            arguments = _COMMA.split(found[1])
            if arguments == [""]:
                raise _bad_arguments(token, "not enough arguments passed to the function")
            if len(arguments) > 1:
                raise _bad_arguments(token, "too many arguments passed to the function")
            return self._wildcard(_number(arguments[0], token), token)
        if (found := _PARTITION.search(token)) is not None:
            numbers = [_number(argument, token) for argument in _COMMA.split(found[1])]
            if numbers[0] > _INT32_MAX:
                raise _invalid_argument(token)
            positions = [self._position(n, token) for n in numbers[1:]]
            return _partition(numbers[0], positions)
        for name, pattern in _CUT_FUNCTIONS.items():
            if (found := pattern.search(token)) is not None:
                return self._cut(name, found[1], token)
        if (found := _SPLIT.search(token)) is not None:
            return self._split(found[1], token)
        if (found := _RANDOM.search(token)) is not None:
            return self._random_number(found[1], token)
        raise TransformError(f"{_INVALID}: unknown function in {token}")

    def _cut(self, name: str, argument: str, token: str) -> Part:
        first, second = _two(argument, token)
        n, size = _number(first, token), _number(second, token)
        if not -_INT32_MAX <= size <= _INT32_MAX:
            raise _invalid_argument(token)
        position = self._position(n, token)
        cut = _CUTS[name]
        return lambda tokens: cut(tokens[position], size)

    def _split(self, argument: str, token: str) -> Part:
        first, separator = _two(argument, token)
        n = _number(first, token)
        if " " in separator or "." in separator:
            raise _invalid_argument(token)
        position = self._position(n, token)
        return lambda tokens: _split(tokens[position], separator)

    def _random_number(self, argument: str, token: str) -> Part:
        arguments = _COMMA.split(argument)
        if len(arguments) != 1:
            raise _bad_arguments(token, "not enough arguments passed to the function")
        size = _number(arguments[0], token)
        if size > _INT32_MAX:
            raise _invalid_argument(token)
        random = self._random
        return lambda _: str(random.randrange(size) if random and size > 0 else 0)

    def _wildcard(self, n: int, token: str) -> Part:
        position = self._position(n, token)
        return lambda tokens: tokens[position]

    def _position(self, n: int, token: str) -> int:
        """Return where in the source the n-th wildcard stands; 0 and less mean the first token."""
        if not self._has_wildcards:
            raise TransformError(f"{_INVALID}: wildcard index out of range in {token}")
        if n > len(self._positions):
            raise TransformError(f"{_INVALID}: wildcard index out of range in {token}: [{n}]")
        return self._positions[n - 1] if n > 0 else 0


def _tokens(subject: str) -> list[str]:
    """Return the tokens of `subject`; none if it is invalid."""
    tokens = subject.split(".")
    if "" in tokens or _ALL in tokens[:-1]:
        return []
    return tokens


def _two(argument: str, token: str) -> tuple[str, str]:
    """Return the two arguments of a call."""
    arguments = _COMMA.split(argument)
    if len(arguments) < 2:
        raise _bad_arguments(token, "not enough arguments passed to the function")
    if len(arguments) > 2:
        raise _bad_arguments(token, "too many arguments passed to the function")
    return arguments[0], arguments[1]


def _number(text: str, token: str) -> int:
    """Read an argument that is a number."""
    if _WHOLE.fullmatch(text.strip(" ")) is None:
        raise _invalid_argument(token)
    return int(text)


def _invalid_argument(token: str) -> TransformError:
    return _bad_arguments(token, "function argument is invalid or in the wrong format")


def _bad_arguments(token: str, what: str) -> TransformError:
    return TransformError(f"{_INVALID}: {what} in {token}")


def _always(literal: str) -> Part:
    return lambda _: literal


def _partition(size: int, positions: list[int]) -> Part:
    def part(tokens: list[str]) -> str:
        key = "".join(tokens[i] for i in positions) if positions else ".".join(tokens)
        return str(_fnv1a(key.encode("utf-8", "surrogateescape")) % size) if size else "0"

    return part


def _split(token: str, separator: str) -> str:
    """Return `token` as several, its empty pieces left out as nats-server leaves them out."""
    pieces = token.split(separator) if separator else list(token)
    made = ""
    for i, piece in enumerate(pieces):
        made += piece
        if i + 1 < len(pieces) and pieces[i + 1] and not (i == 0 and not piece):
            made += "."
    return made


def _split_from_left(token: str, at: int) -> str:
    return f"{token[:at]}.{token[at:]}" if 0 < at < len(token) else token


def _split_from_right(token: str, at: int) -> str:
    return f"{token[:-at]}.{token[-at:]}" if 0 < at < len(token) else token


def _slice_from_left(token: str, size: int) -> str:
    if not 0 < size < len(token):
        return token
    return ".".join(token[i : i + size] for i in range(0, len(token), size))


def _slice_from_right(token: str, size: int) -> str:
    if not 0 < size < len(token):
        return token
    first = len(token) % size
    pieces = [token[i : i + size] for i in range(first, len(token), size)]
    return ".".join([token[:first], *pieces] if first else pieces)


def _left(token: str, size: int) -> str:
    return token[:size] if 0 < size < len(token) else token


def _right(token: str, size: int) -> str:
    return token[-size:] if 0 < size < len(token) else token


_CUTS: dict[str, Callable[[str, int], str]] = {
    "splitfromleft": _split_from_left,
    "splitfromright": _split_from_right,
    "slicefromleft": _slice_from_left,
    "slicefromright": _slice_from_right,
    "left": _left,
    "right": _right,
}


def _fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash, by which partitions agree with nats-server's."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
