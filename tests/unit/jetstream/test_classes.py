"""No class of JetStream is deep or wide, and no folder has many modules."""

from __future__ import annotations

import ast
from pathlib import Path

import midge.jetstream

DEPTH_MAX = 3
METHODS_MAX = 60
ROOT = Path(midge.jetstream.__file__).parent

Chains = dict[str, list[ast.ClassDef]]


def classes_in(sources: dict[str, str]) -> Chains:
    """Return the classes of some modules, with their bases: classes of these modules first."""
    trees = {name: ast.parse(source) for name, source in sources.items()}
    found = {
        f"{module}.{one.name}": one
        for module, tree in trees.items()
        for one in tree.body
        if isinstance(one, ast.ClassDef)
    }
    places = {module: imported(tree) for module, tree in trees.items()}

    def chain(module: str, name: str) -> list[ast.ClassDef]:
        place = f"{module}.{name}" if f"{module}.{name}" in found else places[module].get(name, "")
        if place not in found:
            return []
        above = [
            chain(place.rpartition(".")[0], base.id)
            for base in found[place].bases
            if isinstance(base, ast.Name)
        ]
        return [found[place], *max(above, key=len, default=[])]

    return {place: chain(*place.rsplit(".", 1)) for place in found}


def imported(tree: ast.Module) -> dict[str, str]:
    """Return where the names come from that a module imports."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def methods(chain: list[ast.ClassDef]) -> set[str]:
    return {one.name for each in chain for one in each.body if isinstance(one, ast.FunctionDef)}


def sources() -> dict[str, str]:
    return {
        ".".join(("midge.jetstream", *file.relative_to(ROOT).with_suffix("").parts)): text
        for file in ROOT.rglob("*.py")
        if (text := file.read_text())
    }


def test_no_class_is_deep_or_wide() -> None:
    found = classes_in(sources())
    assert len(found) > 200
    store = found["midge.jetstream.store.file.file_store.FileStore"]
    assert [one.name for one in store] == ["FileStore", "Store", "Indexes"]
    assert {name: len(chain) for name, chain in found.items() if len(chain) > DEPTH_MAX} == {}
    wide = {name: len(methods(chain)) for name, chain in found.items()}
    assert {name: count for name, count in wide.items() if count > METHODS_MAX} == {}
