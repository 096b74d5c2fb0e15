"""Settings with defaults, keywords of `midge.Server`, commands with flags, the pytest plugin."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

import midge
from midge import cli
from tests.unit.midge.surfaces.sources import ROOT, module_sources

if TYPE_CHECKING:
    from collections.abc import Iterator


def settings() -> Iterator[str]:
    """Yield every setting with its default, those of tables in lists under the table's name."""
    waiting: list[tuple[str, Any]] = [("", midge.Options)]
    seen = set()
    while waiting:
        above, table = waiting.pop()
        for field in inspect.type_info(table).fields:  # type: ignore[attr-defined]
            tables = list(tables_in(field.type))
            path = f"{above}{field.name}"
            is_always_there = isinstance(plain(field.type), inspect.StructType)
            if is_always_there:
                waiting += [(f"{path}.", inner) for inner in tables]
                continue
            yield f"{path} = {default_of(field)}{choices(field.type)}"
            for inner in tables:
                if inner not in seen:
                    seen.add(inner)
                    waiting.append((f"[{inner.__name__}] ", inner))


def plain(kind: Any) -> Any:
    """Return a type without its metadata."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def tables_in(kind: Any) -> Iterator[Any]:
    """Yield the tables that a setting of type `kind` is, or holds."""
    kind = plain(kind)
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    for inner in getattr(kind, "types", None) or [getattr(kind, "item_type", None)]:
        if inner is not None:
            yield from tables_in(inner)


def default_of(field: inspect.Field) -> str:
    """Return the text of a field's default."""
    if field.default_factory is not msgspec.NODEFAULT:
        return repr(field.default_factory())
    return "required" if field.default is msgspec.NODEFAULT else repr(field.default)


def choices(kind: Any) -> str:
    """Return the words that a setting of a few words takes."""
    kind = plain(kind)
    if not isinstance(kind, inspect.LiteralType):
        return ""
    return f" of {', '.join(map(repr, kind.values))}"


def keywords() -> Iterator[str]:
    """Yield the keywords that `midge.Server` takes."""
    stub = ROOT / "midge" / "server" / "config" / "keywords.pyi"
    for node in ast.walk(ast.parse(stub.read_text())):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def commands() -> Iterator[str]:
    """Yield each command and each of its flags, with what the flag takes."""
    yield from server_forms("midge-server", "midge_server", ["--help"])
    for name, command in cli.COMMANDS.items():
        yield f"midge {name}: {command.summary}"
        if ":" in command.entry:
            yield from server_forms(f"midge {name}", command.entry.rpartition(":")[2], ["-h"])
        else:
            parser = argparse.ArgumentParser(prog=f"midge {name}")
            importlib.import_module(command.entry).add_arguments(parser)
            yield from parser_forms(parser)


def server_forms(program: str, function: str, arguments: list[str]) -> Iterator[str]:
    """Yield the usage line and flags that a command of the server prints."""
    module = importlib.import_module(cli.COMMANDS["serve"].entry.partition(":")[0])
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        getattr(module, function)(arguments)
    for line in map(str.strip, said.getvalue().splitlines()):
        if line.lower().startswith("usage:"):
            yield f"{program}: {line}"
        elif line.startswith("-"):
            yield f"{program} {re.split(r' {2,}', line)[0]}"


def parser_forms(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the arguments of a parser and of its sub-commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parser_forms(inner)
        elif action.dest != "help":
            yield f"{parser.prog} {argument_form(action)}"


def argument_form(action: argparse.Action) -> str:
    """Return flags, value and default of one argument."""
    names = ", ".join(action.option_strings) or action.dest
    takes = action.nargs != 0
    metavar = action.metavar or (action.dest.upper() if action.option_strings else "")
    words = ",".join(map(str, action.choices)) if action.choices else ""
    value = f" {{{words}}}" if words else f" <{metavar}>" if takes and metavar else ""
    default = "" if action.default in (None, False, argparse.SUPPRESS) else f" = {action.default}"
    needed = " required" if action.required and action.option_strings else ""
    return f"{names}{value}{default}{needed}"


def pytest_names() -> Iterator[str]:
    """Yield the fixtures, flags and settings of the pytest plugin."""
    for path, tree in module_sources("testing"):
        if path.name != "plugin.py":
            continue
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name, decorator_list=decorators):
                    if any("fixture" in ast.unparse(one) for one in decorators):
                        yield f"fixture {name}"
                case ast.Call(
                    func=ast.Attribute(attr="addoption" | "addini" as kind),
                    args=[ast.Constant(value=name), *_],
                ):
                    yield f"{'flag' if kind == 'addoption' else 'setting'} {name}"
