"""Options as keyword arguments: `Server(port=-1, user="shop", max_payload=2048)`.

Every setting can be named by its full path, `limits_max_payload_bytes`. The settings of the tables
that programs mostly set also go by their own name, and without the unit: `max_payload_bytes`,
`max_payload`. A whole table can be given as well, as its typed structure or a dictionary.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import msgspec

from midge.server.config.contradictions import find_contradictions
from midge.server.config.options import Options
from midge.server.config.type_check import find_problems, format_path, nearest
from midge.server.errors import CombinedConfigError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from midge.server.config.type_check import Problem

SHORT_TABLES = ("listen", "limits", "keepalive", "routing", "shutdown", "authorization", "logging")
"""Tables whose settings go by their own names; where two have the same, the first one's counts."""

UNITS = ("_bytes", "_s")

SHORT_NAMES = {
    "auth_timeout": ("authorization", "timeout_s"),
    "auth_timeout_s": ("authorization", "timeout_s"),
    "http_port": ("monitoring", "http_port"),
    "websocket_port": ("websocket", "port"),
}
"""Names that no table gives by itself."""

NOT_SHORT = frozenset({"timeout_s", "file", "format"})
"""Settings whose own name says too little."""


@functools.lru_cache(maxsize=1)
def keyword_names() -> dict[str, tuple[str, ...]]:
    """Return every keyword with the path of its setting."""
    names: dict[str, tuple[str, ...]] = dict(SHORT_NAMES)
    paths = list(_paths(Options()))
    for table in SHORT_TABLES:
        for path in paths:
            *above, name = path
            if above == [table] and name not in NOT_SHORT:
                names.setdefault(name, path)
                names.setdefault(_without_unit(name), path)
    for path in paths:
        names.setdefault("_".join(path), path)
    for field in Options.__struct_fields__:
        names.setdefault(field, (field,))
    return names


def _paths(table: msgspec.Struct, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return the path of every setting, by the defaults: to look at their types takes longer."""
    for field in table.__struct_fields__:
        value = getattr(table, field)
        if isinstance(value, msgspec.Struct):
            yield from _paths(value, (*above, field))
        else:
            yield (*above, field)


def options_from_keywords(base: Any, keywords: Mapping[str, Any]) -> Options:
    """Return `base`, or the defaults without one, with the settings that `keywords` name.

    Raises:
        ConfigError: an unknown name, a wrong value or a contradiction; nothing else is checked.
    """
    if base is not None and not isinstance(base, Options):
        expected = "expected midge.Options, such as midge.load_options(file) gives"
        raise ConfigError(f"{expected}, got {base!r:.60}", key="options")
    if not keywords:
        return base or Options()
    raw: dict[str, Any] = _plain(base) if base is not None else {}
    names: dict[tuple[str, ...], str] = {}
    for name, value in keywords.items():
        path = keyword_names().get(name)
        if path is None:
            hint = nearest(name, list(keyword_names()))
            raise ConfigError(f"unknown option{hint}", key=name)
        names[path] = name
        _put(raw, path, _jetstream(value) if name == "jetstream" else _plain(value))
    return _convert(raw, names)


def _jetstream(value: Any) -> Any:
    """Return the table for the keyword `jetstream`: True, or a store directory."""
    if isinstance(value, bool):
        return {"enabled": value, "in_memory": value}
    if isinstance(value, str | os.PathLike):
        return {"enabled": True, "store_dir": os.fspath(value)}
    return _plain(value)


def _convert(raw: dict[str, Any], names: dict[tuple[str, ...], str]) -> Options:
    problems = list(_problems(raw))
    if not problems:
        options = msgspec.structs.replace(Options(), **_tables(raw))
        problems = list(find_contradictions(options))
        if not problems:
            return options
    errors = [_error(problem, names) for problem in problems]
    raise errors[0] if len(errors) == 1 else CombinedConfigError(errors)


def _problems(raw: dict[str, Any]) -> Iterator[Problem]:
    """Check the tables that `raw` has one by one: to look at the types of all takes longer."""
    defaults = Options()
    for name, value in raw.items():
        default = getattr(defaults, name)
        if isinstance(default, msgspec.Struct):
            yield from find_problems(value, type(default), (name,))
        else:
            yield from find_problems({name: value}, Options)


def _tables(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert the tables and settings that `raw` has; it has no problems."""
    defaults = Options()
    types = {name: type(getattr(defaults, name)) for name in raw}
    if all(issubclass(one, msgspec.Struct) for one in types.values()):
        return {name: msgspec.convert(value, types[name]) for name, value in raw.items()}
    whole = msgspec.convert(raw, Options)
    return {name: getattr(whole, name) for name in raw}


def _error(problem: Problem, names: dict[tuple[str, ...], str]) -> ConfigError:
    """Name the keyword that was given, where the problem lies in its setting itself."""
    path = tuple(str(part) for part in problem.path)
    return ConfigError(problem.text, key=names.get(path) or format_path(problem.path))


def _put(raw: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set one value; merge a table into the table at `path`."""
    *above, last = path
    for name in above:
        raw = raw.setdefault(name, {})
    if isinstance(value, dict) and isinstance(raw.get(last), dict):
        raw[last] = raw[last] | value
    else:
        raw[last] = value


def _plain(value: Any) -> Any:
    """Return `value` as dictionaries, lists and plain values."""
    if isinstance(value, msgspec.Struct):
        return {
            field: _plain(getattr(value, field))
            for field in value.__struct_fields__
            if getattr(value, field) is not None
        }
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _without_unit(name: str) -> str:
    for unit in UNITS:
        name = name.removesuffix(unit)
    return name
