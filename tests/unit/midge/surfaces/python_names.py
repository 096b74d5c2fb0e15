"""Public Python names of the documented packages, with the parameters of callables.

Annotations are left out: they name modules, which may move. The text is made from the sources, so
compiled and interpreted builds give the same.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import midge

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = (
    "midge",
    "midge.protocol",
    "midge.server.auth",
    "midge.server.interceptors",
    "midge.sublist",
    "midge.testing",
)

NAMES_ONLY = {"midge.protocol", "midge.server.auth", "midge.sublist"}
"""Packages whose classes are the server's own parts: their names stay, their insides may change."""

WHOLE = {"AuthRequest", "User"}
"""What a hook gets and returns: the exceptions to that."""

CORE_BASES = {"MessageObserver", "Observer", "RoutedSubscription", "Subscription"}
"""Bases within the server's core. What overrides them is no part of a public class ..."""

FROM_CORE = {"subject", "queue"}
"""... but for these."""


def python_names() -> Iterator[str]:
    """Yield a line for each public name, parameter list, field and constant."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in public_names(module):
            lines = describe(f"{package}.{name}", getattr(module, name))
            yield from lines if package not in NAMES_ONLY or name in WHOLE else [next(lines)]


def public_names(module: Any) -> list[str]:
    """Return `__all__`, or without one what the module itself defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    names = []
    for statement in source_of(module.__name__).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.append(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.append(name)
    return [name for name in names if not name.startswith("_")]


def describe(path: str, value: Any) -> Iterator[str]:
    """Yield the lines of one public name, beginning with the name itself."""
    if inspect.isclass(value):
        bases = [base.__name__ for base in value.__mro__[1:] if base.__module__ == "builtins"]
        yield f"{path}: class, {bases[0] if bases else 'object'}"
        if value is not midge.Options:  # settings have a list of their own
            yield from sorted({f"{path}.{line}" for line in members(value)})
    elif inspect.isroutine(value):
        yield path + parameters(definition(value.__module__, value.__name__))
    elif isinstance(value, str | int | float | bytes | tuple):
        yield f"{path} = {value!r}"
    else:
        yield path


def members(cls: type) -> Iterator[str]:
    """Yield the public members of `cls` and of those bases that are midge's."""
    seen = {name for base in cls.__mro__ if base.__name__ in CORE_BASES for name in vars(base)}
    seen -= FROM_CORE
    for base in cls.__mro__:
        if not base.__module__.startswith("midge"):
            continue
        found = definition(home_of(base), base.__name__)
        assert isinstance(found, ast.ClassDef)
        is_core = base.__name__ in CORE_BASES and base is not cls
        for name, line in [pair for statement in found.body for pair in member(statement)]:
            if name not in seen and (name in FROM_CORE or not is_core):
                seen.add(name)
                yield line


def member(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield name and line of what a statement in a class body makes public."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            if name == "__init__":
                yield name, name + parameters(statement)
                yield from assigned(statement)
            elif not name.startswith("_"):
                is_property = any("property" in ast.unparse(d) for d in statement.decorator_list)
                prefix = "async " if isinstance(statement, ast.AsyncFunctionDef) else ""
                line = f"{name}: property" if is_property else prefix + name
                yield name, line if is_property else line + parameters(statement)
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if not name.startswith("_"):
            yield name, f"{name}: field" + (f" = {ast.unparse(value)}" if value else "")
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
            yield name, f"{name} = {ast.unparse(value)}"


def assigned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    """Yield the public attributes that `__init__` sets."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name[0] != "_":
                    yield name, f"{name}: attribute"


def parameters(function: ast.stmt) -> str:
    """Return the parameter list with defaults and without annotations."""
    if isinstance(function, ast.ClassDef):
        return ": class"
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    bare = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(bare, ast.FunctionDef | ast.AsyncFunctionDef)
    for node in ast.walk(bare.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    return f"({ast.unparse(bare.args)})"


def home_of(cls: type) -> str:
    """Return the module that defines a class, also of an error that names its public package."""
    homes = vars(sys.modules[cls.__module__]).get("_HOMES", {})
    home = homes.get(cls.__name__, cls.__module__)
    return home if home.startswith("midge") else f"{cls.__module__}.{home}"


@functools.cache
def definition(module: str, name: str) -> ast.stmt:
    """Return the statement of `module` that defines `name`."""
    for statement in source_of(module).body:
        if getattr(statement, "name", None) == name:
            return statement
    raise LookupError(f"{module} defines no {name}")


@functools.cache
def source_of(module: str) -> ast.Module:
    """Return the syntax tree of `module`, compiled or not."""
    file = sys.modules[module].__file__
    assert file is not None
    path = Path(file)
    return ast.parse(path.with_name(path.name.split(".", maxsplit=1)[0] + ".py").read_text())
