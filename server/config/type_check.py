"""Compare plain values, as files and the environment give them, with the option tables.

Finds every problem rather than the first, and names the expected and the given value of each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct, inspect

from midge.server.config.schema import (
    field_type,
    is_secret,
    required_in,
    settings,
    strip_metadata,
    tables_in,
)
from midge.server.config.table import EXPECTED

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]
SHOWN_LENGTH_MAX = 60
"""Characters of a wrong value that a message repeats."""


class Problem(Struct, frozen=True):
    """Something that is not as a table wants it."""

    path: Path
    text: str


def format_path(path: Path) -> str:
    """Write a path as `accounts[0].users[1].user`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def nearest(name: str, known: list[str]) -> str:
    """Return `; did you mean 'x'?` when a known name resembles `name`, else nothing."""
    import difflib  # noqa: PLC0415 - only mistakes need it

    close = difflib.get_close_matches(name[:SHOWN_LENGTH_MAX], known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _hint(name: str, known: list[str], path: Path) -> str:
    """Return the probable name: at the top of a file, settings of the tables count as well."""
    if not path and name not in known:
        keys = [setting.key for setting in settings() if setting.path[-1] == name]
        if keys:
            return f"; did you mean '{keys[0]}'?"
    return nearest(name, known)


def find_problems(raw: Any, table: type[Struct], path: Path = ()) -> Iterator[Problem]:
    """Yield what keeps `raw` from being a `table`."""
    if not isinstance(raw, dict):
        yield Problem(path, f"expected a table, got {_show(raw)}")
        return
    tables = tables_in(table)
    for name, value in raw.items():
        if name in tables:
            # Without a look at the types of all that could be set, which takes 6 ms.
            yield from find_problems(value, tables[name], (*path, name))
        elif name in table.__struct_fields__:
            yield from _check(value, field_type(table, name), (*path, name))
        else:
            hint = _hint(name, list(table.__struct_fields__), path)
            yield Problem((*path, name), "unknown key" + hint)
    for name in required_in(table):
        if name not in raw:
            yield Problem((*path, name), "missing")


def _check(value: Any, kind: Any, path: Path) -> Iterator[Problem]:
    secret, whole = is_secret(kind), kind
    kind = strip_metadata(kind)
    if isinstance(kind, inspect.UnionType):
        kind = strip_metadata(_one_of(value, kind))
    if isinstance(kind, inspect.StructType):
        yield from find_problems(value, kind.cls, path)
    elif isinstance(kind, inspect.VarTupleType):
        yield from _check_list(value, kind, path)
    elif isinstance(kind, inspect.DictType):
        yield from _check_mapping(value, kind, path)
    elif not _fits(value, kind):
        got = "another type" if secret else _show(value)
        yield Problem(path, f"expected {expectation(whole)}, got {got}")


def _one_of(value: Any, union: inspect.UnionType) -> Any:
    """Return the member of `union` that `value` should have: for text, a list of words first."""
    kinds = [one for one in union.types if not isinstance(one, inspect.NoneType)]
    words = [one for one in kinds if isinstance(one, inspect.LiteralType)]
    return words[0] if words and isinstance(value, str) else kinds[0]


def _check_list(value: Any, kind: inspect.VarTupleType, path: Path) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield Problem(path, f"expected a list, got {_show(value)}")
        return
    for index, item in enumerate(value):
        yield from _check(item, kind.item_type, (*path, index))


def _check_mapping(value: Any, kind: inspect.DictType, path: Path) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, f"expected a table, got {_show(value)}")
        return
    for name, item in value.items():
        yield from _check(item, kind.value_type, (*path, name))


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.LiteralType):
        return value in kind.values and isinstance(value, str)
    if isinstance(kind, inspect.StrType):
        pattern = kind.pattern
        return isinstance(value, str) and (pattern is None or bool(re.search(pattern, value)))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(kind, inspect.IntType) and not isinstance(value, int):
        return False
    return _in_bounds(value, kind)


def _in_bounds(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    # Written so that a float's NaN is out of every bound, and infinity out of all.
    if kind.ge is not None and not value >= kind.ge:
        return False
    if kind.gt is not None and not value > kind.gt:
        return False
    if kind.le is not None and not value <= kind.le:
        return False
    return -(2**63) <= value < 2**63


def expectation(kind: Any) -> str:
    """Return a description of the values of `kind`."""
    if isinstance(kind, inspect.Metadata) and kind.extra and EXPECTED in kind.extra:
        return str(kind.extra[EXPECTED])
    kind = strip_metadata(kind)
    if isinstance(kind, inspect.UnionType):
        kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        return " or ".join(expectation(one) for one in kinds)
    if isinstance(kind, inspect.LiteralType) and len(kind.values) == 1:
        return repr(kind.values[0])
    if isinstance(kind, inspect.LiteralType):
        return "one of " + ", ".join(repr(value) for value in kind.values)
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.StrType):
        return "str"
    name = "int" if isinstance(kind, inspect.IntType) else "number"
    return name + _bounds(kind)


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g}"
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    return "" if kind.ge is None else f" of {kind.ge:g} or more"


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if not isinstance(value, int) or value.bit_length() < 256 else "a huge int"
    return text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 1] + "…"
