"""The parts of the destinations of subject transforms; the rules are nats-server's.

Two readers of destinations use them: `sublist.transform` with midge's own error texts, and
`jetstream.transform` with nats-server's. Subjects are bytes here, as they are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

SIZE_MAX = 2**31 - 1
"""The largest number of partitions, length or position."""

Part = Callable[[list[bytes]], bytes]
"""Builds one part of the destination from the tokens of a subject."""


def always(literal: bytes) -> Part:
    """Return the part that yields `literal` for all subjects."""
    return lambda _: literal


def token_at(position: int) -> Part:
    """Return the part that yields the token at `position`."""
    return lambda tokens: tokens[position]


def joined(parts: list[Part]) -> Part:
    """Return the part that joins `parts` without dots between them."""
    return lambda tokens: b"".join(part(tokens) for part in parts)


def partition(size: int, positions: list[int]) -> Part:
    """Return the part that yields a number below `size`, the same for the same tokens.

    It depends on the tokens at `positions`, or on all tokens if there are none.
    """

    def part(tokens: list[bytes]) -> bytes:
        key = b"".join(tokens[i] for i in positions) if positions else b".".join(tokens)
        return b"%d" % (_fnv1a(key) % size) if size else b"0"

    return part


def random_number(size: int, random: Random | None) -> Part:
    """Return the part that yields a random number below `size`.

    It yields 0 if `size` is 0 or less, or without `random`.
    """
    return lambda _: b"%d" % (random.randrange(size) if random is not None and size > 0 else 0)


def cut(name: str, position: int, size: int) -> Part:
    """Return the part that the function `name` of `CUTS` makes of a token; sizes are in bytes."""
    function = CUTS[name]
    return lambda tokens: function(tokens[position], size)


def _split_from_left(token: bytes, at: int) -> bytes:
    return token[:at] + b"." + token[at:] if 0 < at < len(token) else token


def _split_from_right(token: bytes, at: int) -> bytes:
    return token[:-at] + b"." + token[-at:] if 0 < at < len(token) else token


def _slice_from_left(token: bytes, size: int) -> bytes:
    if not 0 < size < len(token):
        return token
    return b".".join(token[i : i + size] for i in range(0, len(token), size))


def _slice_from_right(token: bytes, size: int) -> bytes:
    if not 0 < size < len(token):
        return token
    first = len(token) % size
    pieces = [token[i : i + size] for i in range(first, len(token), size)]
    return b".".join([token[:first], *pieces] if first else pieces)


def _left(token: bytes, size: int) -> bytes:
    return token[:size] if 0 < size < len(token) else token


def _right(token: bytes, size: int) -> bytes:
    return token[-size:] if 0 < size < len(token) else token


CUTS: dict[str, Callable[[bytes, int], bytes]] = {
    "splitfromleft": _split_from_left,
    "splitfromright": _split_from_right,
    "slicefromleft": _slice_from_left,
    "slicefromright": _slice_from_right,
    "left": _left,
    "right": _right,
}
"""Functions of a token and a number of bytes, by name in lower case."""


def _fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash, which nats-server uses for partitions."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
