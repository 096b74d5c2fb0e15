"""Every link between the pages leads somewhere, and README.md leads to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench import speed_table
from tests.conftest import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "bench").glob("*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    """Return the targets of a page's links to other pages."""
    targets = LINK.findall(FENCED.sub("", text))
    return [target for target in targets if not target.startswith(("http:", "https:", "mailto:"))]


def anchors(text: str) -> set[str]:
    """Return the names that a page's headings have as link targets."""
    headings = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def is_broken(page: Path, link: str) -> bool:
    """Return whether `link` on `page` leads nowhere."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return not target.exists() or (bool(anchor) and anchor not in anchors(target.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page.read_text()) if is_broken(page, link)] == []


def test_every_page_is_reached_from_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page.suffix == ".md" and page.exists() and page not in reached:
            reached.add(page)
            found = (link.partition("#")[0] for link in links(page.read_text()))
            ahead += [(page.parent / path).resolve() for path in found if path]
    assert [page.name for page in PAGES if page not in reached] == []


def test_readme_shows_the_newest_results() -> None:
    readme = speed_table.README.read_text()
    assert speed_table.replaced(readme, speed_table.RESULTS.read_text()) == readme


def test_what_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `title`, with signs\n```text\n# no heading\n[no](link)\n```\n[a](b.md#c)")
    assert links(page.read_text()) == ["b.md#c"]
    assert not is_broken(page, "#a-title-with-signs")
    assert not is_broken(page, "page.md")
    assert is_broken(page, "#no-heading")
    assert is_broken(page, "other.md")
