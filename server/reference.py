"""Generate `config.example.toml` and the table of `docs/configuration.md` from the option tables.

`python -m midge.server.reference example` and `… markdown` print them; tests hold the committed
files to what they print.
"""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

from msgspec import inspect

from midge.server import schema
from midge.server.checking import expectation
from midge.server.render import toml_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.schema import Setting

UNITS = {"_s": "seconds", "_bytes": "bytes", "_percent": "per cent", "_per_s": "per second"}
"""What the last part of a setting's name says about its unit."""

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
"""Settings that are tables or lists of tables, shown by example, ready to be uncommented."""


def unit_of(name: str) -> str:
    """Return the unit that a field's name ends in, or nothing."""
    found = [unit for suffix, unit in UNITS.items() if name.endswith(suffix)]
    return found[-1] if found else ""


def type_text(kind: Any) -> str:
    """Say in words which values a setting takes."""
    kind = schema.strip_metadata(kind)
    if isinstance(kind, inspect.VarTupleType):
        return "list of tables" if schema.struct_of(kind.item_type) else "list of str"
    if isinstance(kind, inspect.DictType):
        return "table of str"
    return "table" if schema.struct_of(kind) else expectation(kind)


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
    """Return the settings with each table's own ones before those of its sub-tables."""
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
    """Tell whether only a few words are values of `kind`."""
    return isinstance(schema.strip_metadata(kind), inspect.LiteralType)


def markdown() -> str:
    """Return the tables of `docs/configuration.md`."""
    return "\n".join(_markdown_lines()) + "\n"


def _markdown_lines() -> Iterator[str]:
    table: tuple[str, ...] | None = None
    for setting in _by_table():
        if setting.path[:-1] != table:
            table = setting.path[:-1]
            title = f"`[{'.'.join(table)}]`" if table else "Top level"
            yield from ("", f"### {title}", "")
            yield "| Setting | Value | Default | Meaning |"
            yield "|---|---|---|---|"
        value = type_text(setting.type)
        unit = unit_of(setting.path[-1])
        default = "none" if setting.default is None else f"`{toml_value(setting.default)}`"
        value += f", {unit}" if unit else ""
        cells = (f"`{setting.path[-1]}`", value, default, setting.doc)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main(arguments: list[str]) -> int:
    """Print what the first argument asks for."""
    text = {"example": example, "markdown": markdown}[arguments[0]]()
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
