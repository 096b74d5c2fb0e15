"""Take the picture of the console for the documentation: `python -m tests.browser`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.chromium import launched
from tests.support.processes import CHECKOUT, Server, midge_command

from .scene import Scene
from .test_console import CONFIG

PICTURE = CHECKOUT / "docs" / "img" / "console.png"
WATCHED_MS = 25_000
SETTLING_MS = 2_000


def main() -> None:
    """Run the scene for a while, and write the picture."""
    with tempfile.TemporaryDirectory() as directory, launched() as browser:
        config = Path(directory) / "midge.toml"
        named = 'server_name = "harbour"\n' + CONFIG.format(token="any")
        config.write_text(named)
        flags = ("-c", str(config), "-m", "-1")
        with Server(midge_command(), flags=flags) as server, Scene(server.url, pause_s=0.005):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            host, port = server.address("monitoring")
            page.goto(f"http://{host}:{port}/console")
            page.fill("#token", "any")
            page.click("#unlock button")
            page.wait_for_timeout(SETTLING_MS)
            page.fill("#subject", "ships.*")
            page.click("#follow")
            page.wait_for_timeout(WATCHED_MS)
            page.screenshot(path=PICTURE, full_page=True)


if __name__ == "__main__":
    main()
