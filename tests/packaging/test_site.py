"""The documentation as a site: complete, without a link to nowhere, and usable offline."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def site(root: Path) -> Path:
    """The site, after `make docs`, which fails for any warning and for any broken link."""
    done = subprocess.run(
        ["make", "docs"], cwd=root, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "build" / "docs" / "html"


def public_names(root: Path) -> set[str]:
    """Return the names in the list of public Python names, with those of members."""
    lines = (root / "tests/unit/midge/surfaces/python_names.txt").read_text().splitlines()
    names = {re.split(r"[:( ]", line.replace(".async ", "."), maxsplit=1)[0] for line in lines}
    return {name for name in names if not name.endswith("__init__")}


def test_the_reference_has_every_public_name(site: Path, root: Path) -> None:
    text = "".join(page.read_text() for page in (site / "api").rglob("*.html"))
    documented = set(re.findall(r'id="(midge[\w.]+)"', text))
    assert sorted(public_names(root) - documented) == []


def test_the_lists_of_names_are_in_it(site: Path, root: Path) -> None:
    text = (site / "names.html").read_text()
    for name in ("midge stream add", "listen.port", "client_connected", "midge_connections"):
        assert name in text, name


def test_it_can_be_searched(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert "testing-streams" in index
    assert (site / "search.html").exists()


def test_llms_txt_names_every_page(site: Path) -> None:
    text = (site / "llms.txt").read_text()
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    missing = {page for page in pages if f"({page})" not in text}
    assert missing == {"index.html", "genindex.html", "py-modindex.html", "search.html"}
