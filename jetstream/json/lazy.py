"""Nodes of a large JSON text, made on demand from values that a reader in C has read.

`syntax` reads a text in Python, with Go's words and the place of every error, at 1.4 s for a MiB
of small values. Above `SMALL_BYTES` the reader in C reads the values, and a node is made only when
a `structure` accesses it. Errors then have that reader's words, the last of two equal names
counts, and texts must be UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from midge.jetstream.json import syntax
from midge.jetstream.json.syntax import Node, SyntaxProblem

SMALL_BYTES = 4096
"""Longest text that is read in Python: 6 ms at most."""

_CONTAINERS_MAX = 100_000
"""Most objects and arrays of a text, which take 30 ms to make; a stream has one for each source."""

_DEEP_BYTES = 2 * syntax.DEPTH_MAX

_SHOWN_BITS = 512  # of a number that is shown in a refusal; Python writes 4,300 digits at most
_BEYOND = "9" * 200  # for a number that no type can hold
_NOWHERE = -1


class _Number(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


def read(data: bytes) -> Any:
    """Return the one value in `data`, of dicts, lists, texts, numbers, booleans and None.

    Raises:
        SyntaxProblem: it is malformed.
    """
    if data.count(b"[") + data.count(b"{") > _CONTAINERS_MAX:
        raise SyntaxProblem("too many objects and arrays")
    try:
        return _DECODER.decode(data)
    except RecursionError:
        syntax.read_value(data[:_DEEP_BYTES], 0)  # which refuses it in Go's words, if Go would
        raise SyntaxProblem("exceeded max depth") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise SyntaxProblem(str(error)) from None


class _Items:
    """The nodes of a list."""

    __slots__ = ("_values",)

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Node]:
        return map(node_of, self._values)


class _Members:
    """The names and nodes of an object."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[tuple[str, Node]]:
        for name, value in self._values.items():
            yield name, node_of(value)


def node_of(value: Any) -> Node:
    """Return the node of a value that `read` has returned."""
    if isinstance(value, dict):
        return syntax.OBJECT, _Members(value), _NOWHERE, _NOWHERE
    if isinstance(value, list):
        return syntax.ARRAY, _Items(value), _NOWHERE, _NOWHERE
    if isinstance(value, _Number):
        return syntax.NUMBER, str(value), _NOWHERE, _NOWHERE
    if isinstance(value, str):
        return syntax.STRING, value, _NOWHERE, _NOWHERE
    if value is None:
        return syntax.NULL, None, _NOWHERE, _NOWHERE
    if isinstance(value, bool):
        return syntax.BOOL, value, _NOWHERE, _NOWHERE
    digits = str(value) if value.bit_length() <= _SHOWN_BITS else _BEYOND
    return syntax.NUMBER, digits, _NOWHERE, _NOWHERE


def written(node: Node) -> bytes:
    """Return the text of a node, or of an empty container in place of one."""
    kind, value, _, _ = node
    if kind in (syntax.OBJECT, syntax.ARRAY):
        return b"{}" if kind == syntax.OBJECT else b"[]"
    return value.encode() if kind == syntax.NUMBER else msgspec.json.encode(value)


_DECODER = msgspec.json.Decoder(float_hook=_Number)
