"""Generate the files that repeat the option tables: example, documentation and keyword types.

`python -m midge.server.config.reference example` prints `config.example.toml`, `… markdown` the
tables of `docs/configuration.md` and `… keywords` the stub `midge.server.config.keywords`;
tests hold the committed files to what they print.
"""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from midge.server.config import schema
from midge.server.config.to_toml import toml_value
from midge.server.config.type_check import expectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.config.schema import Setting

UNITS = {"_s": "seconds", "_bytes": "bytes", "_percent": "per cent", "_per_s": "per second"}
"""Units by the last part of a setting's name."""

PREAMBLE = """\
# Every setting of midge, with its meaning, unit and default. As it stands this file changes
# nothing: copy it and keep the lines that you change. `midge check -c FILE` shows what would be
# in effect. A setting `table.field` is also the environment variable MIDGE_TABLE_FIELD and the
# flag --table-field; flags outweigh the environment, and that outweighs this file.
"""

EXAMPLES = {
    "accounts": """\
# [[accounts]]
# name = "SHOP"
# [accounts.limits]
# max_connections = 1000
# [[accounts.users]]
# user = "till"
# password = "$2b$11$8Pm2ZVnYqRcJ7CRmGJ3vWOjQKQvLdtG2z1jbdFtCVtK6bXKQJvXsa"
# [accounts.users.permissions]
# publish = { allow = ["orders.>"], deny = ["orders.internal.>"] }
# subscribe = { allow = ["prices.>", "jobs.* workers"] }
# allow_responses = { max = 1, expires_s = 60 }
# [[accounts.exports]]
# service = "stock.query"
# [[accounts]]
# name = "WAREHOUSE"
# [[accounts.imports]]
# service = { account = "SHOP", subject = "stock.query" }
# to = "shop.stock"
""",
    "mappings": """\
# [[mappings]]
# source = "orders.*"
# destinations = [
#   { destination = "orders.v1.{{wildcard(1)}}", weight_percent = 90 },
#   { destination = "orders.v2.{{wildcard(1)}}", weight_percent = 10 },
# ]
""",
    "authorization.users": """\
# [[authorization.users]]
# user = "reader"
# password = "change-me"
# permissions = { publish = { deny = [">"] } }
""",
    "authorization.default_permissions": """\
# [authorization.default_permissions]
# publish = { deny = ["admin.>"] }
""",
}
"""Settings that are tables or lists of tables, as commented-out examples."""


def unit_of(name: str) -> str:
    """Return the unit that a field's name ends in, or nothing."""
    found = [unit for suffix, unit in UNITS.items() if name.endswith(suffix)]
    return found[-1] if found else ""


def type_text(kind: Any) -> str:
    """Return in words the values that a setting takes."""
    plain = schema.strip_metadata(kind)
    if isinstance(plain, inspect.VarTupleType):
        table = schema.struct_of(plain.item_type)
        if isinstance(schema.strip_metadata(plain.item_type), inspect.FloatType):
            return "list of numbers"
        return f"list of `{table.__name__}`" if table else "list of str"
    if isinstance(plain, inspect.DictType):
        return "table of str"
    table = schema.struct_of(plain)
    return f"`{table.__name__}`" if table else expectation(kind)


def example() -> str:
    """Return the text of `config.example.toml`."""
    lines = [PREAMBLE.rstrip()]
    late: list[str] = []
    table: tuple[str, ...] = ()
    for setting in _by_table():
        if setting.path[:-1] != table:
            lines += _take(late)
            table = setting.path[:-1]
            lines += ["", "", f"[{'.'.join(table)}]"]
        text = _example_of(setting)
        if setting.key in EXAMPLES:
            late += text
        else:
            lines += text
    return "\n".join(lines + late) + "\n"


def _take(lines: list[str]) -> list[str]:
    taken, lines[:] = lines[:], []
    return taken


def _by_table() -> list[Setting]:
    """Return the settings, each table's own ones before its sub-tables' settings."""
    found = list(schema.settings())
    order = {table: at for at, table in enumerate(dict.fromkeys(s.path[:-1] for s in found))}
    order[()] = -1
    return sorted(found, key=lambda setting: order[setting.path[:-1]])


def _example_of(setting: Setting) -> list[str]:
    comment = _with_unit(setting)
    lines = ["", *textwrap.wrap(comment, 98, initial_indent="# ", subsequent_indent="# ")]
    if setting.key in EXAMPLES:
        return lines + EXAMPLES[setting.key].splitlines()
    return [*lines, f"{setting.path[-1]} = {toml_value(setting.default)}"]


def _with_unit(setting: Setting) -> str:
    unit = unit_of(setting.path[-1])
    choice = type_text(setting.type) if expectation_is_choice(setting.type) else unit
    return f"{setting.doc} ({choice})" if choice else setting.doc


def expectation_is_choice(kind: Any) -> bool:
    """Return whether the values of `kind` are a few words."""
    return isinstance(schema.strip_metadata(kind), inspect.LiteralType)


def markdown() -> str:
    """Return the tables of `docs/configuration.md`."""
    return "\n".join([*_setting_tables(), *_inner_tables()]).strip() + "\n"


def _setting_tables() -> Iterator[str]:
    """Yield a Markdown table for each table of settings."""
    table: tuple[str, ...] | None = None
    for setting in _by_table():
        if setting.path[:-1] != table:
            table = setting.path[:-1]
            yield from _heading(f"`[{'.'.join(table)}]`" if table else "Top level")
        yield _row(setting.path[-1], setting.type, setting.default, setting.doc)


def _inner_tables() -> Iterator[str]:
    """Yield a Markdown table for each table that stands within a list or is optional."""
    for table in schema.inner_tables():
        yield from _heading(f"Table `{table.__name__}`")
        docs = schema.docstrings(table)
        for field in schema.fields_of(table):
            default = REQUIRED if schema.is_required(field) else schema.default_of(field)
            yield _row(field.name, field.type, default, docs[field.name])


REQUIRED = object()
"""Marks a setting without a default."""


def _heading(title: str) -> tuple[str, ...]:
    columns = ("| Setting | Value | Default | Meaning |", "|---|---|---|---|")
    return ("", f"### {title}", "", *columns)


def _row(name: str, kind: Any, default: Any, doc: str) -> str:
    unit = unit_of(name)
    value = type_text(kind) + (f", {unit}" if unit else "")
    cells = (f"`{name}`", value, _default_text(default), doc)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default_text(default: Any) -> str:
    if default is REQUIRED:
        return "required"
    if default is None or isinstance(default, msgspec.Struct):
        return ""
    return f"`{toml_value(default)}`"


def keywords() -> str:
    """Return `server/config/keywords.pyi`: the types of the keywords of `midge.Server`.

    The first of several keywords for one setting has its text.
    """
    from midge.server.config.from_keywords import keyword_names  # noqa: PLC0415 - only needed here

    settings, fields = schema.settings_by_path(), []
    tables: set[str] = set()
    documented: set[tuple[str, ...]] = set()
    for name, path in keyword_names().items():
        if name == "interceptors":  # a parameter of its own
            continue
        setting = settings.get(path)
        table = JETSTREAM if name == "jetstream" else TABLE
        fields.append(f"    {name}: {_annotation(setting.type, tables) if setting else table}")
        if setting is not None and path not in documented and len(setting.doc) <= DOC_LENGTH_MAX:
            documented.add(path)
            fields.append(f'    """{setting.doc}"""')
    imports = ",\n".join(f"    {name}" for name in sorted(tables))
    return KEYWORDS.format(imports=imports, fields="\n".join(fields))


def _annotation(kind: Any, tables: set[str]) -> str:
    """Return the Python type that a keyword takes for a setting of type `kind`."""
    kind = schema.strip_metadata(kind)
    if isinstance(kind, inspect.UnionType) and not kind.includes_none:
        return " | ".join(_annotation(one, tables) for one in kind.types)
    if isinstance(kind, inspect.LiteralType):
        return f"Literal[{', '.join(json.dumps(value) for value in kind.values)}]"
    if isinstance(kind, inspect.VarTupleType):
        return f"abc.Sequence[{_annotation(kind.item_type, tables)}]"
    if isinstance(kind, inspect.StructType):
        tables.add(kind.cls.__name__)
        return f"{kind.cls.__name__} | abc.Mapping[str, Any]"
    plain: dict[Any, str] = {
        inspect.StrType: "str",
        inspect.IntType: "int",
        inspect.FloatType: "float",
        inspect.BoolType: "bool",
    }
    return plain.get(type(kind), "Any")


TABLE = "abc.Mapping[str, Any] | Struct"
"""The types of a keyword for a whole table."""

JETSTREAM = f"bool | str | PathLike[str] | {TABLE}"
"""The types of `jetstream`: in memory, a directory, or the table."""

DOC_LENGTH_MAX = 90

KEYWORDS = '''\
"""The keywords of `midge.Server` with their types, for editors and type checkers.

Made by `python -m midge.server.config.reference keywords`; nothing reads it at run time.
"""

from collections import abc
from os import PathLike
from typing import Any, Literal, TypedDict

from msgspec import Struct

from midge.server.config.options import (
{imports},
)

class Keywords(TypedDict, total=False):
    """Every setting under its keywords; tables may be given whole."""

{fields}
'''


def main(arguments: list[str]) -> int:
    """Print the file that the first argument names."""
    text = {"example": example, "markdown": markdown, "keywords": keywords}[arguments[0]]()
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
