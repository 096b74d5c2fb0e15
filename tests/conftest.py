"""Common to all tests: the code under test is the code in the checkout, freshly built."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = tuple(EXTENSION_SUFFIXES)


def stale_extensions(root: Path) -> list[str]:
    """Name every extension module under `root` that does not come from the sources beside it.

    A module also counts as stale when any `.pxd` or `.h` is newer: those are inlined elsewhere.
    """
    folders = [path for path in (root / "midge").iterdir() if path.is_dir()]
    headers = [path.stat().st_mtime for folder in folders for path in folder.rglob("*.pxd")]
    headers += [path.stat().st_mtime for folder in folders for path in folder.rglob("*.h")]
    built = [
        path for folder in folders for path in folder.rglob("*") if path.name.endswith(SUFFIXES)
    ]
    stale = []
    for path in built:
        source = path.with_name(path.name.split(".", maxsplit=1)[0] + ".py")
        if not source.with_suffix(".pxd").exists():
            stale.append(f"{path.relative_to(root)} has no .pxd any more")
        elif path.stat().st_mtime < max([source.stat().st_mtime, *headers]):
            stale.append(f"{path.relative_to(root)} is older than its sources")
    return sorted(stale)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test yesterday's code."""
    stale = stale_extensions(ROOT)
    if stale:
        todo = "`make build` brings them up to date, and removes those without a source"
        pytest.exit("\n".join(["stale extension modules:", *stale, todo]), returncode=4)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full`."""
    parser.addoption(
        "--full", action="store_true", help="run shortened tests in their long form, too"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long forms unless they are asked for, by `--full` or by `-m full`.

    What needs Spark comes last: once it has started, its threads and its Java run beside all that
    follows, and some of that measures what it does itself.
    """
    items.sort(key=lambda item: "spark" in getattr(item, "fixturenames", ()))
    if config.getoption("--full") or "full" in config.getoption("-m"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def is_pure_build() -> bool:
    """Whether these tests are meant to run interpreted, with no extension module anywhere."""
    return os.environ.get("MIDGE_PURE", "") not in {"", "0"}
