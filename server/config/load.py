"""Load the options: file, environment and command line, checked together, with provenance.

A later layer outweighs an earlier one: default < file < environment < flag. The origin of every
value is kept, so that errors can name it and `midge check` can show it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from midge.server.config import schema
from midge.server.config.contradictions import find_contradictions
from midge.server.config.from_text import from_text
from midge.server.config.layer import Layer
from midge.server.config.options import Options
from midge.server.config.type_check import Problem, find_problems, format_path, nearest
from midge.server.errors import CombinedConfigError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike

    from midge.server.config.type_check import Path as KeyPath

NOT_SETTINGS = frozenset({"MIDGE_PURE"})
"""Environment variables with the settings' prefix that concern the build."""


class Loaded(msgspec.Struct, frozen=True):
    """Options with their origins and warnings."""

    options: Options
    origins: dict[tuple[str, ...], str]
    """Where each setting was set; settings left at their default are absent."""
    warnings: tuple[str, ...]
    """Warnings: probable mistakes that do not refuse the options."""
    file_warnings: tuple[str, ...] = ()
    """Warnings about the file with which `-t` fails, as nats-server's does."""

    notes: tuple[str, ...] = ()
    """Lines of the file that have no effect, and what holds instead."""

    @property
    def digest(self) -> str:
        """Return a fingerprint of the options, the same for the same settings.

        Secrets are left out: the fingerprint is logged, and must not help to guess them.
        """
        import hashlib  # noqa: PLC0415 - with OpenSSL's hashes; only a file needs a fingerprint

        from midge.server.config.to_toml import TomlWriter  # noqa: PLC0415 - as above

        content = TomlWriter(redact=True).document(self.options).encode()
        return f"sha256:{hashlib.sha256(content).hexdigest()}"


T = TypeVar("T")

NOBODY = Layer({}, lambda _path: "")
"""The source of settings at their defaults."""


def load(
    file: str | PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Iterable[tuple[tuple[str, ...], str, Any]] = (),
    *,
    check: Callable[[Options], list[Problem]] | None = None,
) -> Loaded:
    """Return the options that the given sources result in.

    `flags` holds the path of a setting, the flag's name as typed and the value. `check` is called
    with options that are right in themselves, and finds what of them cannot be used.

    Raises: ConfigError, one or several, each with its key and place.
    """
    layers = [] if file is None else [read_file(file)]
    unknown: list[str] = []
    if environment is not None:
        layers.append(_read_environment(environment, unknown))
    layers.append(_read_flags(flags))
    raw, places = _merge(layers)
    _settle_credentials(raw, places, layers[-1], unknown)
    options = _build(raw, places, check)
    found = tuple(warning for layer in layers for warning in layer.warnings)
    notes = tuple(note for layer in layers for note in layer.notes)
    return Loaded(options, _origins(places), tuple(unknown), found, notes)


def read_file(file: str | PathLike[str]) -> Layer:
    """Read a configuration file: TOML by its suffix, nats-server's form otherwise."""
    if not os.fspath(file).endswith(".toml"):
        from midge.server.config.nats_conf import read_conf_file  # noqa: PLC0415 - seldom needed

        return read_conf_file(file)
    from midge.server.config.from_toml import read_toml_file  # noqa: PLC0415 - as above

    return read_toml_file(file)


def _read_environment(environment: Mapping[str, str], unknown: list[str]) -> Layer:
    ours = [name for name in environment if name.startswith("MIDGE_") and name not in NOT_SETTINGS]
    known = {setting.environment: setting for setting in schema.settings()} if ours else {}
    values: dict[str, Any] = {}
    names: dict[KeyPath, str] = {}
    for name in ours:
        if name in known:
            setting = known[name]
            _put(values, setting.path, from_text(environment[name], setting.type))
            names[setting.path] = f"environment {name}"
        else:
            unknown.append(f"{name}: no such setting" + nearest(name, list(known)))
    return Layer(values, lambda path: _nearest(names, path, ""))


def _read_flags(flags: Iterable[tuple[tuple[str, ...], str, Any]]) -> Layer:
    values: dict[str, Any] = {}
    names: dict[KeyPath, str] = {}
    for path, name, value in flags:
        _put(values, path, value)
        names[path] = f"flag {name}"
    return Layer(values, lambda path: _nearest(names, path, ""))


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _merge(layers: list[Layer]) -> tuple[dict[str, Any], dict[KeyPath, Layer]]:
    """Return the merged layers, and the layer of each leaf."""
    merged: dict[str, Any] = {}
    owners: dict[KeyPath, Layer] = {}
    for layer in layers:
        _lay(layer.values, merged, (), layer, owners)
    return merged, owners


def _settle_credentials(
    raw: dict[str, Any], owners: dict[KeyPath, Layer], flags: Layer, warnings: list[str]
) -> None:
    """Combine `--auth` and `--user` with the file's users, token and user as nats-server does.

    A token of the flag is valid beside users, and replaces a user; a user of the flag replaces a
    user, and has no effect beside users or a token.

    Raises: ConfigError where accounts have users, beside which neither may be.
    """
    table = raw.get("authorization", {})
    given = [one for one in ("token", "user") if owners.get(("authorization", one)) is flags]
    if not given:
        return
    flag = flags.where(("authorization", given[0]))
    if any(account.get("users") for account in raw.get("accounts", ())):
        what = "token" if given[0] == "token" else "single user/pass"
        raise ConfigError(f"Can not have a {what} and accounts ({flag})")
    is_behind = given == ["user"] and bool(table.get("users") or table.get("token"))
    if is_behind:
        warnings.append(f"{flag}: no effect, because the file has users or a token")
    if is_behind or given == ["token"]:
        table.pop("user", None)
        table.pop("password", None)


def _lay(
    over: dict[str, Any],
    under: dict[str, Any],
    path: tuple[str, ...],
    layer: Layer,
    owners: dict[KeyPath, Layer],
) -> None:
    for name, value in over.items():
        here = (*path, name)
        owners[here] = layer
        if isinstance(value, dict) and not schema.is_setting(here):
            if not isinstance(under.get(name), dict):
                under[name] = {}
            _lay(value, under[name], here, layer, owners)
        else:
            under[name] = value


def _nearest(known: Mapping[KeyPath, T], path: KeyPath, default: T) -> T:
    """Return the origin of `path`, or of the nearest table around it."""
    ends = range(len(path), 0, -1)
    return next((known[path[:end]] for end in ends if path[:end] in known), default)


def _build(
    raw: dict[str, Any],
    owners: dict[KeyPath, Layer],
    check: Callable[[Options], list[Problem]] | None,
) -> Options:
    problems = list(find_problems(raw, Options))
    if not problems:
        options = schema.options_of(raw)
        problems = list(find_contradictions(options))
        if check is not None and not problems:
            problems = check(options)
        if not problems:
            return options
    errors = [_error(problem, _nearest(owners, problem.path, NOBODY)) for problem in problems]
    raise errors[0] if len(errors) == 1 else CombinedConfigError(errors)


def _error(problem: Problem, owner: Layer) -> ConfigError:
    key, where = format_path(problem.path), owner.where(problem.path)
    return owner.error(problem.text, key=key, where=where)


def _origins(owners: dict[KeyPath, Layer]) -> dict[tuple[str, ...], str]:
    paths = [tuple(str(part) for part in path) for path in owners]
    return {
        path: _nearest(owners, path, NOBODY).where(path)
        for path in paths
        if schema.is_setting(path)
    }
