"""Imports go one way: testing -> server -> core and pipeline -> core.

The core is sublist, protocol and jetstream.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

MAY_IMPORT = {
    "protocol": set[str](),
    "sublist": set[str](),
    "jetstream": {"protocol", "sublist"},
    "server": {"protocol", "sublist", "jetstream"},
    "pipeline": {"protocol", "sublist", "jetstream"},
    "testing": {"protocol", "server", "sublist", "jetstream"},
}

# The core takes time, bytes and randomness as arguments, and reports through return values.
SHELL_ONLY = {"asyncio", "logging", "selectors", "socket", "ssl", "structlog", "time", "uvloop"}

# What a daemon without passwords, certificates and pages does without, and is up the sooner for it.
LATE = {"aiohttp", "bcrypt", "cryptography", "prometheus_client", "pyarrow", "rich", "structlog"}
LATE |= {"websockets"}

CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))", re.MULTILINE)


def python_imports(source: str, package: str) -> set[str]:
    """Return the absolute names of all that `source`, a module of `package`, imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            parts = [*(above if node.level else []), *([node.module] if node.module else [])]
            found.update(".".join([*parts, alias.name]) for alias in node.names)
    return found


def cython_imports(source: str) -> set[str]:
    """Return the names of all the modules that a `.pxd` cimports."""
    return {first or second for first, second in CIMPORT.findall(source)}


def forbidden(folder: str, names: set[str]) -> set[str]:
    """Return those of `names` that a module of `folder` must not import."""
    wrong = set()
    for name in names:
        top, *below = name.split(".")
        if top == "midge" and below and below[0] in MAY_IMPORT:
            if below[0] not in MAY_IMPORT[folder] | {folder}:
                wrong.add(name)
        elif folder in {"protocol", "sublist", "jetstream"} and top in SHELL_ONLY:
            wrong.add(name)
    return wrong


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_folder_imports_only_what_lies_below_it(root: Path, folder: str) -> None:
    wrong = {}
    for path in sorted((root / "midge" / folder).rglob("*.p*")):
        if path.suffix not in {".py", ".pxd"}:
            continue
        module = path.relative_to(root)
        package = ".".join(module.parent.parts)
        source = path.read_text()
        names = cython_imports(source) if path.suffix == ".pxd" else python_imports(source, package)
        if found := forbidden(folder, names):
            wrong[str(module)] = sorted(found)
    assert wrong == {}


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("protocol", "import midge.server.listener"),
        ("protocol", "from midge.sublist import SubList"),
        ("protocol", "from midge import server"),
        ("protocol", "from ..server import cli"),
        ("sublist", "def late():\n    import asyncio"),
        ("protocol", "import midge.jetstream.clock"),
        ("jetstream", "import time"),
        ("jetstream", "from midge.server import clock"),
        ("server", "from midge.pipeline.source import read"),
        ("pipeline", "from midge.server import options"),
        ("testing", "import midge.pipeline"),
    ],
)
def test_wrong_direction_is_found(folder: str, source: str) -> None:
    assert forbidden(folder, python_imports(source, f"midge.{folder}"))


def test_a_start_imports_nothing_that_it_can_do_without(root: Path) -> None:
    code = (
        "import sys, midge.server.cli, midge.server.daemon, midge.server.server;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert set(loaded.stdout.split()) & LATE == set()


def test_wrong_direction_is_found_in_a_pxd() -> None:
    names = cython_imports("from midge.server.connection cimport Connection\ncimport cython\n")
    assert names == {"midge.server.connection", "cython"}
    assert forbidden("sublist", names) == {"midge.server.connection"}
