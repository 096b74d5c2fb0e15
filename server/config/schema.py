"""Walk the option tables: every setting with its key, type, default, documentation and names.

The file loader, the environment, the command line and the documentation all take their list of
settings from here, so none of them can forget one.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import msgspec
from msgspec import inspect, structs

from midge.server.config.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

_fields: dict[type[msgspec.Struct], tuple[inspect.Field, ...]] = {}
"""The fields of the table classes that have been looked at, and of those within them."""


class Setting(msgspec.Struct, frozen=True):
    """One setting: a leaf of the option tables."""

    path: tuple[str, ...]
    """Names from the root, such as `("listen", "port")`."""
    type: Any
    """The `msgspec.inspect` type, with constraints."""
    default: Any
    """The default value."""
    secret: bool
    """Whether the value is secret and never shown."""
    table: type[msgspec.Struct]
    """The class that the setting is a field of."""

    @property
    def doc(self) -> str:
        """Return the setting's documentation."""
        return docstrings(self.table)[self.path[-1]]

    @property
    def key(self) -> str:
        """Return the dotted name, as error messages write it."""
        return ".".join(self.path)

    @property
    def environment(self) -> str:
        """Return the name of the environment variable."""
        return "_".join(("MIDGE", *self.path)).upper()

    @property
    def flag(self) -> str:
        """Return the name of the command-line flag, without dashes."""
        return "-".join(self.path).replace("_", "-")


def strip_metadata(kind: Any) -> Any:
    """Return `kind` without its metadata wrapper."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def is_secret(kind: Any) -> bool:
    """Return whether values of `kind` must never be shown."""
    return isinstance(kind, inspect.Metadata) and bool((kind.extra or {}).get("secret"))


def struct_of(kind: Any) -> type[msgspec.Struct] | None:
    """Return the table class of `kind`, optional or not; None for other types."""
    kind = strip_metadata(kind)
    if isinstance(kind, inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind.cls if isinstance(kind, inspect.StructType) else None


def is_optional(kind: Any) -> bool:
    """Return whether `kind` accepts None, which means absent."""
    kind = strip_metadata(kind)
    return isinstance(kind, inspect.UnionType) and kind.includes_none


def fields_of(table: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    """Return the fields of a table class."""
    if table not in _fields:
        _note_fields(inspect.type_info(table))
    return _fields[table]


@functools.cache
def field_type(table: type[msgspec.Struct], name: str) -> Any:
    """Return the type of one field of a table class, which takes less than to look at them all."""
    return inspect.type_info(_annotations(table)[name])


@functools.cache
def _annotations(table: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(table, include_extras=True)


def _note_fields(kind: Any) -> None:
    """Note the fields of all tables in `kind`: to look at a type is slow, and shows all of it."""
    kind = strip_metadata(kind)
    inner: tuple[Any, ...] = ()
    if isinstance(kind, inspect.StructType) and kind.cls not in _fields:
        _fields[kind.cls] = kind.fields
        inner = tuple(field.type for field in kind.fields)
    elif isinstance(kind, inspect.UnionType):
        inner = kind.types
    elif isinstance(kind, inspect.VarTupleType):
        inner = (kind.item_type,)
    elif isinstance(kind, inspect.DictType):
        inner = (kind.value_type,)
    for one in inner:
        _note_fields(one)


@functools.cache
def tables_in(table: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """Return the tables that are always there within `table`, by name; quick, and not deep."""
    return {
        field.name: type(field.default)
        for field in structs.fields(table)
        if isinstance(field.default, msgspec.Struct)
    }


@functools.cache
def required_in(table: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the fields of `table` that have no default."""
    return tuple(field.name for field in structs.fields(table) if field.required)


def is_setting(path: tuple[str, ...]) -> bool:
    """Return whether `path` names a setting of `Options`, not a table or an unknown name."""
    table: type[msgspec.Struct] = Options
    for name in path[:-1]:
        inner = tables_in(table).get(name)
        if inner is None:
            return False
        table = inner
    return path[-1] in table.__struct_fields__ and path[-1] not in tables_in(table)


def options_of(raw: dict[str, Any]) -> Options:
    """Return the options of plain values, which must be valid.

    It converts only the given settings, because resolving the types of all takes 2 ms.
    """
    tables = tables_in(Options)
    given: dict[str, Any] = {
        name: msgspec.convert(value, tables.get(name) or _annotations(Options)[name])
        for name, value in raw.items()
    }
    return Options(**given)


def default_of(field: inspect.Field | structs.FieldInfo) -> Any:
    """Return the default of `field`; None when it is required."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


@functools.cache
def docstrings(table: type[msgspec.Struct]) -> dict[str, str]:
    """Return the text under each field of a table class, and of its bases, read from the source."""
    import ast  # noqa: PLC0415 - for help and documentation only
    from inspect import getsource  # noqa: PLC0415 - as above

    base = cast("type[msgspec.Struct]", table.__base__)
    found = docstrings(base) if base.__struct_fields__ else {}
    body = cast("ast.ClassDef", ast.parse(getsource(table)).body[0]).body
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                found[name] = " ".join(doc.split())
    return found


def is_required(field: inspect.Field) -> bool:
    """Return whether `field` has no default."""
    return field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT


def is_table(kind: Any) -> bool:
    """Return whether `kind` is a table that always exists, and so is not a setting itself."""
    return struct_of(kind) is not None and not is_optional(kind)


def _walk(table: type[msgspec.Struct], path: tuple[str, ...]) -> Iterator[Setting]:
    for field in fields_of(table):
        here = (*path, field.name)
        if is_table(field.type):
            yield from _walk(cast("type[msgspec.Struct]", struct_of(field.type)), here)
        else:
            yield Setting(here, field.type, default_of(field), is_secret(field.type), table)


def inner_tables() -> list[type[msgspec.Struct]]:
    """Return the tables within settings: elements of lists, and optional ones."""
    found: dict[type[msgspec.Struct], None] = {}
    waiting = [setting.type for setting in settings()]
    while waiting:
        kind = strip_metadata(waiting.pop(0))
        if isinstance(kind, inspect.VarTupleType):
            kind = kind.item_type
        table = struct_of(kind)
        if table is not None and table not in found:
            found[table] = None
            waiting += [field.type for field in fields_of(table)]
    return list(found)


@functools.lru_cache(maxsize=1)
def settings() -> tuple[Setting, ...]:
    """Return every setting of `Options`, in the order of the tables."""
    return tuple(_walk(Options, ()))


@functools.lru_cache(maxsize=1)
def settings_by_path() -> dict[tuple[str, ...], Setting]:
    """Return every setting by its path."""
    return {setting.path: setting for setting in settings()}
