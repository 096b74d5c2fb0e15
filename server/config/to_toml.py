"""Write options as TOML, for `midge check` and `midge convert`.

The text loads again into the same options, except for redacted secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from midge.server.config import schema
from midge.server.config.table import REDACTED
from midge.server.config.type_check import format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.server.config.options import Options
    from midge.server.config.type_check import Path

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class TomlWriter(msgspec.Struct, frozen=True, kw_only=True):
    """How a document is written."""

    defaults: bool = False
    """Write settings that have their default too."""
    redact: bool = False
    """Write `[REDACTED]` for secrets."""
    note: Callable[[tuple[str, ...]], str] | None = None
    """Comment for a setting of the given path."""

    def document(self, options: Options) -> str:
        """Return the TOML text of `options`."""
        lines = list(self._table(options, (), ()))
        return "\n".join(lines).strip("\n") + "\n" if lines else ""

    def _table(self, table: msgspec.Struct, header: tuple[str, ...], path: Path) -> Iterator[str]:
        nested = []
        for field in structs.fields(table):
            value = getattr(table, field.name)
            here = (*path, field.name)
            is_default = value == schema.default_of(field)
            if value is None or (is_default and not self.defaults):
                continue
            if _is_nested(value):
                nested.append((field.name, value, here))
            elif not is_default or here in schema.settings_by_path():
                yield self._line(type(table), value, here)
        for name, value, here in nested:
            yield from self._nested(type(table), value, (*header, name), here)

    def _line(self, table: type[msgspec.Struct], value: Any, path: Path) -> str:
        name = str(path[-1])
        secret = self.redact and schema.is_secret(schema.field_type(table, name)) and value
        text = f"{name} = {toml_value(REDACTED if secret else value)}"
        if self.note is not None and path in schema.settings_by_path():
            text = f"{text:<48}  # {self.note(path)}"  # type: ignore[arg-type]  # all names
        return text

    def _nested(
        self, table: type[msgspec.Struct], value: Any, header: tuple[str, ...], path: Path
    ) -> Iterator[str]:
        name = ".".join(header)
        if isinstance(value, tuple):
            for index, item in enumerate(value):
                yield from ("", f"[[{name}]]")
                yield from self._table(item, header, (*path, index))
            return
        lines = list(self._table(value, header, path))
        # Nested headers come after an empty line, so a first line with text is a setting. An
        # optional table that is there but has only defaults still needs its header.
        if lines[0] if lines else schema.is_optional(schema.field_type(table, header[-1])):
            yield from ("", f"[{name}]")
        yield from lines


def _is_nested(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and isinstance(value[0], msgspec.Struct)
    return isinstance(value, msgspec.Struct)


def toml_value(value: Any) -> str:
    """Return the TOML spelling of a plain value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, dict):
        items = ", ".join(f"{_key(name)} = {toml_value(item)}" for name, item in value.items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    return str(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped too.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def effective(
    options: Options, origins: dict[tuple[str, ...], str], *, defaults: bool = True
) -> str:
    """Return the settings with where each came from, secrets redacted.

    Without `defaults` those are left out that have their default.
    """

    def note(path: tuple[str, ...]) -> str:
        return origins.get(path, "default")

    text = TomlWriter(defaults=defaults, redact=True, note=note).document(options)
    lists = [
        f"# {format_path(path)}: {origin}"
        for path, origin in origins.items()
        if _is_nested(_value_at(options, path))
    ]
    return text + "".join(f"{line}\n" for line in lists)


def _value_at(options: Options, path: tuple[str, ...]) -> Any:
    value: Any = options
    for name in path:
        value = getattr(value, name)
    return value
