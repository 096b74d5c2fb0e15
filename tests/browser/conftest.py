"""A headless Chromium, pages of our own on loopback, and servers to talk to."""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chromium import launched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGES = Path(__file__).parent


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write no log."""

    def log_error(self, *args: Any) -> None:
        """Write no log about missing pages either."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser; its tests cannot run where it is not installed, and say so.

    While Playwright is in use, an event loop runs in this thread, under which no other test could
    run one of its own: so it ends with each module.
    """
    with launched() as browser:
        yield browser


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open pages; what one complains of is in its `complaints`."""
    contexts = []

    def make(**choices: Any) -> Any:
        context = chromium.new_context(**choices)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on(
            "console",
            lambda message: (
                page.complaints.append(message.text) if message.type == "error" else None
            ),
        )
        return page

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Where the pages of this folder are served, such as `http://127.0.0.1:41234`."""
    handler = functools.partial(_Quiet, directory=str(PAGES))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
