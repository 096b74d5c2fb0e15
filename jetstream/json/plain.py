"""Requests as clients' libraries write them, read by a JSON reader written in C.

Go's rules have much that this reader does not know: names in any case or twice, numbers as they
were written, offsets of errors. So it takes only what both read alike, and `structure` the rest,
which takes 95 µs longer for the request that makes an ordered consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from midge.protocol import memory

Reader = tuple[str, type | None, Callable[[Any, Any], Any]]
"""An attribute, and how its values are read: see `assign`."""

NOT_PLAIN = object()
"""Says that a value, or a whole request, needs all of Go's rules."""

_ESCAPE = 0x5C
_CODE = 0x75  # u
_QUOTE = 0x22
_MINUS = 0x2D
_ZERO = 0x30


class _FractionError(ValueError):
    """A number that is not whole."""


def read(data: bytes) -> Any:
    """Return the value in `data`, of dicts, lists, texts, whole numbers, booleans and None.

    Returns:
        `NOT_PLAIN` for any other text: malformed ones, ones with a repeated name, or with an escape
        other than a code of four digits, as Go writes `>`.
    """
    quotes = _quotes_in(data)
    if quotes < 0:
        return NOT_PLAIN
    try:
        value = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return NOT_PLAIN
    # Without an escaped quote each one begins or ends a text. If a name is repeated, the value that
    # was read lacks the quotes of one of the names and of its first value.
    return value if quotes == 2 * _texts_in(value) else NOT_PLAIN


def _quotes_in(data: bytes) -> int:
    """Count the quotes in `data`; -1 where a quote may be escaped, or a number may be -0."""
    if not memory.is_compiled():
        is_plain = data.count(b"\\") == data.count(b"\\u") and b"-0" not in data
        return data.count(b'"') if is_plain else -1
    text = data
    size = len(data)
    quotes = 0
    escapes = 0
    others = False
    for at in range(size):
        quotes += text[at] == _QUOTE
        escapes += text[at] == _ESCAPE
    for at in range(size - 1):
        escapes -= (text[at] == _ESCAPE) & (text[at + 1] == _CODE)
        others |= (text[at] == _MINUS) & (text[at + 1] == _ZERO)
    return -1 if others or escapes else quotes


def _texts_in(value: Any) -> int:
    """Count the texts in a value, names among them."""
    if isinstance(value, str):
        return 1
    count = 0
    if isinstance(value, dict):
        for one in value.values():
            count += 1 + _texts_in(one)
    elif isinstance(value, list):
        for one in value:
            count += _texts_in(one)
    return count


def assign(made: Any, value: dict[str, Any], readers: dict[str, Reader]) -> bool:
    """Set the attributes of `made` to the members of `value`; return False if one is not plain.

    Then no attribute is set. `readers` has for each name the attribute, the type of a value that
    is used unchanged, and the reader of other values.
    """
    found = []
    for name, one in value.items():
        reader = readers.get(name)
        if reader is None:
            return False
        attribute, plain_type, plain_of = reader
        read = one
        if type(one) is not plain_type:
            read = plain_of(one, getattr(made, attribute))
            if read is NOT_PLAIN:
                return False
        found.append((attribute, read))
    for attribute, read in found:
        setattr(made, attribute, read)
    return True


def _refuse(_: str) -> Any:
    raise _FractionError


_DECODER = msgspec.json.Decoder(float_hook=_refuse)
