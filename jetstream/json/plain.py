"""Requests as clients' libraries write them, read by a JSON reader written in C.

Go's rules have much that this reader does not know: names in any case or twice, numbers as they
were written, offsets of errors. So it takes only what both read alike, and `structure` the rest,
which takes 95 µs longer for the request that makes an ordered consumer.
"""

from __future__ import annotations

from typing import Any

import msgspec

NOT_PLAIN = object()
"""Says that a value, or a whole request, needs all of Go's rules."""

_ESCAPE = ord("\\")  # a number: to look for bytes in bytes, CPython raises and catches
_MINUS_ZERO = b"-0"
_QUOTE = b'"'


class _FractionError(ValueError):
    """A number that is not whole."""


def read(data: bytes) -> Any:
    """Return the value in `data`, of dicts, lists, texts, whole numbers, booleans and None.

    Returns:
        `NOT_PLAIN` for anything else: also what is malformed, has an escape or a name twice.
    """
    if _ESCAPE in data or data.find(_MINUS_ZERO) >= 0:
        return NOT_PLAIN
    try:
        value = _DECODER.decode(data)
        # Without escapes every quote begins or ends a text. One of a name that comes twice, and
        # those of the value that it had first, are missing from what was read.
        is_whole = data.count(_QUOTE) == _ENCODER.encode(value).count(_QUOTE)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return NOT_PLAIN
    return value if is_whole else NOT_PLAIN


def _refuse(_: str) -> Any:
    raise _FractionError


_DECODER = msgspec.json.Decoder(float_hook=_refuse)
_ENCODER = msgspec.json.Encoder()
