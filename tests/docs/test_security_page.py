"""Each test that docs/security.md names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)*)`")
PAGE = (ROOT / "docs" / "security.md").read_text()


def exists(root: Path, name: str) -> bool:
    """Return whether pytest would find `name`."""
    path, *parts = name.split("::")
    if not (root / path).is_file():
        return False
    found: ast.AST = ast.parse((root / path).read_text())
    for part in parts:
        inside = [
            one
            for one in ast.iter_child_nodes(found)
            if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and one.name == part
        ]
        if not inside:
            return False
        found = inside[0]
    return True


@pytest.mark.parametrize("name", sorted(set(NAMED.findall(PAGE))))
def test_named_test_exists(root: Path, name: str) -> None:
    assert exists(root, name)


def test_every_class_is_shown_or_absent() -> None:
    table = PAGE.partition("## Known classes of vulnerabilities")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    unshown = [row for row in rows if not NAMED.search(row)]
    assert len(rows) > 20
    assert [row for row in unshown if "midge has none" not in row] == []


def test_every_advisory_is_in_the_table_once() -> None:
    """All that nats-server had published by August 2026, but for the one about Go itself."""
    table = PAGE.partition("## Known classes of vulnerabilities")[2].partition("\n## ")[0]
    named = re.findall(r"CVE-\d{4}-\d+|GHSA-[a-z0-9-]{14}", table)
    assert len(named) == len(set(named)) == 42


@pytest.mark.parametrize("name", ["tests/no.py", "tests/docs/test_security_page.py::TestNothing"])
def test_what_does_not_exist_is_noticed(root: Path, name: str) -> None:
    assert not exists(root, name)
