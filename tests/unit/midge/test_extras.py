"""The hints about missing packages can be typed as they are, and work."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from midge.extras import install_command

DECLARED = [
    "uvloop<0.24,>=0.21",
    'pyarrow<27,>=18; extra == "recorder"',
    'midge[recorder]; extra == "pipeline"',
    "pyspark<4.4,>=4.3; extra == 'pipeline'",
]


def test_the_packages_of_an_extra_are_named_those_of_others_in_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: DECLARED)
    command = "python -m pip install 'pyarrow<27,>=18' 'pyspark<4.4,>=4.3'"
    assert install_command("pipeline") == command
    assert install_command("recorder") == "python -m pip install 'pyarrow<27,>=18'"


def test_without_metadata_the_checkout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert install_command("recorder") == "python -m pip install '.[recorder]' in midge's checkout"


def test_nothing_tells_to_install_midge_from_an_index(root: Path) -> None:
    """It is on none: pip would find nothing, or something else of that name."""
    wrong = re.compile(r"pip install (?:-\S+ )*['\"]?midge\b")
    folders = ("docs", "examples", "midge", "client", "pipeline", "protocol", "server", "sublist")
    folders += ("testing",)
    pages = [path for folder in folders for path in (root / folder).rglob("*.[mp][dy]")]
    pages += [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")]
    assert [str(path) for path in pages if wrong.search(path.read_text())] == []
