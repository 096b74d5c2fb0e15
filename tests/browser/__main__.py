"""Take the pictures for the documentation: `make docs`, then `python -m tests.browser`."""

from __future__ import annotations

from tests.support.chromium import launched
from tests.support.processes import CHECKOUT

from .harbour import PAGES, TOKEN, Harbour, visit

ODD = "tug"
WATCHED_MS = 25_000
SITE = CHECKOUT / "build/docs/html/index.html"


def main() -> None:
    """Write the pictures of the site, and of the console of a harbour that is busy for a while."""
    with launched() as browser, Harbour(ODD, "PAPERS") as harbour:
        page = browser.new_page(viewport={"width": 1100, "height": 700})
        page.goto(SITE.as_uri())
        page.screenshot(path=CHECKOUT / "docs" / "img" / "site.png")
        page.goto(harbour.url)
        page.fill("#token", TOKEN)
        page.click("#unlock button")
        page.wait_for_timeout(WATCHED_MS)
        for name in PAGES:
            visit(page, name, ODD)
            if name == "clients":
                page.locator("#client-list tr.choice button").first.press("Enter")
            page.wait_for_timeout(3000)
            picture = CHECKOUT / "docs" / "img" / f"console-{name}.png"
            page.screenshot(path=picture, full_page=True)


if __name__ == "__main__":
    main()
