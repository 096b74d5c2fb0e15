"""`/console`: the page, and the requests that it makes.

The page reads the monitoring pages without a token, like every client of the monitoring port.
Requests that show messages or change anything need the console's token, which is compared here
and never sent out.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aiohttp import web

from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.monitoring import whole
from midge.server.monitoring.arguments import Arguments
from midge.server.monitoring.console import streams
from midge.server.monitoring.console.actions import Actions, WrongRequest

if TYPE_CHECKING:
    from midge.server.clock import Timer
    from midge.server.monitoring.http import Monitor
    from midge.server.monitoring.state import State

_ASSETS = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "buckets.js": "text/javascript",
    "clients.js": "text/javascript",
    "objects.js": "text/javascript",
    "streams.js": "text/javascript",
    "subjects.js": "text/javascript",
    "tail.js": "text/javascript",
}
_PAGE = "console.html"
_HEADERS = {
    # Nothing but the page itself runs, and it is not to be framed.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_TOKEN = "X-Console-Token"  # nosec B105 - the name of a header
_ACTIONS = ("publish", "request", "tail", "messages", "keys", "disconnect", "unlock")


def add_console(monitor: Monitor) -> None:
    """Serve the console on `monitor`."""
    state = monitor.state
    actions = Actions(state, state.tails())
    monitor.add_page("/console", _asset(_PAGE, "text/html"))
    for name, kind in _ASSETS.items():
        monitor.add_page(f"/console/{name}", _asset(name, kind))

    async def facts(_request: web.Request) -> web.Response:
        return _json(
            {
                "server_name": state.server_name,
                "can_unlock": bool(state.broker.options.monitoring.console.token),
                "accounts": sorted(state.broker.accounts),
                "jetstream": state.jetstream is not None,
            }
        )

    history = History(state)
    history.start()
    monitor.at_end = history.stop

    async def past(_request: web.Request) -> web.Response:
        return _json(history.page())

    async def interest(request: web.Request) -> web.Response:
        return _json(await whole.whole_interest(state, Arguments(request.query)))

    async def now(_request: web.Request) -> web.Response:
        return _json(await whole.whole_clients_now(state))

    async def show_streams(request: web.Request) -> web.Response:
        return _json(
            await streams.list_streams(state, request.query.get("account", GLOBAL_ACCOUNT))
        )

    async def show_consumers(request: web.Request) -> web.Response:
        account = request.query.get("account", GLOBAL_ACCOUNT)
        return _json(streams.list_consumers(state, account, request.query.get("stream", "")))

    monitor.add_page("/console/facts", facts)
    monitor.add_page("/console/now", now)
    monitor.add_page("/console/history", past)
    monitor.add_page("/console/interest", interest)
    monitor.add_page("/console/streams", show_streams)
    monitor.add_page("/console/consumers", show_consumers)
    for action in _ACTIONS:
        monitor.add_action(f"/console/{action}", _action(actions, action))


def _asset(name: str, kind: str) -> Any:
    text = files("midge.server.monitoring.console").joinpath(name).read_text(encoding="utf-8")

    async def show(_request: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind, headers=_HEADERS)

    return show


def _action(actions: Actions, name: str) -> Any:
    async def act(request: web.Request) -> web.Response:
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return _json({"error": "a page of another origin"}, 403)
        if not actions.is_allowed(request.headers.get(_TOKEN, "")):
            return _json({"error": "the console's token is needed"}, 403)
        if request.method != "POST":
            return _json({"error": "expected POST"}, 405)
        try:
            return _json(await actions.do(name, await request.read() or b"{}"))
        except WrongRequest as error:
            return _json({"error": str(error)}, 400)
        except web.HTTPRequestEntityTooLarge as error:
            return _json({"error": f"more than the console takes: {error.text}"}, 413)

    return act


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        text=json.dumps(value), status=status, content_type="application/json", headers=_HEADERS
    )


PERIOD_S = 10.0
_KEPT = 361  # samples: an hour has 360 periods
_FIELDS = ("in_messages", "out_messages", "in_bytes", "out_bytes", "connections", "mem")


class History:
    """Samples of the server's counts, one each `PERIOD_S`; all its workers are in them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._samples: deque[list[float]] = deque(maxlen=_KEPT)
        self._timer: Timer | None = None
        self._sampling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take a sample now, and one after each period."""
        self._sampling = asyncio.ensure_future(self._sample())
        self._timer = self._state.broker.clock.call_later(PERIOD_S, self.start)

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None and self._sampling is not None:
            self._timer.cancel()
            self._sampling.cancel()

    def page(self) -> dict[str, Any]:
        """Return the samples, oldest first: Unix time, and the counts by name."""
        return {"fields": ["time", *_FIELDS], "samples": list(self._samples)}

    async def _sample(self) -> None:
        totals = await whole.whole_totals(self._state)
        now = self._state.broker.clock.wall()
        self._samples.append([now, *(totals[field] for field in _FIELDS)])
