"""The HTTP side of monitoring: paths, headers and refusals, on aiohttp."""

import asyncio
import importlib
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from aiohttp import web

from midge.protocol import COMPATIBLE_VERSION
from midge.server.log.logger import get_logger
from midge.server.monitoring import (
    connz,
    go_format,
    healthz,
    jsz,
    routez,
    whole,
    why,
)
from midge.server.monitoring.arguments import Arguments, BadArgument
from midge.server.monitoring.http_listener import HttpConnection, HttpListener
from midge.server.monitoring.state import State
from midge.server.monitoring.throttle import Busy, Throttle

if TYPE_CHECKING:
    from midge.server.listeners.tls import TlsContexts
    from midge.server.monitoring.metrics import Metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Page = Callable[[web.Request], Awaitable[web.Response]]

log = get_logger()

_UNCOUNTED = ("/ipqueuesz", "/raftz")  # as on nats-server
_SHUTDOWN_S = 0.2  # seconds that a request under way may take when the server stops
_LARGEST_REQUEST_BYTES = 64 * 1024

# A client's error is answered, not logged with a traceback.
_QUIET = logging.getLogger("midge.monitoring.http")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class Monitor:
    """Serves the pages of one broker, made from `state`."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._throttle = Throttle(state.broker.limit_hits)
        self._metrics: Metrics | None = None
        self._runner: web.AppRunner | None = None
        self._listener: HttpListener | None = None
        self._pages: dict[str, Page] = {}
        self._actions: dict[str, Page] = {}
        self.at_end: Callable[[], None] | None = None
        """Called when the pages end."""

    def add_page(self, path: str, page: Page) -> None:
        """Serve `path`, below the base path, by `page`; before `start` only."""
        self._pages[path] = page

    def add_action(self, path: str, action: Page) -> None:
        """Call `action`, which may wait, for requests of `path`; use before `start` only.

        Actions do not queue behind pages, so an action must bound its own work.
        """
        self._actions[path] = action

    async def start(self, listener: socket.socket, tls: "TlsContexts | None" = None) -> None:
        """Answer on the open `listener`: by HTTPS with `tls`, by HTTP without."""
        options = self.state.broker.options.monitoring
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            logger=_QUIET,
            keepalive_timeout=options.idle_timeout_s,
            shutdown_timeout=_SHUTDOWN_S,
        )
        self._runner = runner
        await runner.setup()
        self._listener = HttpListener(self.state.broker, self._answering, tls)
        self._listener.adopt(listener)

    async def stop(self) -> None:
        """Close the listener and its connections."""
        if self.at_end is not None:
            self.at_end()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _answering(self) -> asyncio.Protocol:
        """Make the request handler of one connection."""
        assert self._runner is not None
        assert self._runner.server is not None
        return self._runner.server()

    # Paths.

    def _application(self) -> web.Application:
        application = web.Application(
            middlewares=[self._timed, _refusals], client_max_size=_LARGEST_REQUEST_BYTES
        )
        application.on_response_prepare.append(_leave_out_server)
        base = "/" + self.state.broker.options.monitoring.base_path.strip("/")
        base = base.rstrip("/")
        standard = self._standard_pages()
        for path, page in {**standard, **self._pages}.items():
            paced = self._paced(path, page, is_shared=path in standard)
            application.router.add_route("*", base + path, paced)
        for path, action in self._actions.items():
            application.router.add_route("*", base + path, action)
        return application

    def _standard_pages(self) -> dict[str, Page]:
        state = self.state
        simple = {
            "/routez": lambda given: routez.routez(state, given),
            "/leafz": lambda given: routez.leafz(state, given),
            "/gatewayz": lambda given: routez.gatewayz(state, given),
            "/ipqueuesz": routez.ipqueuesz,
            "/why": lambda given: why.why(state, given),
        }
        pages: dict[str, Page] = {path: _json_page(page) for path, page in simple.items()}
        subsz = _awaited_page(lambda given: whole.whole_subsz(state, given))
        return pages | {
            "/varz": _awaited_page(lambda _: whole.whole_varz(state)),
            "/accountz": _awaited_page(lambda given: whole.whole_accountz(state, given)),
            "/accstatz": _awaited_page(lambda given: whole.whole_accstatz(state, given)),
            "/": self._index,
            "/connz": _awaited_page(
                lambda given: whole.whole_connz(state, connz.read_options(given))
            ),
            "/jsz": _awaited_page(lambda given: jsz.jsz(state, given)),
            "/subsz": subsz,
            "/subscriptionsz": subsz,
            "/healthz": self._healthz,
            "/raftz": self._raftz,
            "/metrics": self._metrics_page,
        }

    @web.middleware
    async def _timed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Mark the connection idle or busy around each request."""
        connection = request.transport.get_protocol() if request.transport else None
        if not isinstance(connection, HttpConnection):
            return await handler(request)
        connection.asked()
        try:
            return await handler(request)
        finally:
            if self._listener is not None:
                self._listener.answered(connection)

    def _paced(self, path: str, page: Page, *, is_shared: bool) -> Handler:
        make = partial(_made, page=page)

        async def handle(request: web.Request) -> web.StreamResponse:
            if path not in _UNCOUNTED:
                self.state.requests[path] += 1
            try:
                return await self._throttle.answer(request, make, is_shared=is_shared)
            except (Busy, web.HTTPException, ConnectionError):
                raise
            except Exception:
                log.exception("monitoring_page_failed", path=path)
                raise

        return handle

    async def _index(self, _request: web.Request) -> web.Response:
        paths = tuple(path for path in ("/console",) if path in self._pages)
        return web.Response(text=index_page(COMPATIBLE_VERSION, paths), content_type="text/html")

    async def _healthz(self, request: web.Request) -> web.Response:
        status, page = healthz.healthz(self.state, Arguments(request.query))
        return _json(page, status, compact=True)

    async def _raftz(self, _request: web.Request) -> web.Response:
        return _text("No Raft nodes registered", 404)

    async def _metrics_page(self, _request: web.Request) -> web.Response:
        if self._metrics is None:
            # Imported here: most servers are never scraped, and start faster without; others import
            # in a thread.
            await asyncio.to_thread(importlib.import_module, "midge.server.monitoring.metrics")
            from midge.server.monitoring.metrics import Metrics  # noqa: PLC0415

            self._metrics = Metrics(self.state)
        headers = {"Content-Type": self._metrics.content_type}
        body = await whole.whole_metrics(self.state, self._metrics.page())
        return web.Response(body=body + await self._metrics.by_name(), headers=headers)


async def _leave_out_server(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)


def _json_page(page: Callable[[Arguments], Any]) -> Page:
    async def handle(request: web.Request) -> web.Response:
        return _json(page(Arguments(request.query)))

    return handle


def _awaited_page(page: Callable[[Arguments], Awaitable[Any]]) -> Page:
    async def handle(request: web.Request) -> web.Response:
        return _json(await page(Arguments(request.query)))

    return handle


def _json(page: Any, status: int = 200, *, compact: bool = False) -> web.Response:
    body = go_format.compact(page) if compact else go_format.document(page)
    headers = {"Access-Control-Allow-Origin": "*", "Content-Type": "application/json"}
    return web.Response(body=body, status=status, headers=headers)


def _text(text: str, status: int) -> web.Response:
    return web.Response(
        body=text.encode("utf-8", "replace"),
        status=status,
        headers={
            "Content-Type": "text/plain; charset=utf-8",
            "X-Content-Type-Options": "nosniff",
        },
    )


async def _made(request: web.Request, page: Page) -> web.Response:
    """Return a page, or nats-server's plain text about a wrong request."""
    try:
        return await page(request)
    except BadArgument as error:
        return _text(str(error), 400)


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Convert HTTP errors to nats-server's plain text."""
    try:
        return await handler(request)
    except Busy:
        return _text("too many requests\n", 503)
    except web.HTTPNotFound:
        return _text("404 page not found\n", 404)


_PAGES = {
    "varz": "General",
    "jsz": "JetStream",
    "connz": "Connections",
    "accountz": "Accounts",
    "accstatz": "Account statistics",
    "subsz": "Subscriptions",
    "routez": "Routes",
    "leafz": "Leaf nodes",
    "gatewayz": "Gateways",
    "healthz": "Health",
    "metrics": "Prometheus metrics",
}

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>midge</title>
<style>
body {{ font: 16px/1.6 system-ui, sans-serif; margin: 2.5rem; color: #1b2430 }}
a {{ color: #14539a; text-decoration: none }} a:hover {{ text-decoration: underline }}
code {{ color: #667; font-size: 0.8em; margin-left: 0.6em }}
</style></head>
<body>
<h1>midge</h1>
<p>Monitoring of a server that answers as nats-server {version} does.</p>
<ul>
{items}
</ul>
</body>
</html>
"""


def index_page(version: str, more: tuple[str, ...] = ()) -> str:
    """Return the page; `more` are paths to list first."""
    pages = {path.strip("/"): path.strip("/").capitalize() for path in more} | _PAGES
    items = "\n".join(
        f'<li><a href="./{path}">{escape(title)}</a><code>/{path}</code></li>'
        for path, title in pages.items()
    )
    return _PAGE.format(version=escape(version), items=items)
