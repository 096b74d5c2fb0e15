"""Every command and program in README.md and docs/ runs, and prints what the page says."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.snippets import Page, commands, parse
from tests.packaging.processes import started_server

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def starts_its_own_server(text: str) -> bool:
    """Return whether a page shows how to start the server on the default port."""
    bodies = [block.body for block in parse(text) if block.no_run is None]
    shown = [command for body in bodies for command, _ in commands(body)]
    return any(command.startswith(("midge-server", "midge serve")) for command in shown)


@pytest.fixture
def programs(tmp_path: Path, root: Path) -> Path:
    """A folder with the commands of the code under test, installed or not."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
    for name, entry_point in scripts.items():
        module, _, function = entry_point.partition(":")
        code = f"import sys; from {module} import {function}; sys.exit({function}())"
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def page(
    request: pytest.FixtureRequest, programs: Path, tmp_path: Path, root: Path
) -> Iterator[Page]:
    """The page with a server on its default port, unless it starts one itself."""
    folder = tmp_path / "page"
    folder.mkdir()
    page = Page(str(request.param.relative_to(root)), folder, programs, root)
    if starts_its_own_server(request.param.read_text()):
        yield page
        return
    with started_server([programs / "midge-server"], tmp_path) as (_, port):
        page.ports["4222"] = port
        yield page


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("page", "path"),
    [(path, path) for path in PAGES],
    indirect=["page"],
    ids=lambda path: path.stem,
)
def test_page_does_what_it_shows(page: Page, path: Path) -> None:
    page.run(path.read_text())
