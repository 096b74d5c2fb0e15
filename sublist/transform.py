"""Subject transforms: rewrite the subjects that match a pattern.

A `Transform` rewrites the subjects that match its source. In its destination, ``{{wildcard(n)}}``
(or ``$n``) is the token that matched the n-th ``*`` of the source. Further functions cut, split or
hash such tokens:

======================================  ============================================================
``{{partition(size, n, m, …)}}``        a number below `size`, always the same for the same tokens
``{{partition(size)}}``                 the same, for the whole subject
``{{random(size)}}``                    any number below `size`
``{{split(n, separator)}}``             the token, as several tokens
``{{splitFromLeft(n, at)}}``            the token, as two: the first has `at` bytes
``{{splitFromRight(n, at)}}``           the token, as two: the last has `at` bytes
``{{sliceFromLeft(n, size)}}``          the token, as pieces of `size` bytes; the rest is last
``{{sliceFromRight(n, size)}}``         the token, as pieces of `size` bytes; the rest is first
``{{left(n, size)}}``                   the first `size` bytes of the token
``{{right(n, size)}}``                  the last `size` bytes of the token
======================================  ============================================================

`jetstream.transform` reads the destinations of streams separately, because it must accept and
refuse the same destinations as nats-server, in the same words, as part of JetStream's API. For
example, a position of zero or less means the first token there, and is an error here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from midge.sublist import transform_parts as parts_of
from midge.sublist.subjects import is_valid_subject, matches
from midge.sublist.transform_parts import SIZE_MAX, Part

if TYPE_CHECKING:
    from random import Random

_FUNCTION = r"^\{\{\s*(\w+)\s*\((.*)\)\s*\}\}$"
_POSITION = r"^\$(\d{1,9})$"
_PLACE = r"(\$\d{1,9}|\{\{\s*wildcard\(\s*\d{1,9}\s*\)\s*\}\})"


class Transform:
    """Rewrites subjects that match `source`. Immutable."""

    def __init__(
        self,
        source: str,
        destination: str,
        random: Random,
        *,
        is_reversible: bool = False,
        is_template: bool = False,
    ) -> None:
        """Compile `destination`; `is_reversible` requires each wildcard in it, unchanged.

        With `is_template`, wildcards may be parts of tokens, as in ``copy-$1``, and the destination
        may drop the tokens that the ``>`` of the source matched. nats-server allows neither.

        Raises:
            ValueError: a subject, a function or an argument is invalid.
        """
        self.source = source.encode()
        self.destination = destination.encode()
        tokens = destination.split(".")
        if not is_valid_subject(self.source) or not _is_destination(tokens):
            raise ValueError(f"expected subjects, got {source!r} to {destination!r}")
        self._ends_in_fwc = tokens[-1] == ">"
        source_tokens = self.source.split(b".")
        drops_rest = is_template and not self._ends_in_fwc
        if self._ends_in_fwc != (source_tokens[-1] == b">") and not drops_rest:
            raise ValueError(f"{source!r} and {destination!r} must both end in '>', or neither")
        self._rest = len(source_tokens) - 1
        compiler = _Compiler(source_tokens, random, is_template=is_template)
        parts = [compiler.compile(token) for token in tokens]
        self._parts = parts[:-1] if self._ends_in_fwc else parts
        self.is_random = compiler.uses_random
        if is_reversible and not compiler.is_reversible():
            raise ValueError(f"{destination!r} must use each '*' of {source!r} once, unchanged")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transform) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[bytes, bytes]:
        """Return the key by which two transforms are equal."""
        return self.source, self.destination

    def apply(self, subject: bytes) -> bytes | None:
        """Return the rewritten `subject`, or None when the source does not match it."""
        return self.rewrite(subject) if matches(subject, self.source) else None

    def rewrite(self, subject: bytes) -> bytes:
        """Return the rewritten `subject`, which must match the source."""
        tokens = subject.split(b".")
        pieces = [part(tokens) for part in self._parts]
        if self._ends_in_fwc:
            pieces += tokens[self._rest :]
        return b".".join(pieces)


class _Compiler:
    """Compiles the tokens of one destination to parts and records the wildcards that they use."""

    def __init__(self, source_tokens: list[bytes], random: Random, *, is_template: bool) -> None:
        self._is_template = is_template
        self._positions = [i for i, token in enumerate(source_tokens) if token == b"*"]
        self._random = random
        self._used: list[int] = []
        self._changes = False
        self.uses_random = False

    def compile(self, token: str) -> Part:
        """Return the part for `token`; raises ValueError."""
        position = re.match(_POSITION, token)
        if position:
            return self._wildcard(int(position[1]), token)
        function = re.match(_FUNCTION, token)
        if function is None:
            if token.startswith("{{") and token.endswith("}}"):
                raise ValueError(f"expected a function, got {token!r}")
            if self._is_template and re.search(_PLACE, token):
                return parts_of.joined(
                    [self.compile(piece) for piece in re.split(_PLACE, token) if piece]
                )
            return parts_of.always(token.encode())
        arguments = [argument.lstrip() for argument in function[2].split(",")]
        return self._function(function[1].lower(), arguments, token)

    def is_reversible(self) -> bool:
        """Return whether each wildcard of the source occurs once in the destination, unchanged."""
        return not self._changes and sorted(self._used) == list(range(1, len(self._positions) + 1))

    def _function(self, name: str, arguments: list[str], token: str) -> Part:
        """Return the part for a call of `name`."""
        if name == "wildcard":
            _check_count(arguments, 1, token)
            return self._wildcard(_number(arguments[0], token), token)
        self._changes = True
        if name == "partition":
            size = _number(arguments[0], token)
            positions = [self._position(_number(n, token), token) for n in arguments[1:]]
            return parts_of.partition(size, positions)
        if name == "random":
            _check_count(arguments, 1, token)
            self.uses_random = True
            return parts_of.random_number(_number(arguments[0], token), self._random)
        _check_count(arguments, 2, token)
        if name != "split" and name not in parts_of.CUTS:
            raise ValueError(f"unknown function in {token!r}")
        position = self._position(_number(arguments[0], token), token)
        if name == "split":
            return _split(position, arguments[1].encode(), token)
        return parts_of.cut(name, position, _number(arguments[1], token))

    def _wildcard(self, n: int, token: str) -> Part:
        """Return the part that yields the token of the n-th wildcard."""
        self._used.append(n)
        return parts_of.token_at(self._position(n, token))

    def _position(self, n: int, token: str) -> int:
        """Return the index in the source of the n-th wildcard."""
        if not 1 <= n <= len(self._positions):
            raise ValueError(f"the source of {token!r} has {len(self._positions)} '*', not {n}")
        return self._positions[n - 1]


def _is_destination(tokens: list[str]) -> bool:
    """Return whether `tokens` may be a destination: none empty, no ``*``, ``>`` at the end only."""
    # Unlike a subject, the arguments of a function may contain blanks.
    return (
        all(tokens)
        and "*" not in tokens
        and ">" not in tokens[:-1]
        and not any(_breaks_a_line(token) for token in tokens)
    )


def _breaks_a_line(token: str) -> bool:
    """Return whether `token` holds bytes that a control line cannot carry."""
    is_function = token.startswith("{{")
    return any(c in "\r\n\t" or (c == " " and not is_function) for c in token)


def _number(text: str, token: str) -> int:
    """Parse a numeric argument."""
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or int(digits[:11]) > SIZE_MAX:
        raise ValueError(f"expected a number, got {text!r} in {token!r}")
    return int(digits)


def _check_count(arguments: list[str], count: int, token: str) -> None:
    """Raise ValueError for a wrong number of arguments."""
    if len(arguments) != count:
        raise ValueError(f"expected {count} arguments, got {len(arguments)} in {token!r}")


def _split(position: int, separator: bytes, token: str) -> Part:
    if not separator or b" " in separator or b"." in separator:
        raise ValueError(f"expected a separator without blanks and dots in {token!r}")
    return lambda tokens: b".".join(piece for piece in tokens[position].split(separator) if piece)
