"""Subject transforms: rewrite the subjects that match a source.

Rules and refusals are exactly nats-server's, because they are part of JetStream's answers.
`sublist.transform` reads the destinations of mappings; both modules build destinations from the
same parts. In a destination, ``$n`` or ``{{wildcard(n)}}`` is the token that matched the n-th ``*``
of the source; other functions hash, split and cut such tokens.
"""

from __future__ import annotations

import functools
import re
from random import Random

from midge.sublist import transform_parts as parts_of
from midge.sublist.subjects import matches
from midge.sublist.transform_parts import SIZE_MAX, Part

_INVALID = "invalid mapping destination"
INVALID_SUBJECT = "invalid subject"

_ALL = ">"
_BLANKS = re.compile(r"[\t\n\f\r ]")
_COMMA = re.compile(r",\s*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")

_CUTS = ("SplitFromLeft", "SplitFromRight", "SliceFromLeft", "SliceFromRight", "Right", "Left")
_FUNCTIONS = ("Wildcard", "Partition", *_CUTS, "Split", "Random")


class TransformError(ValueError):
    """An invalid transform; the message is nats-server's."""


def check(source: str, destination: str) -> None:
    """Refuse a destination that streams may not have.

    Raises:
        TransformError: the destination, or a function in it, is malformed.
    """
    if not destination:
        return
    has_fwc = False
    for token in destination.split("."):
        if not token or has_fwc:
            where = f" in {token}" if token else ""
            raise TransformError(f"{_INVALID}: invalid transform{where}")
        if len(token) > 4 and token.startswith("{{") and token.endswith("}}"):
            if not _call_in(token)[0]:
                raise TransformError(f"{_INVALID}: unknown function in {token}")
        elif token == _ALL:
            has_fwc = True
        elif _BLANKS.search(token):
            raise TransformError(f"{_INVALID}: invalid transform")
    StreamTransform(source, destination)


class StreamTransform:
    """Rewrites subjects that match `source`. Immutable."""

    def __init__(self, source: str, destination: str, random: Random | None = None) -> None:
        """Compile `destination`; an empty source means all subjects.

        Without `random`, ``{{random(n)}}`` is 0.

        Raises:
            TransformError: a subject, a function or an argument is invalid.
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
        compiler = _DestinationReader(source_tokens, random)
        self._parts = [compiler.compile(token) for token in (tokens[:-1] if has_fwc else tokens)]

    def apply(self, subject: bytes) -> bytes | None:
        """Return the rewritten `subject`, or None if the source does not match it."""
        if self._keeps_all:
            return subject
        tokens = subject.split(b".")
        if b"" in tokens or b"*" in tokens or b">" in tokens or not matches(subject, self._source):
            return None
        pieces = [part(tokens) for part in self._parts]
        if self._rest >= 0:
            pieces += tokens[self._rest :]
        return b".".join(pieces)


class _DestinationReader:
    """Turns the tokens of one destination into parts."""

    def __init__(self, source_tokens: list[str], random: Random | None) -> None:
        self._positions = [i for i, token in enumerate(source_tokens) if token == "*"]
        self._has_wildcards = bool(self._positions) or source_tokens[-1] == _ALL
        self._random = random

    def compile(self, token: str) -> Part:
        """Return the part for `token`.

        Raises:
            TransformError: it is a malformed call.
        """
        if len(token) > 1 and token[0] == "$":
            if _WHOLE.fullmatch(token[1:]) is None:
                return parts_of.always(_bytes(token))
            return self._wildcard(int(token[1:]), token)
        if len(token) > 4 and token.startswith("{{") and token.endswith("}}"):
            return self._call(token)
        return parts_of.always(_bytes(token))

    def _call(self, token: str) -> Part:
        """Return the part for a call in double braces."""
        name, argument = _call_in(token)
        if name == "wildcard":
            arguments = _COMMA.split(argument)
            if arguments == [""]:
                raise _bad_arguments(token, "not enough arguments passed to the function")
            if len(arguments) > 1:
                raise _bad_arguments(token, "too many arguments passed to the function")
            return self._wildcard(_number(arguments[0], token), token)
        if name == "partition":
            numbers = [_number(argument, token) for argument in _COMMA.split(argument)]
            if numbers[0] > SIZE_MAX:
                raise _invalid_argument(token)
            positions = [self._position(n, token) for n in numbers[1:]]
            return parts_of.partition(numbers[0], positions)
        if name == "split":
            return self._split(argument, token)
        if name == "random":
            return self._random_number(argument, token)
        if name:
            return self._cut(name, argument, token)
        raise TransformError(f"{_INVALID}: unknown function in {token}")

    def _cut(self, name: str, argument: str, token: str) -> Part:
        first, second = _two(argument, token)
        n, size = _number(first, token), _number(second, token)
        if not -SIZE_MAX <= size <= SIZE_MAX:
            raise _invalid_argument(token)
        return parts_of.cut(name, self._position(n, token), size)

    def _split(self, argument: str, token: str) -> Part:
        first, separator = _two(argument, token)
        n = _number(first, token)
        if " " in separator or "." in separator:
            raise _invalid_argument(token)
        position = self._position(n, token)
        return lambda tokens: _split(tokens[position], _bytes(separator))

    def _random_number(self, argument: str, token: str) -> Part:
        arguments = _COMMA.split(argument)
        if len(arguments) != 1:
            raise _bad_arguments(token, "not enough arguments passed to the function")
        size = _number(arguments[0], token)
        if size > SIZE_MAX:
            raise _invalid_argument(token)
        return parts_of.random_number(size, self._random)

    def _wildcard(self, n: int, token: str) -> Part:
        return parts_of.token_at(self._position(n, token))

    def _position(self, n: int, token: str) -> int:
        """Return the index in the source of the n-th wildcard; 0 and less mean the first token."""
        if not self._has_wildcards:
            raise TransformError(f"{_INVALID}: wildcard index out of range in {token}")
        if n > len(self._positions):
            raise TransformError(f"{_INVALID}: wildcard index out of range in {token}: [{n}]")
        return self._positions[n - 1] if n > 0 else 0


def _call_in(token: str) -> tuple[str, str]:
    """Return the name of the function called in `token`, in small letters, and its arguments."""
    for name in _FUNCTIONS:
        if (found := _pattern(name).search(token)) is not None:
            return name.lower(), found[1]
    return "", ""


@functools.cache  # not all at import: a start needs none of them
def _pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a call; the first letter of each word may have either case."""
    words = re.sub(r"[A-Z]", lambda letter: f"[{letter[0].lower()}{letter[0]}]", name)
    return re.compile(r"\{\{\s*" + words + r"\s*\((.*)\)\s*\}\}")


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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _split(token: bytes, separator: bytes) -> bytes:
    """Return `token` split into several, without empty pieces, as nats-server does."""
    pieces = token.split(separator) if separator else _characters(token)
    made = b""
    for i, piece in enumerate(pieces):
        made += piece
        if i + 1 < len(pieces) and pieces[i + 1] and not (i == 0 and not piece):
            made += b"."
    return made


def _characters(token: bytes) -> list[bytes]:
    """Return the characters of a token, which is how Go splits by an empty separator."""
    return [_bytes(one) for one in token.decode("utf-8", "surrogateescape")]
