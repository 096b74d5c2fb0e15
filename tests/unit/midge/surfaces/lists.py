"""The lists: their entries, and how they are read, compared and written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.midge.surfaces import pages, python_names, settings, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FOLDER = Path(__file__).parent

SIMPLE = {
    "commands": settings.commands,
    "documented_paths": sources.documented_paths,
    "installed": sources.entry_points,
    "keywords": settings.keywords,
    "log_events": sources.log_events,
    "pytest": settings.pytest_names,
    "python_names": python_names.python_names,
    "settings": settings.settings,
}
"""The surfaces that need no running server, by the name of the list."""

NAMES = (*SIMPLE, "metrics", "pages")
"""Every list that is made from the tree; `distributed` is compared where an sdist is built."""


def collect() -> dict[str, set[str]]:
    """Return every surface of this tree."""
    found = {name: set(make()) for name, make in SIMPLE.items()}
    made, counted = pages.pages_and_metrics()
    return {**found, "metrics": set(counted), "pages": set(made)}


def read(name: str, folder: Path = FOLDER) -> set[str]:
    """Return the entries of a list."""
    return set((folder / f"{name}.txt").read_text(encoding="utf-8").splitlines())


def write(name: str, entries: Iterable[str], folder: Path = FOLDER) -> None:
    """Write a list, sorted."""
    text = "".join(f"{entry}\n" for entry in sorted(set(entries)))
    (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def differences(name: str, found: set[str], folder: Path = FOLDER) -> list[str]:
    """Return `- entry` for missing entries and `+ entry` for entries not in the list yet."""
    listed = read(name, folder)
    gone = [f"- {entry}" for entry in sorted(listed - found)]
    return gone + [f"+ {entry}" for entry in sorted(found - listed)]


def main(
    arguments: list[str], collected: Callable[[], dict[str, set[str]]], folder: Path = FOLDER
) -> int:
    """Update the lists in `folder`; entries that are gone stay unless `--drop` is given.

    Returns 1 when some had to stay.
    """
    stale = 0
    for name, found in collected().items():
        listed = read(name, folder) if (folder / f"{name}.txt").exists() else set()
        gone = set() if "--drop" in arguments else listed - found
        for entry in sorted(gone):
            print(f"{name}: kept, though the tree has it no more: {entry}")
        stale += len(gone)
        write(name, found | gone, folder)
    return 1 if stale else 0
