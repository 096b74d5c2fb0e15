"""Surfaces read from the sources: log events, documented import paths, the distribution's files."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import midge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(midge.__file__).parents[1]
LEVELS = {"debug", "info", "warning", "error", "fatal", "exception"}
PACKAGES = ("protocol", "sublist", "server", "client", "pipeline", "testing")
DATA_SUFFIXES = {".css", ".html", ".js", ".json", ".properties", ".svg"}

FROM_IMPORT = re.compile(r"^\s*(?:>>> )?from (midge[\w.]*) import ([\w, ]+)", re.MULTILINE)
DOTTED = re.compile(r"`(midge(?:\.\w+)+)(?::(\w+))?")


@functools.cache
def module_sources(folder: str) -> list[tuple[Path, ast.Module]]:
    """Return path and syntax tree of every module below `midge/folder`."""
    paths = sorted((ROOT / "midge" / folder).rglob("*.py"))
    return [(path, ast.parse(path.read_text())) for path in paths]


def log_events() -> Iterator[str]:
    """Yield the level, name and fields of every event that is logged."""
    named = event_attributes()
    for folder in ("server", "testing"):
        for _, tree in module_sources(folder):
            for node in ast.walk(tree):
                match node:
                    case ast.Call(func=ast.Attribute(attr=level)) if level in LEVELS:
                        yield from logged(level, node, named)
                    case ast.Assign(targets=[ast.Name(id="SENTENCES")], value=ast.Dict(keys=keys)):
                        yield from (
                            f"{k.value} (sentence)" for k in keys if isinstance(k, ast.Constant)
                        )


def event_attributes() -> dict[str, set[str]]:
    """Return the names of events that classes of the server have as attributes, `…_event`."""
    named: dict[str, set[str]] = {}
    for _, tree in module_sources("server"):
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(event))):
                    if name.endswith("_event") and event:
                        named.setdefault(name, set()).add(event)
    return named


def logged(level: str, call: ast.Call, named: dict[str, set[str]]) -> Iterator[str]:
    """Yield an event for each name that the first argument of a log call may be.

    That is a name in the call, or an attribute of a class, in `named`.
    """
    fields = " ".join(sorted(keyword.arg or "**" for keyword in call.keywords))
    for node in ast.walk(call.args[0]) if call.args else ():
        match node:
            case ast.Attribute(attr=attribute) if attribute in named:
                for name in named[attribute]:
                    yield f"{name} {level}: {fields}".rstrip(": ")
            case ast.Constant(value=str(name)) if re.fullmatch(r"[a-z]+(_[a-z]+)+", name):
                yield f"{name} {level}: {fields}".rstrip(": ")


def documented_paths() -> Iterator[str]:
    """Yield `module:name` of midge for all that README and docs import, or name in full.

    A module that they only mention is not among them: that says where something is, and may change.
    """
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text() if page.exists() else ""
        for module, names in FROM_IMPORT.findall(text):
            yield from (f"{module}:{name.strip()}" for name in names.split(","))
        for path, name in DOTTED.findall(text):
            module, _, last = path.rpartition(".")
            if name:
                yield f"{path}:{name}"
            elif importlib.util.find_spec(module) and resolves(f"{module}:{last}"):
                yield f"{module}:{last}"


def resolves(path: str) -> bool:
    """Return whether `module:name` can be imported and is not a module itself."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return False
    return not isinstance(found, ModuleType)


def entry_points() -> Iterator[str]:
    """Yield the installed commands and plugins, the extras, and the data files by their names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from (f"command {name}" for name in project["scripts"])
    for group, points in project["entry-points"].items():
        yield from (f"{group} {name} = {target}" for name, target in points.items())
    yield from (f"extra {name}" for name in project["optional-dependencies"])
    for folder in ("", *PACKAGES):
        below = (ROOT / "midge" / folder).glob("*") if not folder else walk(ROOT / "midge" / folder)
        yield from (f"data {path.name}" for path in below if is_data(path))


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files below `folder`, which may be a symbolic link."""
    return folder.resolve().rglob("*")


def is_data(path: Path) -> bool:
    """Return whether a file is installed beside the modules; headers are modules' own."""
    return path.name == "py.typed" or path.suffix in DATA_SUFFIXES


def distributed_files(names: Iterable[str]) -> Iterator[str]:
    """Yield the paths of an sdist outside the import package; folders that grow by their names."""
    for name in names:
        top, _, rest = name.partition("/")
        if top == "midge" or top.endswith(".egg-info") or not top or name.endswith("/"):
            continue
        if top in {"bench", "tests"}:
            yield f"{top}/{rest.partition('/')[0]}/" if "/" in rest else f"{top}/"
        else:
            yield name
