"""`/console`: the page, and the facts it starts from.

The page reads the monitoring pages like anybody else and talks to the WebSocket listener as a
client of its own, so it can see and do no more than the user whose credentials it is given.
Publishing is unlocked by the console's token, which is compared here and never sent out.
"""

import hmac
import json
from importlib.resources import files
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from midge.server.monitoring.http import Monitor

_PAGE = "console.html"
_HEADERS = {
    # Nothing but the page itself runs, and it is not to be framed.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self' ws: wss:; img-src data:; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_LONGEST_TOKEN = 1024


def add_console(monitor: "Monitor", websocket: str) -> None:
    """Serve the console on `monitor`; `websocket` is the WebSocket listener's URL, or empty."""
    page = files("midge.server.monitoring.console").joinpath(_PAGE).read_text(encoding="utf-8")
    options = monitor.state.broker.options.monitoring.console

    async def show(_request: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html", headers=_HEADERS)

    async def tell(_request: web.Request) -> web.Response:
        facts = {
            "server_name": monitor.state.server_name,
            "websocket": _listener(websocket),
            "can_unlock": bool(options.token),
        }
        return _json(facts)

    async def unlock(request: web.Request) -> web.Response:
        given = request.headers.get("X-Console-Token", "")[:_LONGEST_TOKEN]
        # Compared as a whole, so that time tells nothing of how much was right.
        allowed = bool(options.token) and hmac.compare_digest(
            given.encode(), options.token.encode()
        )
        return _json({"unlocked": allowed}, 200 if allowed else 403)

    monitor.add_page("/console", show)
    monitor.add_page("/console/facts", tell)
    monitor.add_page("/console/unlock", unlock)


def _listener(url: str) -> dict[str, str]:
    """Split the listener's URL into what a page needs that is looked at from another host."""
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    anywhere = host in {"0.0.0.0", "[::]"}  # noqa: S104  # nosec B104 - not bound
    return {"scheme": scheme, "host": "" if anywhere else host, "port": port} if url else {}


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        text=json.dumps(value), status=status, content_type="application/json", headers=_HEADERS
    )
